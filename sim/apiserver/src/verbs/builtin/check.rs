//! Validation of built-in kinds. Few rules: those that a model of Kueue could break.

use serde_json::{Value, json};

use super::indexes;
use crate::kinds::Kind;
use crate::status::FieldError;

/// Returns the errors of an object of a built-in kind. Few rules: those that a model of Kueue could
/// break.
pub(crate) fn check(kind: &Kind, old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (kind.resource.group.as_str(), kind.resource.plural.as_str()) {
        ("", "pods") => check_containers(&new["spec"], "spec", &mut errors),
        ("batch", "jobs") => check_job(old, new, &mut errors),
        _ => {}
    }
    errors
}

fn check_containers(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let containers = spec.get("containers").and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
}

fn check_job(old: Option<&Value>, new: &Value, errors: &mut Vec<FieldError>) {
    check_containers(
        &new["spec"]["template"]["spec"],
        "spec.template.spec",
        errors,
    );
    let policy = &new["spec"]["template"]["spec"]["restartPolicy"];
    if !matches!(policy.as_str(), Some("OnFailure" | "Never")) {
        let allowed = [json!("OnFailure"), json!("Never")];
        let mut error = FieldError::required(
            "spec.template.spec.restartPolicy",
            "valid values: \"OnFailure\", \"Never\"",
        );
        if policy.as_str().is_some_and(|p| p != "Always") {
            error = FieldError::not_supported("spec.template.spec.restartPolicy", policy, &allowed);
        }
        errors.push(error);
    }
    if let Some(old) = old {
        for field in ["completionMode", "selector"] {
            if old["spec"].get(field) != new["spec"].get(field) {
                errors.push(FieldError::invalid(
                    format!("spec.{field}"),
                    &new["spec"][field],
                    "field is immutable",
                ));
            }
        }
        check_counters(old, new, errors);
        indexes::check(old, new, errors);
    }
}

/// Checks that the Pods of a Job that ended are still counted (Kubernetes 1.36.3,
/// `getStatusValidationOptions` in `pkg/registry/batch/job/strategy.go`).
fn check_counters(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    // Such a Job can be scaled down.
    let scales = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    for (counter, may_decrease) in [("failed", false), ("succeeded", scales)] {
        let count = |job: &Value| job["status"][counter].as_i64().unwrap_or(0);
        if count(new) < count(old) && !may_decrease {
            errors.push(FieldError::invalid(
                format!("status.{counter}"),
                &json!(count(new)),
                format!("cannot decrease the {counter} counter"),
            ));
        }
    }
}
