//! Validation of Pods.
//!
//! The rules are those of Kueue 0.19.2: `pkg/controller/jobs/pod/pod_webhook.go`.

use serde_json::{Value, json};

use super::job::{IMMUTABLE, Update, changed, count, max_exec_time, path, queue_name, text};
use super::{gates, metadata};
use crate::jobs::{
    ELASTIC, GROUP_NAME, GROUP_TOTAL, MANAGED, RETRIABLE, group_name, is_elastic, is_pod_suspended,
};
use crate::kueue::KueueVersion;
use kueue_check_apiserver::FieldError;

/// Returns the errors of a Pod; `old` is null for a new one. `default_queue` returns true if its
/// Namespace has a LocalQueue `default`.
pub(super) fn errors(
    pod: &Value,
    old: &Value,
    version: KueueVersion,
    default_queue: impl Fn() -> bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_null() {
        errors.extend(queue_name(pod));
        errors.extend(max_exec_time(pod));
        if is_elastic(pod, version) {
            let why = "elastic job is not supported for \"/v1, Kind=Pod\"";
            errors.push(FieldError::forbidden(path("annotations", ELASTIC), why));
        }
        errors.extend(gates::created(pod, version));
    } else {
        let update = Update {
            job: pod,
            old,
            suspended: is_pod_suspended(pod),
            was_suspended: is_pod_suspended(old),
        };
        errors.extend(changed(&update, version, default_queue));
    }
    let managed = pod["metadata"]["labels"][MANAGED].as_str();
    if managed.is_some_and(|managed| managed != "true") {
        let why = "managed label value can only be 'true'";
        errors.push(FieldError::forbidden(path("labels", MANAGED), why));
    }
    errors.extend(group(pod, version));
    if !old.is_null() {
        errors.extend(changed_group(pod, old, version));
    }
    errors
}

fn group(pod: &Value, version: KueueVersion) -> Vec<FieldError> {
    let (kind, name) = group_name(pod, version);
    let noun = kind.trim_end_matches('s');
    let both = || {
        format!("both the '{GROUP_TOTAL}' annotation and the '{GROUP_NAME}' {noun} should be set")
    };
    let total = pod["metadata"]["annotations"][GROUP_TOTAL].as_str();
    let total_path = path("annotations", GROUP_TOTAL);
    let mut errors = Vec::new();
    if name.is_empty() {
        if total.is_some() {
            errors.push(FieldError::required(path(kind, GROUP_NAME), &both()));
        }
        return errors;
    }
    errors.extend(metadata::subdomain(pod, kind, GROUP_NAME));
    let Some(total) = total else {
        errors.push(FieldError::required(total_path, &both()));
        return errors;
    };
    let why = match count(total) {
        Err(why) => why,
        Ok(1..) => return errors,
        Ok(_) => format!(
            "incorrect annotation value '{GROUP_TOTAL}={total}': group total count should be greater than zero"
        ),
    };
    errors.push(FieldError::invalid(total_path, &json!(total), why));
    errors
}

fn changed_group(pod: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (kind, now) = group_name(pod, version);
    let (_, before) = group_name(old, version);
    let is_unretriable = |pod: &Value| text(pod, "annotations", RETRIABLE) == "false";
    if !now.is_empty() && is_unretriable(old) && !is_unretriable(pod) {
        let why = "unretriable pod group can't be converted to retriable";
        errors.push(FieldError::forbidden(path("annotations", RETRIABLE), why));
    }
    if !before.is_empty() && now != before {
        let name = path(kind, GROUP_NAME);
        errors.push(FieldError::invalid(name, &json!(now), IMMUTABLE));
    }
    errors
}
