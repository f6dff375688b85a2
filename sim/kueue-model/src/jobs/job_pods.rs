//! The Pods of an elastic Job: which are created and which are deleted.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::job;
use super::pod::name;
use super::ungate::is_gated;

/// The next actions of the Job controller for the Pods of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodActions {
    /// The number of Pods to create.
    pub(super) create: usize,
    /// Names of the Pods to end.
    pub(super) end: Vec<String>,
    /// The status of the Job, if it has to change.
    pub(super) status: Option<Value>,
}

/// Returns true if the Job has ended.
pub(super) fn is_over(job: &Value) -> bool {
    let mut conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|c| matches!(c["type"].as_str(), Some("Complete" | "Failed")))
}

/// Plans how the number of Pods becomes the one that the Job requires. Gated Pods are ended first,
/// then the last by name. `pods`: all existing Pods. `ending`: those that are already ending.
pub(super) fn plan(job: &Value, pods: &[&Value], ending: &BTreeSet<String>) -> PodActions {
    let over = is_over(job);
    let there = job["metadata"]["deletionTimestamp"].is_null();
    let runs = there && !over && job["spec"]["suspend"] != true;
    let wanted = if runs { job::count(job).pods } else { 0 };
    let wanted = usize::try_from(wanted).unwrap_or_default();
    let mut staying: Vec<&&Value> = pods
        .iter()
        .filter(|pod| !ending.contains(name(pod)))
        .collect();
    staying.sort_by_key(|pod| (is_gated(pod), name(pod)));
    let end = staying.iter().skip(wanted).map(|pod| name(pod).to_owned());
    let active = &staying[..wanted.min(staying.len())];
    let ready = active
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running");
    // As the Job controller counts: Kueue releases quota while the last Pods terminate.
    let counted = json!({
        "active": active.len(), "ready": ready.count(), "terminating": pods.len() - active.len(),
    });
    let known = |field: &str| job["status"][field].as_u64().unwrap_or_default();
    let differs = ["active", "ready", "terminating"]
        .iter()
        .any(|field| counted[*field].as_u64() != Some(known(field)));
    PodActions {
        create: wanted.saturating_sub(staying.len()),
        end: end.collect(),
        status: (differs && there && !over).then_some(counted),
    }
}

/// Returns a new Pod of a Job.
pub(super) fn pod_of(job: &Value, number: u64) -> Value {
    let template = &job["spec"]["template"];
    let metadata = &job["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{}-{number:04}", text("name")), "namespace": metadata["namespace"],
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    })
}

#[cfg(test)]
mod tests {
    use super::super::slices::GATE;
    use super::*;

    fn pod(name: &str, gated: bool) -> Value {
        let gates = if gated {
            json!([{"name": GATE}])
        } else {
            json!([])
        };
        let phase = if gated { "Pending" } else { "Running" };
        json!({"metadata": {"name": name}, "spec": {"schedulingGates": gates}, "status": {"phase": phase}})
    }

    #[test]
    fn a_job_has_as_many_pods_as_its_parallelism() {
        let pods = [pod("a", false), pod("b", true), pod("c", false)];
        let pods: Vec<&Value> = pods.iter().collect();
        let ending = BTreeSet::from(["c".to_owned()]);
        // Suspended, wanted, over; Pods to create, Pods to end.
        let table: [(bool, i64, bool, usize, &[&str]); 5] = [
            (false, 2, false, 0, &[]),
            (false, 4, false, 2, &[]),
            (false, 1, false, 0, &["b"]),
            (true, 2, false, 0, &["a", "b"]),
            (false, 2, true, 0, &["a", "b"]),
        ];
        for (suspend, parallelism, over, create, end) in table {
            let conditions = if over {
                json!([{"type": "Complete"}])
            } else {
                json!([])
            };
            let job = json!({
                "spec": {"suspend": suspend, "parallelism": parallelism},
                "status": {"active": 3, "ready": 1, "conditions": conditions},
            });
            let found = plan(&job, &pods, &ending);
            assert_eq!(
                (found.create, found.end),
                (create, end.iter().map(|e| (*e).to_owned()).collect())
            );
            let (active, ready) = match (suspend, parallelism) {
                (true, _) => (0, 0),
                (_, 1) => (1, 1),
                _ => (2, 1),
            };
            let counted = json!({"active": active, "ready": ready, "terminating": 3 - active});
            assert_eq!(found.status, (!over).then_some(counted), "{parallelism}");
        }
    }
}
