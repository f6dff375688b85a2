//! Kueue's Workload reconciler: one write per pass for one Workload, in Kueue's order.

mod checks;
mod evict;
mod gate;
mod limit;
mod outcome;
mod quota;
mod requeue;
mod stop;

#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub(crate) use checks::needed_checks;
pub(crate) use evict::evict;
pub(crate) use outcome::{EventKind, EventRecord, Outcome, Write};
pub(crate) use quota::{BLOCKED, admitted_event, finish, reserve, sync_admitted, unset_quota};

use crate::kueue::KueueVersion;
use crate::kueue::objects::{ClusterQueue, FINALIZER, LocalQueue, Workload};

/// The reporter of the reconciler's events.
pub(crate) const WORKLOAD_CONTROLLER: &str = "kueue-workload-controller";

/// The reason of a slice that another slice has replaced.
pub(crate) const SLICE_REPLACED: &str = "WorkloadSliceReplaced";

/// The inputs of the reconciler besides the Workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReconcileInput<'a> {
    /// True if the Workload is to have variants.
    pub(crate) has_variants: bool,
    /// The current time.
    pub(crate) now: Timestamp,
    /// The Kueue version.
    pub(crate) version: KueueVersion,
    /// The Workload's LocalQueue.
    pub(crate) local_queue: Option<&'a LocalQueue>,
    /// The ClusterQueue of that LocalQueue.
    pub(crate) cluster_queue: Option<&'a ClusterQueue>,
    /// True if that ClusterQueue is active.
    pub(crate) cluster_queue_active: bool,
    /// The end of a delay already written although the Workload is not active.
    pub(crate) delay_written: Option<Timestamp>,
}

/// One rule of the reconciler: `Some` ends the pass.
type Rule = fn(&Workload, &ReconcileInput<'_>) -> Option<Outcome>;

/// The rules, in the order of Kueue 0.19's `Reconcile`.
const RULES: [Rule; 16] = [
    orphaned,
    parent,
    finished,
    requeue::delay_of_retries,
    requeue::deactivation_target,
    requeue::waiting,
    requeue::waited,
    requeue::backoff_over,
    requeue::deactivated,
    stop::local_queue_restarted,
    gate::gated,
    stop::cluster_queue_restarted,
    checks::sync,
    quota::admit,
    checks::act_on_states,
    stop::stopped,
];

/// Returns the outcome of one reconcile pass for a Workload.
pub(crate) fn reconcile(workload: &Workload, situation: &ReconcileInput<'_>) -> Outcome {
    RULES
        .iter()
        .find_map(|rule| rule(workload, situation))
        .or_else(|| limit::exceeded(workload, situation))
        .or_else(|| stop::inadmissible(workload, situation))
        .unwrap_or_default()
}

/// Removes the finalizer of a Workload without owners that is being deleted, or that has lost its
/// job; no other component removes it. One that has lost its job is finished first (Kueue 0.18.3
/// and 0.19.2, `isOrphanedWorkload` in `pkg/controller/core/workload_controller.go`).
fn orphaned(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let metadata = &workload.metadata;
    let going = metadata.deletion_timestamp.is_some();
    let has_lost_job =
        at.version.finishes_orphans && workload.job_uid().is_some_and(|uid| !uid.is_empty());
    if !metadata.owner_references.is_empty() || !going && !has_lost_job {
        return None;
    }
    if !going && !workload.is_finished() {
        let mut finished = workload.clone();
        let why = ("OwnerNotFound", "The workload's owner no longer exists");
        finish(&mut finished, why, at.version, at.now);
        return Some(Outcome::admission(finished));
    }
    if metadata.finalizers.iter().any(|name| name == FINALIZER) {
        Some(Outcome::write(Write::DropFinalizer))
    } else {
        going.then(Outcome::nothing)
    }
}

/// Labels a Workload that is to have variants as a parent.
fn parent(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    (at.has_variants && !workload.is_parent()).then(|| Outcome::write(Write::LabelParent))
}

fn finished(workload: &Workload, _: &ReconcileInput<'_>) -> Option<Outcome> {
    workload.is_finished().then(Outcome::nothing)
}
