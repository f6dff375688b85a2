//! Nodes, and the placement of pods on them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::condition::after;
use super::shape::{Shape, Taint, amounts};

/// A pool of identical nodes, to which the autoscaler may add some.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use kueue_check_sim::autoscaler::{BEST_EFFORT_ATOMIC, NodePool, Profile, Settings};
///
/// let pool = NodePool::new("pool", &[("cpu", "8"), ("memory", "32Gi")], 1, 2);
/// let settings = Settings::new(Profile::Oss137, [pool]);
/// // The conditions written in a minute for requests for pods of one CPU: two nodes are enough for the first, and there are never three.
/// let written = written_conditions(settings, &[("fits", BEST_EFFORT_ATOMIC, 16), ("never", BEST_EFFORT_ATOMIC, 17)], 1);
/// assert!(written[1].ends_with("fits Provisioned=True CapacityIsProvisioned"));
/// assert!(written[3].ends_with("never Provisioned=False CapacityIsNotFound"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    pub(super) name: String,
    pub(super) allocatable: BTreeMap<String, i64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) current: u32,
    pub(super) max: u32,
    pub(super) node_delay: Option<Duration>,
}

impl NodePool {
    /// Creates a pool of `current` nodes that may grow to `max`.
    ///
    /// Each node has `allocatable` resources, such as `[("cpu", "8"), ("memory", "32Gi")]`.
    /// Resources without an entry, or with an invalid Kubernetes quantity, are absent. New nodes
    /// are ready after 2 minutes.
    pub fn new(name: &str, allocatable: &[(&str, &str)], current: u32, max: u32) -> Self {
        let resources: BTreeMap<_, _> = allocatable.iter().copied().collect();
        Self {
            name: name.to_owned(),
            allocatable: amounts(&json!(resources)),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            current,
            max: max.max(current),
            node_delay: Some(Duration::from_secs(120)),
        }
    }

    /// Adds a label to its nodes.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint to its nodes, such as `("gpu", "true", "NoSchedule")`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        });
        self
    }

    /// Sets how long a new node takes to become ready; `None`: never.
    #[must_use]
    pub fn node_delay(mut self, delay: Option<Duration>) -> Self {
        self.node_delay = delay;
        self
    }

    fn takes(&self, shape: &Shape) -> bool {
        let labelled = |(key, value): (&String, &String)| self.labels.get(key) == Some(value);
        shape.node_selector.iter().all(labelled)
            && self.taints.iter().all(|taint| shape.tolerates(taint))
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    pool: usize,
    used: BTreeMap<String, i64>,
    /// The UID of the request for which it was added.
    added_for: Option<String>,
    /// When it becomes ready; `None`: never.
    ready: Option<Timestamp>,
    unneeded_since: Option<Timestamp>,
}

/// The nodes of a cluster, with the used resources of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    pools: Vec<NodePool>,
    nodes: Vec<Node>,
}

impl Nodes {
    /// Creates the initial nodes of `pools`: ready and empty.
    pub fn new(pools: &[NodePool]) -> Self {
        let mut nodes = Self {
            pools: pools.to_vec(),
            nodes: Vec::new(),
        };
        for (number, pool) in pools.iter().enumerate() {
            nodes.add(number, pool.current, None, Some(Timestamp::MIN));
        }
        nodes
    }

    /// Returns the number of nodes of a pool, and how many of them are ready at `now`.
    pub fn count(&self, pool: &str, now: Timestamp) -> (usize, usize) {
        let of_pool = || {
            let nodes = self.nodes.iter();
            nodes.filter(|node| self.pools[node.pool].name == pool)
        };
        let ready = of_pool().filter(|node| node.ready.is_some_and(|ready| ready <= now));
        (of_pool().count(), ready.count())
    }

    /// Places as many of `count` pods as fit, first fit; returns the number of pods left.
    pub(super) fn place(&mut self, shape: &Shape, count: u64) -> u64 {
        let mut left = count;
        for node in &mut self.nodes {
            if left == 0 {
                break;
            }
            let pool = &self.pools[node.pool];
            if pool.takes(shape) {
                let fit = node.free(&pool.allocatable, shape).min(left);
                node.take(shape, fit);
                left -= fit;
            }
        }
        left
    }

    /// Places all `pods` on the nodes, or none; returns true if they fit.
    pub(super) fn place_all(&mut self, pods: &[(Shape, u64)]) -> bool {
        let mut tried = self.clone();
        let fit = pods
            .iter()
            .all(|(shape, count)| tried.place(shape, *count) == 0);
        if fit {
            *self = tried;
        }
        fit
    }

    /// Places all `pods` after adding nodes of one pool, the first with which that is possible.
    /// Pods that fit without new nodes do not affect the choice. Returns true if a pool was found.
    pub(super) fn grow_for(
        &mut self,
        pods: &[(Shape, u64)],
        request: &str,
        now: Timestamp,
        never_ready: bool,
    ) -> bool {
        for pool in 0..self.pools.len() {
            let mut tried = self.clone();
            if tried.grow_pool(pool, pods, request, now, never_ready) {
                *self = tried;
                return true;
            }
        }
        false
    }

    fn grow_pool(
        &mut self,
        pool: usize,
        pods: &[(Shape, u64)],
        request: &str,
        now: Timestamp,
        never_ready: bool,
    ) -> bool {
        let delay = self.pools[pool].node_delay.filter(|_| !never_ready);
        let ready = delay.map(|delay| after(now, delay));
        for (shape, count) in pods {
            let mut left = self.place(shape, *count);
            while left > 0 {
                let size = self.nodes.iter().filter(|node| node.pool == pool).count();
                if size >= self.pools[pool].max as usize {
                    return false;
                }
                self.add(pool, 1, Some(request), ready);
                let before = left;
                left = self.place(shape, left);
                if left == before {
                    return false;
                }
            }
        }
        true
    }

    fn add(&mut self, pool: usize, count: u32, added_for: Option<&str>, ready: Option<Timestamp>) {
        let node = Node {
            pool,
            used: BTreeMap::new(),
            added_for: added_for.map(str::to_owned),
            ready,
            unneeded_since: None,
        };
        let nodes = std::iter::repeat_n(node, count as usize);
        self.nodes.extend(nodes);
    }

    /// Removes the nodes that were added for a request.
    pub(super) fn remove_of(&mut self, request: &str) {
        self.nodes
            .retain(|node| node.added_for.as_deref() != Some(request));
    }

    /// Resets the used resources of all nodes.
    pub(super) fn clear(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.used.clear());
    }

    /// Removes added nodes that were empty for `delay`; returns when the next one is due.
    pub(super) fn scale_down(&mut self, delay: Duration, now: Timestamp) -> Option<Timestamp> {
        for node in &mut self.nodes {
            let idle = node.added_for.is_some() && node.used.is_empty();
            node.unneeded_since = idle.then(|| node.unneeded_since.unwrap_or(now));
        }
        let end = |node: &Node| node.unneeded_since.map(|since| after(since, delay));
        self.nodes
            .retain(|node| end(node).is_none_or(|end| end > now));
        self.nodes.iter().filter_map(end).min()
    }
}

impl Node {
    /// Returns how many more such pods fit.
    fn free(&self, allocatable: &BTreeMap<String, i64>, shape: &Shape) -> u64 {
        let needs = shape.requests.iter().filter(|(_, amount)| **amount > 0);
        let counts = needs.map(|(resource, amount)| {
            let all = allocatable.get(resource).copied().unwrap_or(0);
            let used = self.used.get(resource).copied().unwrap_or(0);
            u64::try_from((all - used) / amount).unwrap_or(0)
        });
        counts.min().unwrap_or(u64::MAX)
    }

    fn take(&mut self, shape: &Shape, count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        for (resource, amount) in &shape.requests {
            if count > 0 {
                let used = self.used.entry(resource.clone()).or_insert(0);
                *used = used.saturating_add(amount.saturating_mul(count));
            }
        }
    }
}
