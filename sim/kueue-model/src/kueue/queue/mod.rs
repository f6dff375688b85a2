//! The pending queue: Workloads of a ClusterQueue that wait for quota.

mod rank;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub(crate) use rank::{Rank, SchedulingHash, queued_since};

use super::KueueVersion;
use super::objects::{Condition, QueueingStrategy, ReclaimablePods, Workload};

/// The reason for a requeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// No flavor has enough quota.
    NoFit,
    /// No Workload can be preempted for it.
    NoCandidates,
    /// Other Workloads are being preempted for it.
    PendingPreemption,
    /// It requires preemption, and its gate is closed.
    Gated,
    /// It would have fit if another Workload had not been first.
    Skipped,
    /// Its quota reservation could not be written. It is tried again at once (Kueue's
    /// `FailedAfterNomination`).
    FailedWrite,
    /// The ClusterQueue does not take Workloads of its Namespace.
    NamespaceMismatch,
    /// It cannot be tried in its present state.
    Other,
}

/// The Workloads of a ClusterQueue that wait for quota. The active ones are tried in order. The
/// inadmissible ones wait for a change.
#[derive(Debug, Default)]
pub(crate) struct PendingQueue {
    strategy: QueueingStrategy,
    version: KueueVersion,
    active: BTreeSet<Rank>,
    inadmissible: BTreeSet<String>,
    entries: BTreeMap<String, Entry>,
    /// Hashes of Workloads that do not fit.
    hopeless: BTreeSet<SchedulingHash>,
    /// The Workload with pending preemptions: it stays the first.
    preemptor: Option<String>,
    /// The last Workload with pending preemptions in a `BestEffortFIFO` queue. It comes first until
    /// it leaves the queue, whatever its later results (Kueue 0.19.2, `preemptorWorkload` in
    /// `pkg/cache/queue/cluster_queue.go`).
    sticky: Option<String>,
    /// Whether the first was tried, and nothing has changed since.
    stuck: bool,
    /// If it was skipped then: the heads of all ClusterQueues of its tree.
    skipped_among: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The LocalQueue, by Namespace and name.
    local_queue: String,
    rank: Rank,
    hash: SchedulingHash,
    /// An inadmissible Workload is tried again if this or a later field other than `requeue_at`
    /// changes.
    generation: i64,
    done: Vec<ReclaimablePods>,
    evicted: Option<Condition>,
    requeued: Option<Condition>,
    requeue_at: Option<Timestamp>,
    gated: bool,
}

impl Entry {
    fn of(workload: &Workload, arrival: u64, version: KueueVersion) -> Self {
        let conditions = &workload.status.conditions;
        Self {
            local_queue: workload.queue_key(),
            rank: Rank::of(workload, arrival, version.requeuing_timestamp()),
            hash: SchedulingHash::of(workload, version),
            generation: workload.metadata.generation,
            done: workload.status.reclaimable_pods.clone(),
            evicted: conditions.get("Evicted").cloned(),
            requeued: conditions.get("Requeued").cloned(),
            requeue_at: workload.requeue_at(),
            gated: workload.has_closed_gate(),
        }
    }

    fn unchanged(&self, old: &Self) -> bool {
        self.generation == old.generation
            && self.done == old.done
            && self.evicted == old.evicted
            && self.requeued == old.requeued
            && self.gated == old.gated
    }

    fn is_schedulable(&self, now: Timestamp) -> bool {
        !self.requeued.as_ref().is_some_and(Condition::is_false)
            && self.requeue_at.is_none_or(|at| at <= now)
    }
}

impl PendingQueue {
    /// Creates an empty queue.
    pub(crate) fn new(version: KueueVersion) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// Sets the queueing strategy: the order in which Workloads are tried.
    pub(crate) fn set_strategy(&mut self, strategy: QueueingStrategy) {
        self.strategy = strategy;
        self.stuck = false;
    }

    /// Adds a Workload, or updates it after a change.
    pub(crate) fn push(&mut self, workload: &Workload, arrival: u64, now: Timestamp) {
        let key = workload.metadata.key();
        let entry = Entry::of(workload, arrival, self.version);
        let was_active = match self.entries.insert(key.clone(), entry.clone()) {
            Some(old) if self.inadmissible.contains(&key) => {
                if entry.unchanged(&old) {
                    return;
                }
                self.inadmissible.remove(&key);
                false
            }
            Some(old) => self.active.remove(&old.rank),
            None => false,
        };
        if was_active || (entry.is_schedulable(now) && !self.is_hopeless(&entry)) {
            self.active.insert(entry.rank);
            self.stuck = false;
        } else {
            self.inadmissible.insert(key);
        }
    }

    /// Adds a Workload whose LocalQueue is started. It is active at once, whatever it waits for
    /// (Kueue 0.19.2, `AddFromLocalQueue` in `pkg/cache/queue/cluster_queue.go`).
    pub(crate) fn push_from_local_queue(&mut self, workload: &Workload, arrival: u64) {
        let key = workload.metadata.key();
        if !self.entries.contains_key(&key) {
            let entry = Entry::of(workload, arrival, self.version);
            self.active.insert(entry.rank.clone());
            self.entries.insert(key, entry);
            self.stuck = false;
        }
    }

    fn is_hopeless(&self, entry: &Entry) -> bool {
        self.hashes() && self.hopeless.contains(&entry.hash)
    }

    fn hashes(&self) -> bool {
        self.version.equivalence_hashing && self.strategy == QueueingStrategy::BestEffortFIFO
    }

    /// Returns the number of Workloads that wait here.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of those that are in this LocalQueue.
    pub(crate) fn len_of(&self, local_queue: &str) -> usize {
        let entries = self.entries.values();
        entries
            .filter(|entry| entry.local_queue == local_queue)
            .count()
    }

    /// Returns true if a Workload waits here.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns true if a Workload is active, which means among those that are tried.
    pub(crate) fn is_active(&self, key: &str) -> bool {
        self.entries.contains_key(key) && !self.inadmissible.contains(key)
    }

    /// Returns the active Workloads: those that are tried.
    pub(crate) fn all_active(&self) -> impl Iterator<Item = &str> {
        self.active.iter().map(|rank| rank.key.as_str())
    }

    /// Returns true if the first Workload keeps those behind it from being tried.
    pub(crate) fn blocks(&self) -> bool {
        self.strategy == QueueingStrategy::StrictFIFO
    }

    /// Returns true if the scheduler retries the first Workload without end: it blocks the others,
    /// or waits for preemptions.
    pub(crate) fn has_busy_head(&self) -> bool {
        self.first().is_some() && (self.blocks() || self.preemptor.is_some())
    }

    /// Returns true if the scheduler retries this Workload without end, since it blocks the others.
    pub(crate) fn is_retried_without_end(&self, key: &str) -> bool {
        self.blocks() && self.stuck && self.first() == Some(key)
    }

    /// Removes a Workload.
    pub(crate) fn remove(&mut self, key: &str) {
        if self.first() == Some(key) {
            self.stuck = false;
        }
        if let Some(entry) = self.entries.remove(key) {
            self.active.remove(&entry.rank);
            self.inadmissible.remove(key);
        }
        if self.preemptor.as_deref() == Some(key) {
            self.preemptor = None;
            self.stuck = false;
        }
        if self.sticky.as_deref() == Some(key) {
            self.sticky = None;
        }
    }

    /// Returns the Workload to try now.
    pub(crate) fn head(&self) -> Option<&str> {
        self.first().filter(|_| !self.stuck)
    }

    /// Returns the first Workload, whether or not it has been tried since the last change.
    pub(crate) fn first(&self) -> Option<&str> {
        let sticky = self.sticky.as_deref();
        let sticky = sticky.filter(|key| !self.inadmissible.contains(*key));
        sticky.or_else(|| self.active.first().map(|rank| rank.key.as_str()))
    }

    /// Requeues a tried Workload. A Workload whose delay is not over never stays first, not even in
    /// a queue that its first Workload blocks (Kueue 0.19.2, `requeueIfNotPresent` in
    /// `pkg/cache/queue/cluster_queue.go`).
    pub(crate) fn requeue(&mut self, key: &str, why: Requeue, now: Timestamp) {
        if why == Requeue::PendingPreemption {
            self.preemptor = Some(key.to_owned());
            let is_sticky = self.strategy == QueueingStrategy::BestEffortFIFO;
            self.sticky = is_sticky.then(|| key.to_owned());
        } else if self.preemptor.as_deref() == Some(key) {
            self.preemptor = None;
        }
        let entry = self.entries.get(key);
        let delayed = entry.is_some_and(|entry| !entry.is_schedulable(now));
        self.skipped_among.clear();
        if why == Requeue::FailedWrite && !delayed {
            return;
        }
        let stays = matches!(why, Requeue::PendingPreemption | Requeue::Skipped)
            || self.strategy == QueueingStrategy::StrictFIFO && why != Requeue::NamespaceMismatch;
        if stays && !delayed {
            self.stuck = true;
            return;
        }
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let hash = entry.hash.clone();
        self.active.remove(&entry.rank);
        self.inadmissible.insert(key.to_owned());
        if delayed || why == Requeue::NamespaceMismatch {
            self.stuck = false;
        }
        if self.hashes() && matches!(why, Requeue::NoFit | Requeue::NoCandidates) {
            self.bulk_move(hash);
        }
    }

    fn bulk_move(&mut self, hash: SchedulingHash) {
        let entries = &self.entries;
        let like = |rank: &Rank| entries.get(&rank.key).is_some_and(|e| e.hash == hash);
        let (moved, kept): (Vec<Rank>, Vec<Rank>) =
            std::mem::take(&mut self.active).into_iter().partition(like);
        self.active = kept.into_iter().collect();
        self.inadmissible
            .extend(moved.into_iter().map(|rank| rank.key));
        self.hopeless.insert(hash);
    }

    /// Records that the first Workload was skipped in a cycle with these heads.
    pub(crate) fn skipped_among(&mut self, heads: &BTreeSet<String>) {
        self.skipped_among.clone_from(heads);
    }

    /// Returns true if the first Workload was skipped in a cycle with other heads than these: the
    /// one that was in its way may have left (Kueue 0.19.2, `FailedAfterNomination` in
    /// `pkg/scheduler/scheduler.go`).
    pub(crate) fn was_skipped_among_others(&self, heads: &BTreeSet<String>) -> bool {
        self.stuck && !self.skipped_among.is_empty() && self.skipped_among != *heads
    }

    /// Allows the first Workload to be tried again at once: quota may have become free.
    pub(crate) fn unblock(&mut self) {
        self.stuck = false;
    }

    /// Activates the inadmissible Workloads after quota has become free. Their delay must be over,
    /// and the ClusterQueue must take their Namespace (Kueue 0.19.2, `queueInadmissibleWorkloads`
    /// in `pkg/cache/queue/inadmissible_workloads.go`).
    pub(crate) fn retry_inadmissible(&mut self, now: Timestamp, takes: impl Fn(&str) -> bool) {
        self.hopeless.clear();
        self.stuck = false;
        let entries = &self.entries;
        let (ready, waiting): (BTreeSet<String>, BTreeSet<String>) =
            std::mem::take(&mut self.inadmissible)
                .into_iter()
                .partition(|key| {
                    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
                    let over = entries.get(key).is_some_and(|e| e.is_schedulable(now));
                    over && takes(namespace)
                });
        self.inadmissible = waiting;
        let ranks = ready.iter().filter_map(|key| self.entries.get(key));
        self.active.extend(ranks.map(|entry| entry.rank.clone()));
    }
}
