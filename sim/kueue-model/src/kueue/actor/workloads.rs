//! Workload controller: tasks enqueued on changes, and the writes of the reconciler.

use serde_json::json;

use super::cache::{CachedWorkload, Change, holds};
use super::{Kueue, Task};
use crate::kueue::KueueVersion;
use crate::kueue::api::{Regarding, kueue};
use crate::kueue::objects::{FINALIZER, Metadata, Workload, read};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::reconcile::{EventRecord, Outcome, ReconcileInput, Write, reconcile};
use crate::kueue::variants::PARENT;
use kueue_check_apiserver::ApiResponse;

impl Kueue {
    pub(super) fn workload_changed(&mut self, change: Change<CachedWorkload>) {
        let (old, new) = match change {
            Change::Now { old, new } => (old, Some(new)),
            Change::Gone(gone) => (Some(gone), None),
        };
        let held = old
            .as_ref()
            .and_then(|old| holds(&old.workload))
            .map(str::to_owned);
        let holds = new
            .as_ref()
            .and_then(|new| holds(&new.workload))
            .map(str::to_owned);
        let version = self.version;
        let retries = |both| frees_pods(both) || priority_changed(both, version);
        let changed = held != holds || old.as_ref().zip(new.as_ref()).is_some_and(retries);
        let known = old.as_ref().or(new.as_ref());
        if let Some(name) = held.as_ref().filter(|_| changed) {
            self.retry_heads(name);
            self.retry_others(known);
        } else if let Some(name) = holds.as_ref()
            && old.as_ref().zip(new.as_ref()).is_some_and(matters_to_heads)
        {
            self.retry_heads(name);
        }
        // A deactivated, finished or deleted Workload, with quota or without, triggers a retry of
        // those that did not fit (Kueue 0.19.2, `Update` and `Delete` in
        // `pkg/controller/core/workload_controller.go`).
        let out =
            |known: &CachedWorkload| !known.workload.is_active() || known.workload.is_finished();
        let on_deletion = self.version.retries_on_deletion;
        if new.as_ref().map_or(on_deletion, out) {
            self.retry_others(new.as_ref().or(known));
        }
        self.count_again(old.as_ref(), new.as_ref());
        if let Some(known) = new.as_ref().or(old.as_ref()) {
            if let Some(cycle) = &mut self.paused {
                cycle.count_change(&known.workload.metadata.key());
            }
            self.family_changed(&known.workload.clone());
        }
        let Some(new) = new else {
            if let Some(gone) = old {
                let key = gone.workload.metadata.key();
                self.remove(&key);
                for (name, queue) in &mut self.queues {
                    queue.remove(&key);
                    self.ready.insert(name.clone());
                }
            }
            return;
        };
        let key = new.workload.metadata.key();
        let version = &new.workload.metadata.resource_version;
        self.searches.changed(&key, version, self.version);
        // A Workload that loses its quota is in no queue while it waits for its next attempt, unless it
        // changes again (Kueue 0.19.2, `Update` in `pkg/controller/core/workload_controller.go`).
        let loses = held.is_some() && holds.is_none();
        let waits = |at: jiff::Timestamp| at > self.api.now();
        // Its queue has the Workload as it was before it lacked Pods.
        if let Some(old) = old.filter(|old| old.workload.is_admissible(self.version))
            && new.workload.waits_for_quota()
            && new.workload.lacks_pods(self.version)
        {
            self.copies.entry(key.clone()).or_insert(old.workload);
        }
        if !(loses && new.workload.requeue_at().is_some_and(waits)) {
            self.place(&key);
        }
        if self.version.kep993
            && let Some(name) = holds
        {
            self.ready.insert(name);
        }
        self.enqueue(Task::Workload(key));
    }

    /// Retries the Workloads of the ClusterQueue of this one, which must have been in a queue. A
    /// LocalQueue that is missing or stopped leads to no ClusterQueue (Kueue 0.19.2,
    /// `QueueAssociatedInadmissibleWorkloadsAfter` in `pkg/cache/queue/manager.go`).
    fn retry_others(&mut self, known: Option<&CachedWorkload>) {
        if let Some(known) = known
            && self.assigned.contains(&known.workload.metadata.key())
            && let Some(queue) = self.cache.started_queue(&known.workload)
        {
            let name = queue.spec.cluster_queue.clone();
            self.quota_changed(&name);
        }
    }

    /// Enqueues the queues that count a changed Workload in their status, after a
    /// [batch](super::BATCH). A stopped LocalQueue leads to no ClusterQueue (Kueue 0.19.2,
    /// `requestCQForWL` in `pkg/controller/core/clusterqueue_controller.go`).
    fn count_again(&mut self, old: Option<&CachedWorkload>, new: Option<&CachedWorkload>) {
        let moved = |new: &&CachedWorkload| {
            old.is_none_or(|old| old.workload.spec.queue_name != new.workload.spec.queue_name)
        };
        for known in old.into_iter().chain(new.filter(moved)) {
            let workload = &known.workload;
            self.batch(Task::LocalQueue(workload.queue_key()));
            let admission = workload.status.admission.as_ref();
            let reserved = admission.filter(|_| workload.has_quota());
            let local = self.cache.started_queue(workload);
            let name = match (reserved, local) {
                (Some(admission), _) => admission.cluster_queue.clone(),
                (None, Some(local)) => local.spec.cluster_queue.clone(),
                (None, None) => continue,
            };
            self.batch(Task::ClusterQueue(name));
        }
    }

    /// Removes the state of a deleted Workload: a later Workload may have the same name.
    fn remove(&mut self, key: &str) {
        self.copies.remove(key);
        self.delays_written.remove(key);
        self.searches.remove(key);
        self.queued_checks.remove(key);
        self.assigned.remove(key);
    }

    pub(super) fn reconcile_workload(&mut self, key: &str) {
        self.discard_requests(key);
        let Some(known) = self.cache.workloads.get(key).cloned() else {
            return;
        };
        let now = self.api.now();
        // Kueue has no ClusterQueue for a stopped LocalQueue (0.19.2,
        // `pkg/controller/core/localqueue_controller.go`).
        let local_queue = self.cache.local_queue(&known.workload);
        let started = self.cache.started_queue(&known.workload);
        let queue = started.and_then(|q| self.cache.cluster_queues.get(&q.spec.cluster_queue));
        let situation = ReconcileInput {
            has_variants: self.has_variants(&known.workload),
            now,
            version: self.version,
            local_queue,
            cluster_queue: queue,
            delay_written: self.delays_written.get(key).copied(),
            cluster_queue_active: queue.is_some_and(|q| self.is_active(&q.metadata.name)),
        };
        let outcome = reconcile(&known.workload, &situation);
        if let Some(at) = outcome.again {
            self.later(at, Task::Workload(key.to_owned()));
        }
        self.carry_out(&known, outcome);
    }

    fn carry_out(&mut self, known: &CachedWorkload, outcome: Outcome) {
        let Some(write) = outcome.write else {
            return;
        };
        if let Write::Admission(new) = &write
            && let Some(end) = new.requeue_at().filter(|_| !new.is_active())
        {
            self.delays_written.insert(new.metadata.key(), end);
        }
        let response = match write {
            Write::Admission(new) => write_admission(
                &self.api,
                &known.workload,
                &new,
                Guard::Strict,
                self.version,
            ),
            Write::Checks(entries) => {
                let mut object = (*known.raw).clone();
                object["status"]["admissionChecks"] = json!(entries);
                self.api.update(&kueue("workloads"), object, "status")
            }
            Write::LabelParent => {
                let mut object = (*known.raw).clone();
                object["metadata"]["labels"][PARENT] = json!("true");
                self.api.update(&kueue("workloads"), object, "")
            }
            Write::Deactivate => {
                let mut object = (*known.raw).clone();
                object["spec"]["active"] = json!(false);
                self.api.update(&kueue("workloads"), object, "")
            }
            Write::DropFinalizer => {
                let mut object = (*known.raw).clone();
                let mut finalizers = known.workload.metadata.finalizers.clone();
                finalizers.retain(|f| f != FINALIZER);
                object["metadata"]["finalizers"] = json!(finalizers);
                self.api.update(&kueue("workloads"), object, "")
            }
        };
        self.finish_write(&known.workload, &response, &outcome.notes);
    }

    /// Records the events of a write and returns true, or false if the API server rejected the
    /// write. The change that made a write stale triggers another one.
    pub(super) fn finish_write(
        &mut self,
        workload: &Workload,
        response: &ApiResponse,
        notes: &[EventRecord],
    ) -> bool {
        if response.code >= 300 {
            tracing::debug!(workload = workload.metadata.key(), code = response.code, body = %response.body, "write refused");
            return false;
        }
        let metadata: Metadata = read(&response.body["metadata"]);
        for note in notes {
            self.record_event(note, &metadata);
        }
        true
    }

    pub(super) fn record_event(&mut self, note: &EventRecord, metadata: &Metadata) {
        self.recorder
            .record_event(&self.api, note, Regarding::workload(metadata));
    }
}

/// Returns true if an admitted Workload has newly reclaimable Pods or an elastic job has fewer Pods
/// (Kueue 0.19.2, `Update` in `pkg/controller/core/workload_controller.go`).
fn frees_pods(both: (&CachedWorkload, &CachedWorkload)) -> bool {
    let (old, new) = both;
    let (old, new) = (&old.workload, &new.workload);
    let ran = old.is_admitted() && new.is_admitted();
    let mut sets = old.spec.pod_sets.iter().zip(&new.spec.pod_sets);
    ran && is_reclaimed(both) || sets.any(|(old, new)| new.count < old.count)
}

/// Returns true if the `WorkloadPriorityClass` of a Workload, or its value, has changed (Kueue
/// 0.19.2, `PriorityChanged` in `pkg/workload/workload.go`; in 0.15.0, its name).
fn priority_changed((old, new): (&CachedWorkload, &CachedWorkload), version: KueueVersion) -> bool {
    let (old, new) = (&old.workload.spec, &new.workload.spec);
    let other = old.priority_class() != new.priority_class();
    let of_pods = old.priority_class_ref.is_some() && old.priority_class().is_none();
    new.priority_class().is_some()
        && if version.adds_priority_classes {
            !of_pods && (other || old.priority != new.priority)
        } else {
            old.priority_class().is_some() && other
        }
}

/// Returns true if a Workload with quota has other reclaimable Pods or another priority, is evicted,
/// or is active again. A head that waits for its quota may fit, or preempt it, or lack more: the
/// scheduler retries heads without end.
fn matters_to_heads(both: (&CachedWorkload, &CachedWorkload)) -> bool {
    let (old, new) = both;
    is_reclaimed(both)
        || old.workload.spec.priority != new.workload.spec.priority
        || old.workload.is_evicted() != new.workload.is_evicted()
        || !old.workload.is_active()
}

/// Returns true if the reclaimable Pods of a Workload have changed.
fn is_reclaimed((old, new): (&CachedWorkload, &CachedWorkload)) -> bool {
    old.workload.status.reclaimable_pods != new.workload.status.reclaimable_pods
}
