//! Selection of victims for preemption.
//!
//! The rules are those of Kueue 0.19.2: `pkg/scheduler/preemption/preemption.go` and
//! `pkg/scheduler/preemption/classical`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::preempt_fairly;
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
    fn cause(self) -> Cause {
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

/// Returns the Workloads to preempt so that this one fits: candidate indices and causes. Returns no
/// more than necessary, and none if this one cannot fit.
pub(crate) fn victims(contest: &Contest<'_>, tree: &Tree) -> Vec<(usize, Cause)> {
    let chosen = match contest.fair_sharing {
        Some(strategies) => preempt_fairly::choose(contest, tree, strategies),
        None => by_quota(contest, tree),
    };
    let chosen = chosen.into_iter().flatten();
    chosen
        .map(|choice| (choice.at, choice.way.cause()))
        .collect()
}

/// Chooses Workloads of ClusterQueues that exceed their quota.
fn by_quota(contest: &Contest<'_>, tree: &Tree) -> Option<Vec<Choice>> {
    let same = contest.sorted(contest.same_queue());
    let (hierarchy, by_priority) = contest.others(tree);
    let (hierarchy, by_priority) = (contest.sorted(hierarchy), contest.sorted(by_priority));
    let no_others = hierarchy.is_empty() && by_priority.is_empty();
    let no_borrowing = contest.may_not_borrow();
    let attempts: &[bool] = if no_others || no_borrowing && !contest.is_under_nominal(tree) {
        &[true]
    } else if no_borrowing && hierarchy.is_empty() {
        &[false, true]
    } else {
        &[true, false]
    };
    let lists = [hierarchy, by_priority, same];
    let leaving = |choice: &&Choice| contest.candidates[choice.at].workload.is_evicted();
    let first = lists.iter().flatten().filter(|choice| leaving(choice));
    let then = lists.iter().flatten().filter(|choice| !leaving(choice));
    let all: Vec<Choice> = first.chain(then).copied().collect();
    let mut found = attempts
        .iter()
        .filter_map(|borrowing| contest.attempt(&all, *borrowing, tree));
    found.next()
}

impl Contest<'_> {
    fn same_queue(&self) -> Vec<Choice> {
        let policy = self.queue.spec.preemption.within_cluster_queue;
        let own = |at: &usize| self.candidates[*at].queue == self.node;
        let places = (0..self.candidates.len()).filter(own);
        let usable = places.filter(|at| self.may_be_preempted(*at, policy));
        usable
            .map(|at| Choice {
                at,
                way: Way::SameQueue,
                shared: None,
            })
            .collect()
    }

    /// Returns the Workloads of other ClusterQueues: those over which the preemptor has a
    /// hierarchical advantage for the quota, and all others.
    fn others(&self, tree: &Tree) -> (Vec<Choice>, Vec<Choice>) {
        let (mut hierarchy, mut by_priority) = (Vec::new(), Vec::new());
        if self.queue.spec.preemption.reclaim_within_cohort == PreemptionPolicy::Never {
            return (hierarchy, by_priority);
        }
        let (mut nearer, mut remaining) = tree.fits_in_quota(self.node, self.wanted);
        let mut done = None;
        for root in tree.path(self.node) {
            let list = if nearer {
                &mut hierarchy
            } else {
                &mut by_priority
            };
            self.collect(tree, root, (root, done), nearer, list);
            let (fits, rest) = tree.fits_in_quota(root, &remaining);
            remaining = rest;
            nearer |= fits;
            done = Some(root);
        }
        (hierarchy, by_priority)
    }

    fn collect(
        &self,
        tree: &Tree,
        cohort: NodeId,
        (root, done): (NodeId, Option<NodeId>),
        nearer: bool,
        list: &mut Vec<Choice>,
    ) {
        for child in tree.children(cohort) {
            let skipped = Some(child) == done || child == self.node;
            if skipped || tree.is_within_nominal(child, self.cells) {
                continue;
            }
            if tree.is_queue(child) {
                list.extend(self.of_queue(child, root, nearer));
            } else {
                self.collect(tree, child, (root, done), nearer, list);
            }
        }
    }

    fn of_queue(&self, queue: NodeId, root: NodeId, nearer: bool) -> Vec<Choice> {
        let policy = self.queue.spec.preemption.reclaim_within_cohort;
        let places = (0..self.candidates.len()).filter(|at| self.candidates[*at].queue == queue);
        let usable = places.filter(|at| self.may_be_preempted(*at, policy));
        usable
            .map(|at| Choice {
                at,
                way: self.way(self.candidates[at].workload, nearer),
                shared: Some(root),
            })
            .collect()
    }

    fn way(&self, other: &Workload, nearer: bool) -> Way {
        if nearer {
            return Way::Hierarchy;
        }
        let borrowing = self.queue.spec.preemption.borrow_within_cohort;
        let borrowing = borrowing.filter(|b| b.policy != PreemptionPolicy::Never);
        let Some(borrowing) = borrowing else {
            return Way::OnlyWithoutBorrowing;
        };
        let limit = borrowing.max_priority_threshold;
        let above = other.spec.priority >= self.preemptor.spec.priority
            || limit.is_some_and(|limit| other.spec.priority > limit);
        if above {
            Way::OnlyWithoutBorrowing
        } else {
            Way::AlsoWhileBorrowing
        }
    }

    fn may_not_borrow(&self) -> bool {
        let borrowing = self.queue.spec.preemption.borrow_within_cohort;
        borrowing.is_none_or(|b| b.policy == PreemptionPolicy::Never)
    }

    fn is_under_nominal(&self, tree: &Tree) -> bool {
        let mut cells = self.cells.iter();
        cells.all(|cell| tree.usage(self.node, cell) < tree.quota(self.node, cell).nominal)
    }

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

    /// Removes candidates one by one until the preemptor fits, then restores those that need not be
    /// preempted.
    fn attempt(&self, choices: &[Choice], borrowing: bool, tree: &Tree) -> Option<Vec<Choice>> {
        let mut tree = tree.clone();
        let mut chosen: Vec<Choice> = Vec::new();
        for choice in choices {
            if !self.is_valid(choice, borrowing, &tree) {
                continue;
            }
            let candidate = &self.candidates[choice.at];
            tree.remove(candidate.queue, &candidate.usage);
            chosen.push(*choice);
            if self.fits(borrowing, &tree) {
                return Some(self.spare(chosen, borrowing, &mut tree));
            }
        }
        None
    }

    fn is_valid(&self, choice: &Choice, borrowing: bool, tree: &Tree) -> bool {
        let queue = self.candidates[choice.at].queue;
        if queue == self.node {
            return true;
        }
        if borrowing && choice.way == Way::OnlyWithoutBorrowing {
            return false;
        }
        let below = tree.path(queue).take_while(|n| Some(*n) != choice.shared);
        let mut nodes = std::iter::once(queue).chain(below);
        nodes.all(|node| !tree.is_within_nominal(node, self.cells))
    }

    pub(super) fn fits(&self, borrowing: bool, tree: &Tree) -> bool {
        let mut wanted = self.wanted.iter().filter(|(_, amount)| **amount != 0);
        wanted.all(|(cell, amount)| {
            (borrowing || !tree.borrows_with(self.node, cell, *amount))
                && *amount <= tree.available(self.node, cell)
        })
    }

    /// Restores choices that need not be preempted, from the last but one back to the first.
    pub(super) fn spare(
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
