//! Construction of the Workload of a variant.

use serde_json::{Value, json};

use super::PARENT;
use crate::jobs::variant_name;

/// The annotation with the flavor of a variant.
const FLAVOR: &str = "kueue.x-k8s.io/workload-allowed-resource-flavors";
/// The preemption gate that keeps variants from preempting at the same time.
pub(crate) const GATE: &str = "kueue.x-k8s.io/concurrent-admission";

/// Returns the variant of a parent for a flavor.
pub(crate) fn variant_of(parent: &Value, flavor: &str) -> Value {
    let metadata = &parent["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let mut labels = metadata["labels"].clone();
    if let Some(labels) = labels.as_object_mut() {
        labels.remove(PARENT);
    }
    let mut annotations = metadata["annotations"].clone();
    if annotations.is_null() {
        annotations = json!({});
    }
    annotations[FLAVOR] = json!(flavor);
    let mut spec = parent["spec"].clone();
    let gate = json!({"name": GATE});
    match spec["preemptionGates"].as_array_mut() {
        Some(gates) if gates.contains(&gate) => {}
        Some(gates) => gates.push(gate),
        None => spec["preemptionGates"] = json!([gate]),
    }
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {
            "name": variant_name(text("name"), text("uid"), flavor), "namespace": metadata["namespace"],
            "labels": labels, "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": metadata["name"], "uid": metadata["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}
