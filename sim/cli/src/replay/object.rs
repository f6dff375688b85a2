//! Access to fields of objects, for both kinds of traces.

use serde_json::{Map, Value};

/// The prefix of the message that Kueue writes into an entry on eviction.
const RESET: &str = "Reset to Pending after eviction.";

/// Returns true if Kueue wrote this message of an entry on eviction.
pub(crate) fn is_reset(message: &str) -> bool {
    message.starts_with(RESET)
}

/// Returns the object with these fields only, if they are not null.
pub(crate) fn only(value: &Value, fields: &[&str]) -> Value {
    let present = fields.iter().filter(|f| !value[**f].is_null());
    let map: Map<String, Value> = present
        .map(|f| ((*f).to_owned(), value[*f].clone()))
        .collect();
    Value::Object(map)
}

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
