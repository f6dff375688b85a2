//! The order of a queue, and the scheduling hash of Workloads.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::objects::{
    Workload, effective_requests, pod_requests, with_canonical_quantities,
};
use crate::kueue::pods_ready::RequeuingTimestamp;

/// The position of a Workload in the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<i64>,
    since: Timestamp,
    arrival: u64,
    /// The Workload's `namespace/name`.
    pub(crate) key: String,
}

impl Rank {
    /// Returns the rank: by priority, then by age. The age of a Workload that was evicted by a
    /// check or for slow Pods counts from the eviction; for slow Pods only if the setting is
    /// `Eviction`. `arrival` decides between Workloads of the same second.
    pub(crate) fn of(workload: &Workload, arrival: u64, by: RequeuingTimestamp) -> Self {
        Self {
            priority: Reverse(workload.spec.priority),
            since: queued_since(workload, by),
            arrival,
            key: workload.metadata.key(),
        }
    }
}

/// Returns the time since which a Workload waits, for the order of the queue.
pub(crate) fn queued_since(workload: &Workload, by: RequeuingTimestamp) -> Timestamp {
    let evicted = workload.status.conditions.get("Evicted");
    let behind = evicted.filter(|evicted| {
        let moves = match evicted.reason.as_str() {
            "AdmissionCheck" => true,
            "PodsReadyTimeout" => by == RequeuingTimestamp::Eviction,
            _ => false,
        };
        evicted.is_true() && moves
    });
    behind.map_or(workload.metadata.creation_timestamp, |e| {
        e.last_transition_time
    })
}

/// A scheduling hash: equal for Workloads that either all fit or all do not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SchedulingHash(String);

impl SchedulingHash {
    /// Returns the hash of the priority, the flavor of a variant, and what of the pod sets matters
    /// to the scheduler (Kueue 0.18.3 and 0.19.2, `computeSchedulingHash` in
    /// `pkg/workload/workload.go`).
    pub(crate) fn of(workload: &Workload, version: KueueVersion) -> Self {
        let sets = workload.spec.pod_sets.iter();
        let shapes = sets.map(|set| {
            let (count, least) = (workload.count_after_reclaim(set), set.min_count);
            let spec = &set.template["spec"];
            let requests = pod_requests(spec, version);
            let (name, shape) = (&set.name, shape(spec));
            format!("{count}/{least:?}x{name}:{shape}:{requests:?}")
        });
        let shapes = shapes.collect::<Vec<_>>().join("+");
        let (priority, flavor) = (workload.spec.priority, workload.variant_flavor());
        Self(format!("{priority}@{flavor}@{shapes}"))
    }
}

/// Returns the parts of a Pod spec that matter to the scheduler: not images, gates or restart
/// policy (Kueue 0.19.2, `SpecShape` in `pkg/util/pod/pod.go`). Kueue hashes Workloads with limits
/// as requests (0.18.3 and 0.19.2: `AdjustResources` in `pkg/workload/resources.go`).
fn shape(spec: &Value) -> Value {
    const FIELDS: [&str; 7] = [
        "nodeSelector",
        "affinity",
        "tolerations",
        "runtimeClassName",
        "priority",
        "topologySpreadConstraints",
        "resourceClaims",
    ];
    let requests = |of: &Value| with_canonical_quantities(&effective_requests(of));
    let containers = |field: &str| -> Value {
        let all = list(&spec[field]);
        all.map(|c| json!([requests(c), c["ports"]])).collect()
    };
    let fields = FIELDS.map(|field| spec[field].clone());
    json!([
        containers("initContainers"),
        containers("containers"),
        requests(spec),
        with_canonical_quantities(&spec["overhead"]),
        fields
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_to_the_scheduler_is_no_part_of_the_shape() {
        let pods = |cpu: &str, more: Value| {
            let mut spec = json!({
                "restartPolicy": "Never",
                "containers": [{"image": "pause", "resources": {"requests": {"cpu": cpu}}}],
            });
            if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
                spec.extend(more);
            }
            shape(&spec)
        };
        let gated = json!({"schedulingGates": [{"name": "g"}], "restartPolicy": "Always"});
        assert_eq!(pods("1", json!({})), pods("1", gated));
        assert_eq!(pods("1", json!({})), pods("1000m", json!({})));
        assert_ne!(pods("1", json!({})), pods("2", json!({})));
        assert_ne!(
            pods("1", json!({})),
            pods("1", json!({"nodeSelector": {"a": "b"}}))
        );
    }
}
