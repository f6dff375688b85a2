//! Dominant resource shares, and the order of Workloads that share quota fairly.
//!
//! The rules are those of Kueue 0.19.2: `pkg/cache/scheduler/fair_sharing.go` and
//! `pkg/scheduler/fair_sharing_iterator.go`.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::tree::{NodeId, Tree};
use super::usage::{Cell, Usage};

/// The dominant resource share of a node: the largest part that it borrows of what its parent can
/// lend of a resource, in thousandths, divided by its weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    weight: f64,
    /// The part without the weight.
    ratio: f64,
    /// The cells of which it borrows.
    borrowed: BTreeSet<Cell>,
}

impl Share {
    /// Returns true if quota is borrowed, even of a resource of which nothing can be lent.
    pub(super) fn borrows(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// Returns true if none of the quota that can be lent is borrowed.
    pub(super) fn is_zero(&self) -> bool {
        self.ratio == 0.0
    }

    /// Returns true if the weight is 0 and quota is borrowed.
    pub(super) fn is_infinite(&self) -> bool {
        self.weight == 0.0 && self.ratio != 0.0
    }

    fn borrows_any_of(&self, wanted: &Usage) -> bool {
        self.borrowed.iter().any(|cell| wanted.at(cell) > 0)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let weighted = |share: &Self| match share.ratio {
            0.0 => 0.0,
            ratio => ratio / share.weight,
        };
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) => self.ratio.total_cmp(&other.ratio),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => weighted(self).total_cmp(&weighted(other)),
        }
    }
}

impl Tree {
    /// Returns the share of a ClusterQueue or cohort as its status shows it: in thousandths,
    /// divided by the weight and rounded up. With a weight of 0 any share is the largest number
    /// (Kueue 0.15.0 to 0.19.2, `WeightedShare` in `pkg/controller/core/helpers.go`).
    pub(crate) fn weighted_share(&self, node: NodeId) -> i64 {
        if self.has_cycle(node) {
            return 0;
        }
        let share = self.share(node);
        if share.is_infinite() {
            return i64::MAX;
        }
        if share.is_zero() {
            return 0;
        }
        #[expect(clippy::cast_possible_truncation, reason = "Kueue converts it so, too")]
        let rounded = (share.ratio / share.weight).ceil() as i64;
        rounded
    }

    /// Returns the share of a node with its present usage. Without a parent it borrows nothing.
    pub(super) fn share(&self, node: NodeId) -> Share {
        let mut share = Share {
            weight: self.weight(node),
            ratio: 0.0,
            borrowed: BTreeSet::new(),
        };
        let Some(parent) = self.path(node).next() else {
            return share;
        };
        let mut by_resource: BTreeMap<&str, i64> = BTreeMap::new();
        for (cell, quota) in self.subtree(node).iter() {
            let beyond = self.usage(node, cell).saturating_sub(*quota);
            if beyond > 0 {
                let sum = by_resource.entry(&cell.1).or_default();
                *sum = sum.saturating_add(beyond);
                share.borrowed.insert(cell.clone());
            }
        }
        let root = self.path(node).last().unwrap_or(parent);
        for (resource, borrowed) in by_resource {
            let cells = self.subtree(root).iter().map(|(cell, _)| cell);
            let of_resource = cells.filter(|cell| cell.1 == resource);
            let lendable = of_resource.map(|cell| self.potential(parent, cell));
            let lendable = lendable.fold(0, i64::saturating_add);
            if lendable > 0 {
                #[expect(clippy::cast_precision_loss, reason = "Kueue divides floats, too")]
                let ratio = borrowed as f64 * 1000.0 / lendable as f64;
                share.ratio = share.ratio.max(ratio);
            }
        }
        share
    }
}

/// A Workload that waits for its turn in a cycle.
pub(crate) struct Contender<'a> {
    /// The node of its ClusterQueue.
    pub(crate) node: NodeId,
    /// The quota that it requests.
    pub(crate) wanted: &'a Usage,
    /// Its priority.
    pub(crate) priority: i64,
    /// The time since which it waits.
    pub(crate) since: Timestamp,
    /// The order of arrival.
    pub(crate) arrival: u64,
}

/// Returns the index of the Workload to process next: in each cohort, from the lowest to the root,
/// the best one of a child wins. `nominal_first`: those that borrow nothing come first.
pub(crate) fn fairest(
    contenders: &[Contender<'_>],
    tree: &Tree,
    nominal_first: bool,
) -> Option<usize> {
    let first = contenders.first()?;
    let Some(root) = tree.path(first.node).last() else {
        return Some(0);
    };
    let mut with = tree.clone();
    let shares = contenders.iter().map(|contender| {
        with.add(contender.node, contender.wanted);
        let below = std::iter::once(contender.node).chain(tree.path(contender.node));
        let shares = below.map(|node| (node, with.share(node))).collect();
        with.remove(contender.node, contender.wanted);
        shares
    });
    let tournament = Tournament {
        contenders,
        shares: shares.collect(),
        tree,
        nominal_first,
    };
    let (winner, _) = tournament.winner(root)?;
    Some(winner)
}

struct Tournament<'a> {
    contenders: &'a [Contender<'a>],
    /// The shares of each contender's ClusterQueue and cohorts, with its request.
    shares: Vec<BTreeMap<NodeId, Share>>,
    tree: &'a Tree,
    nominal_first: bool,
}

impl Tournament<'_> {
    /// Returns the best contender below a cohort, and the child of the cohort to which it belongs.
    fn winner(&self, cohort: NodeId) -> Option<(usize, NodeId)> {
        let children = self.tree.children(cohort);
        let of_children = children.filter_map(|child| {
            if self.tree.is_queue(child) {
                let at = self.contenders.iter().position(|c| c.node == child)?;
                return Some((at, child));
            }
            self.winner(child).map(|(at, _)| (at, child))
        });
        of_children.min_by(|one, other| self.compare(*one, *other))
    }

    /// Compares two candidates of a cohort. Those of its child cohorts are the first of equal ones,
    /// whatever their order of arrival (Kueue 0.15.0 to 0.19.2, `runTournament` in
    /// `pkg/scheduler/fair_sharing_iterator.go`).
    fn compare(&self, one: (usize, NodeId), other: (usize, NodeId)) -> Ordering {
        let share = |(at, child): (usize, NodeId)| self.shares[at].get(&child);
        let contender = |(at, _): (usize, NodeId)| &self.contenders[at];
        let borrows = |it| {
            let any = |share: &Share| share.borrows_any_of(contender(it).wanted);
            self.nominal_first && share(it).is_some_and(any)
        };
        let rest = |(at, child): (usize, NodeId)| {
            let contender = &self.contenders[at];
            (
                Reverse(contender.priority),
                contender.since,
                self.tree.is_queue(child),
                contender.arrival,
            )
        };
        let by_share = || match share(one).zip(share(other)) {
            Some((one, other)) => one.compare(other),
            None => Ordering::Equal,
        };
        borrows(one)
            .cmp(&borrows(other))
            .then_with(by_share)
            .then_with(|| rest(one).cmp(&rest(other)))
    }
}
