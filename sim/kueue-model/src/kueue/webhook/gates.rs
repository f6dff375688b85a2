//! Validation of the admission gate annotation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use kueue_check_apiserver::{FieldError, names};

use crate::jobs::gates;
use crate::kueue::KueueVersion;

const PATH: &str = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]";
/// The maximum length of a gate, in bytes.
const MAX_LENGTH: usize = 63;

fn names_of(object: &Value) -> Vec<&str> {
    let text = Some(gates(object)).filter(|text| !text.trim().is_empty());
    let gates = text.into_iter().flat_map(|text| text.split(','));
    gates.map(str::trim).collect()
}

/// Returns the errors in the gates of an object.
pub(super) fn created(object: &Value, version: KueueVersion) -> Vec<FieldError> {
    if version.admission_gates {
        malformed(object)
    } else {
        Vec::new()
    }
}

/// Returns the errors in a change of the gates of an object.
pub(super) fn updated(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    if !version.admission_gates {
        return Vec::new();
    }
    let mut errors = added(new, old);
    errors.extend(malformed(new));
    errors
}

fn malformed(object: &Value) -> Vec<FieldError> {
    let text = json!(gates(object));
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for gate in names_of(object) {
        if gate.is_empty() {
            let why = "cannot contain empty gate names";
            errors.push(FieldError::invalid(PATH, &text, why));
        } else if !seen.insert(gate) {
            let why = format!("duplicate gate name: {gate}");
            errors.push(FieldError::invalid(PATH, &text, why));
        } else {
            errors.extend(not_prefixed(gate));
            if gate.len() > MAX_LENGTH {
                let why = format!("Too long: may not be more than {MAX_LENGTH} bytes");
                errors.push(FieldError {
                    field: PATH.to_owned(),
                    reason: "FieldValueTooLong",
                    message: why,
                });
            }
        }
    }
    errors
}

/// Returns the errors of a name that must have a domain before it, as apimachinery's
/// `IsDomainPrefixedPath` does.
fn not_prefixed(gate: &str) -> Vec<FieldError> {
    let parts = gate.split_once('/');
    let Some((host, path)) = parts.filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![FieldError::invalid(PATH, &json!(gate), why)];
    };
    let wrong = names::dns_subdomain(host).into_iter();
    let mut errors: Vec<FieldError> = wrong
        .map(|why| FieldError::invalid(PATH, &json!(host), why))
        .collect();
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !path.chars().all(is_valid) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(FieldError::invalid(PATH, &json!(path), why));
    }
    errors
}

/// Rejects gates added after creation; existing gates can only be removed.
fn added(new: &Value, old: &Value) -> Vec<FieldError> {
    let (now, before) = (names_of(new), names_of(old));
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
