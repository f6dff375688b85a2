//! What is read of objects in both kinds of traces.

use serde_json::Value;

pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn owners(object: &Value) -> Value {
    let text = |owner: &Value, field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    let owners = list(&object["metadata"]["ownerReferences"]);
    owners
        .map(|o| format!("{}/{}", text(o, "kind"), text(o, "name")))
        .collect()
}
