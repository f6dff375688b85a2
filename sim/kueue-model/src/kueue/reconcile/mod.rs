//! What Kueue's workload reconciler does with one Workload: one write per pass, in Kueue's order.

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
pub(crate) use outcome::{EventRecord, Outcome, Write};
pub(crate) use quota::{BLOCKED, admitted_event, reserve, sync_admitted, unset_quota};

use crate::kueue::KueueVersion;
use crate::kueue::objects::{ClusterQueue, LocalQueue, Workload};

/// The reporter of the reconciler's events.
pub(crate) const WORKLOAD_CONTROLLER: &str = "kueue-workload-controller";

/// The reason of a slice that another has replaced.
pub(crate) const SLICE_REPLACED: &str = "WorkloadSliceReplaced";

/// What the reconciler knows besides the Workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReconcileInput<'a> {
    /// Whether it is to have variants.
    pub(crate) has_variants: bool,
    /// The time.
    pub(crate) now: Timestamp,
    /// Which Kueue.
    pub(crate) version: KueueVersion,
    /// The Workload's LocalQueue.
    pub(crate) local_queue: Option<&'a LocalQueue>,
    /// The ClusterQueue behind that.
    pub(crate) cluster_queue: Option<&'a ClusterQueue>,
    /// Whether that ClusterQueue takes Workloads.
    pub(crate) cluster_queue_active: bool,
    /// The end of a delay that was written though the Workload is not active.
    pub(crate) delay_written: Option<Timestamp>,
}

/// One rule of the reconciler: `Some` ends the pass.
type Rule = fn(&Workload, &ReconcileInput<'_>) -> Option<Outcome>;

/// In the order of Kueue 0.19's `Reconcile`.
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

/// What the reconciler does with a Workload.
pub(crate) fn reconcile(workload: &Workload, situation: &ReconcileInput<'_>) -> Outcome {
    RULES
        .iter()
        .find_map(|rule| rule(workload, situation))
        .or_else(|| limit::execution_time(workload, situation))
        .or_else(|| stop::inadmissible(workload, situation))
        .unwrap_or_default()
}

/// Nobody else will take the finalizer off.
fn orphaned(workload: &Workload, _: &ReconcileInput<'_>) -> Option<Outcome> {
    let metadata = &workload.metadata;
    if !metadata.owner_references.is_empty() || metadata.deletion_timestamp.is_none() {
        return None;
    }
    Some(if metadata.finalizers.is_empty() {
        Outcome::nothing()
    } else {
        Outcome::write(Write::DropFinalizer)
    })
}

/// A Workload that is to have variants says so.
fn parent(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    (at.has_variants && !workload.is_parent()).then(|| Outcome::write(Write::LabelParent))
}

fn finished(workload: &Workload, _: &ReconcileInput<'_>) -> Option<Outcome> {
    workload.is_finished().then(Outcome::nothing)
}
