//! The place of a Workload: in the queue of its ClusterQueue, or in none.

use super::Kueue;
use super::cache::holds;
use crate::kueue::objects::StopPolicy;

/// The start of a queue for which a Workload is placed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    No,
    LocalQueue,
    ClusterQueue,
}

impl Kueue {
    /// Adds a Workload to the queue of its ClusterQueue, or removes it from the queues.
    pub(super) fn place(&mut self, key: &str) {
        self.place_as(key, Start::No);
    }

    /// Places a Workload like `place`. `start`: a queue of it is new, or starts again.
    pub(super) fn place_as(&mut self, key: &str, start: Start) {
        let started = start != Start::No;
        let now = self.api.now();
        let Some(known) = self.cache.workloads.get(key).cloned() else {
            return;
        };
        let workload = &known.workload;
        let local = self.cache.local_queues.get(&workload.queue_key());
        let local = local.map(|q| (q.spec.cluster_queue.clone(), q.spec.stop_policy));
        // A Workload that moves to another LocalQueue leaves the previous one (Kueue 0.19.2,
        // `AddOrUpdateWorkloadWithoutLock` in `pkg/cache/queue/manager.go`).
        let place = local.as_ref().map(|(name, _)| name.as_str());
        if started {
            self.assigned.insert(key.to_owned());
        }
        for (name, queue) in &mut self.queues {
            if Some(name.as_str()) != place && queue.has(key) {
                queue.remove(key);
                self.ready.insert(name.clone());
            }
        }
        let Some((name, policy)) = local else {
            return;
        };
        let stopped = policy != StopPolicy::None;
        let put_back = self.version.requeues_inactive && {
            let queue = self.queue(&name);
            queue.blocks() && queue.first() == Some(key)
        };
        let waits = (put_back || workload.is_admissible(self.version))
            || start == Start::LocalQueue && workload.is_queued_again(self.version);
        let waits = waits
            && holds(workload).is_none()
            && !(self.version.admission_gates && workload.gated_by().is_some())
            && workload.metadata.deletion_timestamp.is_none();
        let waits = waits && !self.has_variants(workload);
        let version = self.version;
        let stays = workload.waits_for_quota() && workload.lacks_pods(version) && !put_back;
        // The scheduler, which retries it without end, does not put it back (0.19.2,
        // `RequeueWorkload` in `pkg/cache/queue/manager.go`).
        let dropped = self.queue(&name).is_retried_without_end(key);
        if stays && !stopped && !dropped && self.queue(&name).has(key) {
            // Kueue does not update its queue for a group that lacks Pods: the scheduler tries it
            // once more as it was (0.19.2, `AddOrUpdateWorkloadWithoutLock` in
            // `pkg/cache/queue/manager.go`).
            self.ready.insert(name);
        } else if waits && !stopped {
            self.assigned.insert(key.to_owned());
            let queue = self.queue(&name);
            let was_waiting = queue.is_active(key);
            if started {
                queue.push_from_local_queue(workload, known.arrival);
            } else {
                queue.push(workload, known.arrival, now);
            }
            let blocks = was_waiting && queue.blocks() && queue.first() == Some(key);
            if blocks && !self.version.slow_scheduler && !put_back {
                self.urgent.insert(name.clone());
            } else if blocks && (self.version.quick_scheduler || put_back) {
                // The scheduler has started with the Workload as it is now, and writes after the
                // reconciler.
                let copy = std::sync::Arc::clone(workload);
                self.copies.entry(key.to_owned()).or_insert(copy);
            }
            let queue = self.queue(&name);
            // An idle scheduler takes it at once.
            let taken = !was_waiting && queue.head() == Some(key) && self.is_active(&name);
            if taken && self.version.quick_scheduler {
                self.urgent.insert(name.clone());
            }
            if taken && !self.version.slow_scheduler {
                self.copies
                    .insert(key.to_owned(), std::sync::Arc::clone(workload));
            }
            self.ready.insert(name);
        } else {
            self.queue(&name).remove(key);
            self.copies.remove(key);
            self.ready.insert(name);
        }
    }
}
