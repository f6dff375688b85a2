//! Status writes of a Workload: server-side apply or merge patch.

use serde_json::{Map, Value, json};

use super::KueueVersion;
use super::api::{Api, kueue};
use super::objects::Workload;
use kueue_check_apiserver::ApiResponse;

/// The field manager of quota, admission and evictions.
pub(crate) const ADMISSION_MANAGER: &str = "kueue-admission";

/// The conditions that this field manager owns.
const CONDITIONS: [&str; 8] = [
    "QuotaReserved",
    "Finished",
    "Evicted",
    "Admitted",
    "Preempted",
    "Requeued",
    "DeactivationTarget",
    "BlockedOnPreemptionGates",
];

/// The `resourceVersion` precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The API server rejects the write with 409 if the Workload has changed since.
    Strict,
    /// No precondition: the scheduler's writes. They carry the check states of the scheduler's
    /// copy, and force them.
    Loose,
}

/// Writes all fields of manager `kueue-admission`: conditions, admission, requeue state, and all
/// check entries of this copy.
pub(crate) fn write_admission(
    api: &Api,
    old: &Workload,
    new: &Workload,
    guard: Guard,
    version: KueueVersion,
) -> ApiResponse {
    if version.merge_patches {
        let patch = merge_patch(old, new, guard);
        let name = (new.metadata.namespace.as_str(), new.metadata.name.as_str());
        api.merge(&kueue("workloads"), name, "status", patch)
    } else {
        let body = apply_body(new, guard);
        api.apply(&kueue("workloads"), body, "status", ADMISSION_MANAGER)
    }
}

/// Returns the body of the server-side apply.
pub(crate) fn apply_body(workload: &Workload, guard: Guard) -> Value {
    let metadata = &workload.metadata;
    let status = &workload.status;
    let kept = status.conditions.0.iter();
    let conditions: Vec<Value> = kept
        .filter(|c| CONDITIONS.contains(&c.kind.as_str()))
        .map(|c| json!(c))
        .collect();
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !empty {
            fields.insert(name.to_owned(), value);
        }
    };
    put("conditions", conditions.into());
    put("admissionChecks", json!(status.admission_checks));
    put("admission", json!(status.admission));
    // The usage of the admission is more exact (Kueue 0.19.2, `admissionStatusPatch` in
    // `pkg/workload/patching/patching.go`).
    if status.admission.is_none() {
        put("resourceRequests", json!(status.resource_requests));
    }
    put("requeueState", json!(status.requeue_state));
    put("schedulingStats", json!(status.scheduling_stats));
    put("preemptionGates", json!(status.preemption_gates));
    put(
        "accumulatedPastExecutionTimeSeconds",
        json!(status.accumulated_past_execution_time_seconds),
    );
    let mut body = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid, "generation": metadata.generation},
        "status": fields,
    });
    if guard == Guard::Strict {
        body["metadata"]["resourceVersion"] = json!(metadata.resource_version);
    }
    body
}

/// Returns the body of the merge patch that the gate `WorkloadRequestUseMergePatch` sends instead:
/// the fields that differ, lists as a whole.
fn merge_patch(old: &Workload, new: &Workload, guard: Guard) -> Value {
    let (old, fields) = (json!(old.status), json!(new.status));
    let names = [
        "conditions",
        "admissionChecks",
        "admission",
        "requeueState",
        "schedulingStats",
        "preemptionGates",
        "resourceRequests",
        "accumulatedPastExecutionTimeSeconds",
    ];
    let changed = names.into_iter().filter(|name| old[name] != fields[name]);
    let status: Map<String, Value> = changed
        .map(|name| (name.to_owned(), fields[name].clone()))
        .collect();
    let mut patch = json!({"status": status});
    if guard == Guard::Strict {
        patch["metadata"]["resourceVersion"] = json!(new.metadata.resource_version);
    }
    patch
}
