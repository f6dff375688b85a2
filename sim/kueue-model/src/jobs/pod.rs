//! Plain Pods, which wait for admission behind a scheduling gate.

use kueue_check_apiserver::Resource;
use serde_json::{Value, json};

use super::decide::JobView;
use super::labels::{QUEUE, label};
use super::pod_set_info::{Conflict, PodSetInfo, with_info};
use super::role::{ROLE, role_hash};
use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::api::Api;

/// The gate behind which a Pod waits for admission.
pub const GATE: &str = "kueue.x-k8s.io/admission";
/// The gate of Pods without a topology assignment, which Kueue adds too. This model has no
/// topologies.
const TOPOLOGY_GATE: &str = "kueue.x-k8s.io/topology";
/// The label and the finalizer of Pods that Kueue manages.
pub(crate) const MANAGED: &str = "kueue.x-k8s.io/managed";

pub(super) fn pods() -> Resource {
    Resource::new("", "v1", "pods")
}

/// Returns a new Pod of a queue with its gates, or `None` if it has no queue.
pub(crate) fn gated(pod: &Value, version: KueueVersion) -> Option<Value> {
    label(pod, QUEUE)?;
    let mut pod = pod.clone();
    pod["metadata"]["labels"][MANAGED] = json!("true");
    add(&mut pod["metadata"]["finalizers"], json!(MANAGED));
    add(&mut pod["spec"]["schedulingGates"], json!({"name": GATE}));
    let topology = json!({"name": TOPOLOGY_GATE});
    add(&mut pod["spec"]["schedulingGates"], topology);
    if pod["metadata"]["annotations"][ROLE].is_null() {
        pod["metadata"]["annotations"][ROLE] = json!(role_hash(&pod["spec"], version));
    }
    Some(pod)
}

fn add(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) if list.contains(&item) => {}
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

pub(super) fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn is_ready(pod: &Value) -> bool {
    let mut conditions = list(&pod["status"]["conditions"]);
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

pub(super) fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns true if it has its gate, or has ended.
pub(crate) fn is_suspended(pod: &Value) -> bool {
    has_gate(pod) || has_ended(pod)
}

pub(super) fn has_gate(pod: &Value) -> bool {
    list(&pod["spec"]["schedulingGates"]).any(|gate| gate["name"] == GATE)
}

pub(super) fn has_finalizer(pod: &Value) -> bool {
    list(&pod["metadata"]["finalizers"]).any(|finalizer| finalizer == MANAGED)
}

pub(super) fn is_managed(pod: &Value) -> bool {
    label(pod, MANAGED) == Some("true") && label(pod, QUEUE).is_some()
}

pub(super) fn view(pod: &Value) -> JobView {
    let message = pod["status"]["message"].as_str().unwrap_or_default();
    JobView {
        suspended: is_suspended(pod),
        // Kueue counts only the Pods of a group (0.19.2, `IsActive` in
        // `pkg/controller/jobs/pod/pod_controller.go`).
        active: false,
        finished: has_ended(pod).then(|| (phase(pod) == "Succeeded", message.to_owned())),
        pods_ready: is_ready(pod),
        held: has_finalizer(pod),
        single_pod: true,
        ..JobView::default()
    }
}

/// Writes the reason into the Pod's status and deletes it, because a Pod cannot be suspended.
pub(super) fn stop(api: &Api, pod: &Value, reason: &str, message: &str) {
    let now = format!("{:.0}", api.now());
    let metadata = &pod["metadata"];
    let condition = json!({"type": "TerminationTarget", "status": "True", "reason": reason, "message": message, "lastTransitionTime": now});
    let body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "status": {"conditions": [condition]},
    });
    let pods = pods();
    api.apply(&pods, body, "status", "kueue");
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    api.delete(&pods, text("namespace"), text("name"));
}

/// Removes Kueue's finalizer.
pub(super) fn let_go(api: &Api, pod: &Value) {
    let others = list(&pod["metadata"]["finalizers"]).filter(|f| *f != MANAGED);
    let mut object = pod.clone();
    object["metadata"]["finalizers"] = others.cloned().collect();
    api.update(&pods(), object, "");
}

/// Returns the Pod without its gates and with the values from admission: one update for both, as
/// KEP-3838 allows.
pub(super) fn started(pod: &Value, info: &PodSetInfo) -> Result<Value, Conflict> {
    let mut object = with_info(pod, info)?;
    let gates = list(&pod["spec"]["schedulingGates"]);
    let others = gates.filter(|gate| gate["name"] != GATE && gate["name"] != TOPOLOGY_GATE);
    object["spec"]["schedulingGates"] = others.cloned().collect();
    Ok(object)
}
