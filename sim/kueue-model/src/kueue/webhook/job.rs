//! Validation of Jobs.
//!
//! The rules are those of Kueue 0.19.2: `pkg/controller/jobframework/validation.go` and
//! `pkg/controller/jobs/job/job_webhook.go`.

use serde_json::{Value, json};

use super::{gates, metadata};
use crate::jobs::{
    ELASTIC, MAX_EXEC_TIME, MIN_PARALLELISM, PRIORITY_CLASS, QUEUE, SAME_COMPLETIONS, is_elastic,
};
use crate::kueue::KueueVersion;
use kueue_check_apiserver::FieldError;

pub(super) const IMMUTABLE: &str = "field is immutable";

pub(super) fn text<'a>(job: &'a Value, kind: &str, key: &str) -> &'a str {
    job["metadata"][kind][key].as_str().unwrap_or_default()
}

pub(super) fn label<'a>(job: &'a Value, key: &str) -> &'a str {
    text(job, "labels", key)
}

pub(super) fn path(kind: &str, key: &str) -> String {
    format!("metadata.{kind}[{key}]")
}

fn is_suspended(job: &Value) -> bool {
    let stops = text(job, "annotations", "kueue.x-k8s.io/stopping") == "true";
    job["spec"]["suspend"] == true && !stops
}

/// Returns the errors of a Job; `old` is null for a new one. `default_queue` returns true if its
/// Namespace has a LocalQueue `default`.
pub(super) fn errors(
    job: &Value,
    old: &Value,
    version: KueueVersion,
    default_queue: impl Fn() -> bool,
) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = queue_name(job).into_iter().collect();
    errors.extend(max_exec_time(job));
    errors.extend(gates::created(job, version));
    let least = |job: &Value| text(job, "annotations", MIN_PARALLELISM).to_owned();
    if old.is_null() || least(job) != least(old) {
        errors.extend(min_parallelism(job, version));
    }
    errors.extend(same_completions(job, version));
    if !old.is_null() {
        let update = Update {
            job,
            old,
            suspended: is_suspended(job),
            was_suspended: is_suspended(old),
        };
        errors.extend(changed(&update, version, default_queue));
        errors.extend(changed_counts(&update));
    }
    errors
}

/// Returns the error in the name of the queue of a Job or Pod.
pub(super) fn queue_name(job: &Value) -> Option<FieldError> {
    metadata::subdomain(job, "labels", QUEUE)
}

/// Parses a number as Go's `strconv.Atoi` does.
pub(super) fn count(text: &str) -> Result<i64, String> {
    let error = |_| format!("strconv.Atoi: parsing {text:?}: invalid syntax");
    text.parse().map_err(error)
}

/// Parses a boolean as Go's `strconv.ParseBool` does.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!(
            "strconv.ParseBool: parsing {text:?}: invalid syntax"
        )),
    }
}

pub(super) fn max_exec_time(job: &Value) -> Option<FieldError> {
    let given = job["metadata"]["labels"][MAX_EXEC_TIME].as_str()?;
    let path = path("labels", MAX_EXEC_TIME);
    match count(given) {
        Err(why) => Some(FieldError::invalid(path, &json!(given), why)),
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
    match count(given) {
        Err(why) => errors.push(FieldError::invalid(path.clone(), &json!(given), why)),
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

/// Rejects equal completions and parallelism that are not equal, and those of a Job whose Pods
/// have no index.
fn same_completions(job: &Value, version: KueueVersion) -> Vec<FieldError> {
    let Some(given) = job["metadata"]["annotations"][SAME_COMPLETIONS].as_str() else {
        return Vec::new();
    };
    let refuse = |why: &str| {
        let path = path("annotations", SAME_COMPLETIONS);
        FieldError::invalid(path, &json!(given), why)
    };
    match boolean(given) {
        Err(why) => return vec![refuse(&why)],
        Ok(false) => return Vec::new(),
        Ok(true) => {}
    }
    let spec = &job["spec"];
    let mut errors = Vec::new();
    if spec["completionMode"]
        .as_str()
        .is_none_or(|mode| mode == "NonIndexed")
    {
        errors.push(refuse("should not be enabled for NonIndexed jobs"));
    }
    let number = |field: &str| spec[field].as_i64().unwrap_or(1);
    if number("parallelism") != number("completions") {
        let is = if version.revised_messages { "" } else { "is " };
        let why = format!(
            "should be equal to parallelism when {SAME_COMPLETIONS} {is}annotation is true"
        );
        errors.push(FieldError::invalid(
            "spec.completions",
            &spec["completions"],
            why,
        ));
    }
    errors
}

/// An update of a Job or a Pod.
pub(super) struct Update<'a> {
    pub(super) job: &'a Value,
    pub(super) old: &'a Value,
    /// Whether it is suspended, or has its gate.
    pub(super) suspended: bool,
    pub(super) was_suspended: bool,
}

/// Returns the errors of an update of a Job or a Pod. While it runs, it keeps its queue and its
/// maximum execution time. Its priority class may change, but cannot be added while it runs and
/// never removed.
pub(super) fn changed(
    update: &Update<'_>,
    version: KueueVersion,
    default_queue: impl Fn() -> bool,
) -> Vec<FieldError> {
    let Update { job, old, .. } = *update;
    let mut errors = Vec::new();
    let immutable = |key: &str| {
        let (now, before) = (label(job, key), label(old, key));
        let error = || FieldError::invalid(path("labels", key), &json!(now), IMMUTABLE);
        (now != before).then(error)
    };
    if !update.suspended {
        errors.extend(immutable(QUEUE));
    }
    if label(job, QUEUE).is_empty() && !label(old, QUEUE).is_empty() && default_queue() {
        let why = "queue-name must not be empty in namespace with default queue";
        errors.push(FieldError::invalid(path("labels", QUEUE), &json!(""), why));
    }
    if !update.suspended || !update.was_suspended {
        errors.extend(immutable(MAX_EXEC_TIME));
    }
    let (now, before) = (label(job, PRIORITY_CLASS), label(old, PRIORITY_CLASS));
    let adds = !update.suspended && before.is_empty() && !now.is_empty();
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
    errors.extend(gates::updated(job, old, version));
    errors
}

/// Rejects another parallelism of a partially admitted Job that runs, and another choice of equal
/// completions while it runs.
fn changed_counts(update: &Update<'_>) -> Vec<FieldError> {
    let Update { job, old, .. } = *update;
    let mut errors = Vec::new();
    let partial = old["metadata"]["annotations"][MIN_PARALLELISM].is_string();
    let parallelism = |job: &Value| job["spec"]["parallelism"].as_i64().unwrap_or(1);
    let runs = old["spec"]["suspend"] != true;
    if partial && runs && parallelism(job) != parallelism(old) {
        let why = "cannot change when partial admission is enabled and the job is not suspended";
        errors.push(FieldError::forbidden("spec.parallelism", why));
    }
    let same = |job: &Value| boolean(text(job, "annotations", SAME_COMPLETIONS)) == Ok(true);
    if !update.suspended && !update.was_suspended && same(job) != same(old) {
        let path = path("annotations", SAME_COMPLETIONS);
        let why = format!("{IMMUTABLE} while the job is not suspended");
        errors.push(FieldError::forbidden(path, &why));
    }
    errors
}
