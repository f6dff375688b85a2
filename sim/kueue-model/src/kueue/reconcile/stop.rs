//! Stopped, missing and inactive queues.

use super::{Outcome, ReconcileInput, WORKLOAD_CONTROLLER, evict, unset_quota};
use crate::kueue::objects::{Condition, Metadata, StopPolicy, True, Workload};

/// The stop policy of a LocalQueue or ClusterQueue.
struct Queue<'a> {
    kind: &'static str,
    name: &'a str,
    /// `None` if the queue is missing.
    policy: Option<StopPolicy>,
    is_deleted: bool,
}

fn queues<'a>(workload: &'a Workload, at: &ReconcileInput<'a>) -> [Queue<'a>; 2] {
    let local = at.local_queue;
    let cluster = at.cluster_queue;
    let is_deleted = |metadata: &Metadata| metadata.deletion_timestamp.is_some();
    [
        Queue {
            kind: "LocalQueue",
            name: &workload.spec.queue_name,
            policy: local.map(|q| q.spec.stop_policy),
            is_deleted: local.is_some_and(|q| is_deleted(&q.metadata)),
        },
        Queue {
            kind: "ClusterQueue",
            name: local.map_or("", |q| &q.spec.cluster_queue),
            policy: cluster.map(|q| q.spec.stop_policy),
            is_deleted: cluster.is_some_and(|q| is_deleted(&q.metadata)),
        },
    ]
}

/// Requeues a Workload that a stopped LocalQueue evicted, once the LocalQueue is restarted.
pub(super) fn local_queue_restarted(
    workload: &Workload,
    at: &ReconcileInput<'_>,
) -> Option<Outcome> {
    let [local, _] = queues(workload, at);
    restarted(workload, &local, at)
}

/// Requeues a Workload that a stopped ClusterQueue evicted, once it is restarted.
pub(super) fn cluster_queue_restarted(
    workload: &Workload,
    at: &ReconcileInput<'_>,
) -> Option<Outcome> {
    let [_, cluster] = queues(workload, at);
    restarted(workload, &cluster, at)
}

fn restarted(workload: &Workload, queue: &Queue<'_>, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let requeued = workload.status.conditions.get("Requeued")?;
    let stopped = requeued.is_false() && requeued.reason == format!("{}Stopped", queue.kind);
    if !stopped || queue.policy != Some(StopPolicy::None) {
        return None;
    }
    let mut changed = workload.clone();
    changed.set_condition(Condition::new(
        "Requeued",
        True(true),
        format!("{}Restarted", queue.kind),
        format!("The {} was restarted after being stopped", queue.kind),
        at.now,
    ));
    Some(Outcome::admission(changed))
}

/// Releases the quota of an unadmitted Workload if a queue is stopped, missing or being deleted.
/// With `HoldAndDrain`, evicts an admitted Workload, also while the queue is being deleted (Kueue
/// 0.19.2, `reconcileOnClusterQueueActiveState` in `pkg/controller/core/workload_controller.go`).
pub(super) fn stopped(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if !workload.has_quota() {
        return None;
    }
    let queues = queues(workload, at);
    queues.iter().find_map(|queue| stop(workload, queue, at))
}

fn stop(workload: &Workload, queue: &Queue<'_>, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if workload.is_admitted() {
        let drains = queue.policy == Some(StopPolicy::HoldAndDrain) && !workload.is_evicted();
        return drains.then(|| {
            let reason = format!("{}Stopped", queue.kind);
            let message = format!("The {} is stopped", queue.kind);
            evict(
                workload,
                &reason,
                &message,
                None,
                at.now,
                WORKLOAD_CONTROLLER,
            )
        });
    }
    let (why, reason) = match queue.policy.filter(|_| !queue.is_deleted) {
        Some(StopPolicy::None) => return None,
        Some(_) => ("stopped", "Suspended"),
        None => ("terminating or missing", "Misconfigured"),
    };
    let message = format!("{} {} is {why}", queue.kind, queue.name);
    without_quota(workload, reason, &message, at)
}

/// Records why a Workload without quota cannot be scheduled.
pub(super) fn inadmissible(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if workload.has_quota() || workload.gated_by().is_some() && at.version.admission_gates {
        return None;
    }
    let queue = &workload.spec.queue_name;
    let (reason, message) = match (at.local_queue, at.cluster_queue) {
        (None, _) => ("Misconfigured", format!("LocalQueue {queue} doesn't exist")),
        (Some(local), _) if local.spec.stop_policy != StopPolicy::None => {
            ("Suspended", format!("LocalQueue {queue} is inactive"))
        }
        (Some(local), None) => {
            let message = format!("ClusterQueue {} doesn't exist", local.spec.cluster_queue);
            ("Misconfigured", message)
        }
        (Some(local), Some(_)) if !at.cluster_queue_active => {
            let message = format!("ClusterQueue {} is inactive", local.spec.cluster_queue);
            ("Suspended", message)
        }
        _ => return None,
    };
    without_quota(workload, reason, &message, at)
}

fn without_quota(
    workload: &Workload,
    finer: &'static str,
    message: &str,
    at: &ReconcileInput<'_>,
) -> Option<Outcome> {
    let mut changed = workload.clone();
    let reason = at.version.reason(finer, "Inadmissible");
    unset_quota(&mut changed, reason, message, at.version, at.now)
        .then(|| Outcome::admission(changed))
}
