//! The order of a queue, and what makes Workloads alike.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::kueue::objects::Workload;

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<i64>,
    since: Timestamp,
    arrival: u64,
    /// The Workload's `namespace/name`.
    pub(crate) key: String,
}

impl Rank {
    /// By priority, then by age; who was evicted by a check or for slow Pods goes behind. `arrival`
    /// decides between Workloads of the same second.
    pub(crate) fn of(workload: &Workload, arrival: u64) -> Self {
        Self {
            priority: Reverse(workload.spec.priority),
            since: queued_since(workload),
            arrival,
            key: workload.metadata.key(),
        }
    }
}

/// Since when a Workload waits, as the order counts it.
pub(crate) fn queued_since(workload: &Workload) -> Timestamp {
    let evicted = workload.status.conditions.get("Evicted");
    let behind = evicted.filter(|evicted| {
        let reason = evicted.reason.as_str();
        evicted.is_true() && matches!(reason, "AdmissionCheck" | "PodsReadyTimeout")
    });
    behind.map_or(workload.metadata.creation_timestamp, |e| {
        e.last_transition_time
    })
}

/// What Workloads have in common that fit, or don't, alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SchedulingHash(String);

impl SchedulingHash {
    /// Its pod sets and priority.
    pub(crate) fn of(workload: &Workload) -> Self {
        let sets = workload.spec.pod_sets.iter();
        let shapes = sets.map(|set| {
            let (count, least) = (workload.count_after_reclaim(set), set.min_count);
            format!("{count}/{least:?}x{}:{}", set.name, set.template["spec"])
        });
        let shapes = shapes.collect::<Vec<_>>().join("+");
        let (priority, flavor) = (workload.spec.priority, workload.variant_flavor());
        Self(format!("{priority}@{flavor}@{shapes}"))
    }
}
