//! The built-in kinds, which every server has.
//!
//! `builtin.json` contains what kube-apiserver 1.36.3 publishes about them (discovery and OpenAPI
//! v3), without descriptions and without defaults. Its defaults are the zero values of Go.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::columns::age;
use super::{DefinitionState, Kind, Registry};
use crate::call::Resource;
use crate::schema::{Definitions, Schema};

#[derive(Deserialize)]
struct File {
    kinds: Vec<Entry>,
    schemas: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    group: String,
    version: String,
    plural: String,
    singular: String,
    kind: String,
    namespaced: bool,
    status: bool,
    schema: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

/// Returns the built-in kinds, and the schema of `metadata`, which custom kinds share.
pub(crate) fn builtin() -> &'static (Registry, Arc<Schema>) {
    static BUILTIN: OnceLock<(Registry, Arc<Schema>)> = OnceLock::new();
    BUILTIN.get_or_init(read)
}

fn read() -> (Registry, Arc<Schema>) {
    let text = include_str!("builtin.json");
    let Ok(file) = serde_json::from_str::<File>(text) else {
        // The file is part of the program; a test reads it.
        return (Registry::default(), Schema::any());
    };
    let mut definitions = Definitions::new(&file.schemas);
    let mut registry = Registry::default();
    for entry in file.kinds {
        let source = file.schemas.get(&entry.schema).cloned().unwrap_or_default();
        let kind = Kind {
            selectable: selectable(&entry.group, &entry.plural),
            list_kind: format!("{}List", entry.kind),
            stored: entry.version.clone(),
            schema: definitions.get(&entry.schema),
            source: Arc::new(source),
            resource: Resource::new(&entry.group, entry.version, &entry.plural),
            kind: entry.kind,
            singular: entry.singular,
            short_names: entry.short_names,
            categories: entry.categories,
            namespaced: entry.namespaced,
            status: entry.status,
            custom: false,
            columns: vec![age("string")],
            schemas: Arc::default(),
            deprecation: None,
            definition: DefinitionState::default(),
        };
        registry.set(&entry.group, &entry.plural, vec![kind]);
    }
    let metadata = definitions.get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    (registry, metadata)
}

/// Returns the selectable fields of a built-in kind, besides name and namespace.
fn selectable(group: &str, plural: &str) -> Vec<String> {
    let fields: &[&str] = match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase", "name"],
        ("", "secrets") => &["type"],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    };
    fields.iter().map(|f| (*f).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_can_be_read() {
        let (registry, metadata) = builtin();
        assert!(registry.iter().count() > 15);
        assert!(metadata.properties.contains_key("labels"));
    }
}
