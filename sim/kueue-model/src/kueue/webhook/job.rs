//! Validation of Jobs.
//!
//! The rules are those of Kueue 0.19.2: `pkg/controller/jobframework/validation.go` and
//! `pkg/controller/jobs/job/job_webhook.go`.

use serde_json::{Value, json};

use crate::jobs::{QUEUE, is_elastic};
use crate::kueue::KueueVersion;
use kueue_check_apiserver::FieldError;

const IMMUTABLE: &str = "field is immutable";
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
const MAX_EXEC_TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";
const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";
const ELASTIC: &str = "kueue.x-k8s.io/elastic-job";

fn text<'a>(job: &'a Value, kind: &str, key: &str) -> &'a str {
    job["metadata"][kind][key].as_str().unwrap_or_default()
}

fn label<'a>(job: &'a Value, key: &str) -> &'a str {
    text(job, "labels", key)
}

fn path(kind: &str, key: &str) -> String {
    format!("metadata.{kind}[{key}]")
}

fn is_suspended(job: &Value) -> bool {
    let stops = text(job, "annotations", "kueue.x-k8s.io/stopping") == "true";
    job["spec"]["suspend"] == true && !stops
}

/// Returns the errors of a Job; `old` is null for a new one.
pub(super) fn errors(job: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = max_exec_time(job).into_iter().collect();
    let least = |job: &Value| text(job, "annotations", MIN_PARALLELISM).to_owned();
    if old.is_null() || least(job) != least(old) {
        errors.extend(min_parallelism(job, version));
    }
    if !old.is_null() {
        errors.extend(changed(job, old, version));
    }
    errors.extend(super::gates::errors(job, old, version));
    errors
}

fn max_exec_time(job: &Value) -> Option<FieldError> {
    let given = job["metadata"]["labels"][MAX_EXEC_TIME].as_str()?;
    let path = path("labels", MAX_EXEC_TIME);
    match given.parse::<i64>() {
        Err(_) => {
            let why = format!("strconv.Atoi: parsing {given:?}: invalid syntax");
            Some(FieldError::invalid(path, &json!(given), why))
        }
        Ok(seconds) if seconds <= 0 => {
            let why = "should be greater than 0";
            Some(FieldError::invalid(path, &json!(seconds), why))
        }
        Ok(_) => None,
    }
}

fn pods(job: &Value) -> i64 {
    let parallelism = job["spec"]["parallelism"].as_i64().unwrap_or(1);
    let completions = job["spec"]["completions"].as_i64();
    completions.map_or(parallelism, |completions| completions.min(parallelism))
}

fn min_parallelism(job: &Value, version: KueueVersion) -> Vec<FieldError> {
    let Some(given) = job["metadata"]["annotations"][MIN_PARALLELISM].as_str() else {
        return Vec::new();
    };
    let path = path("annotations", MIN_PARALLELISM);
    let mut errors = Vec::new();
    match given.parse::<i64>() {
        Err(_) => {
            let why = format!("strconv.Atoi: parsing {given:?}: invalid syntax");
            errors.push(FieldError::invalid(path.clone(), &json!(given), why));
        }
        Ok(least) if least >= pods(job) || least <= 0 => {
            let why = format!("should be between 0 and {}", pods(job) - 1);
            errors.push(FieldError::invalid(path.clone(), &json!(least), why));
        }
        Ok(_) => {}
    }
    if is_elastic(job, version) {
        let why = "partial admission and elastic job cannot be used together";
        errors.push(FieldError::invalid(path, &json!(given), why));
    }
    errors
}

/// Returns the errors of a Job's update. A running Job keeps its queue and its maximum execution
/// time. Its priority class may change, but cannot be added while it runs and never removed.
fn changed(job: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let immutable = |key: &str| {
        let (now, before) = (label(job, key), label(old, key));
        let error = || FieldError::invalid(path("labels", key), &json!(now), IMMUTABLE);
        (now != before).then(error)
    };
    if !is_suspended(job) {
        errors.extend(immutable(QUEUE));
    }
    if !is_suspended(job) || !is_suspended(old) {
        errors.extend(immutable(MAX_EXEC_TIME));
    }
    let (now, before) = (label(job, PRIORITY_CLASS), label(old, PRIORITY_CLASS));
    let adds = !is_suspended(job) && before.is_empty() && !now.is_empty();
    if adds || now.is_empty() && !before.is_empty() {
        let why = if !version.adds_priority_classes {
            IMMUTABLE
        } else if adds {
            "WorkloadPriorityClass cannot be added to a non-suspended workload"
        } else {
            "WorkloadPriorityClass cannot be removed from a workload"
        };
        let class = path("labels", PRIORITY_CLASS);
        errors.push(FieldError::invalid(class, &json!(now), why));
    }
    let elastic = is_elastic(job, version);
    if elastic != is_elastic(old, version) {
        let path = path("annotations", ELASTIC);
        errors.push(FieldError::invalid(path, &json!(elastic), IMMUTABLE));
    }
    let partial = old["metadata"]["annotations"][MIN_PARALLELISM].is_string();
    let parallelism = |job: &Value| job["spec"]["parallelism"].as_i64().unwrap_or(1);
    let runs = old["spec"]["suspend"] != true;
    if partial && runs && parallelism(job) != parallelism(old) {
        let why = "cannot change when partial admission is enabled and the job is not suspended";
        errors.push(FieldError::forbidden("spec.parallelism", why));
    }
    errors
}
