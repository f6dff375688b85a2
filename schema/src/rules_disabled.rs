//! Rules in a build without CEL: only their existence is recorded.

use serde_json::Value;

use crate::{FieldError, Schema};

/// A rule that is not parsed.
#[derive(Debug)]
pub struct Rule(());

pub(crate) fn rules(source: &Value) -> Vec<Rule> {
    let list = source
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    list.into_iter().flatten().map(|_| Rule(())).collect()
}

/// Returns the errors of the rules of `schema` for an object that was `old` before: none in this
/// build, see [`CEL_ENABLED`](crate::CEL_ENABLED).
pub fn violated_rules(_: &Value, _: Option<&Value>, _: &Schema) -> Vec<FieldError> {
    Vec::new()
}
