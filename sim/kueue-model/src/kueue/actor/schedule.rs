//! The scheduler's cycle.
//!
//! The rules are those of Kueue 0.19.2: `pkg/scheduler/scheduler.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use super::Kueue;
use super::cache::CachedWorkload;
use super::preemption::Target;
use crate::kueue::objects::{
    ClusterQueue, Condition, Metadata, PreemptionPolicy, State, True, Workload, read,
};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::queue::{PendingQueue, Requeue, queued_since};
use crate::kueue::reconcile::{
    BLOCKED, EventRecord, SLICE_REPLACED, Write, admitted_event, evict, finish, needed_checks,
    reserve, sync_admitted, unset_quota,
};
use crate::kueue::scheduler::{
    Assignment, AssignmentInput, Contender, Fit, NodeId, SCHEDULER, Tree, Usage, above_limits,
    assign, fairest, largest_that_fits, requests_of, usage_of,
};

/// The head of a ClusterQueue, with its flavor assignment and preemption targets.
#[derive(Debug)]
struct Entry {
    known: CachedWorkload,
    queue: ClusterQueue,
    node: NodeId,
    assignment: Assignment,
    targets: Vec<Target>,
    /// The slice that it replaces.
    replaced: Option<CachedWorkload>,
}

/// A Workload to requeue after the cycle.
#[derive(Debug)]
struct Left {
    known: CachedWorkload,
    queue: ClusterQueue,
    why: String,
    reason: &'static str,
    requeue: Requeue,
    /// Whether flavors were tried.
    tried: bool,
}

/// What a scheduling cycle waits for.
#[derive(Debug)]
enum Pause {
    /// All Pods are ready. Then this Workload is processed.
    PodsReady(Box<Entry>),
    /// This many changes of its Workloads, or this time, with `late_scheduler`.
    Changes(u8, Timestamp),
}

/// The maximum time between the decisions of a cycle and its writes, with `late_scheduler`.
const MAX_WRITE_DELAY: SignedDuration = SignedDuration::from_millis(120);

/// The state of a scheduling cycle in progress.
#[derive(Debug)]
pub(super) struct Cycle {
    /// The ClusterQueues that share quota.
    relatives: BTreeSet<String>,
    /// The first Workloads of those.
    heads: BTreeSet<String>,
    /// The Workloads that are not processed yet, in order.
    entries: VecDeque<Entry>,
    pause: Option<Pause>,
    left: Vec<Left>,
    /// The quota, with the usage that Workloads of this cycle have added.
    tree: Tree,
    /// The preemption targets of this cycle and the replaced slices, by Workload key.
    leaving: BTreeMap<String, (NodeId, Usage)>,
    admitted: bool,
}

impl Cycle {
    /// Counts a change of a Workload, for which a cycle may wait.
    pub(super) fn count_change(&mut self, key: &str) {
        let is_this = |known: &CachedWorkload| known.workload.metadata.key() == key;
        let left = self.left.iter().map(|left| &left.known);
        let mut all = self.entries.iter().map(|entry| &entry.known).chain(left);
        if let Some(Pause::Changes(missing, _)) = &mut self.pause
            && all.any(is_this)
        {
            *missing = missing.saturating_sub(1);
        }
    }

    /// Returns true if all changes for which a cycle waits have been made.
    pub(super) fn is_overtaken(&self) -> bool {
        matches!(self.pause, Some(Pause::Changes(0, _)))
    }
}

impl Kueue {
    /// Tries the heads of ClusterQueues that share quota. Returns true if there was one.
    pub(super) fn schedule_one(&mut self) -> bool {
        let (cache, now) = (&self.cache, self.api.now());
        if let Some(mut cycle) = self.paused.take_if(|cycle| match cycle.pause {
            Some(Pause::PodsReady(_)) => cache.all_pods_are_ready(),
            Some(Pause::Changes(missing, at)) => missing == 0 || at <= now,
            None => true,
        }) {
            if let Some(Pause::PodsReady(entry)) = cycle.pause.take() {
                let left = self.reserve_entry(*entry, &mut cycle);
                cycle.left.extend(left);
            }
            self.go_through(cycle);
            return true;
        }
        if self.paused.is_some() {
            return false;
        }
        while let Some(name) = self.ready.first().cloned() {
            if self.version.kep993 && self.second_pass(&name) {
                return true;
            }
            if self.cycle(&name) {
                return true;
            }
            self.ready.remove(&name);
        }
        false
    }

    /// Returns the ClusterQueues and cohorts with their usage.
    pub(super) fn tree(&self) -> Tree {
        let cache = &self.cache;
        Tree::new(&cache.cluster_queues, &cache.cohorts, &cache.usage)
    }

    /// Returns the tree as the scheduler reads it: inactive ClusterQueues are not leaves.
    pub(super) fn snapshot(&self) -> Tree {
        let mut tree = self.tree();
        let queues = self.cache.cluster_queues.keys();
        let inactive = queues.filter(|name| !self.is_active(name));
        inactive.for_each(|name| tree.deactivate(name));
        tree
    }

    /// Runs one cycle of this ClusterQueue and those with which it shares quota. All of their heads
    /// take part if at least one has not been tried since the last change. Returns false if there
    /// is no such head.
    pub(super) fn cycle(&mut self, name: &str) -> bool {
        let tree = self.snapshot();
        let relatives = tree.relatives(name);
        let taking = relatives
            .iter()
            .filter(|name| self.takes_workloads(name, &tree))
            .filter_map(|name| self.queues.get(name));
        let heads = taking.clone().filter_map(|queue| queue.first());
        let heads: BTreeSet<String> = heads.map(str::to_owned).collect();
        let has_new_head =
            |queue: &PendingQueue| queue.head().is_some() || queue.was_skipped_among_others(&heads);
        if !taking.clone().any(has_new_head) {
            return false;
        }
        let (mut entries, mut left) = (Vec::new(), Vec::new());
        for name in &relatives {
            if let Some((known, queue)) = self.take_head(name, &tree) {
                match self.refusal(&known.workload, &queue) {
                    Some((why, reason, requeue)) => left.push(Left {
                        known,
                        queue,
                        why,
                        reason,
                        requeue,
                        tried: false,
                    }),
                    None => entries.extend(self.nominate(known, queue, &tree)),
                }
            }
        }
        let by = self.version.requeuing_timestamp();
        entries.sort_by_key(|entry| {
            let workload = &entry.known.workload;
            let (borrowing, priority) = (entry.assignment.borrowing, workload.spec.priority);
            let since = queued_since(workload, by);
            (borrowing, Reverse(priority), since, entry.known.arrival)
        });
        let late = self.api.now().saturating_add(MAX_WRITE_DELAY).ok();
        let changes = self.version.late_scheduler;
        let late = late.filter(|_| changes > 0);
        let cycle = Box::new(Cycle {
            relatives,
            heads,
            entries: entries.into(),
            pause: late.map(|at| Pause::Changes(changes, at)),
            left,
            tree,
            leaving: BTreeMap::new(),
            admitted: false,
        });
        if cycle.pause.is_some() {
            self.paused = Some(cycle);
        } else {
            self.go_through(cycle);
        }
        true
    }

    /// Returns the time at which a cycle goes on that nothing else continues.
    pub(super) fn goes_on_at(&self) -> Option<Timestamp> {
        match self.paused.as_ref()?.pause.as_ref()? {
            Pause::Changes(_, at) => Some(*at),
            Pause::PodsReady(_) => None,
        }
    }

    /// Processes the Workloads of a cycle, until one waits for Pods.
    fn go_through(&mut self, mut cycle: Box<Cycle>) {
        while let Some(entry) = self.next_entry(&mut cycle) {
            let left = self.process(entry, &mut cycle);
            cycle.left.extend(left);
            if cycle.pause.is_some() {
                self.paused = Some(cycle);
                return;
            }
        }
        for mut left in cycle.left {
            // The Workload that was in the way may be gone, or waits as well.
            if left.requeue == Requeue::Skipped && cycle.admitted {
                left.requeue = Requeue::FailedWrite;
            }
            self.put_back(&left);
            if left.requeue == Requeue::Skipped {
                let queue = left.queue.metadata.name;
                self.queue(&queue).skipped_among(&cycle.heads);
                self.ready.insert(queue);
            }
        }
        if cycle.admitted {
            // The scheduler retries a remaining head without end, so that its message reports what
            // is missing now.
            for name in cycle.relatives {
                self.queue(&name).unblock();
                if self.version.quick_scheduler {
                    self.urgent.insert(name.clone());
                }
                self.ready.insert(name);
            }
        }
    }

    /// Removes the Workload to process next.
    fn next_entry(&self, cycle: &mut Cycle) -> Option<Entry> {
        if self.version.fair_sharing.is_none() {
            return cycle.entries.pop_front();
        }
        let by = self.version.requeuing_timestamp();
        let contenders = cycle.entries.iter().map(|entry| Contender {
            node: entry.node,
            wanted: &entry.assignment.usage,
            priority: entry.known.workload.spec.priority,
            since: queued_since(&entry.known.workload, by),
            arrival: entry.known.arrival,
        });
        let next = fairest(
            &contenders.collect::<Vec<_>>(),
            &cycle.tree,
            self.version.nominal_first,
        )?;
        cycle.entries.remove(next)
    }

    fn takes_workloads(&self, name: &str, tree: &Tree) -> bool {
        self.is_active(name) && tree.queue(name).is_some_and(|node| !tree.has_cycle(node))
    }

    /// Returns the head of a ClusterQueue, whether or not it was tried before.
    fn take_head(&mut self, name: &str, tree: &Tree) -> Option<(CachedWorkload, ClusterQueue)> {
        if !self.takes_workloads(name, tree) {
            return None;
        }
        let queue = self.cache.cluster_queues.get(name)?.clone();
        let key = self.queues.get(name)?.first()?.to_owned();
        let Some(mut known) = self.cache.workloads.get(&key).cloned() else {
            self.queue(name).remove(&key);
            return None;
        };
        // The scheduler uses the copy with which the Workload entered the queue. Its write reverts
        // later changes (Kueue 0.19.2, `pkg/scheduler/scheduler.go`).
        if let Some(copy) = self.copies.remove(&key) {
            known.workload = copy;
        }
        Some((known, queue))
    }

    /// Returns the message, reason and requeue kind of a Workload that is not tried at all (Kueue
    /// 0.19.2, `nominate` in `pkg/scheduler/scheduler.go`).
    fn refusal(
        &self,
        workload: &Workload,
        queue: &ClusterQueue,
    ) -> Option<(String, &'static str, Requeue)> {
        let failed = |state| workload.checks_in(state).next().is_some();
        if failed(State::Retry) || failed(State::Rejected) {
            let why = "The workload has failed admission checks";
            Some((why.to_owned(), "PendingEvaluation", Requeue::Other))
        } else if !self.selects(queue, &workload.metadata.namespace) {
            let why = if self.version.revised_messages {
                "workload namespace doesn't match ClusterQueue selector"
            } else {
                "Workload namespace doesn't match ClusterQueue selector"
            };
            Some((why.to_owned(), "Misconfigured", Requeue::NamespaceMismatch))
        } else {
            let why = above_limits(workload, self.version)?;
            Some((why, "Misconfigured", Requeue::Other))
        }
    }

    fn nominate(
        &mut self,
        known: CachedWorkload,
        queue: ClusterQueue,
        tree: &Tree,
    ) -> Option<Entry> {
        let node = tree.queue(&queue.metadata.name)?;
        let last_tried = self.searches.take(&known.workload.metadata.key());
        let replaced = self.replaced(&known, &queue);
        let find = |counts: Option<&[i64]>| {
            let ground = AssignmentInput {
                queue: &queue,
                node,
                tree,
                flavors: &self.cache.flavors,
                simulate: &|cell, amount| self.simulate(&known, &queue, (cell, amount), tree),
                last_tried: &last_tried,
                counts,
                version: self.version,
                replaced: replaced.as_ref().map(|old| old.workload.as_ref()),
            };
            let assignment = assign(&known.workload, &ground);
            let targets = match assignment.fit {
                Fit::Fits | Fit::No => Vec::new(),
                _ => {
                    // Without the quota for Pods (Kueue 0.19.2, `TotalRequestsFor` in
                    // `pkg/scheduler/flavorassigner/flavorassigner.go`).
                    let wanted = if self.version.preempts_for_pods {
                        assignment.usage.clone()
                    } else {
                        assignment.usage.without_pods()
                    };
                    let cells = &assignment.without_capacity;
                    self.targets(&known, &queue, (&wanted, cells), tree)
                }
            };
            (assignment, targets)
        };
        let all = find(None);
        let (assignment, targets) = if is_to_be_had(&all) {
            all
        } else {
            let fewer = largest_that_fits(&known.workload, |counts| {
                Some(find(Some(counts))).filter(is_to_be_had)
            });
            fewer.unwrap_or(all)
        };
        Some(Entry {
            known,
            queue,
            node,
            assignment,
            targets,
            replaced,
        })
    }

    /// Returns the slice that a Workload replaces, if that slice has quota of the same ClusterQueue
    /// (Kueue 0.19.2, `ReplacedWorkloadSlice` in `pkg/workloadslicing/workloadslicing.go`).
    fn replaced(&self, known: &CachedWorkload, queue: &ClusterQueue) -> Option<CachedWorkload> {
        let key = known.workload.replaces()?;
        let holders = self.cache.holders.get(&queue.metadata.name)?;
        let old = self
            .cache
            .workloads
            .get(key)
            .filter(|_| holders.contains(key))?;
        let namespace = &known.workload.metadata.namespace;
        (old.workload.metadata.namespace == *namespace).then(|| old.clone())
    }

    /// Processes one Workload of a cycle. Returns it if it is to be requeued.
    fn process(&mut self, entry: Entry, cycle: &mut Cycle) -> Option<Left> {
        let assignment = &entry.assignment;
        if self
            .admitted_sibling(&entry, |sibling, own| sibling < own)
            .is_some()
        {
            return Some(self.skip(entry, BETTER_ADMITTED));
        }
        let (why, reason, requeue) = match assignment.fit {
            Fit::No => {
                let message = assignment.message.clone();
                (
                    message,
                    assignment.reason,
                    self.go_on(&entry, Requeue::NoFit),
                )
            }
            Fit::Fits => return self.take(entry, cycle),
            _ if entry.targets.is_empty() => {
                let reclaims = entry.queue.spec.preemption.reclaim_within_cohort;
                if reclaims != PreemptionPolicy::Any {
                    let (wanted, borrows) = (&assignment.usage, assignment.borrowing > 0);
                    let reserved = cycle.tree.reservation(entry.node, wanted, borrows);
                    cycle.tree.add(entry.node, &reserved);
                }
                let message = assignment.message.clone();
                let requeue = self.go_on(&entry, Requeue::NoCandidates);
                (message, "WaitingForQuota", requeue)
            }
            _ => return self.evict_victims(entry, cycle),
        };
        Some(entry.left(why, reason, requeue))
    }

    fn take(&mut self, entry: Entry, cycle: &mut Cycle) -> Option<Left> {
        if let Some(why) = cycle.conflict(&entry) {
            return Some(self.skip(entry, why));
        }
        cycle.add(&entry);
        let setting = self.version.wait_for_pods_ready;
        let not_ready = || cycle.admitted || !self.cache.all_pods_are_ready();
        if setting.is_some_and(|it| it.block_admission) && not_ready() {
            self.write_blocked(&entry.known.workload);
            cycle.pause = Some(Pause::PodsReady(Box::new(entry)));
            return None;
        }
        self.reserve_entry(entry, cycle)
    }

    /// Records that a Workload waits for the Pods of others (Kueue 0.19.2,
    /// `waitForPodsReadyIfNeeded` in `pkg/scheduler/scheduler.go`).
    fn write_blocked(&self, workload: &Workload) {
        let reason = self.version.reason("WaitingForPodsReady", "Waiting");
        let why = "waiting for all admitted workloads to be in PodsReady condition";
        let mut new = workload.clone();
        if unset_quota(&mut new, reason, why, self.version, self.api.now()) {
            write_admission(&self.api, workload, &new, Guard::Loose, self.version);
        }
    }

    fn reserve_entry(&mut self, entry: Entry, cycle: &mut Cycle) -> Option<Left> {
        if let Some(sibling) = self.admitted_sibling(&entry, |sibling, own| sibling > own) {
            return Some(self.migrate(entry, &sibling));
        }
        cycle.admitted = true;
        let reserved = self.reserve_for(&entry.known, &entry.queue, entry.assignment);
        if let Some(old) = entry.replaced.filter(|_| reserved) {
            self.replace_slice(&entry.known.workload, &old.workload);
        }
        None
    }

    /// Returns the admitted variant of the same job for which `compares` holds. `compares` receives
    /// the positions, in the ClusterQueue, of that variant's flavor and of this one's.
    fn admitted_sibling(
        &self,
        entry: &Entry,
        compares: impl Fn(usize, usize) -> bool,
    ) -> Option<CachedWorkload> {
        let parent = entry.known.workload.parent_uid()?;
        let place = |workload: &Workload| {
            let flavor = workload.variant_flavor();
            entry.queue.flavors().position(|known| known == flavor)
        };
        let own = place(&entry.known.workload)?;
        let holders = self.holders(&entry.queue.metadata.name).into_iter();
        let mut siblings = holders.filter(|known| known.workload.parent_uid() == Some(parent));
        siblings.find(|known| {
            let fits = |sibling| compares(sibling, own);
            known.workload.is_admitted() && place(&known.workload).is_some_and(fits)
        })
    }

    /// Evicts the running variant so that a more favorable one can run (Kueue 0.19.2,
    /// `issueMigration` in `pkg/scheduler/scheduler.go`). Kueue does so before it has evaluated the
    /// checks of the latter.
    fn migrate(&mut self, entry: Entry, sibling: &CachedWorkload) -> Left {
        let flavors: Vec<&str> = entry.queue.flavors().collect();
        let place = |flavor: &str| flavors.iter().position(|known| *known == flavor);
        let last = entry.queue.last_acceptable_flavor().and_then(place);
        let own = place(entry.known.workload.variant_flavor());
        if last.is_some_and(|last| own > Some(last)) {
            let why = "Target flavor is below LastAcceptableFlavorName".to_owned();
            return entry.left(why, "PendingEvaluation", Requeue::Other);
        }
        let old = &sibling.workload;
        let uid = &entry.known.workload.metadata.uid;
        let message = format!(
            "Evicted to accommodate a workload (UID: {uid}) due to migration to more favorable resource flavor"
        );
        let now = self.api.now();
        let outcome = evict(old, "FlavorMigration", &message, None, now, SCHEDULER);
        if let Some(Write::Admission(new)) = &outcome.write {
            let response = write_admission(&self.api, old, new, Guard::Loose, self.version);
            self.finish_write(old, &response, &outcome.notes);
        }
        let why = ". Pending the migration of 1 workload(s)".to_owned();
        let requeue = Requeue::PendingPreemption;
        entry.left(why, "WaitingForPreemptedWorkloads", requeue)
    }

    /// Finishes the slice that another has replaced. If the API server rejects the write, the job
    /// reconciler finishes it (Kueue 0.19.2, `replaceWorkloadSlice` in
    /// `pkg/scheduler/scheduler.go`).
    fn replace_slice(&mut self, new: &Workload, old: &Workload) {
        if old.is_finished() || self.version.late_replacement {
            return;
        }
        let message = format!(
            "Replaced to accommodate a workload (UID: {}, JobUID: {}) due to workload slice aggregation",
            new.metadata.uid,
            new.job_uid().unwrap_or_default(),
        );
        let now = self.api.now();
        let mut finished = old.clone();
        let why = (SLICE_REPLACED, message.as_str());
        finish(&mut finished, why, self.version, now);
        let response = write_admission(&self.api, old, &finished, Guard::Strict, self.version);
        let note = EventRecord::normal(SLICE_REPLACED, message, SCHEDULER);
        self.finish_write(old, &response, &[note]);
    }

    /// Returns an immediate requeue if some flavors have not been tried, `otherwise` if all have
    /// been. The next search continues with the untried flavors.
    fn go_on(&mut self, entry: &Entry, otherwise: Requeue) -> Requeue {
        let last_tried = entry.assignment.last_tried.clone();
        if last_tried.is_empty() {
            return otherwise;
        }
        let key = entry.known.workload.metadata.key();
        self.searches.keep(key, last_tried);
        Requeue::FailedWrite
    }

    /// Skips a Workload because another one of the same cycle was first.
    fn skip(&mut self, entry: Entry, why: &str) -> Left {
        let requeue = if self.version.keeps_flavor_progress {
            self.go_on(&entry, Requeue::Skipped)
        } else {
            Requeue::Skipped
        };
        entry.left(why.to_owned(), "WaitingForQuota", requeue)
    }

    fn evict_victims(&mut self, entry: Entry, cycle: &mut Cycle) -> Option<Left> {
        if self.version.concurrent_admission && entry.known.workload.has_closed_gate() {
            return Some(entry.left(GATED.to_owned(), "AdmissionGated", Requeue::Gated));
        }
        if let Some(why) = cycle.conflict(&entry) {
            return Some(self.skip(entry, why));
        }
        cycle.add(&entry);
        if self.version.kep993 && !entry.queue.checks().is_empty() {
            // The scheduler reserves quota first. The checks determine when it preempts the
            // targets.
            self.reserve_for(&entry.known, &entry.queue, entry.assignment);
            return None;
        }
        let count = entry.targets.len();
        self.preempt(&entry.known.workload, &entry.queue, &entry.targets);
        let message = &entry.assignment.message;
        let why = format!("{message}. Pending the preemption of {count} workload(s)");
        let reason = "WaitingForPreemptedWorkloads";
        Some(entry.left(why, reason, Requeue::PendingPreemption))
    }

    /// Returns true if the ClusterQueue takes Workloads of this Namespace.
    pub(super) fn selects(&self, queue: &ClusterQueue, namespace: &str) -> bool {
        let known = self.cache.namespaces.get(namespace);
        let none = BTreeMap::new();
        queue.takes_labels(known.map_or(&none, |known| &known.metadata.labels))
    }

    pub(super) fn reserve_for(
        &mut self,
        known: &CachedWorkload,
        queue: &ClusterQueue,
        assignment: Assignment,
    ) -> bool {
        let now = self.api.now();
        let old = &known.workload;
        let mut new = (**old).clone();
        if let Some(entries) = self.queued_checks.remove(&old.metadata.key()) {
            new.status.admission_checks = entries;
        }
        reserve(&mut new, assignment.admission, now);
        let needed = needed_checks(
            queue,
            new.status.admission.as_ref(),
            self.version.lists_checks_early,
        );
        let all_there = needed.iter().all(|name| new.check(name).is_some());
        // The same write admits if all checks are Ready already. KEP-993 requires a second pass.
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
        let mut notes = vec![EventRecord::normal("QuotaReserved", text, SCHEDULER)];
        if new.is_admitted() {
            notes.extend(admitted_event(&new, SignedDuration::ZERO, SCHEDULER));
        }
        let response = write_admission(&self.api, old, &new, Guard::Loose, self.version);
        let written = self.finish_write(old, &response, &notes);
        if !written {
            self.queue(&queue.metadata.name).requeue(
                &old.metadata.key(),
                Requeue::FailedWrite,
                now,
            );
        }
        written
    }

    fn waiting_since(workload: &Workload) -> jiff::Timestamp {
        let requeued = workload.status.conditions.get("Requeued");
        let requeued = requeued.map(|c| c.last_transition_time);
        requeued.unwrap_or(workload.metadata.creation_timestamp)
    }

    /// Returns the Workloads that hold quota of a ClusterQueue.
    pub(super) fn holders(&self, queue: &str) -> Vec<CachedWorkload> {
        let keys = self.cache.holders.get(queue).into_iter().flatten();
        keys.filter_map(|key| self.cache.workloads.get(key).cloned())
            .collect()
    }

    /// Records why there is no quota, and requeues the Workload.
    fn put_back(&mut self, left: &Left) {
        let Left {
            known,
            queue,
            why,
            requeue,
            ..
        } = left;
        let (workload, requeue) = (&*known.workload, *requeue);
        let reason = self.version.reason(left.reason, "Pending");
        if self.version.stale_scheduler {
            let entries = workload.status.admission_checks.clone();
            self.queued_checks.insert(workload.metadata.key(), entries);
        }
        let now = self.api.now();
        let key = workload.metadata.key();
        let version = self.version;
        // Kueue puts it back if it is still to have quota, by the newest state (0.19.2,
        // `RequeueWorkload` in `pkg/cache/queue/manager.go`).
        let newest = self.cache.workloads.get(&key);
        let goes_back = newest.is_some_and(|known| known.workload.is_admissible(version));
        let place = self.queue(&queue.metadata.name);
        if goes_back {
            place.requeue(&key, requeue, now);
        } else {
            place.remove(&key);
        }
        let mut new = workload.clone();
        // The event refers to the Workload as it was before this write. If that version already has
        // an event of this reason, the new event joins its series, whatever its note (Kueue 0.19.2,
        // `requeueAndUpdate` in `pkg/scheduler/scheduler.go`).
        let known = self.cache.workloads.get(&key);
        let metadata = known.map_or(&workload.metadata, |known| &known.workload.metadata);
        let metadata = metadata.clone();
        let mut changed = unset_quota(&mut new, reason, why, self.version, now);
        let with_pods = left.tried && version.preempts_for_pods && queue.group_of("pods").is_some();
        let requests = requests_of(workload, with_pods, version);
        if new.status.resource_requests != requests {
            new.status.resource_requests = requests;
            changed = true;
        }
        if requeue == Requeue::Gated {
            let why = why.as_str();
            let blocked = Condition::new(BLOCKED, True(true), "PreemptionGated", why, now);
            // Whether the rest is written depends on it alone (0.18.3 and 0.19.2, `requeueAndUpdate`
            // in `pkg/scheduler/scheduler.go`).
            changed = new.set_condition(blocked);
        }
        if changed {
            let response = write_admission(&self.api, workload, &new, Guard::Loose, self.version);
            if !self.version.keeps_flavor_progress {
                let written: Metadata = read(&response.body["metadata"]);
                self.searches
                    .record_own_write(&key, written.resource_version);
            }
        }
        self.record_event(
            &EventRecord::warning(reason, why.as_str(), SCHEDULER),
            &metadata,
        );
        let queue = self.queue(&queue.metadata.name);
        if queue.is_retried_without_end(&key) && !self.version.slow_retries {
            self.recorder.flooded(&metadata.uid, now);
        }
    }
}

const NO_LONGER_FITS: &str = "Workload no longer fits after processing another workload";
const BETTER_ADMITTED: &str = "A more favorable variant is already admitted";
const GATED: &str = "Workload requires preemption, but it's gated";
const OVERLAPPING: &str = "Workload has overlapping preemption targets with another workload";

/// Returns true if the Workload fits, now or after preemptions.
fn is_to_be_had((assignment, targets): &(Assignment, Vec<Target>)) -> bool {
    match assignment.fit {
        Fit::Fits => true,
        Fit::No => false,
        _ => !targets.is_empty(),
    }
}

impl Entry {
    fn left(self, why: String, reason: &'static str, requeue: Requeue) -> Left {
        Left {
            known: self.known,
            queue: self.queue,
            why,
            reason,
            requeue,
            tried: true,
        }
    }

    /// Returns the Workloads whose quota it takes. A slice that it replaces counts as a preemption
    /// target, although only the additional amount is requested (Kueue 0.19.2,
    /// `ReplacedWorkloadSlice` in `pkg/workloadslicing/workloadslicing.go`).
    fn leaving(&self) -> impl Iterator<Item = (String, (NodeId, Usage))> {
        let targets = self.targets.iter().map(|target| {
            let left = (target.node, target.usage.clone());
            (target.workload.metadata.key(), left)
        });
        let replaced = self.replaced.iter().map(|old| {
            let left = (self.node, usage_of(&old.workload));
            (old.workload.metadata.key(), left)
        });
        targets.chain(replaced)
    }
}

impl Cycle {
    /// Returns why a Workload can't have its quota after those that were processed before it.
    fn conflict(&self, entry: &Entry) -> Option<&'static str> {
        let leaves_already = |key: &String| self.leaving.contains_key(key);
        if entry.leaving().any(|(key, _)| leaves_already(&key)) {
            return Some(OVERLAPPING);
        }
        let mut gone = self.leaving.clone();
        gone.extend(entry.leaving());
        let mut tree = self.tree.clone();
        for (node, usage) in gone.values() {
            tree.remove(*node, usage);
        }
        let fits = tree.fits(entry.node, &entry.assignment.usage);
        (!fits).then_some(NO_LONGER_FITS)
    }

    /// Adds the usage of a Workload, and those that leave for it.
    fn add(&mut self, entry: &Entry) {
        self.leaving.extend(entry.leaving());
        self.tree.add(entry.node, &entry.assignment.usage);
    }
}
