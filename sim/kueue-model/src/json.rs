//! Reading JSON.

use serde_json::Value;

/// The elements of a list; none if it is no list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
