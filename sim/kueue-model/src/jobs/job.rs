//! Integration of batch/v1 Jobs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::construct::{Count, restored};
use super::decide::JobView;
use super::pod_set_info::{Conflict, PodSetInfo, with_info};
use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::api::{Api, jobs};
use crate::kueue::objects::{PodSet, Workload};

/// The annotation of a Job that is being stopped.
const STOPPING: &str = "kueue.x-k8s.io/stopping";

pub(super) fn is_stopping(job: &Value) -> bool {
    job["metadata"]["annotations"][STOPPING] == "true"
}

/// The annotation of a Job that may start with fewer Pods.
pub(crate) const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";
/// The annotation of a Job with as many completions as Pods.
pub(crate) const SAME_COMPLETIONS: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";

/// Returns the number of Pods of a Job: at most the remaining completions (Kueue 0.19.2,
/// `podsCount` in `pkg/controller/jobs/job/job_controller.go`).
pub(super) fn count(job: &Value) -> Count {
    let spec = &job["spec"];
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let completions = spec["completions"].as_i64().unwrap_or(parallelism);
    Count {
        pods: parallelism.min(completions),
        least: least(job),
    }
}

fn least(job: &Value) -> Option<i64> {
    let text = job["metadata"]["annotations"][MIN_PARALLELISM].as_str()?;
    text.parse().ok()
}

/// Returns the number of Pods of a Job that are done and will not run again (Kueue 0.19.2,
/// `ReclaimablePods`, same file).
fn reclaimable(job: &Value, version: KueueVersion) -> i64 {
    let spec = &job["spec"];
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let completions = spec["completions"].as_i64().unwrap_or(parallelism);
    let done = if version.counts_indexes && spec["completionMode"] == "Indexed" {
        done_indexes(&job["status"], completions)
    } else {
        job["status"]["succeeded"].as_i64().unwrap_or_default()
    };
    if parallelism <= 1 || done == 0 {
        return 0;
    }
    (parallelism - (completions - done).max(0)).max(0)
}

/// Returns the number of indexes below `completions` that are completed or failed.
fn done_indexes(status: &Value, completions: i64) -> i64 {
    let lists = ["completedIndexes", "failedIndexes"].into_iter();
    let lists = lists.filter_map(|field| status[field].as_str());
    let mut intervals: Vec<(i64, i64)> = lists
        .flat_map(|list| list.split(','))
        .filter_map(interval)
        .collect();
    intervals.sort_unstable();
    let (mut count, mut next) = (0, 0);
    for (first, last) in intervals {
        let (first, last) = (first.max(next), last.min(completions - 1));
        if first <= last {
            count += last - first + 1;
            next = last + 1;
        }
    }
    count
}

/// Parses an index, such as `3`, or an interval, such as `3-5`.
fn interval(text: &str) -> Option<(i64, i64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// Sets the parallelism of a Job that may start with fewer Pods.
fn set_parallelism(job: &mut Value, pods: Option<i64>) {
    let Some(pods) = pods.filter(|_| least(job).is_some()) else {
        return;
    };
    job["spec"]["parallelism"] = json!(pods);
    if job["metadata"]["annotations"][SAME_COMPLETIONS] == "true" {
        job["spec"]["completions"] = json!(pods);
    }
}

pub(super) fn view(job: &Value, workload: Option<&Workload>, version: KueueVersion) -> JobView {
    let suspended = job["spec"]["suspend"] == true;
    let set = workload.and_then(|w| w.spec.pod_sets.first());
    let mut conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let ended = conditions
        .find(|c| c["status"] == "True" && (c["type"] == "Complete" || c["type"] == "Failed"));
    let count = |field: &str| job["status"][field].as_i64().unwrap_or_default();
    let wanted = self::count(job).pods;
    let uncounted = list(&job["status"]["uncountedTerminatedPods"]["succeeded"]).count();
    let uncounted = i64::try_from(uncounted).unwrap_or_default();
    let ready = count("ready") + count("succeeded") + uncounted;
    let other_pods = |set: &PodSet| of_pod_set(job, set)["spec"] != job["spec"];
    let changed = |set: &PodSet| {
        restored(job, &set.template) != job["spec"]["template"]
            || least(job).is_some() && other_pods(set)
    };
    JobView {
        suspended,
        template_changed: suspended && (is_stopping(job) || set.is_some_and(changed)),
        stopping: is_stopping(job),
        active: count("active") > 0,
        finished: ended.map(|c| {
            let message = c["message"].as_str().unwrap_or_default().to_owned();
            (c["type"] == "Complete", message)
        }),
        reclaimable: set
            .map(|set| (set.name.clone(), reclaimable(job, version)))
            .into_iter()
            .collect(),
        pods_ready: ready >= wanted,
        ..JobView::default()
    }
}

/// Returns the namespace and the name.
fn place(job: &Value) -> (&str, &str) {
    let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

/// Suspends a Job; [`restore`] restores the template in a second write.
pub(super) fn suspend(api: &Api, job: &Value) {
    let patch = json!({"metadata": {"annotations": {STOPPING: "true"}}, "spec": {"suspend": true}});
    api.merge(&jobs(), place(job), "", patch);
}

/// Suspends a Job without a Workload, whose template can't be restored (Kueue 0.15.0 to 0.19.2,
/// `Stop` in `pkg/controller/jobs/job/job_controller.go`). Returns the Job if it ran until now.
pub(super) fn suspend_without_workload(api: &Api, job: &Value) -> Option<Arc<Value>> {
    let runs = job["spec"]["suspend"] != true;
    if runs {
        suspend(api, job);
    }
    if !job["status"]["startTime"].is_null() {
        let patch = json!({"status": {"startTime": null}});
        api.merge(&jobs(), place(job), "status", patch);
    }
    let patch = json!({"metadata": {"annotations": {STOPPING: null}}});
    let response = api.merge(&jobs(), place(job), "", patch);
    (response.code == 200 && runs).then_some(response.body)
}

/// Restores the template of a stopped Job; returns the Job once all is restored.
///
/// A Job's scheduling directives may change only while it has no start time and no Pods (measured
/// on kube-apiserver 1.36.3).
pub(super) fn restore(api: &Api, job: &Value, workload: &Workload) -> Option<Value> {
    if !job["status"]["startTime"].is_null() {
        let patch = json!({"status": {"startTime": null}});
        api.merge(&jobs(), place(job), "status", patch);
        return None;
    }
    if job["status"]["active"].as_i64() > Some(0) {
        return None;
    }
    let set = workload.spec.pod_sets.first();
    let mut object = set.map_or_else(|| job.clone(), |set| of_pod_set(job, set));
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(STOPPING);
    }
    let response = api.update(&jobs(), object, "");
    (response.code == 200 && is_stopping(job)).then(|| Arc::unwrap_or_clone(response.body))
}

/// Returns the Job with the template and the number of Pods of its Workload's pod set.
fn of_pod_set(job: &Value, set: &PodSet) -> Value {
    let mut object = job.clone();
    object["spec"]["template"] = restored(job, &set.template);
    set_parallelism(&mut object, Some(set.count));
    object
}

/// Returns the Job as it runs.
pub(super) fn started(job: &Value, info: &PodSetInfo) -> Result<Value, Conflict> {
    let mut object = job.clone();
    object["spec"]["suspend"] = json!(false);
    object["spec"]["template"] = with_info(&job["spec"]["template"], info)?;
    set_parallelism(&mut object, info.count);
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row has the completed and the failed indexes of a Job with four completions, and their
    /// number.
    #[test]
    fn each_index_below_the_completions_counts_once() {
        let rows = [
            ("", "", 0),
            ("0-1,3", "", 3),
            ("1-2", "2-3", 3),
            ("0-3", "1", 4),
            ("2-9", "7", 2),
            ("x,3-1,-1,0", "2-", 1),
        ];
        for (completed, failed, count) in rows {
            let status = json!({"completedIndexes": completed, "failedIndexes": failed});
            assert_eq!(done_indexes(&status, 4), count, "{status}");
        }
    }
}
