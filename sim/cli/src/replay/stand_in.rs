//! Playback of the stand-in for Job controller, scheduler and kubelets in a recording.
//!
//! The recordings of families have Pods. A stand-in created the Pods of a Job that was not
//! suspended and set Pods without a gate to running. It deleted Pods when the Job was suspended or
//! had shrunk. The stand-in is not Kueue, so its writes are played back at their times: Pods are
//! created and deleted, and the Job's status counts them. The model does what Kueue does then: the
//! Pods' template, their gates, the end of an eviction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::NAMESPACE;
use super::trace::{Observed, Trace, at};
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};

/// A write of the stand-in.
#[derive(Clone, Debug, PartialEq)]
enum Write {
    /// The creation of a Pod of a Job.
    Create { pod: String, job: String },
    /// A new phase of a Pod.
    Phase { pod: String, phase: Value },
    /// The deletion of a Pod.
    Delete { pod: String },
    /// The number of Pods of a Job, and of those that are ready.
    Count { job: String, status: Value },
}

/// Returns the writes of the stand-in, in order, with the times in seconds from the start.
fn writes(trace: &Trace) -> Vec<(f64, Write)> {
    let submitted = submitted_pods(trace);
    let mut last: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    let mut found = Vec::new();
    for seen in trace.steps.iter().flat_map(|step| &step.observed) {
        let before = last.insert((&seen.kind, &seen.name), &seen.state);
        let write = match seen.kind.as_str() {
            "Pod" if !submitted.contains(&seen.name) => of_pod(seen, before),
            "Pod" => phase(seen, before),
            "Job" => of_job(seen, before),
            _ => None,
        };
        found.extend(write.map(|write| (seen.t, write)));
    }
    found
}

/// Returns the Pods that a recorded request created.
fn submitted_pods(trace: &Trace) -> BTreeSet<String> {
    let calls = trace.steps.iter().flat_map(|step| &step.calls);
    let made = calls.filter(|call| call.method == "POST" && call.path.ends_with("/pods"));
    made.filter_map(|call| call.body["metadata"]["name"].as_str().map(str::to_owned))
        .collect()
}

fn of_pod(seen: &Observed, before: Option<&Value>) -> Option<Write> {
    let pod = seen.name.clone();
    match seen.change.as_str() {
        "ADDED" => {
            let job = pod.rsplit_once('-')?.0.to_owned();
            Some(Write::Create { pod, job })
        }
        "DELETED" => Some(Write::Delete { pod }),
        _ => phase(seen, before),
    }
}

fn phase(seen: &Observed, before: Option<&Value>) -> Option<Write> {
    let phase = seen.state["phase"].clone();
    let changed = before.is_some_and(|before| before["phase"] != phase);
    (changed && !phase.is_null()).then(|| Write::Phase {
        pod: seen.name.clone(),
        phase,
    })
}

fn of_job(seen: &Observed, before: Option<&Value>) -> Option<Write> {
    let status = &seen.state["status"];
    let changed = before.is_some_and(|before| before["status"] != *status);
    changed.then(|| Write::Count {
        job: seen.name.clone(),
        status: json!({"active": count(status, "active"), "ready": count(status, "ready")}),
    })
}

fn count(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or_default()
}

/// Plays the writes back.
pub(super) fn play_back(trace: &Trace, server: &ApiServer, zero: Instant) {
    let writes = writes(trace);
    if !writes.is_empty() {
        tokio::spawn(play(writes, server.clone(), zero));
    }
}

async fn play(writes: Vec<(f64, Write)>, server: ApiServer, zero: Instant) {
    for (t, write) in writes {
        sleep_until(at(zero, t)).await;
        perform(&write, &server).await;
    }
}

async fn perform(write: &Write, server: &ApiServer) {
    match write {
        Write::Create { pod, job } => create(pod, job, server).await,
        Write::Phase { pod, phase } => {
            let ready = json!([{"type": "Ready", "status": if phase == "Running" { "True" } else { "False" }}]);
            let status = json!({"phase": phase, "conditions": ready});
            patch_status(&pods(), pod, &status, server);
        }
        Write::Delete { pod } => {
            let call = ApiRequest::new(Verb::Delete, &pods());
            call_as_nodes(call.name(pod), server);
        }
        Write::Count { job, status } => patch_status(&jobs(), job, status, server),
    }
}

/// Creates a Pod from the present template of its Job, once the Job is not suspended. Waits at most
/// 1 s; the comparison reports a missing Pod.
async fn create(pod: &str, job: &str, server: &ApiServer) {
    const ROUNDS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..ROUNDS {
        let present = server.object(&jobs(), NAMESPACE, job);
        if let Some(job) = present.filter(|job| job["spec"]["suspend"] != true) {
            let body = pod_of(pod, &job);
            let call = ApiRequest::new(Verb::Create, &pods()).body(body);
            call_as_nodes(call, server);
            return;
        }
        sleep(PAUSE).await;
    }
}

fn pod_of(name: &str, job: &Arc<Value>) -> Value {
    let template = &job["spec"]["template"];
    let metadata = &job["metadata"];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    })
}

fn patch_status(resource: &Resource, name: &str, status: &Value, server: &ApiServer) {
    let call = ApiRequest::new(Verb::Patch(Patch::Merge), resource).name(name);
    let call = call.subresource("status");
    call_as_nodes(call.body(json!({"status": status})), server);
}

fn call_as_nodes(call: ApiRequest, server: &ApiServer) {
    let response = server.call(&call.namespace(NAMESPACE).agent("nodes"));
    if response.code >= 300 {
        tracing::warn!(code = response.code, body = %response.body, "what was recorded is refused here");
    }
}

fn jobs() -> Resource {
    Resource::new("batch", "v1", "jobs")
}

fn pods() -> Resource {
    Resource::new("", "v1", "pods")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_by_nodes_are_distinguished_from_changes_by_kueue() {
        let job = |suspend: bool, status: Value| json!({"suspend": suspend, "status": status});
        let pod = |gates: Value, phase: &str| json!({"gates": gates, "phase": phase});
        let observed = [
            ("Job", "el", "ADDED", job(true, json!({}))),
            ("Job", "el", "MODIFIED", job(false, json!({}))),
            ("Pod", "el-1", "ADDED", pod(json!(["g"]), "Pending")),
            (
                "Job",
                "el",
                "MODIFIED",
                job(false, json!({"active": 1, "ready": 0})),
            ),
            ("Pod", "el-1", "MODIFIED", pod(json!([]), "Pending")),
            ("Pod", "el-1", "MODIFIED", pod(json!([]), "Running")),
            ("Pod", "el-1", "DELETED", Value::Null),
        ];
        let observed: Vec<Value> = observed
            .into_iter()
            .map(|(kind, name, change, state)| {
                json!({"t": 1.0, "kind": kind, "name": name, "type": change, "state": state})
            })
            .collect();
        let steps = json!([{"step": "s", "t": 0.0, "observed": observed}]);
        let trace = serde_json::from_value(json!({"scenario": "s", "steps": steps})).unwrap();
        let found: Vec<Write> = writes(&trace).into_iter().map(|(_, write)| write).collect();
        let (pod, job) = ("el-1".to_owned(), "el".to_owned());
        let expected = [
            Write::Create {
                pod: pod.clone(),
                job: job.clone(),
            },
            Write::Count {
                job,
                status: json!({"active": 1, "ready": 0}),
            },
            Write::Phase {
                pod: pod.clone(),
                phase: json!("Running"),
            },
            Write::Delete { pod },
        ];
        assert_eq!(found, expected);
    }
}
