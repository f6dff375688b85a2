//! Ends a Job from a test, with what the Job controller would write.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kueue::api::jobs;
use kueue_check_apiserver::{ApiRequest, ApiResponse, ApiServer, Patch, Verb};

/// Ends a Job successfully: its pods are done, and its condition `Complete` is `True`. Returns the
/// response of the API server, such as 404 for a missing Job.
pub fn finish(server: &ApiServer, namespace: &str, name: &str) -> ApiResponse {
    end(
        server,
        (namespace, name),
        &["SuccessCriteriaMet", "Complete"],
        "CompletionsReached",
        "Reached expected number of succeeded pods",
    )
}

/// Ends a Job as failed: its condition `Failed` is `True`.
pub fn fail(server: &ApiServer, namespace: &str, name: &str) -> ApiResponse {
    end(
        server,
        (namespace, name),
        &["FailureTarget", "Failed"],
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )
}

fn end(
    server: &ApiServer,
    (namespace, name): (&str, &str),
    kinds: &[&str],
    reason: &str,
    message: &str,
) -> ApiResponse {
    let Some(job) = server.object(&jobs(), namespace, name) else {
        let get = ApiRequest::new(Verb::Get, &jobs())
            .namespace(namespace)
            .name(name);
        return server.call(&get.agent("job-controller"));
    };
    let now = server.now();
    let status = ended(&job, kinds, reason, message, now);
    let patch = ApiRequest::new(Verb::Patch(Patch::Merge), &jobs())
        .namespace(namespace)
        .name(name);
    let patch = patch.subresource("status").agent("job-controller");
    server.call(&patch.body(json!({"status": status})))
}

/// Returns the status of an ended Job. The API server requires the condition with the cause before
/// the terminal condition.
fn ended(job: &Value, kinds: &[&str], reason: &str, message: &str, now: Timestamp) -> Value {
    let now = format!("{now:.0}");
    let known = job["status"]["conditions"].as_array().into_iter().flatten();
    let mut conditions: Vec<Value> = known.cloned().collect();
    conditions.extend(kinds.iter().map(|kind| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastProbeTime": now, "lastTransitionTime": now})
    }));
    let mut status = json!({"conditions": conditions, "active": 0, "ready": 0, "terminating": 0});
    if job["status"]["startTime"].is_null() {
        status["startTime"] = json!(now);
    }
    let completions = job["spec"]["completions"].as_i64().unwrap_or(1);
    if kinds.contains(&"Complete") {
        status["completionTime"] = json!(now);
        status["succeeded"] = json!(completions);
        if job["spec"]["completionMode"] == "Indexed" {
            status["completedIndexes"] = json!(match completions {
                ..=0 => String::new(),
                1 => "0".to_owned(),
                _ => format!("0-{}", completions - 1),
            });
        }
    } else {
        status["failed"] = json!(1);
    }
    status
}
