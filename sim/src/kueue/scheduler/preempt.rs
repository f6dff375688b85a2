//! Who has to make room.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::assign::within_quota;
use super::usage::{Usage, usage_of};
use crate::kueue::objects::{ClusterQueue, WithinClusterQueue, Workload};
use crate::kueue::queue::queued_since;

/// A Workload that holds quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    /// The Workload.
    pub(crate) workload: &'a Workload,
    /// In which order the Workloads came.
    pub(crate) arrival: u64,
}

/// The Workloads of the ClusterQueue that have to leave so that this one fits, none too many; empty if that is not to be had. Those that are leaving already are
/// taken first, then by priority, then the latest to have got quota.
pub(crate) fn victims<'a>(
    preemptor: &Workload,
    wanted: &Usage,
    queue: &ClusterQueue,
    taken: &Usage,
    holders: &[Candidate<'a>],
) -> Vec<&'a Workload> {
    let policy = queue.spec.preemption.within_cluster_queue;
    let mut candidates: Vec<&Candidate<'a>> = holders
        .iter()
        .filter(|c| c.workload.metadata.uid != preemptor.metadata.uid)
        .filter(|c| may_be_preempted(preemptor, c.workload, policy))
        .filter(|c| {
            usage_of(c.workload)
                .iter()
                .any(|(cell, amount)| *amount > 0 && wanted.of(&cell.0, &cell.1) > 0)
        })
        .collect();
    candidates.sort_by_key(|c| {
        let w = c.workload;
        (
            !w.is_evicted(),
            w.spec.priority,
            Reverse(reserved_at(w)),
            Reverse(c.arrival),
        )
    });
    let mut left = taken.clone();
    let mut chosen = Vec::new();
    for candidate in candidates {
        if within_quota(queue, &left, wanted) {
            break;
        }
        left.remove_all(&usage_of(candidate.workload));
        chosen.push(candidate.workload);
    }
    if !within_quota(queue, &left, wanted) {
        return Vec::new();
    }
    spare(chosen, &mut left, queue, wanted)
}

/// Leaves out, from the last chosen on, whoever need not go after all.
fn spare<'a>(
    mut chosen: Vec<&'a Workload>,
    left: &mut Usage,
    queue: &ClusterQueue,
    wanted: &Usage,
) -> Vec<&'a Workload> {
    for at in (0..chosen.len().saturating_sub(1)).rev() {
        let usage = usage_of(chosen[at]);
        left.add_all(&usage);
        if within_quota(queue, left, wanted) {
            chosen.remove(at);
        } else {
            left.remove_all(&usage);
        }
    }
    chosen
}

fn may_be_preempted(preemptor: &Workload, other: &Workload, policy: WithinClusterQueue) -> bool {
    let lower = other.spec.priority < preemptor.spec.priority;
    let equal = other.spec.priority == preemptor.spec.priority;
    match policy {
        WithinClusterQueue::Never => false,
        WithinClusterQueue::LowerPriority => lower,
        WithinClusterQueue::LowerOrNewerEqualPriority => {
            lower || equal && queued_since(preemptor) < queued_since(other)
        }
    }
}

fn reserved_at(workload: &Workload) -> Timestamp {
    let reserved = workload.status.conditions.get("QuotaReserved");
    reserved.map_or(Timestamp::MIN, |c| c.last_transition_time)
}
