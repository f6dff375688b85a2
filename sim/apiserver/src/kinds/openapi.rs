//! The OpenAPI v3 documents: the schemas of the kinds, and the parts of paths that kubectl reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Kind, Registry};

/// Returns the document `/openapi/v3`, the list of documents.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = BTreeMap::new();
    for kind in registry.iter() {
        let path = path(&kind.resource.group, &kind.resource.version);
        let url = format!("/openapi/v3/{path}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Returns the document `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut schemas = BTreeMap::new();
    let mut paths = BTreeMap::new();
    let kinds = registry
        .iter()
        .filter(|k| k.resource.group == group && k.resource.version == version);
    for kind in kinds {
        schemas.insert(component(kind), (*kind.source).clone());
        paths.insert(object_path(kind), json!({"patch": patch(kind)}));
    }
    (!schemas.is_empty()).then(|| {
        json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}, "paths": paths, "components": {"schemas": schemas}})
    })
}

/// Returns the path of one object of the kind.
fn object_path(kind: &Kind) -> String {
    let namespace = if kind.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let version = path(&kind.resource.group, &kind.resource.version);
    format!("/{version}{namespace}/{}/{{name}}", kind.resource.plural)
}

/// Returns the patch operation with its query parameters. kubectl requires `fieldValidation` among
/// them before it leaves validation to the server.
fn patch(kind: &Kind) -> Value {
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    json!({
        "parameters": parameters, "responses": {},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.kind},
    })
}

/// Returns the name of a schema, such as `com.example.v1.Pool`. It consists of the reversed group,
/// the version and the kind.
fn component(kind: &Kind) -> String {
    let mut parts: Vec<&str> = kind.resource.group.split('.').rev().collect();
    parts.push(&kind.resource.version);
    parts.push(&kind.kind);
    parts.retain(|p| !p.is_empty());
    parts.join(".")
}
