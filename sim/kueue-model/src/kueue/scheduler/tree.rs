//! The quota tree: ClusterQueues are leaves, cohorts the nodes above them.
//!
//! The rules are those of Kueue 0.19.2: `pkg/cache/scheduler/resource_node.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::usage::{Cell, Usage};
use crate::kueue::objects::{ClusterQueue, Cohort, ResourceGroup, amount_of};

/// A node of a tree.
pub(crate) type NodeId = usize;

/// The quota of a node for a resource of a flavor, with its borrowing and lending limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(super) nominal: i64,
    borrowing: Option<i64>,
    lending: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    name: String,
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    is_queue: bool,
    /// A ClusterQueue that admits no Workloads: its quota counts, but it is no leaf.
    is_inactive: bool,
    quotas: BTreeMap<Cell, Quota>,
    /// Its weight for fair sharing; `None`: 1.
    weight: Option<f64>,
    /// Its own quota plus the quota that its children lend.
    subtree: Usage,
    /// The total usage of a ClusterQueue; for a cohort, the usage of its children beyond their
    /// local quota.
    usage: Usage,
}

/// All ClusterQueues and cohorts with their quota and usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    queues: BTreeMap<String, NodeId>,
}

impl Tree {
    /// Builds the tree of these ClusterQueues. A cohort exists if it is named, with or without an
    /// object of its name.
    pub(crate) fn new(
        queues: &BTreeMap<String, ClusterQueue>,
        cohorts: &BTreeMap<String, Cohort>,
        taken: &BTreeMap<String, Usage>,
    ) -> Self {
        let mut tree = Self::default();
        let mut known: BTreeMap<&str, NodeId> = BTreeMap::new();
        for (name, cohort) in cohorts {
            let node = tree.cohort(&mut known, name);
            tree.nodes[node].quotas = quotas(&cohort.spec.resource_groups);
            tree.nodes[node].weight = cohort.spec.fair_sharing.weight();
            if let Some(parent) = named(&cohort.spec.parent_name) {
                let parent = tree.cohort(&mut known, parent);
                tree.nodes[node].parent = Some(parent);
            }
        }
        for (name, queue) in queues {
            let parent = named(&queue.spec.cohort_name);
            let parent = parent.map(|parent| tree.cohort(&mut known, parent));
            let node = Node {
                name: name.clone(),
                parent,
                is_queue: true,
                quotas: quotas(&queue.spec.resource_groups),
                weight: queue.spec.fair_sharing.weight(),
                usage: taken.get(name).cloned().unwrap_or_default(),
                ..Node::default()
            };
            tree.queues.insert(name.clone(), tree.nodes.len());
            tree.nodes.push(node);
        }
        for node in 0..tree.nodes.len() {
            if let Some(parent) = tree.nodes[node].parent {
                tree.nodes[parent].children.push(node);
            }
        }
        for root in 0..tree.nodes.len() {
            if tree.nodes[root].parent.is_none() {
                tree.accumulate(root);
            }
        }
        tree
    }

    /// Excludes a ClusterQueue from [`borrowing_height`]; its quota still counts.
    ///
    /// [`borrowing_height`]: Self::borrowing_height
    pub(crate) fn deactivate(&mut self, name: &str) {
        if let Some(node) = self.queues.get(name) {
            self.nodes[*node].is_inactive = true;
        }
    }

    fn cohort<'a>(&mut self, known: &mut BTreeMap<&'a str, NodeId>, name: &'a str) -> NodeId {
        *known.entry(name).or_insert_with(|| {
            self.nodes.push(Node {
                name: name.to_owned(),
                ..Node::default()
            });
            self.nodes.len() - 1
        })
    }

    /// Sums up the quota and usage of the children of a node. Usage without quota, which a
    /// ClusterQueue has after it has lost a flavor, adds no quota of zero: it is not borrowed
    /// (`accumulateFromChild`).
    fn accumulate(&mut self, node: NodeId) {
        let own = &self.nodes[node].quotas;
        let mut subtree = Usage::default();
        for (cell, quota) in own {
            subtree.add(cell, quota.nominal);
        }
        self.nodes[node].subtree = subtree;
        for child in self.nodes[node].children.clone() {
            self.accumulate(child);
            let Node { subtree, usage, .. } = &self.nodes[child];
            let (subtree, usage) = (subtree.clone(), usage.clone());
            for (cell, quota) in subtree.iter() {
                let lent = quota.saturating_sub(self.local_quota(child, cell));
                self.nodes[node].subtree.add(cell, lent);
            }
            for (cell, used) in usage.iter() {
                let beyond = used.saturating_sub(self.local_quota(child, cell));
                self.nodes[node].usage.add(cell, beyond.max(0));
            }
        }
    }

    /// Returns the node of a ClusterQueue.
    pub(crate) fn queue(&self, name: &str) -> Option<NodeId> {
        self.queues.get(name).copied()
    }

    /// Returns the node of a cohort.
    pub(crate) fn cohort_of(&self, name: &str) -> Option<NodeId> {
        let mut nodes = self.nodes.iter();
        nodes.position(|node| !node.is_queue && node.name == name)
    }

    /// Returns true if a node is in a cohort.
    pub(super) fn has_parent(&self, node: NodeId) -> bool {
        self.nodes[node].parent.is_some()
    }

    /// Returns the cohorts above a node, nearest first.
    pub(super) fn path(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let next = |node: &NodeId| self.nodes[*node].parent;
        // A chain longer than the number of nodes is a cycle.
        std::iter::successors(next(&node), next).take(self.nodes.len())
    }

    /// Returns true if the cohorts above a ClusterQueue form a cycle.
    pub(crate) fn has_cycle(&self, node: NodeId) -> bool {
        let mut seen = BTreeSet::new();
        self.path(node).any(|above| !seen.insert(above))
    }

    /// Returns the names of the ClusterQueues that share quota with this one, itself included.
    pub(crate) fn relatives(&self, name: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::from([name.to_owned()]);
        let Some(node) = self.queue(name).filter(|node| !self.has_cycle(*node)) else {
            return found;
        };
        let root = self.path(node).last().unwrap_or(node);
        let mut todo = vec![root];
        while let Some(node) = todo.pop() {
            todo.extend(&self.nodes[node].children);
            if self.nodes[node].is_queue {
                found.insert(self.nodes[node].name.clone());
            }
        }
        found
    }

    /// Returns the path of a ClusterQueue, `/root/cohort/queue`.
    pub(crate) fn path_text(&self, name: &str) -> String {
        let Some(node) = self.queue(name) else {
            return format!("/{name}");
        };
        let above = self.path(node).map(|n| self.nodes[n].name.as_str());
        let mut parts: Vec<&str> = above.collect();
        parts.reverse();
        parts.push(name);
        format!("/{}", parts.join("/"))
    }

    pub(super) fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.nodes[node].children.iter().copied()
    }

    pub(super) fn is_queue(&self, node: NodeId) -> bool {
        self.nodes[node].is_queue
    }

    pub(super) fn quota(&self, node: NodeId, cell: &Cell) -> Quota {
        let quota = self.nodes[node].quotas.get(cell);
        quota.copied().unwrap_or_default()
    }

    pub(super) fn usage(&self, node: NodeId, cell: &Cell) -> i64 {
        self.nodes[node].usage.at(cell)
    }

    /// Returns the quota of a node, with what its children lend.
    pub(super) fn subtree(&self, node: NodeId) -> &Usage {
        &self.nodes[node].subtree
    }

    pub(super) fn weight(&self, node: NodeId) -> f64 {
        self.nodes[node].weight.unwrap_or(1.0)
    }

    /// Returns the quota that a node never lends.
    fn local_quota(&self, node: NodeId, cell: &Cell) -> i64 {
        let lending = self.quota(node, cell).lending;
        let subtree = self.nodes[node].subtree.at(cell);
        lending.map_or(0, |limit| subtree.saturating_sub(limit).max(0))
    }

    pub(super) fn local_available(&self, node: NodeId, cell: &Cell) -> i64 {
        let local = self.local_quota(node, cell);
        local.saturating_sub(self.usage(node, cell)).max(0)
    }

    /// Returns the available quota of a ClusterQueue, including its cohort's.
    pub(super) fn available(&self, node: NodeId, cell: &Cell) -> i64 {
        self.left(node, cell).max(0)
    }

    fn left(&self, node: NodeId, cell: &Cell) -> i64 {
        let Node {
            parent,
            subtree,
            usage,
            ..
        } = &self.nodes[node];
        let (subtree, usage) = (subtree.at(cell), usage.at(cell));
        let Some(parent) = parent else {
            return subtree.saturating_sub(usage);
        };
        let mut above = self.left(*parent, cell);
        if let Some(limit) = self.quota(node, cell).borrowing {
            let local = self.local_quota(node, cell);
            let stored = subtree.saturating_sub(local);
            let used = usage.saturating_sub(local).max(0);
            above = above.min(stored.saturating_sub(used).saturating_add(limit));
        }
        self.local_available(node, cell).saturating_add(above)
    }

    /// Returns the quota that would be available to a ClusterQueue without any usage.
    pub(super) fn potential(&self, node: NodeId, cell: &Cell) -> i64 {
        let subtree = self.nodes[node].subtree.at(cell);
        let Some(parent) = self.nodes[node].parent else {
            return subtree;
        };
        let above = self.potential(parent, cell);
        let all = self.local_quota(node, cell).saturating_add(above);
        match self.quota(node, cell).borrowing {
            Some(limit) => all.min(subtree.saturating_add(limit)),
            None => all,
        }
    }

    /// Returns true if a node would exceed its own quota with this much more.
    pub(super) fn borrows_with(&self, node: NodeId, cell: &Cell, more: i64) -> bool {
        self.nodes[node].subtree.at(cell) < self.usage(node, cell).saturating_add(more)
    }

    /// Adds usage.
    pub(crate) fn add(&mut self, node: NodeId, usage: &Usage) {
        for (cell, amount) in usage.iter() {
            self.add_cell(node, cell, *amount);
        }
    }

    /// Removes usage.
    pub(crate) fn remove(&mut self, node: NodeId, usage: &Usage) {
        for (cell, amount) in usage.iter() {
            self.remove_cell(node, cell, *amount);
        }
    }

    fn add_cell(&mut self, node: NodeId, cell: &Cell, amount: i64) {
        let local = self.local_available(node, cell);
        self.nodes[node].usage.add(cell, amount);
        if let Some(parent) = self.nodes[node].parent.filter(|_| amount > local) {
            self.add_cell(parent, cell, amount - local);
        }
    }

    fn remove_cell(&mut self, node: NodeId, cell: &Cell, amount: i64) {
        let local = self.local_quota(node, cell);
        let in_parent = self.usage(node, cell).saturating_sub(local);
        self.nodes[node].usage.add(cell, amount.saturating_neg());
        if let Some(parent) = self.nodes[node].parent.filter(|_| in_parent > 0) {
            self.remove_cell(parent, cell, amount.min(in_parent));
        }
    }

    /// Returns the height up to which quota for this amount is borrowed; 0 is the ClusterQueue
    /// itself. Also returns true if that is not yet the whole tree.
    pub(crate) fn borrowing_height(&self, node: NodeId, cell: &Cell, amount: i64) -> (usize, bool) {
        if !self.borrows_with(node, cell, amount) || !self.has_parent(node) {
            return (0, self.has_parent(node));
        }
        let mut remaining = amount.saturating_sub(self.local_available(node, cell));
        let mut root = node;
        for above in self.path(node) {
            if !self.borrows_with(above, cell, remaining) {
                return (self.height(above), self.has_parent(above));
            }
            remaining = remaining.saturating_sub(self.local_available(above, cell));
            root = above;
        }
        (self.height(root), false)
    }

    /// Returns the distance from a cohort to its farthest leaf. ClusterQueues that admit no
    /// Workloads are not in the scheduler's snapshot (0.19.2, `skipInactiveCQReason` in
    /// `pkg/cache/scheduler/snapshot.go`).
    fn height(&self, node: NodeId) -> usize {
        let children = self.nodes[node].children.iter();
        let children = children.filter(|child| !self.nodes[**child].is_inactive);
        let above = |child: &NodeId| {
            if self.is_queue(*child) {
                1
            } else {
                self.height(*child) + 1
            }
        };
        children.map(above).max().unwrap_or(0)
    }

    /// Returns true if this much is within a node's own quota, and the part that its parent must
    /// provide.
    pub(super) fn fits_in_quota(&self, node: NodeId, wanted: &Usage) -> (bool, Usage) {
        let mut fits = true;
        let mut remaining = Usage::default();
        for (cell, amount) in wanted.iter() {
            fits &= !self.borrows_with(node, cell, *amount);
            let local = self.local_available(node, cell);
            remaining.add(cell, amount.saturating_sub(local).max(0));
        }
        (fits, remaining)
    }

    /// Returns true if a node exceeds its own quota in none of these cells.
    pub(super) fn is_within_nominal(&self, node: NodeId, cells: &BTreeSet<Cell>) -> bool {
        cells.iter().all(|cell| !self.borrows_with(node, cell, 0))
    }

    /// Returns the quota kept for a Workload while others are being preempted.
    pub(crate) fn reservation(&self, node: NodeId, wanted: &Usage, borrows: bool) -> Usage {
        let mut kept = Usage::default();
        for (cell, amount) in wanted.iter() {
            let quota = self.quota(node, cell);
            let limit = match quota.borrowing {
                None if borrows => i64::MAX,
                Some(limit) if borrows => quota.nominal.saturating_add(limit),
                _ => quota.nominal,
            };
            let left = limit.saturating_sub(self.usage(node, cell));
            let least = if borrows { i64::MIN } else { 0 };
            kept.add(cell, left.min(*amount).max(least));
        }
        kept
    }

    /// Returns true if this much fits in the available quota.
    pub(crate) fn fits(&self, node: NodeId, wanted: &Usage) -> bool {
        let mut cells = wanted.iter();
        cells.all(|(cell, amount)| self.available(node, cell) >= *amount)
    }
}

fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

fn quotas(groups: &[ResourceGroup]) -> BTreeMap<Cell, Quota> {
    let flavors = groups.iter().flat_map(|group| &group.flavors);
    let each = flavors.flat_map(|flavor| {
        flavor.resources.iter().map(|resource| {
            let amount = |value: &Value| amount_of(&resource.name, value);
            let limit = |value: &Option<Value>| value.as_ref().and_then(amount);
            let quota = Quota {
                nominal: amount(&resource.nominal_quota).unwrap_or_default(),
                borrowing: limit(&resource.borrowing_limit),
                lending: limit(&resource.lending_limit),
            };
            ((flavor.name.clone(), resource.name.clone()), quota)
        })
    });
    each.collect()
}
