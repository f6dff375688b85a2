//! Selection of victims under fair sharing.
//!
//! The rules are those of Kueue 0.19.2: `fairPreemptions` in
//! `pkg/scheduler/preemption/preemption.go`, and `pkg/scheduler/preemption/fairsharing`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::contest::{Choice, Contest, Way};
use super::share::Share;
use super::tree::{NodeId, Tree};
use crate::kueue::fair_sharing::FairSharing;
use crate::kueue::objects::PreemptionPolicy;

/// Returns the choices with which the preemptor fits, or none.
pub(super) fn choose(
    contest: &Contest<'_>,
    tree: &Tree,
    strategies: FairSharing,
) -> Option<Vec<Choice>> {
    let candidates = contest.sorted(contest.candidates_for_fairness(tree));
    if candidates.is_empty() {
        return None;
    }
    let mut search = Search {
        contest,
        tree: tree.clone(),
        chosen: Vec::new(),
    };
    // The shares include the preemptor.
    search.tree.add(contest.node, contest.wanted);
    let retried = search.first(&candidates, strategies);
    let fits = search.fits() || strategies == FairSharing::Both && search.second(&retried);
    if !fits {
        return None;
    }
    search.tree.remove(contest.node, contest.wanted);
    Some(contest.restore_unneeded(search.chosen, true, &mut search.tree))
}

struct Search<'a> {
    contest: &'a Contest<'a>,
    /// The quota, with the preemptor and without the choices.
    tree: Tree,
    chosen: Vec<Choice>,
}

impl Search<'_> {
    /// Applies the first strategy until the preemptor fits. Returns the candidates that it does not
    /// allow.
    fn first(&mut self, candidates: &[Choice], strategies: FairSharing) -> Vec<Choice> {
        let contest = self.contest;
        let mut order = Order::new(contest, candidates, &self.tree);
        let mut retried = Vec::new();
        let within_nominal =
            contest.nominal_first && self.tree.is_within_nominal(contest.node, contest.cells);
        while let Some(queue) = order.next_queue(&self.tree) {
            if queue == contest.node || within_nominal {
                let way = if queue == contest.node {
                    Way::SameQueue
                } else {
                    Way::Hierarchy
                };
                if let Some(choice) = order.pop(queue)
                    && self.take(choice, way)
                {
                    return retried;
                }
                continue;
            }
            let (mine, theirs) = order.nodes_below_common(&self.tree, queue);
            let (share, before) = (self.tree.share(mine), self.tree.share(theirs));
            if share.is_infinite() && !before.is_infinite() {
                retried.extend(order.pop_all(queue));
                continue;
            }
            while let Some(choice) = order.pop(queue) {
                if !self.allows(strategies, &share, &before, (theirs, choice)) {
                    retried.push(choice);
                    continue;
                }
                if self.take(choice, Way::Fairly) {
                    return retried;
                }
                // Another ClusterQueue may have the largest share now.
                break;
            }
        }
        retried
    }

    /// Applies the second strategy, `LessThanInitialShare`, once for each ClusterQueue. Returns
    /// true if the preemptor fits.
    fn second(&mut self, candidates: &[Choice]) -> bool {
        let mut order = Order::new(self.contest, candidates, &self.tree);
        while let Some(queue) = order.next_queue(&self.tree) {
            let (mine, theirs) = order.nodes_below_common(&self.tree, queue);
            let lower = self.tree.share(mine).compare(&self.tree.share(theirs)) == Ordering::Less;
            if let Some(choice) = order.pop(queue).filter(|_| lower)
                && self.take(choice, Way::Fairly)
            {
                return true;
            }
            order.pruned.insert(queue);
        }
        false
    }

    /// Returns true if the first strategy allows the preemption.
    fn allows(
        &mut self,
        strategies: FairSharing,
        mine: &Share,
        before: &Share,
        (theirs, choice): (NodeId, Choice),
    ) -> bool {
        if strategies == FairSharing::InitialShare {
            return mine.compare(before) == Ordering::Less;
        }
        let candidate = &self.contest.candidates[choice.at];
        self.tree.remove(candidate.queue, &candidate.usage);
        let after = self.tree.share(theirs);
        self.tree.add(candidate.queue, &candidate.usage);
        mine.compare(&after) != Ordering::Greater
    }

    /// Adds a choice. Returns true if the preemptor fits now.
    fn take(&mut self, choice: Choice, way: Way) -> bool {
        let candidate = &self.contest.candidates[choice.at];
        self.tree.remove(candidate.queue, &candidate.usage);
        self.chosen.push(Choice { way, ..choice });
        self.fits()
    }

    fn fits(&mut self) -> bool {
        self.tree.remove(self.contest.node, self.contest.wanted);
        let fits = self.contest.fits(true, &self.tree);
        self.tree.add(self.contest.node, self.contest.wanted);
        fits
    }
}

/// The order in which ClusterQueues have to give up Workloads.
struct Order {
    /// The preemptor's ClusterQueue.
    node: NodeId,
    /// The cohorts above it.
    above: BTreeSet<NodeId>,
    /// The positions of candidates in the sorted list, by ClusterQueue.
    waiting: BTreeMap<NodeId, VecDeque<(usize, Choice)>>,
    /// Whether a node is idle only if it borrows nothing, not even what can't be lent.
    nominal_first: bool,
    /// The nodes that will give up nothing more.
    pruned: BTreeSet<NodeId>,
}

impl Order {
    fn new(contest: &Contest<'_>, candidates: &[Choice], tree: &Tree) -> Self {
        let mut waiting: BTreeMap<NodeId, VecDeque<(usize, Choice)>> = BTreeMap::new();
        for (position, choice) in candidates.iter().enumerate() {
            let queue = contest.candidates[choice.at].queue;
            let of_queue = waiting.entry(queue).or_default();
            of_queue.push_back((position, *choice));
        }
        Self {
            node: contest.node,
            above: tree.path(contest.node).collect(),
            waiting,
            nominal_first: contest.nominal_first,
            pruned: BTreeSet::new(),
        }
    }

    /// Returns the position of the first candidate of a ClusterQueue.
    fn first_of(&self, queue: NodeId) -> Option<usize> {
        let (position, _) = self.waiting.get(&queue)?.front()?;
        Some(*position)
    }

    fn is_idle(&self, share: &Share) -> bool {
        if self.nominal_first {
            !share.borrows()
        } else {
            share.is_zero()
        }
    }

    fn pop(&mut self, queue: NodeId) -> Option<Choice> {
        let (_, choice) = self.waiting.get_mut(&queue)?.pop_front()?;
        Some(choice)
    }

    fn pop_all(&mut self, queue: NodeId) -> impl Iterator<Item = Choice> {
        let all = self.waiting.remove(&queue).unwrap_or_default();
        all.into_iter().map(|(_, choice)| choice)
    }

    /// Returns the ClusterQueue that has to give up a Workload next.
    fn next_queue(&mut self, tree: &Tree) -> Option<NodeId> {
        let Some(root) = tree.path(self.node).last() else {
            let dropped = self.pruned.contains(&self.node);
            return Some(self.node).filter(|node| !dropped && self.first_of(*node).is_some());
        };
        while !self.pruned.contains(&root) {
            if let Some(queue) = self.largest(root, tree) {
                return Some(queue);
            }
        }
        None
    }

    /// Returns the ClusterQueue with the largest share below the child with the largest share.
    /// Returns `None` if this only pruned nodes.
    fn largest(&mut self, cohort: NodeId, tree: &Tree) -> Option<NodeId> {
        let children: Vec<NodeId> = tree.children(cohort).collect();
        let (queues, cohorts): (Vec<NodeId>, Vec<NodeId>) = children
            .into_iter()
            .partition(|child| tree.is_queue(*child));
        let mut best_queue: Option<(Share, NodeId)> = None;
        for queue in queues {
            if self.pruned.contains(&queue) {
                continue;
            }
            let share = tree.share(queue);
            let position = self.first_of(queue);
            if self.is_idle(&share) && queue != self.node || position.is_none() {
                self.pruned.insert(queue);
                continue;
            }
            let better = best_queue.as_ref().is_none_or(|(best, other)| {
                let earlier = || position < self.first_of(*other);
                match share.compare(best) {
                    Ordering::Greater => true,
                    Ordering::Equal => earlier(),
                    Ordering::Less => false,
                }
            });
            if better {
                best_queue = Some((share, queue));
            }
        }
        let mut best_cohort: Option<(Share, NodeId)> = None;
        for child in cohorts {
            if self.pruned.contains(&child) {
                continue;
            }
            let share = tree.share(child);
            if self.is_idle(&share) && !self.above.contains(&child) {
                self.pruned.insert(child);
                continue;
            }
            let lower = |(best, _): &(Share, NodeId)| share.compare(best) == Ordering::Less;
            if !best_cohort.as_ref().is_some_and(lower) {
                best_cohort = Some((share, child));
            }
        }
        match (best_cohort, best_queue) {
            (None, None) => {
                self.pruned.insert(cohort);
                None
            }
            (None, Some((_, queue))) => Some(queue),
            (Some((share, _)), Some((best, queue))) if share.compare(&best) == Ordering::Less => {
                Some(queue)
            }
            (Some((_, child)), _) => self.largest(child, tree),
        }
    }

    /// Returns the nodes above the preemptor and above another ClusterQueue, or these themselves,
    /// whose parent is the lowest cohort that both have.
    fn nodes_below_common(&self, tree: &Tree, queue: NodeId) -> (NodeId, NodeId) {
        let common = tree.path(queue).find(|node| self.above.contains(node));
        let below = |node: NodeId| {
            let above = std::iter::once(node).chain(tree.path(node));
            let above = above.take_while(|node| Some(*node) != common);
            above.last().unwrap_or(node)
        };
        (below(self.node), below(queue))
    }
}

impl Contest<'_> {
    /// Returns the Workloads of the preemptor's ClusterQueue, and those of ClusterQueues of its
    /// cohorts that borrow the quota in question, as far as its policies allow.
    fn candidates_for_fairness(&self, tree: &Tree) -> Vec<Choice> {
        let policies = &self.queue.spec.preemption;
        let may_reclaim =
            policies.reclaim_within_cohort != PreemptionPolicy::Never && tree.has_parent(self.node);
        let borrows = |queue| tree.has_parent(queue) && !tree.is_within_nominal(queue, self.cells);
        let usable = (0..self.candidates.len()).filter(|at| {
            let queue = self.candidates[*at].queue;
            if queue == self.node {
                return self.may_be_preempted(*at, policies.within_cluster_queue);
            }
            may_reclaim
                && borrows(queue)
                && self.may_be_preempted(*at, policies.reclaim_within_cohort)
        });
        usable
            .map(|at| Choice {
                at,
                way: Way::Fairly,
                shared: None,
            })
            .collect()
    }
}
