//! Validation of the admission gate annotation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use kueue_check_apiserver::FieldError;

use crate::kueue::KueueVersion;

const PATH: &str = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]";

fn gates(object: &Value) -> Vec<&str> {
    let value = &object["metadata"]["annotations"]["kueue.x-k8s.io/admission-gated-by"];
    let text = value.as_str().filter(|text| !text.is_empty());
    text.into_iter()
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect()
}

/// Returns the errors in the gates of an object; `old` is null for a new one.
pub(super) fn errors(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    if !version.admission_gates {
        return Vec::new();
    }
    let mut errors = if old.is_null() {
        Vec::new()
    } else {
        added(new, old)
    };
    errors.extend(malformed(new));
    errors
}

fn malformed(object: &Value) -> Vec<FieldError> {
    let all = gates(object);
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for gate in &all {
        let text = json!(all.join(","));
        if gate.is_empty() {
            errors.push(FieldError::invalid(
                PATH,
                &text,
                "cannot contain empty gate names",
            ));
        } else if !seen.insert(gate) {
            let why = format!("duplicate gate name: {gate}");
            errors.push(FieldError::invalid(PATH, &text, why));
        }
    }
    errors
}

/// Rejects gates added after creation; existing gates can only be removed.
fn added(new: &Value, old: &Value) -> Vec<FieldError> {
    let (now, before) = (gates(new), gates(old));
    let mut errors = Vec::new();
    if before.is_empty() && !now.is_empty() {
        let why = "cannot add admission gate after creation";
        errors.push(FieldError::forbidden(PATH, why));
    } else if now.iter().any(|gate| !before.contains(gate)) {
        let why = "can only remove gates, not add new ones";
        errors.push(FieldError::forbidden(PATH, why));
    }
    errors
}
