//! LocalQueue controller: the `Active` condition and the counts, and tasks enqueued on changes.

use std::collections::BTreeSet;

use serde_json::json;

use super::cache::Change;
use super::place::Start;
use super::{Kueue, Task};
use crate::kueue::active::local_active;
use crate::kueue::api::kueue;
use crate::kueue::objects::{LocalQueue, Metadata, StopPolicy};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::queue_status::{LocalUsage, counted_locally};
use crate::kueue::reconcile::unset_quota;

impl Kueue {
    pub(super) fn local_queue_changed(&mut self, change: &Change<LocalQueue>) {
        let (queue, old, gone) = match change {
            Change::Now { old, new } => (new, old.as_ref(), false),
            Change::Gone(gone) => (gone, None, true),
        };
        let key = queue.metadata.key();
        if !gone {
            self.enqueue(Task::LocalQueue(key.clone()));
        }
        // A change of its status alone triggers nothing else.
        if old.is_some_and(|old| {
            old.spec == queue.spec
                && old.metadata.deletion_timestamp == queue.metadata.deletion_timestamp
        }) {
            return;
        }
        let is_open = |queue: &LocalQueue| queue.spec.stop_policy == StopPolicy::None;
        let started = is_open(queue) && !gone && old.is_none_or(|old| !is_open(old));
        let workloads = self.cache.of_queue.get(&key);
        let workloads: Vec<String> = workloads.into_iter().flatten().cloned().collect();
        let cluster_queue = queue.spec.cluster_queue.clone();
        let missed = if started {
            self.misses_stop(&cluster_queue)
        } else {
            BTreeSet::new()
        };
        let start = if started {
            Start::LocalQueue
        } else {
            Start::No
        };
        for workload in workloads {
            self.place_as(&workload, start);
            if missed.contains(&workload) {
                self.miss_queue(&workload, &cluster_queue);
            }
            self.enqueue(Task::Workload(workload));
        }
    }

    /// Reconciles a Workload before Kueue has added its LocalQueue, which is new or starts again,
    /// to its queues.
    fn miss_queue(&mut self, key: &str, cluster_queue: &str) {
        let Some(known) = self.cache.workloads.get(key) else {
            return;
        };
        let old = &known.workload;
        if old.has_quota() || old.is_finished() || old.lacks_pods(self.version) {
            return;
        }
        let mut new = (**old).clone();
        let reason = self.version.reason("Misconfigured", "Inadmissible");
        let name = if self.version.nameless_queue {
            ""
        } else {
            cluster_queue
        };
        let message = format!("ClusterQueue {name} doesn't exist");
        unset_quota(&mut new, reason, &message, self.version, self.api.now());
        write_admission(&self.api, old, &new, Guard::Strict, self.version);
    }

    pub(super) fn enqueue_local_queues(&mut self, cluster_queue: &str) {
        let all = self.cache.local_queues.iter();
        let before = all.filter(|(_, local)| local.spec.cluster_queue == cluster_queue);
        let keys: Vec<String> = before.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.enqueue(Task::LocalQueue(key));
        }
    }

    /// Reconciles a LocalQueue: the `Active` condition and the counts.
    pub(super) fn reconcile_local_queue(&mut self, key: &str) {
        let Some(queue) = self.cache.local_queues.get(key) else {
            return;
        };
        let name = &queue.spec.cluster_queue;
        let behind = self.cache.cluster_queues.get(name);
        let mut condition = local_active(queue, behind, self.api.now());
        condition.observed_generation = Some(queue.metadata.generation);
        let started = queue.spec.stop_policy == StopPolicy::None;
        let waiting = self.queues.get(name).filter(|_| started);
        let pending = waiting.map_or(0, |waiting| waiting.len_of(key));
        let of_queue = (name.clone(), key.to_owned());
        let none = LocalUsage::default();
        let usage = self.cache.local_usage.get(&of_queue).unwrap_or(&none);
        let mut status = counted_locally(queue, behind, pending, usage);
        status.conditions.set(condition);
        if status == queue.status {
            return;
        }
        let Metadata {
            namespace, name, ..
        } = &queue.metadata;
        let patch = json!({"status": status});
        self.api
            .merge(&kueue("localqueues"), (namespace, name), "status", patch);
    }
}
