//! Validation of ResourceFlavors.
//!
//! The rules are those of Kueue 0.19.2: `pkg/webhooks/resourceflavor_webhook.go`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{duplicate, metadata};
use crate::json::list;
use kueue_check_apiserver::{FieldError, names};

/// Returns the errors of a ResourceFlavor.
pub(super) fn errors(flavor: &Value) -> Vec<FieldError> {
    let spec = &flavor["spec"];
    let mut errors = Vec::new();
    metadata::labels(&spec["nodeLabels"], "spec.nodeLabels", &mut errors);
    let mut known = BTreeSet::new();
    for (at, taint) in list(&spec["nodeTaints"]).enumerate() {
        let path = format!("spec.nodeTaints[{at}]");
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        metadata::label_key(text("key"), &format!("{path}.key"), &mut errors);
        let wrong = names::label_value(text("value"));
        if !wrong.is_empty() {
            let field = format!("{path}.value");
            errors.push(FieldError::invalid(field, &taint["value"], wrong.join(";")));
        }
        if !known.insert((text("key"), text("effect"))) {
            errors.push(duplicate_taint(path, taint));
        }
    }
    metadata::tolerations(&spec["tolerations"], "spec.tolerations", &mut errors);
    errors
}

/// Kueue prints the fields in this order.
fn duplicate_taint(path: String, taint: &Value) -> FieldError {
    let fields = ["key", "value", "effect", "timeAdded"].into_iter();
    let given = fields.filter(|field| !taint[*field].is_null());
    let printed: Vec<String> = given
        .map(|field| format!("{}:{}", json!(field), taint[field]))
        .collect();
    let mut error = duplicate(path, format!("{{{}}}", printed.join(",")));
    error
        .message
        .push_str(": taints must be unique by key and effect pair");
    error
}
