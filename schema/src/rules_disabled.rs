//! Rules where none are run: it is known that they are there.

use serde_json::Value;

use crate::{FieldError, Schema};

/// A rule, unread.
#[derive(Debug)]
pub struct Rule(());

pub(crate) fn rules(source: &Value) -> Vec<Rule> {
    let list = source
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    list.into_iter().flatten().map(|_| Rule(())).collect()
}

/// What the rules of `schema` say about an object that was `old` before: nothing in this build, see
/// [`CEL_ENABLED`](crate::CEL_ENABLED).
pub fn violated_rules(_: &Value, _: Option<&Value>, _: &Schema) -> Vec<FieldError> {
    Vec::new()
}
