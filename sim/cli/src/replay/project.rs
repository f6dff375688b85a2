//! Projection of objects to the fields that are compared.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::family;
use super::object::{list, only, owners};
use kueue_check_sim::apiserver::{Change, ChangeVerb};

/// Returns the kind of the changed object, if it is compared.
pub(super) fn kind_of(change: &Change) -> Option<&'static str> {
    Some(match change.resource.plural.as_str() {
        "workloads" => "Workload",
        "admissionchecks" => "AdmissionCheck",
        "clusterqueues" => "ClusterQueue",
        "jobs" => "Job",
        "provisioningrequests" => "ProvisioningRequest",
        "podtemplates" => "PodTemplate",
        "events" => "Event",
        "pods" => "Pod",
        _ => return None,
    })
}

/// The extent of the states in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The fields of [`projection`].
    Plain,
    /// Also the fields that distinguish the Workloads of a job.
    Families,
}

/// Returns the state after a change; null if the object was deleted.
pub(super) fn project(kind: &str, change: &Change, form: Form) -> Value {
    if change.verb == ChangeVerb::Deleted {
        return Value::Null;
    }
    state_of(kind, &change.object, form)
}

/// Returns the state of an object, in the form of the trace.
pub(super) fn state_of(kind: &str, object: &Value, form: Form) -> Value {
    match form {
        Form::Plain => projection(kind, object),
        Form::Families => full_projection(kind, object),
    }
}

/// Returns true if initial objects of this kind are compared.
pub(crate) fn is_compared(kind: &str) -> bool {
    ["Workload", "AdmissionCheck", "ClusterQueue", "Job"].contains(&kind)
}

/// Returns the state of an object in a trace of a family of Workloads.
///
/// It is [`projection`] with the fields that distinguish the Workloads of a job.
///
/// ```
/// use kueue_check_sim_cli::replay::full_projection;
/// use serde_json::json;
///
/// let workload = json!({"spec": {"podSets": [{"name": "main", "count": 3}]}});
/// assert_eq!(full_projection("Workload", &workload)["counts"], json!({"main": 3}));
/// ```
pub fn full_projection(kind: &str, object: &Value) -> Value {
    family::with_more(kind, object, projection(kind, object))
}

/// Returns the state of an object in a trace (`observed[].state`).
///
/// ```
/// use kueue_check_sim_cli::replay::projection;
/// use serde_json::json;
///
/// let workload = json!({"spec": {"active": false}, "status": {"admissionChecks": [
///     {"name": "licence", "state": "Ready", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"},
/// ]}});
/// assert_eq!(projection("Workload", &workload), json!({
///     "active": false, "conditions": [], "admission": null,
///     "checks": [{"name": "licence", "state": "Ready", "message": ""}],
/// }));
/// ```
pub fn projection(kind: &str, object: &Value) -> Value {
    match kind {
        "Event" => event(object),
        "Workload" => workload(object),
        "Job" => job(object),
        "ProvisioningRequest" => json!({
            "labels": object["metadata"]["labels"], "owners": owners(object), "spec": object["spec"], "conditions": conditions(object),
        }),
        "PodTemplate" => json!({
            "labels": object["metadata"]["labels"], "owners": owners(object), "template": object["template"],
        }),
        _ => json!({"conditions": conditions(object)}),
    }
}

fn event(object: &Value) -> Value {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let mut state = only(object, &["type", "reason", "action", "note"]);
    let regarding = &object["regarding"];
    state["controller"] = object["reportingController"].clone();
    state["regarding"] = json!(format!(
        "{}/{}",
        text(regarding, "kind"),
        text(regarding, "name")
    ));
    state
}

pub(super) fn conditions(object: &Value) -> Value {
    let fields = ["type", "status", "reason", "message"];
    list(&object["status"]["conditions"])
        .map(|c| only(c, &fields))
        .collect()
}

fn workload(object: &Value) -> Value {
    let status = &object["status"];
    let checks: Value = list(&status["admissionChecks"])
        .map(|check| {
            let mut check = check.clone();
            if let Some(map) = check.as_object_mut() {
                map.remove("lastTransitionTime");
            }
            check
        })
        .collect();
    let sets: Value = list(&status["admission"]["podSetAssignments"])
        .map(|set| only(set, &["name", "flavors", "count"]))
        .collect();
    let admission = &status["admission"];
    let mut state = json!({
        "active": object["spec"]["active"].as_bool().unwrap_or(true),
        "conditions": conditions(object),
        "checks": checks,
        "admission": if admission.is_null() { Value::Null } else { json!({"clusterQueue": admission["clusterQueue"], "podSetAssignments": sets}) },
    });
    let requeue = &status["requeueState"];
    if requeue.as_object().is_some_and(|r| !r.is_empty()) {
        state["requeueState"] =
            json!({"count": requeue["count"], "requeueAtSet": !requeue["requeueAt"].is_null()});
    }
    let finalizers = &object["metadata"]["finalizers"];
    if list(finalizers).next().is_some() {
        state["finalizers"] = finalizers.clone();
    }
    state
}

fn job(object: &Value) -> Value {
    let template = &object["spec"]["template"];
    let mut shown = only(&template["metadata"], &["labels", "annotations"]);
    for field in ["nodeSelector", "tolerations"] {
        let value = &template["spec"][field];
        if !value.is_null() {
            shown[field] = value.clone();
        }
    }
    json!({"suspend": object["spec"]["suspend"], "template": shown})
}

/// Returns a state as it is compared: conditions by type, no empty fields.
///
/// Without `pods_ready`, the condition `PodsReady` is left out: it changes at other moments in the
/// recordings of families, whose Pods a stand-in runs.
pub(super) fn comparable(state: &Value, pods_ready: bool) -> Value {
    let Value::Object(map) = state else {
        return state.clone();
    };
    let mut out = map.clone();
    if map.contains_key("conditions") {
        let by_type: BTreeMap<String, Value> = list(&state["conditions"])
            .filter(|c| pods_ready || c["type"] != "PodsReady")
            .map(|c| (c["type"].as_str().unwrap_or_default().to_owned(), c.clone()))
            .collect();
        out.insert("conditions".to_owned(), json!(by_type));
    }
    // The Pods of a group own its Workload in any order.
    if let Some(owners) = out.get_mut("owners").and_then(Value::as_array_mut) {
        owners.sort_by_key(Value::to_string);
    }
    out.retain(|_, value| !value.is_null());
    if let Some(template) = out.get_mut("template").and_then(Value::as_object_mut) {
        template.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
    Value::Object(out)
}
