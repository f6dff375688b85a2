//! Kinds from a CustomResourceDefinition.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::columns::columns;
use super::discovery::order;
use super::{DefinitionState, Kind, builtin};
use crate::call::Resource;
use crate::schema::{Schema, compile};

/// Returns the kinds of a definition's served versions, with group and plural.
///
/// `None` if the definition is incomplete.
pub(crate) fn custom_kinds(definition: &Value) -> Option<(String, String, Vec<Kind>)> {
    let spec = definition.get("spec")?;
    let group = spec.get("group")?.as_str()?;
    let names = spec.get("names")?;
    let plural = names.get("plural")?.as_str()?;
    let versions = spec.get("versions")?.as_array()?;
    let stored = storage_version(definition)?;
    // The server does not call conversion webhooks. Objects in versions other than the stored one
    // would be wrong.
    let converts = spec.pointer("/conversion/strategy").and_then(Value::as_str) == Some("Webhook");
    let is_kept =
        |version: &&Value| !converts || version.get("name").and_then(Value::as_str) == Some(stored);
    let kept = versions.iter().filter(is_kept);
    let of_all = kept.clone().filter_map(|version| {
        let name = version.get("name")?.as_str()?;
        Some((name.to_owned(), compile_custom(&source_of(version))))
    });
    let shared = Shared {
        spec,
        names,
        group,
        plural,
        stored,
        schemas: Arc::new(of_all.collect()),
        definition: DefinitionState {
            generation: definition["metadata"]["generation"].as_i64().unwrap_or(0),
            since: 0,
            ends: terminating(definition).is_some_and(|c| c["status"] == "True"),
        },
    };
    let kinds = kept
        .filter(|v| v.get("served") == Some(&Value::Bool(true)))
        .filter_map(|version| kind(&shared, version))
        .collect();
    Some((group.to_owned(), plural.to_owned(), kinds))
}

/// What the versions of a definition share.
struct Shared<'a> {
    spec: &'a Value,
    names: &'a Value,
    group: &'a str,
    plural: &'a str,
    /// The storage version.
    stored: &'a str,
    schemas: Arc<BTreeMap<String, Arc<Schema>>>,
    definition: DefinitionState,
}

/// Returns the schema of a version, as in the definition.
fn source_of(version: &Value) -> Value {
    version
        .pointer("/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}))
}

fn kind(shared: &Shared<'_>, version: &Value) -> Option<Kind> {
    let Shared {
        spec,
        names,
        group,
        plural,
        ..
    } = *shared;
    let kind = names.get("kind")?.as_str()?.to_owned();
    let name = version.get("name")?.as_str()?;
    let mut source = source_of(version);
    let text = |name: &str| names.get(name).and_then(Value::as_str).map(str::to_owned);
    let fields = version.get("selectableFields").and_then(Value::as_array);
    if let Some(fields) = fields.filter(|f| !f.is_empty()) {
        let paths: Vec<Value> = fields
            .iter()
            .filter_map(|f| f.get("jsonPath")?.as_str())
            .map(|p| json!({"fieldPath": p.trim_start_matches('.')}))
            .collect();
        source["x-kubernetes-selectable-fields"] = Value::Array(paths);
    }
    source["x-kubernetes-group-version-kind"] =
        json!([{"group": group, "version": name, "kind": kind}]);
    Some(Kind {
        resource: Resource::new(group, name, plural),
        list_kind: text("listKind").unwrap_or_else(|| format!("{kind}List")),
        singular: text("singular").unwrap_or_else(|| kind.to_lowercase()),
        short_names: texts(names, "shortNames"),
        categories: texts(names, "categories"),
        namespaced: spec.get("scope").and_then(Value::as_str) == Some("Namespaced"),
        status: version
            .pointer("/subresources/status")
            .is_some_and(|s| !s.is_null()),
        custom: true,
        schema: Arc::clone(shared.schemas.get(name)?),
        source: Arc::new(source),
        selectable: fields
            .into_iter()
            .flatten()
            .filter_map(|f| f.get("jsonPath")?.as_str())
            .map(|p| p.trim_start_matches('.').to_owned())
            .collect(),
        columns: columns(version),
        stored: shared.stored.to_owned(),
        schemas: Arc::clone(&shared.schemas),
        deprecation: deprecation(shared, version),
        definition: shared.definition,
        kind,
    })
}

/// Returns the warning for clients of a version that is deprecated (Kubernetes 1.36.3,
/// `defaultDeprecationWarning` in `apiextensions-apiserver/pkg/apiserver/customresource_handler.go`).
fn deprecation(shared: &Shared<'_>, version: &Value) -> Option<String> {
    let is_set = |version: &Value, name: &str| version.get(name) == Some(&Value::Bool(true));
    if !is_set(version, "deprecated") {
        return None;
    }
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let (group, kind) = (shared.group, shared.names.get("kind")?.as_str()?);
    let name = version.get("name")?.as_str()?;
    let others = shared.spec.get("versions")?.as_array()?.iter();
    let newer = others
        .filter(|other| is_set(other, "served") && !is_set(other, "deprecated"))
        .filter_map(|other| other.get("name")?.as_str())
        .filter(|other| order(other) > order(name))
        .max_by_key(|other| order(other));
    let better = newer.map_or_else(String::new, |newer| format!("; use {group}/{newer} {kind}"));
    Some(format!("{group}/{name} {kind} is deprecated{better}"))
}

/// Compiles a schema, with `apiVersion`, `kind` and `metadata` as in all objects.
fn compile_custom(source: &Value) -> Arc<Schema> {
    let schema = compile(source);
    let Ok(mut schema) = Arc::try_unwrap(schema) else {
        return compile(source);
    };
    schema
        .properties
        .insert("metadata".to_owned(), Arc::clone(&builtin().1));
    for field in ["apiVersion", "kind"] {
        schema
            .properties
            .insert(field.to_owned(), compile(&json!({"type": "string"})));
    }
    Arc::new(schema)
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    let list = value.get(name).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Returns the name of the storage version.
fn storage_version(definition: &Value) -> Option<&str> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    versions.iter().find(is_stored)?.get("name")?.as_str()
}

/// Returns the condition `Terminating` of a definition.
pub(crate) fn terminating(definition: &Value) -> Option<&Value> {
    let conditions = definition.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|c| c["type"] == "Terminating")
}

/// Adds the storage version of a changed definition to those of stored objects (Kubernetes 1.36.3,
/// `PrepareForUpdate` in `apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go`).
pub(crate) fn note_storage(definition: &mut Value) {
    let Some(version) = storage_version(definition).map(Value::from) else {
        return;
    };
    if let Some(list) = definition.pointer_mut("/status/storedVersions")
        && let Some(list) = list.as_array_mut()
        && !list.contains(&version)
    {
        list.push(version);
    }
}

/// Returns the status that the server writes into an accepted definition.
pub(crate) fn condition_status(definition: &Value, now: &str) -> Value {
    let names = definition
        .pointer("/spec/names")
        .cloned()
        .unwrap_or_default();
    let stored: Vec<&str> = storage_version(definition).into_iter().collect();
    json!({
        "acceptedNames": names,
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": now},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": now},
        ],
        "storedVersions": stored,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_conversion_webhook_there_is_the_storage_version_only() {
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
        let definition = |strategy: &str| {
            json!({"spec": {
                "group": "example.com", "names": {"plural": "pools", "kind": "Pool"}, "conversion": {"strategy": strategy},
                "versions": [version("v1", true), version("v2", false)],
            }})
        };
        for (strategy, expected) in [("Webhook", 1), ("None", 2)] {
            let (_, _, kinds) = custom_kinds(&definition(strategy)).expect("kinds");
            let counts = (kinds.len(), kinds[0].schemas.len());
            assert_eq!(counts, (expected, expected), "{strategy}");
        }
    }
}
