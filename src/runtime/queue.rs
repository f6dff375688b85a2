//! The work queue: lanes by urgency, ClusterQueues in turn.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use tokio::time::Instant;

use crate::api::Name;

/// The urgency of a key's next task. Earlier lanes go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// A cleanup: it frees what others wait for.
    Release,
    /// A reservation that was approved before this term. A check that keeps its state in memory
    /// restores its allocations from these, so they come before anything new.
    Restore,
    /// A reservation without a verdict: a job waits for it.
    New,
    /// A reservation that is rechecked.
    Recheck,
}

impl Lane {
    pub(crate) const ALL: [Self; 4] = [Self::Release, Self::Restore, Self::New, Self::Recheck];

    /// Returns the label for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Restore => "restore",
            Self::New => "new",
            Self::Recheck => "recheck",
        }
    }
}

/// A work queue of keys, each at most once. First come, first served within a ClusterQueue;
/// ClusterQueues take turns, so that one with 10,000 Workloads does not delay one with two.
#[derive(Clone)]
pub(crate) struct Queue<K> {
    lanes: BTreeMap<Lane, Turns<K>>,
    waiting: BTreeMap<K, Ticket>,
    next_ticket: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ticket {
    lane: Lane,
    number: u64,
    since: Instant,
}

/// The ClusterQueues of one lane, in the order of their turns.
#[derive(Clone, Debug)]
struct Turns<K> {
    order: VecDeque<Name>,
    keys: BTreeMap<Name, VecDeque<(K, u64)>>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            keys: BTreeMap::new(),
        }
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            lanes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
        }
    }
}

impl<K: Ord + Clone + fmt::Debug> fmt::Debug for Queue<K> {
    /// Lists the keys, in their order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut queue = self.clone();
        let keys = std::iter::from_fn(|| queue.pop(Lane::Recheck));
        f.debug_list().entries(keys).finish()
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Enqueues `key` for `cluster_queue`. A queued key keeps its position, unless `lane` is more
    /// urgent.
    pub(crate) fn push(&mut self, key: K, lane: Lane, cluster_queue: &Name, now: Instant) {
        let since = match self.waiting.get(&key) {
            Some(ticket) if ticket.lane <= lane => return,
            Some(ticket) => ticket.since,
            None => now,
        };
        let number = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(
            key.clone(),
            Ticket {
                lane,
                number,
                since,
            },
        );
        let turns = self.lanes.entry(lane).or_default();
        let line = turns.keys.entry(cluster_queue.clone()).or_default();
        if line.is_empty() {
            turns.order.push_back(cluster_queue.clone());
        }
        line.push_back((key, number));
    }

    /// Removes `key`.
    pub(crate) fn remove(&mut self, key: &K) {
        // Its entry is skipped when its turn comes.
        self.waiting.remove(key);
    }

    /// Returns the next key of a lane at least as urgent as `last`.
    pub(crate) fn pop(&mut self, last: Lane) -> Option<(K, Lane)> {
        for lane in Lane::ALL.into_iter().filter(|lane| *lane <= last) {
            let Some(turns) = self.lanes.get_mut(&lane) else {
                continue;
            };
            while let Some((key, number)) = turns.next() {
                if self
                    .waiting
                    .get(&key)
                    .is_some_and(|ticket| ticket.number == number)
                {
                    self.waiting.remove(&key);
                    return Some((key, lane));
                }
            }
        }
        None
    }

    /// Returns how many keys wait in each lane, and since when the oldest has waited.
    pub(crate) fn depths(&self) -> [(Lane, usize, Option<Instant>); 4] {
        Lane::ALL.map(|lane| {
            let tickets = self.waiting.values().filter(|ticket| ticket.lane == lane);
            (
                lane,
                tickets.clone().count(),
                tickets.map(|ticket| ticket.since).min(),
            )
        })
    }

    /// Returns the keys that wait.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.waiting.keys()
    }

    /// Returns how many keys wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

impl<K> Turns<K> {
    /// Returns the first key of the ClusterQueue whose turn it is, which then goes to the end.
    fn next(&mut self) -> Option<(K, u64)> {
        let cluster_queue = self.order.pop_front()?;
        let line = self.keys.get_mut(&cluster_queue)?;
        let first = line.pop_front();
        if line.is_empty() {
            self.keys.remove(&cluster_queue);
        } else {
            self.order.push_back(cluster_queue);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(pushes: &[(u32, Lane, &str)]) -> Queue<u32> {
        let mut queue = Queue::default();
        for (key, lane, cluster_queue) in pushes {
            queue.push(*key, *lane, &Name::from(*cluster_queue), Instant::now());
        }
        queue
    }

    fn drain(queue: &mut Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(Lane::Recheck).map(|(key, _)| key)).collect()
    }

    #[test]
    fn a_key_waits_once() {
        let mut queue = queue(&[
            (1, Lane::New, "a"),
            (2, Lane::New, "a"),
            (1, Lane::New, "a"),
            (1, Lane::Recheck, "a"),
        ]);
        assert_eq!(queue.len(), 2);
        assert_eq!(drain(&mut queue), [1, 2]);
    }

    #[test]
    fn urgent_lanes_go_first_and_a_key_can_become_urgent() {
        let mut queue = queue(&[
            (1, Lane::Recheck, "a"),
            (2, Lane::Recheck, "a"),
            (3, Lane::New, "a"),
            (4, Lane::Release, "a"),
            (5, Lane::Restore, "a"),
            (2, Lane::New, "a"),
        ]);
        assert_eq!(queue.pop(Lane::Restore), Some((4, Lane::Release)));
        assert_eq!(queue.pop(Lane::Restore), Some((5, Lane::Restore)));
        assert_eq!(queue.pop(Lane::Restore), None);
        assert_eq!(drain(&mut queue), [3, 2, 1]);
    }

    #[test]
    fn cluster_queues_take_turns() {
        let mut pushes: Vec<_> = (0..5).map(|key| (key, Lane::New, "large")).collect();
        pushes.extend([(10, Lane::New, "small"), (11, Lane::New, "small")]);
        assert_eq!(drain(&mut queue(&pushes)), [0, 10, 1, 11, 2, 3, 4]);
    }

    #[test]
    fn a_removed_key_is_passed_over_and_may_come_again() {
        let mut queue = queue(&[(1, Lane::New, "a"), (2, Lane::New, "a")]);
        queue.remove(&1);
        assert_eq!(queue.len(), 1);
        queue.push(1, Lane::New, &"a".into(), Instant::now());
        assert_eq!(drain(&mut queue), [2, 1]);
        assert_eq!(queue.pop(Lane::Recheck), None);
    }

    #[tokio::test(start_paused = true)]
    async fn depth_and_age_are_known() {
        let start = Instant::now();
        let mut queue = queue(&[(1, Lane::New, "a"), (2, Lane::Recheck, "a")]);
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        queue.push(3, Lane::New, &"a".into(), Instant::now());
        queue.push(2, Lane::New, &"a".into(), Instant::now());
        assert_eq!(
            queue.depths(),
            [
                (Lane::Release, 0, None),
                (Lane::Restore, 0, None),
                (Lane::New, 3, Some(start)),
                (Lane::Recheck, 0, None)
            ]
        );
    }
}
