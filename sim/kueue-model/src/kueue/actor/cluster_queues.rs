//! ClusterQueue and AdmissionCheck controllers: finalizers, `Active`, enqueued tasks.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cache::Change;
use super::place::Start;
use super::{Kueue, Task};
use crate::json::list;
use crate::kueue::active::active;
use crate::kueue::api::kueue;
use crate::kueue::objects::{
    AdmissionCheck, ClusterQueue, Cohort, Condition, FINALIZER, FairSharingStatus, Namespace,
    QueueStatus, QueueingStrategy, StopPolicy, True,
};
use crate::kueue::queue::PendingQueue;
use crate::kueue::queue_status::{QuotaUsage, counted};

impl Kueue {
    /// Processes all changes that the watches have received.
    pub(super) fn observe(&mut self) {
        while let Some(change) = self.cache.next_namespace() {
            self.namespace_changed(&change);
        }
        while let Some(change) = self.cache.next_check() {
            self.check_changed(&change);
        }
        while let Some(change) = self.cache.next_flavor() {
            self.flavor_changed(&change);
        }
        while let Some(change) = self.cache.next_class() {
            if let Change::Now { old, new } = change
                && self.version.follows_class_values
                && old.is_none_or(|old| old.value != new.value)
            {
                self.enqueue(Task::PriorityClass(new.metadata.name));
            }
        }
        while let Some(change) = self.cache.next_cohort() {
            self.cohort_changed(&change);
        }
        while let Some(change) = self.cache.next_cluster_queue() {
            self.cluster_queue_changed(&change);
        }
        while let Some(change) = self.cache.next_local_queue() {
            self.local_queue_changed(&change);
        }
        while let Some(change) = self.cache.next_workload() {
            self.workload_changed(change);
        }
        while let Some(request) = self.cache.next_request() {
            self.request_changed(&request);
        }
    }

    /// Retries the Workloads of the ClusterQueues that take a Namespace by its new labels and did
    /// not take it by the old ones (Kueue 0.19.2, `cqNamespaceHandler` in
    /// `pkg/controller/core/clusterqueue_controller.go`). Heads that the scheduler retries without
    /// end are also retried by those that no longer take it.
    fn namespace_changed(&mut self, change: &Change<Namespace>) {
        let Change::Now {
            old: Some(old),
            new,
        } = change
        else {
            return;
        };
        let (old, new) = (&old.metadata.labels, &new.metadata.labels);
        let queues = self.cache.cluster_queues.iter();
        let differ = queues.filter_map(|(name, queue)| {
            let takes = queue.takes_labels(new);
            (takes != queue.takes_labels(old)).then(|| (name.clone(), takes))
        });
        for (name, takes) in differ.collect::<Vec<_>>() {
            if takes {
                self.quota_changed(&name);
            } else {
                self.retry_head(name);
            }
        }
    }

    /// Retries the Workloads of the whole tree of a changed cohort: they may fit now. A deleted
    /// cohort triggers nothing by itself (Kueue 0.19.2, `AddOrUpdateCohort` and `DeleteCohort` in
    /// `pkg/cache/queue/manager.go`).
    fn cohort_changed(&mut self, change: &Change<Cohort>) {
        let (old, new) = match change {
            Change::Now { old, new } => (old.as_ref(), new),
            Change::Gone(gone) => {
                self.retry_heads_of_tree(&gone.metadata.name);
                return self.retry_heads_of_tree(&gone.spec.parent_name);
            }
        };
        if old.is_some_and(|old| old.spec == new.spec) {
            return;
        }
        self.enqueue_cohort(new.metadata.name.clone());
        if let Some(old) = old.filter(|old| old.spec.parent_name != new.spec.parent_name) {
            self.retry_heads_of_tree(&old.spec.parent_name);
        }
        let first = self.queues_of_tree(&new.metadata.name).into_iter().next();
        if let Some(name) = first {
            self.quota_changed(&name);
        }
    }

    /// Returns the ClusterQueues of the whole tree of a cohort.
    fn queues_of_tree(&self, cohort: &str) -> Vec<String> {
        if cohort.is_empty() {
            return Vec::new();
        }
        let path = self.cohorts_from(cohort);
        let root = path.take(self.cache.cohorts.len() + 1).last();
        let (tree, below) = (self.tree(), format!("/{}/", root.unwrap_or_default()));
        let queues = self.cache.cluster_queues.keys();
        let queues = queues.filter(|name| tree.path_text(name).starts_with(&below));
        queues.cloned().collect()
    }

    /// Retries the heads in the tree of a cohort that has lost a part: they may fit, or lack more.
    fn retry_heads_of_tree(&mut self, cohort: &str) {
        for name in self.queues_of_tree(cohort) {
            self.retry_head(name);
        }
    }

    /// Retries the Workloads of the tree if the changed ClusterQueue is below two or more Cohorts.
    /// Kueue's Cohort controller receives each change of a ClusterQueue, also of its counts. For
    /// every Cohort above except the uppermost, it retries the Workloads of the whole tree (Kueue
    /// 0.19.2, `ClusterQueueAncestors` in `pkg/cache/scheduler/cache.go`).
    fn cohorts_above_changed(&mut self, queue: &ClusterQueue) {
        let most = self.cache.cohorts.len() + 1;
        let path = self.cohorts_from(&queue.spec.cohort_name);
        let path: Vec<String> = path.take(most + 1).collect();
        // A longer path is circular.
        if (2..=most).contains(&path.len()) {
            for cohort in path.iter().take(path.len() - 1) {
                self.enqueue_cohort(cohort.clone());
            }
            // The ClusterQueue itself may be gone.
            let relatives: BTreeSet<String> = self
                .queues_of_tree(&queue.spec.cohort_name)
                .into_iter()
                .collect();
            if !relatives.is_empty() {
                self.batch_retry(&queue.metadata.name, &relatives);
            }
        }
    }

    /// Enqueues a Cohort, whose status changes only with the setting `fairSharing`.
    fn enqueue_cohort(&mut self, name: String) {
        if self.version.fair_sharing.is_some() {
            self.enqueue(Task::Cohort(name));
        }
    }

    /// Writes the share of a Cohort into its status (Kueue 0.15.0 to 0.19.2,
    /// `updateCohortStatusIfChanged` in `pkg/controller/core/cohort_controller.go`).
    pub(super) fn reconcile_cohort(&mut self, name: &str) {
        let Some(cohort) = self.cache.cohorts.get(name) else {
            return;
        };
        let tree = self.tree();
        let node = tree.cohort_of(name).filter(|node| !tree.has_cycle(*node));
        let share = node.map(|node| FairSharingStatus {
            weighted_share: tree.weighted_share(node),
        });
        if share.is_none() || share == cohort.status.fair_sharing {
            return;
        }
        let patch = json!({"status": {"fairSharing": share}});
        self.api
            .merge(&kueue("cohorts"), ("", name), "status", patch);
    }

    /// Returns the names of a cohort and of those above it; without end if these are circular.
    fn cohorts_from(&self, name: &str) -> impl Iterator<Item = String> {
        std::iter::successors(Some(name.to_owned()), |name| {
            let parent = &self.cache.cohorts.get(name)?.spec.parent_name;
            (!parent.is_empty()).then(|| parent.clone())
        })
    }

    fn check_changed(&mut self, change: &Change<AdmissionCheck>) {
        let (old, new) = match change {
            Change::Now { old, new } => (old.as_ref(), new),
            Change::Gone(gone) => (Some(gone), gone),
        };
        let name = new.metadata.name.clone();
        self.enqueue(Task::Check(name.clone()));
        let gone = matches!(change, Change::Gone(_));
        if !gone && old.is_some_and(|old| old.is_active() == new.is_active()) {
            return;
        }
        let queues = self.cache.cluster_queues.values();
        let users = queues.filter(|q| q.checks().iter().any(|rule| rule.name == name));
        let users: Vec<String> = users.map(|q| q.metadata.name.clone()).collect();
        for user in users {
            self.may_be_active(&user);
            if !self.is_active(&user) {
                self.retry_heads(&user);
            }
            self.batch(Task::ClusterQueue(user));
        }
    }

    fn cluster_queue_changed(&mut self, change: &Change<ClusterQueue>) {
        let (old, new) = match change {
            Change::Now { old, new } => (old.as_ref(), new),
            Change::Gone(gone) => {
                self.cohorts_above_changed(gone);
                self.queues.remove(&gone.metadata.name);
                self.retry_heads_of_tree(&gone.spec.cohort_name);
                self.enqueue_named_by(gone);
                self.enqueue_local_queues(&gone.metadata.name);
                // Kueue reconciles its Workloads while its queues still contain it, and writes
                // nothing because the ClusterQueue cannot be read. Kueue reconciles them once more
                // if it has only just enqueued them for the deletion (measured on 0.19.2).
                // `misses_stop` inverts either outcome.
                let active = gone.status.conditions.get("Active");
                let lingered = active.is_some_and(|active| active.reason == "Terminating");
                let missed = self.misses_stop(&gone.metadata.name);
                for key in self.cache.workloads_of(&gone.metadata.name) {
                    self.place(&key);
                    let again = lingered == missed.contains(&key);
                    let task = Task::Workload(key);
                    if again {
                        self.enqueue(task);
                    } else {
                        self.dequeue(&task);
                    }
                }
                return;
            }
        };
        let name = new.metadata.name.clone();
        let going = new.metadata.deletion_timestamp.is_some();
        if !going {
            self.cohorts_above_changed(new);
        }
        let same = |old: &ClusterQueue| {
            old.spec == new.spec
                && old.status.conditions == new.status.conditions
                && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        };
        if old.is_some_and(same) {
            return;
        }
        let strategy: QueueingStrategy = new.spec.queueing_strategy;
        self.queue(&name).set_strategy(strategy);
        let before = old.is_none_or(|old| {
            let now = self.api.now();
            active(old, &self.cache.checks, &self.cache.flavors, now).is_true()
        });
        if !before && self.is_active(&name) {
            self.copy_head(&name);
            if self.version.quick_scheduler {
                self.urgent.insert(name.clone());
            }
        }
        // A new ClusterQueue has no inadmissible Workloads, but those of its cohort may fit now.
        let changes = match old {
            Some(old) => !going && old.spec != new.spec,
            None => !new.spec.cohort_name.is_empty(),
        };
        if changes {
            self.quota_changed(&name);
        } else if going {
            self.retry_heads(&name);
        }
        if let Some(old) = old.filter(|old| old.spec.cohort_name != new.spec.cohort_name) {
            self.retry_heads_of_tree(&old.spec.cohort_name);
        }
        self.ready.insert(name.clone());
        for named in old.into_iter().chain([new]) {
            self.enqueue_named_by(named);
        }
        // Kueue 0.19.2, `workloadQueueHandler` in `pkg/controller/core/workload_controller.go`.
        let other_checks = |old: &ClusterQueue| {
            old.spec.admission_checks_strategy != new.spec.admission_checks_strategy
        };
        let wakes = old.is_none_or(|old| {
            going || other_checks(old) || old.spec.stop_policy != new.spec.stop_policy
        });
        let mut missed = BTreeSet::new();
        let stops = going || new.spec.stop_policy != StopPolicy::None;
        if stops || old.is_none_or(other_checks) {
            missed = self.misses_stop(&name);
            // For a Workload with quota, active or not, Kueue reads the ClusterQueue itself.
            missed.retain(|key| !self.cache.workloads[key].workload.has_quota());
        }
        if going && self.is_empty(&name) {
            self.enqueue_workloads(&name, &missed);
        }
        self.enqueue(Task::ClusterQueue(name.clone()));
        if old.is_none() {
            for key in self.cache.workloads_of(&name) {
                self.place_as(&key, Start::ClusterQueue);
            }
        }
        if wakes {
            self.enqueue_workloads(&name, &missed);
        } else {
            self.enqueue_local_queues(&name);
        }
    }

    /// Enqueues the checks and flavors of a ClusterQueue, which keep their finalizers as long as it
    /// exists.
    fn enqueue_named_by(&mut self, queue: &ClusterQueue) {
        for rule in queue.checks() {
            self.enqueue(Task::Check(rule.name.clone()));
        }
        for flavor in queue.flavors() {
            self.enqueue(Task::Flavor(flavor.to_owned()));
        }
    }

    /// Returns the Workloads that are reconciled before the cache has the change of their queue.
    pub(super) fn misses_stop(&self, cluster_queue: &str) -> BTreeSet<String> {
        let bits = self.version.misses_stop;
        if bits == 0 {
            return BTreeSet::new();
        }
        let mut keys = self.cache.workloads_of(cluster_queue);
        keys.sort_by_key(|key| self.cache.workloads[key].arrival);
        let keys = keys.into_iter().enumerate();
        keys.filter(|(nth, _)| bits >> nth.min(&7) & 1 == 1)
            .map(|(_, key)| key)
            .collect()
    }

    /// Places and enqueues all Workloads of a ClusterQueue except those that `missed` its change.
    fn enqueue_workloads(&mut self, cluster_queue: &str, missed: &BTreeSet<String>) {
        self.enqueue_local_queues(cluster_queue);
        for key in self.cache.workloads_of(cluster_queue) {
            if !missed.contains(&key) {
                self.place(&key);
                self.enqueue(Task::Workload(key));
            }
        }
    }

    /// Reconciles the finalizer of a check, and the condition of one of `MultiKueue`. A check that is
    /// being deleted keeps its finalizer while a ClusterQueue names the check.
    pub(super) fn reconcile_check(&mut self, name: &str) {
        let Some(check) = self.cache.checks.get(name) else {
            return;
        };
        if let Some(why) = check.missing_clusters() {
            let message = format!("Cannot load the AdmissionChecks parameters: {why}");
            let now = self.api.now();
            let mut condition = Condition::new("Active", True(false), "BadConfig", message, now);
            condition.observed_generation = Some(check.metadata.generation);
            let mut conditions = check.status.conditions.clone();
            if conditions.set(condition) {
                let patch = json!({"status": {"conditions": conditions}});
                self.api
                    .merge(&kueue("admissionchecks"), ("", name), "status", patch);
            }
        }
        let has = check.metadata.finalizers.iter().any(|f| f == FINALIZER);
        let going = check.metadata.deletion_timestamp.is_some();
        let mut queues = self.cache.cluster_queues.values();
        let used = queues.any(|q| q.checks().iter().any(|rule| rule.name == name));
        let wanted = if going { has && used } else { true };
        if wanted == has {
            return;
        }
        let Some(raw) = self.api.get(&kueue("admissionchecks"), "", name) else {
            return;
        };
        let mut object = (*raw).clone();
        let mut finalizers = check.metadata.finalizers.clone();
        finalizers.retain(|f| f != FINALIZER);
        if wanted {
            finalizers.push(FINALIZER.to_owned());
        }
        object["metadata"]["finalizers"] = json!(finalizers);
        self.api.update(&kueue("admissionchecks"), object, "");
    }

    /// Reconciles a ClusterQueue: its finalizer, the `Active` condition and the counts.
    pub(super) fn reconcile_cluster_queue(&mut self, name: &str) {
        let Some(queue) = self.cache.cluster_queues.get(name) else {
            return;
        };
        let now = self.api.now();
        let mut condition = active(queue, &self.cache.checks, &self.cache.flavors, now);
        condition.observed_generation = Some(queue.metadata.generation);
        let has_finalizer = queue.metadata.finalizers.iter().any(|f| f == FINALIZER);
        if queue.metadata.deletion_timestamp.is_none() && !has_finalizer {
            if let Some(raw) = self.api.get(&kueue("clusterqueues"), "", name) {
                let mut object = (*raw).clone();
                let mut finalizers = queue.metadata.finalizers.clone();
                finalizers.push(FINALIZER.to_owned());
                object["metadata"]["finalizers"] = json!(finalizers);
                self.api.update(&kueue("clusterqueues"), object, "");
            }
            self.enqueue(Task::ClusterQueue(name.to_owned()));
            return;
        }
        // Without Kueue's finalizer, another one keeps it.
        if queue.metadata.deletion_timestamp.is_some() && has_finalizer {
            if self.is_empty(name) {
                self.let_go(name);
                return;
            }
            if !self.version.updates_deleted_queues {
                return;
            }
        }
        let mut status = self.counted(queue);
        status.conditions.set(condition);
        if status == queue.status {
            return;
        }
        let patch = json!({"status": status});
        self.api
            .merge(&kueue("clusterqueues"), ("", name), "status", patch);
    }

    /// Returns the status of a ClusterQueue with its present counts and usage, and its share with
    /// the setting `fairSharing` (Kueue 0.15.0 to 0.19.2, `updateCqStatusIfChanged` in
    /// `pkg/controller/core/clusterqueue_controller.go`).
    fn counted(&self, queue: &ClusterQueue) -> QueueStatus {
        let name = &queue.metadata.name;
        let reserved = QuotaUsage {
            workloads: self.cache.holders.get(name).map_or(0, BTreeSet::len),
            usage: self.cache.usage.get(name).cloned().unwrap_or_default(),
        };
        let none = QuotaUsage::default();
        let admitted = self.cache.admitted.get(name).unwrap_or(&none);
        let pending = self.queues.get(name).map_or(0, PendingQueue::len);
        let mut status = counted(queue, pending, &reserved, admitted);
        if self.version.fair_sharing.is_some() {
            let tree = self.tree();
            let share = tree.queue(name).map(|node| tree.weighted_share(node));
            status.fair_sharing = Some(FairSharingStatus {
                weighted_share: share.unwrap_or_default(),
            });
        }
        status
    }

    /// Returns true if no Workload holds quota of a ClusterQueue.
    fn is_empty(&self, name: &str) -> bool {
        let holders = self.cache.holders.get(name);
        holders.is_none_or(BTreeSet::is_empty)
    }

    /// Removes Kueue's finalizer of a ClusterQueue that is being deleted. Those of others stay
    /// (Kueue 0.15.0 to 0.19.2, `Reconcile` in `pkg/controller/core/clusterqueue_controller.go`).
    fn let_go(&mut self, name: &str) {
        let raw = self.api.get(&kueue("clusterqueues"), "", name);
        let Some(raw) = raw else {
            return;
        };
        let mut object = (*raw).clone();
        let finalizers = list(&raw["metadata"]["finalizers"]);
        let others: Vec<&Value> = finalizers.filter(|f| *f != FINALIZER).collect();
        object["metadata"]["finalizers"] = json!(others);
        self.api.update(&kueue("clusterqueues"), object, "");
    }

    /// Returns true if a ClusterQueue takes Workloads. Kueue evaluates its cache, so that the
    /// result changes before the condition does.
    pub(super) fn is_active(&self, name: &str) -> bool {
        let (checks, flavors) = (&self.cache.checks, &self.cache.flavors);
        let queue = self.cache.cluster_queues.get(name);
        queue.is_some_and(|queue| active(queue, checks, flavors, self.api.now()).is_true())
    }

    /// Copies the head of a ClusterQueue, as the scheduler does; with `quick_scheduler`, all of its
    /// active Workloads, with `slow_scheduler`, none yet.
    fn copy_head(&mut self, name: &str) {
        if self.version.slow_scheduler {
            return;
        }
        let head = self.queue(name).head().map(str::to_owned);
        let mut keys: Vec<String> = head.into_iter().collect();
        if self.version.quick_scheduler {
            let queue = self.queue(name);
            keys = queue.all_active().map(str::to_owned).collect();
        }
        let known = keys.iter().filter_map(|key| self.cache.workloads.get(key));
        let copies = known.map(|known| (known.workload.metadata.key(), known.workload.clone()));
        self.copies.extend(copies);
    }

    /// Retries the Workloads of a ClusterQueue whose check or flavor was created, deleted, or
    /// became active or inactive, if the ClusterQueue is active by that (Kueue 0.19.2,
    /// `updateClusterQueues` in `pkg/cache/scheduler/cache.go`).
    pub(super) fn may_be_active(&mut self, name: &str) {
        if self.is_active(name) {
            self.quota_changed(name);
        }
    }

    /// Retries the Workloads of this ClusterQueue and of those that share quota with it: they may
    /// fit now.
    pub(super) fn quota_changed(&mut self, name: &str) {
        let relatives = self.retry_heads(name);
        self.batch_retry(name, &relatives);
    }

    /// Retries the inadmissible Workloads of a tree of cohorts after a [batch](super::BATCH), which
    /// has the name of its first ClusterQueue, or at once.
    fn batch_retry(&mut self, name: &str, relatives: &BTreeSet<String>) {
        let first = relatives.first().map_or(name, String::as_str);
        if self.version.batches_retries {
            self.batch(Task::RetryInadmissible(first.to_owned()));
        } else {
            self.retry_inadmissible(first);
        }
    }

    /// Retries heads after the usage of this ClusterQueue has dropped. Heads that wait for
    /// preemptions may fit now; the scheduler retries them without end. Returns this ClusterQueue
    /// and those that share quota with it.
    pub(super) fn retry_heads(&mut self, name: &str) -> BTreeSet<String> {
        let relatives = self.tree().relatives(name);
        for relative in &relatives {
            self.retry_head(relative.clone());
        }
        relatives
    }

    /// Retries the head that the scheduler retries without end, if there is one.
    pub(super) fn retry_head(&mut self, name: String) {
        let queue = self.queue(&name);
        queue.unblock();
        if queue.has_busy_head() && self.version.quick_scheduler {
            self.urgent.insert(name.clone());
        }
        self.ready.insert(name);
    }

    pub(super) fn retry_inadmissible(&mut self, name: &str) {
        let now = self.api.now();
        for relative in self.tree().relatives(name) {
            let namespaces = self.namespaces_of(&relative);
            let takes = |namespace: &str| namespaces.contains(namespace);
            self.queue(&relative).retry_inadmissible(now, takes);
            self.ready.insert(relative);
        }
    }

    /// Returns the Namespaces that a ClusterQueue takes, among those of its LocalQueues.
    fn namespaces_of(&self, cluster_queue: &str) -> BTreeSet<String> {
        let Some(queue) = self.cache.cluster_queues.get(cluster_queue) else {
            return BTreeSet::new();
        };
        let locals = self.cache.local_queues.values();
        let before = locals.filter(|local| local.spec.cluster_queue == cluster_queue);
        let all: BTreeSet<&String> = before.map(|local| &local.metadata.namespace).collect();
        let taken = all.into_iter().filter(|name| self.selects(queue, name));
        taken.cloned().collect()
    }
}
