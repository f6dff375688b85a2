//! Selection of victims for preemption.
//!
//! The rules are those of Kueue 0.19.2 without fair sharing:
//! `pkg/scheduler/preemption/preemption.go` and `pkg/scheduler/preemption/classical`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::tree::{NodeId, Tree};
use super::usage::{Cell, Usage};
use crate::kueue::objects::{ClusterQueue, PreemptionPolicy, Workload};
use crate::kueue::queue::queued_since;

/// A Workload that holds quota.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    /// The Workload.
    pub(crate) workload: &'a Workload,
    /// Its ClusterQueue.
    pub(crate) queue: NodeId,
    /// What it takes.
    pub(crate) usage: Usage,
    /// In which order the Workloads came.
    pub(crate) arrival: u64,
}

/// Why a Workload has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Priority in its own ClusterQueue.
    InClusterQueue,
    /// It takes more than its ClusterQueue's own.
    Reclamation,
    /// The same, for a Workload that borrows too.
    ReclamationWhileBorrowing,
}

impl Cause {
    /// The reason of the condition Preempted.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::InClusterQueue => "InClusterQueue",
            Self::Reclamation => "InCohortReclamation",
            Self::ReclamationWhileBorrowing => "InCohortReclaimWhileBorrowing",
        }
    }

    /// As messages have it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::InClusterQueue => "prioritization in the ClusterQueue",
            Self::Reclamation => "reclamation within the cohort",
            Self::ReclamationWhileBorrowing => "reclamation within the cohort while borrowing",
        }
    }
}

/// A Workload that needs room, and whose quota it may get.
pub(crate) struct Contest<'a> {
    /// The Workload.
    pub(crate) preemptor: &'a Workload,
    /// Its ClusterQueue.
    pub(crate) queue: &'a ClusterQueue,
    /// The node of that.
    pub(crate) node: NodeId,
    /// All that it takes.
    pub(crate) wanted: &'a Usage,
    /// What of that has no room.
    pub(crate) cells: &'a BTreeSet<Cell>,
    /// The Workloads that hold quota of the same tree.
    pub(crate) candidates: &'a [Candidate<'a>],
}

/// In which way a Workload may be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    SameQueue,
    Hierarchy,
    OnlyWithoutBorrowing,
    AlsoWhileBorrowing,
}

impl Way {
    fn cause(self) -> Cause {
        match self {
            Self::SameQueue => Cause::InClusterQueue,
            Self::Hierarchy | Self::OnlyWithoutBorrowing => Cause::Reclamation,
            Self::AlsoWhileBorrowing => Cause::ReclamationWhileBorrowing,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Choice {
    /// The place among the candidates.
    at: usize,
    way: Way,
    /// The smallest subtree that it shares with the preemptor.
    shared: Option<NodeId>,
}

/// The Workloads that have to leave so that this one fits, none too many; empty if that is not to
/// be had. The places of the candidates, and why each has to leave.
pub(crate) fn victims(contest: &Contest<'_>, tree: &Tree) -> Vec<(usize, Cause)> {
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
    found.next().unwrap_or_default()
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

    /// Workloads of other ClusterQueues: those against which the preemptor is nearer to the quota,
    /// and all others.
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

    fn may_be_preempted(&self, at: usize, policy: PreemptionPolicy) -> bool {
        let other = &self.candidates[at];
        let taken = |cell: &Cell| other.usage.has(cell);
        let lower = other.workload.spec.priority < self.preemptor.spec.priority;
        let equal = other.workload.spec.priority == self.preemptor.spec.priority;
        let newer = queued_since(self.preemptor) < queued_since(other.workload);
        let allowed = match policy {
            PreemptionPolicy::Never => false,
            PreemptionPolicy::LowerPriority => lower,
            PreemptionPolicy::LowerOrNewerEqualPriority => lower || equal && newer,
            PreemptionPolicy::Any => true,
        };
        let itself = other.workload.metadata.uid == self.preemptor.metadata.uid;
        allowed && !itself && self.cells.iter().any(taken)
    }

    /// Other ClusterQueues first, then by priority, then the latest to have got quota.
    fn sorted(&self, mut choices: Vec<Choice>) -> Vec<Choice> {
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

    /// Takes out one after the other until there is room; then puts back whoever need not go.
    fn attempt(
        &self,
        choices: &[Choice],
        borrowing: bool,
        tree: &Tree,
    ) -> Option<Vec<(usize, Cause)>> {
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
                let kept = self.spare(chosen, borrowing, &mut tree);
                return Some(kept.iter().map(|c| (c.at, c.way.cause())).collect());
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

    fn fits(&self, borrowing: bool, tree: &Tree) -> bool {
        let mut wanted = self.wanted.iter().filter(|(_, amount)| **amount != 0);
        wanted.all(|(cell, amount)| {
            (borrowing || !tree.borrows_with(self.node, cell, *amount))
                && *amount <= tree.available(self.node, cell)
        })
    }

    /// Leaves out, from the last chosen on, whoever need not go after all.
    fn spare(&self, mut chosen: Vec<Choice>, borrowing: bool, tree: &mut Tree) -> Vec<Choice> {
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
