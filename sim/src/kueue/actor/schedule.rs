//! The scheduler's cycle.

use super::Kueue;
use super::cache::Known;
use crate::kueue::objects::{ClusterQueue, State, Workload, read};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::queue::Requeue;
use crate::kueue::reconcile::{Note, admitted_note, reserve, sync_admitted, unset_quota};
use crate::kueue::scheduler::{Assignment, Fit, Ground, SCHEDULER, assign};

impl Kueue {
    /// Tries the first Workload of one ClusterQueue. Says whether there was one.
    pub(super) fn schedule_one(&mut self) -> bool {
        while let Some(name) = self.ready.first().cloned() {
            if self.version.kep993 && self.second_pass(&name) {
                return true;
            }
            if self.try_head(&name) {
                return true;
            }
            self.ready.remove(&name);
        }
        false
    }

    fn try_head(&mut self, name: &str) -> bool {
        let Some(queue) = self.cache.cluster_queues.get(name).cloned() else {
            return false;
        };
        if !queue.status.conditions.is_true("Active") {
            return false;
        }
        let head = self
            .queues
            .get(name)
            .and_then(|q| q.head().map(str::to_owned));
        let Some(key) = head else {
            return false;
        };
        let Some(known) = self.cache.workloads.get(&key).cloned() else {
            self.queue(name).remove(&key);
            return true;
        };
        self.try_workload(&known, &queue);
        true
    }

    fn try_workload(&mut self, known: &Known, queue: &ClusterQueue) {
        let workload = &known.workload;
        let failed = |state| workload.checks_in(state).next().is_some();
        let why = if failed(State::Retry) || failed(State::Rejected) {
            Some("The workload has failed admission checks")
        } else if !self.selects(queue, &workload.metadata.namespace) {
            Some("Workload namespace doesn't match ClusterQueue selector")
        } else {
            None
        };
        if let Some(why) = why {
            self.put_back(workload, queue, why, "PendingEvaluation", Requeue::Other);
            return;
        }
        let assignment = self.assignment(known, queue);
        match assignment.fit {
            Fit::Fits => self.reserve_for(known, queue, assignment),
            Fit::Preempt | Fit::NoCandidates => self.make_room(known, queue, assignment),
            Fit::No => {
                let (why, reason) = (&assignment.message, assignment.reason);
                self.put_back(workload, queue, why, reason, Requeue::NoFit);
            }
        }
    }

    /// Where the Workload would go now.
    pub(super) fn assignment(&self, known: &Known, queue: &ClusterQueue) -> Assignment {
        let name = &queue.metadata.name;
        let taken = self.cache.usage.get(name).cloned().unwrap_or_default();
        let ground = Ground {
            queue,
            taken: &taken,
            flavors: &self.cache.flavors,
            can_preempt: &|wanted| !self.targets(known, queue, wanted).is_empty(),
        };
        assign(&known.workload, &ground)
    }

    /// Whether the ClusterQueue takes Workloads of this Namespace.
    fn selects(&self, queue: &ClusterQueue, namespace: &str) -> bool {
        let Some(selector) = &queue.spec.namespace_selector else {
            return false;
        };
        if selector.is_empty() {
            return true;
        }
        let resource = crate::apiserver::Resource::new("", "v1", "namespaces");
        let found = self.api.get(&resource, "", namespace);
        let labels = found.map(|object| object["metadata"]["labels"].clone());
        let labels = labels.and_then(|labels| serde_json::from_value(labels).ok());
        selector.matches(&labels.unwrap_or_default())
    }

    pub(super) fn reserve_for(
        &mut self,
        known: &Known,
        queue: &ClusterQueue,
        assignment: Assignment,
    ) {
        let now = self.api.now();
        let old = &known.workload;
        let mut new = (**old).clone();
        if let Some(entries) = self.queued_checks.remove(&old.metadata.key()) {
            new.status.admission_checks = entries;
        }
        reserve(&mut new, assignment.admission, now);
        let needed =
            crate::kueue::reconcile::needed_checks(queue, new.status.admission.as_ref(), true);
        let all_there = needed.iter().all(|name| new.check(name).is_some());
        // Checks that are Ready already admit in the same write; KEP-993 looks once more.
        if all_there && (!self.version.kep993 || needed.is_empty()) {
            sync_admitted(&mut new, self.version, now);
        }
        let since = Self::waiting_since(old);
        let waited = now.duration_since(since).as_secs_f64();
        let mut text = format!(
            "Quota reserved in ClusterQueue {}, wait time since queued was {waited:.0}s",
            queue.metadata.name
        );
        if !assignment.considered.is_empty() {
            text = format!("{text}; Flavors considered: {}", assignment.considered);
        }
        let mut notes = vec![Note::normal("QuotaReserved", text, SCHEDULER)];
        if new.is_admitted() {
            notes.extend(admitted_note(&new, now, SCHEDULER));
        }
        let answer = write_admission(&self.api, old, &new, Guard::Loose, self.version);
        if !self.settle(old, &answer, &notes) {
            self.queue(&queue.metadata.name)
                .requeue(&old.metadata.key(), Requeue::FailedWrite);
        }
    }

    fn waiting_since(workload: &Workload) -> jiff::Timestamp {
        let requeued = workload.status.conditions.get("Requeued");
        let requeued = requeued
            .filter(|c| c.is_true())
            .map(|c| c.last_transition_time);
        requeued.unwrap_or(workload.metadata.creation_timestamp)
    }

    /// The Workloads that hold quota of a ClusterQueue.
    pub(super) fn holders(&self, queue: &str) -> Vec<Known> {
        let keys = self.cache.holders.get(queue).into_iter().flatten();
        keys.filter_map(|key| self.cache.workloads.get(key).cloned())
            .collect()
    }

    /// Says why there is no quota, and puts the Workload back into the queue. `reason` is the finer one.
    pub(super) fn put_back(
        &mut self,
        workload: &Workload,
        queue: &ClusterQueue,
        why: &str,
        reason: &'static str,
        requeue: Requeue,
    ) {
        let reason = self.version.reason(reason, "Pending");
        if self.version.stale_scheduler {
            let entries = workload.status.admission_checks.clone();
            self.queued_checks.insert(workload.metadata.key(), entries);
        }
        let now = self.api.now();
        let key = workload.metadata.key();
        self.queue(&queue.metadata.name).requeue(&key, requeue);
        let mut new = workload.clone();
        let metadata = if unset_quota(&mut new, reason, why, self.version, now) {
            let answer = write_admission(&self.api, workload, &new, Guard::Loose, self.version);
            read(&answer.body["metadata"])
        } else {
            workload.metadata.clone()
        };
        self.tell(&Note::warning("Pending", why, SCHEDULER), &metadata);
    }
}
