//! Labels and annotations of jobs that Kueue reads.

use serde_json::Value;

use super::decide::JobView;

/// The label with the name of the LocalQueue.
pub(crate) const QUEUE: &str = "kueue.x-k8s.io/queue-name";
pub(crate) const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

pub(super) fn priority_class(object: &Value) -> Option<&str> {
    label(object, PRIORITY_CLASS)
}

pub(crate) const MAX_EXEC_TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";

/// Returns the maximum execution time of a job, in seconds (Kueue 0.19.2,
/// `MaximumExecutionTimeSecondsForObject` in `pkg/controller/jobframework/utils.go`).
pub(super) fn maximum_execution_time(object: &Value) -> Option<i64> {
    let seconds: i32 = label(object, MAX_EXEC_TIME)?.parse().ok()?;
    (seconds > 0).then_some(i64::from(seconds))
}

/// The annotation with the gates that block the admission of a Workload.
pub(super) const GATED_BY: &str = "kueue.x-k8s.io/admission-gated-by";

/// Returns the admission gates of a job's Workload; empty if there are none.
pub(crate) fn gates(object: &Value) -> &str {
    object["metadata"]["annotations"][GATED_BY]
        .as_str()
        .unwrap_or_default()
}

/// Sets the fields of a view that come from the labels and annotations of `object`, for all kinds.
pub(super) fn labeled(object: &Value, view: JobView) -> JobView {
    JobView {
        queue: label(object, QUEUE).unwrap_or_default().to_owned(),
        priority_class: priority_class(object).map(str::to_owned),
        gates: gates(object).to_owned(),
        ..view
    }
}
