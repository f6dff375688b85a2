//! Selection of victims for preemption.
//!
//! The rules are those of Kueue 0.19.2: `pkg/scheduler/preemption/preemption.go` and
//! `pkg/scheduler/preemption/classical`.

use super::contest::{Cause, Choice, Contest, Way};
use super::preempt_fairly;
use super::tree::{NodeId, Tree};
use crate::kueue::objects::{PreemptionPolicy, Workload};

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
                return Some(self.restore_unneeded(chosen, borrowing, &mut tree));
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
}
