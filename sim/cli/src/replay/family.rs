//! Projection of families of Workloads: the fields added to the plain projection.

use serde_json::{Map, Value, json};

use super::object::{list, owners};

/// The prefix of Kueue's own labels and annotations.
const KUEUE: &str = "kueue.x-k8s.io/";
/// The annotation with the UID of the job, which differs in each run.
const JOB_UID: &str = "kueue.x-k8s.io/job-uid";
/// The labels that batch/v1 sets on the Pods of a Job.
const OF_BATCH: [&str; 4] = [
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
];

/// Returns the plain projection of an object with the fields that traces of families add.
pub(super) fn with_more(kind: &str, object: &Value, mut state: Value) -> Value {
    match kind {
        "Workload" => workload(object, &mut state),
        "Job" => {
            state["parallelism"] = object["spec"]["parallelism"].clone();
            state["gates"] = gates(&object["spec"]["template"]);
        }
        "Pod" => return pod(object),
        _ => {}
    }
    state
}

fn workload(object: &Value, state: &mut Value) {
    let metadata = &object["metadata"];
    let sets = &object["spec"]["podSets"];
    state["annotations"] = of_kueue(&metadata["annotations"]);
    state["labels"] = of_kueue(&metadata["labels"]);
    state["owners"] = owners(object);
    state["counts"] = by_name(sets, "count");
    let least = by_name(sets, "minCount");
    if least.as_object().is_some_and(|map| !map.is_empty()) {
        state["minCounts"] = least;
    }
    let assigned = &object["status"]["admission"]["podSetAssignments"];
    if assigned.is_array() {
        state["admission"]["usage"] = by_name(assigned, "resourceUsage");
    }
    let done = &object["status"]["reclaimablePods"];
    if done.as_array().is_some_and(|done| !done.is_empty()) {
        state["reclaimablePods"] = done.clone();
    }
    let gates = &object["spec"]["preemptionGates"];
    if gates.is_array() {
        let closed = &object["status"]["preemptionGates"];
        let states = if closed.is_null() {
            json!([])
        } else {
            closed.clone()
        };
        state["preemptionGates"] = json!([gates, states]);
    }
}

fn pod(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let labels: Map<String, Value> = labels
        .filter(|(key, _)| !OF_BATCH.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let annotations = &metadata["annotations"];
    json!({
        "gates": gates(object), "nodeSelector": object["spec"]["nodeSelector"], "labels": labels,
        "annotations": if annotations.is_null() { json!({}) } else { annotations.clone() },
    })
}

fn gates(template: &Value) -> Value {
    list(&template["spec"]["schedulingGates"])
        .map(|gate| gate["name"].clone())
        .collect()
}

fn by_name(sets: &Value, field: &str) -> Value {
    let present = list(sets).filter(|set| !set[field].is_null());
    let map: Map<String, Value> = present
        .map(|set| {
            let name = set["name"].as_str().unwrap_or_default();
            (name.to_owned(), set[field].clone())
        })
        .collect();
    Value::Object(map)
}

fn of_kueue(map: &Value) -> Value {
    let entries = map.as_object().into_iter().flatten();
    let own: Map<String, Value> = entries
        .filter(|(key, _)| key.starts_with(KUEUE) && *key != JOB_UID)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(own)
}

/// Returns a state without the fields that the stand-in for the nodes wrote, not Kueue.
pub(super) fn without_nodes(kind: &str, mut state: Value) -> Value {
    let field = match kind {
        "Job" => "status",
        "Pod" => "phase",
        _ => return state,
    };
    if let Some(map) = state.as_object_mut() {
        map.remove(field);
    }
    state
}

/// The reason of a slice that another has replaced.
const REPLACED: &str = "WorkloadSliceReplaced";

/// Returns the state of a Workload without the message for a replaced slice.
///
/// Scheduler and job reconciler both finish the slice, each with its own message, and the first
/// message stays (measured on 0.19.2: each in 6 of 13).
pub(super) fn without_who_replaced(mut state: Value) -> Value {
    let conditions = state.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition["reason"] == REPLACED {
            condition["message"] = json!("Replaced");
        }
    }
    state
}

/// Returns true if an event is the scheduler's about a replaced slice.
///
/// See [`without_who_replaced`].
pub(super) fn is_about_replacement(event: &Value) -> bool {
    event["reason"] == REPLACED
}
