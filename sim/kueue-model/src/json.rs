//! JSON helpers.

use serde_json::Value;

/// Returns the elements of a list, or none if the value is not a list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
