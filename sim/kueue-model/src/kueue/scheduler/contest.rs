//! A Workload that needs quota, the candidates for its preemption, and the rules that both searches
//! for victims share (Kueue 0.19.2, `pkg/scheduler/preemption`).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::tree::{NodeId, Tree};
use super::usage::{Cell, Usage};
use crate::kueue::fair_sharing::FairSharing;
use crate::kueue::objects::{ClusterQueue, PreemptionPolicy, Workload};
use crate::kueue::pods_ready::RequeuingTimestamp;
use crate::kueue::queue::queued_since;

/// A Workload that holds quota.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    /// The Workload.
    pub(crate) workload: &'a Workload,
    /// Its ClusterQueue.
    pub(crate) queue: NodeId,
    /// The quota that it holds.
    pub(crate) usage: Usage,
    /// The order of arrival.
    pub(crate) arrival: u64,
}

/// The cause of a preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Prioritization in the same ClusterQueue.
    InClusterQueue,
    /// Its ClusterQueue exceeds its own quota.
    Reclamation,
    /// As `Reclamation`, for a preemptor that borrows too.
    ReclamationWhileBorrowing,
    /// Its ClusterQueue or cohort has a larger share.
    FairSharing,
}

impl Cause {
    /// Returns the reason of the condition Preempted.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::InClusterQueue => "InClusterQueue",
            Self::Reclamation => "InCohortReclamation",
            Self::ReclamationWhileBorrowing => "InCohortReclaimWhileBorrowing",
            Self::FairSharing => "InCohortFairSharing",
        }
    }

    /// Returns the text for messages.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::InClusterQueue => "prioritization in the ClusterQueue",
            Self::Reclamation => "reclamation within the cohort",
            Self::ReclamationWhileBorrowing => "reclamation within the cohort while borrowing",
            Self::FairSharing => "Fair Sharing within the cohort",
        }
    }
}

/// A Workload that needs quota, and the candidates for its preemption.
pub(crate) struct Contest<'a> {
    /// The Workload.
    pub(crate) preemptor: &'a Workload,
    /// The time that decides which of two Workloads is newer.
    pub(crate) by: RequeuingTimestamp,
    /// The setting `fairSharing`.
    pub(crate) fair_sharing: Option<FairSharing>,
    /// Whether quota of one's own is exempt from fair sharing.
    pub(crate) nominal_first: bool,
    /// Its ClusterQueue.
    pub(crate) queue: &'a ClusterQueue,
    /// The node of the ClusterQueue.
    pub(crate) node: NodeId,
    /// The total quota that it requests.
    pub(crate) wanted: &'a Usage,
    /// The cells of `wanted` that exceed the available quota.
    pub(crate) cells: &'a BTreeSet<Cell>,
    /// The Workloads that hold quota of the same tree.
    pub(crate) candidates: &'a [Candidate<'a>],
}

/// The way in which a Workload may be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    SameQueue,
    Hierarchy,
    OnlyWithoutBorrowing,
    AlsoWhileBorrowing,
    Fairly,
}

impl Way {
    pub(super) fn cause(self) -> Cause {
        match self {
            Self::SameQueue => Cause::InClusterQueue,
            Self::Hierarchy | Self::OnlyWithoutBorrowing => Cause::Reclamation,
            Self::AlsoWhileBorrowing => Cause::ReclamationWhileBorrowing,
            Self::Fairly => Cause::FairSharing,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// The index among the candidates.
    pub(super) at: usize,
    pub(super) way: Way,
    /// The smallest subtree that it shares with the preemptor.
    pub(super) shared: Option<NodeId>,
}

impl Contest<'_> {
    pub(super) fn may_be_preempted(&self, at: usize, policy: PreemptionPolicy) -> bool {
        let other = &self.candidates[at];
        let taken = |cell: &Cell| other.usage.has(cell);
        let lower = other.workload.spec.priority < self.preemptor.spec.priority;
        let equal = other.workload.spec.priority == self.preemptor.spec.priority;
        let since = |workload| queued_since(workload, self.by);
        let newer = since(self.preemptor) < since(other.workload);
        let allowed = match policy {
            PreemptionPolicy::Never => false,
            PreemptionPolicy::LowerPriority => lower,
            PreemptionPolicy::LowerOrNewerEqualPriority => lower || equal && newer,
            PreemptionPolicy::Any => true,
        };
        let itself = other.workload.metadata.uid == self.preemptor.metadata.uid;
        allowed && !itself && self.cells.iter().any(taken)
    }

    /// Sorts choices: evicted first, then other ClusterQueues, lowest priority, latest quota
    /// reservation, latest arrival.
    pub(super) fn sorted(&self, mut choices: Vec<Choice>) -> Vec<Choice> {
        choices.sort_by_key(|choice| {
            let candidate = &self.candidates[choice.at];
            (
                !candidate.workload.is_evicted(),
                candidate.queue == self.node,
                candidate.workload.spec.priority,
                Reverse(reserved_at(candidate.workload)),
                Reverse(candidate.arrival),
            )
        });
        choices
    }

    pub(super) fn fits(&self, borrowing: bool, tree: &Tree) -> bool {
        let mut wanted = self.wanted.iter().filter(|(_, amount)| **amount != 0);
        wanted.all(|(cell, amount)| {
            (borrowing || !tree.borrows_with(self.node, cell, *amount))
                && *amount <= tree.available(self.node, cell)
        })
    }

    /// Restores choices that need not be preempted, from the last but one back to the first.
    pub(super) fn restore_unneeded(
        &self,
        mut chosen: Vec<Choice>,
        borrowing: bool,
        tree: &mut Tree,
    ) -> Vec<Choice> {
        for at in (0..chosen.len().saturating_sub(1)).rev() {
            let candidate = &self.candidates[chosen[at].at];
            tree.add(candidate.queue, &candidate.usage);
            if self.fits(borrowing, tree) {
                chosen.swap_remove(at);
            } else {
                tree.remove(candidate.queue, &candidate.usage);
            }
        }
        chosen
    }
}

fn reserved_at(workload: &Workload) -> Timestamp {
    let reserved = workload.status.conditions.get("QuotaReserved");
    reserved.map_or(Timestamp::MIN, |c| c.last_transition_time)
}
