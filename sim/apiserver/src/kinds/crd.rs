//! Kinds from a CustomResourceDefinition.

use std::sync::Arc;

use serde_json::{Value, json};

use super::columns::columns;
use super::{Kind, builtin};
use crate::call::Resource;
use crate::schema::compile;

/// Returns the kinds of a definition's served versions, with group and plural.
///
/// `None` if the definition is incomplete.
pub(crate) fn custom_kinds(definition: &Value) -> Option<(String, String, Vec<Kind>)> {
    let spec = definition.get("spec")?;
    let group = spec.get("group")?.as_str()?;
    let names = spec.get("names")?;
    let plural = names.get("plural")?.as_str()?;
    let versions = spec.get("versions")?.as_array()?;
    let stored = versions
        .iter()
        .find(|v| v.get("storage") == Some(&Value::Bool(true)))?;
    let stored = stored.get("name")?.as_str()?;
    let served = versions
        .iter()
        .filter(|v| v.get("served") == Some(&Value::Bool(true)));
    // The server does not call conversion webhooks. Objects in versions other than the stored one
    // would be wrong.
    let converts = spec.pointer("/conversion/strategy").and_then(Value::as_str) == Some("Webhook");
    let kinds = served
        .filter(|v| !converts || v.get("name").and_then(Value::as_str) == Some(stored))
        .filter_map(|version| kind(spec, names, (group, plural, stored), version))
        .collect();
    Some((group.to_owned(), plural.to_owned(), kinds))
}

fn kind(
    spec: &Value,
    names: &Value,
    (group, plural, stored): (&str, &str, &str),
    version: &Value,
) -> Option<Kind> {
    let kind = names.get("kind")?.as_str()?.to_owned();
    let name = version.get("name")?.as_str()?;
    let mut source = version
        .pointer("/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}));
    let text = |name: &str| names.get(name).and_then(Value::as_str).map(str::to_owned);
    let schema = compile_custom(&source);
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
        schema,
        source: Arc::new(source),
        selectable: fields
            .into_iter()
            .flatten()
            .filter_map(|f| f.get("jsonPath")?.as_str())
            .map(|p| p.trim_start_matches('.').to_owned())
            .collect(),
        columns: columns(version),
        stored: stored.to_owned(),
        kind,
    })
}

/// Compiles a schema, with `apiVersion`, `kind` and `metadata` as in all objects.
fn compile_custom(source: &Value) -> Arc<crate::schema::Schema> {
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

/// Returns the status that the server writes into an accepted definition.
pub(crate) fn condition_status(definition: &Value, now: &str) -> Value {
    let names = definition
        .pointer("/spec/names")
        .cloned()
        .unwrap_or_default();
    let stored = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|v| v.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|v| v.get("name").cloned())
        .collect::<Vec<_>>();
    json!({
        "acceptedNames": names,
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": now},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": now},
        ],
        "storedVersions": stored,
    })
}
