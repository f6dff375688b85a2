//! The scheduler's cycle.
//!
//! The rules are those of Kueue 0.19.2: `pkg/scheduler/scheduler.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Kueue;
use super::cache::CachedWorkload;
use super::preemption::Target;
use crate::kueue::objects::{ClusterQueue, Condition, PreemptionPolicy, State, True, Workload};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::queue::{Requeue, queued_since};
use crate::kueue::reconcile::{
    BLOCKED, EventRecord, SLICE_REPLACED, Write, admitted_event, evict, reserve, sync_admitted,
    unset_quota,
};
use crate::kueue::scheduler::{
    Assignment, AssignmentInput, Fit, NodeId, SCHEDULER, Tree, Usage, assign, largest_that_fits,
};

/// The first Workload of a ClusterQueue, and what it would get.
struct Entry {
    known: CachedWorkload,
    queue: ClusterQueue,
    node: NodeId,
    assignment: Assignment,
    targets: Vec<Target>,
    /// The slice that it replaces.
    replaced: Option<CachedWorkload>,
}

/// A Workload that goes back into its queue.
struct Left {
    known: CachedWorkload,
    queue: ClusterQueue,
    why: String,
    reason: &'static str,
    requeue: Requeue,
}

/// What has happened in a cycle so far.
struct Cycle {
    /// With what the Workloads of this cycle take.
    tree: Tree,
    /// Who is made to leave, by key.
    leaving: BTreeMap<String, (NodeId, Usage)>,
    admitted: bool,
}

impl Kueue {
    /// Tries the first Workloads of ClusterQueues that share quota. Says whether there was one.
    pub(super) fn schedule_one(&mut self) -> bool {
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

    /// The ClusterQueues and cohorts, with what is taken.
    pub(super) fn tree(&self) -> Tree {
        let cache = &self.cache;
        Tree::new(&cache.cluster_queues, &cache.cohorts, &cache.usage)
    }

    /// The same as the scheduler reads it: ClusterQueues that take no Workloads are no leaves.
    pub(super) fn snapshot(&self) -> Tree {
        let mut tree = self.tree();
        let queues = self.cache.cluster_queues.keys();
        let inactive = queues.filter(|name| !self.is_active(name));
        inactive.for_each(|name| tree.deactivate(name));
        tree
    }

    /// One cycle of this ClusterQueue and those with which it shares quota. All of their heads take
    /// part if one of them has not been tried as things are.
    pub(super) fn cycle(&mut self, name: &str) -> bool {
        let tree = self.snapshot();
        let relatives = tree.relatives(name);
        let has_new_head = |name: &String| {
            let queue = self.queues.get(name);
            queue.is_some_and(|q| q.head().is_some()) && self.takes_workloads(name, &tree)
        };
        if !relatives.iter().any(has_new_head) {
            return false;
        }
        let (mut entries, mut left) = (Vec::new(), Vec::new());
        for name in &relatives {
            if let Some((known, queue)) = self.take_head(name, &tree) {
                match self.refusal(&known.workload, &queue) {
                    Some((why, reason, requeue)) => left.push(Left {
                        known,
                        queue,
                        why: why.to_owned(),
                        reason,
                        requeue,
                    }),
                    None => entries.extend(self.nominate(known, queue, &tree)),
                }
            }
        }
        entries.sort_by_key(|entry| {
            let workload = &entry.known.workload;
            let (borrowing, priority) = (entry.assignment.borrowing, workload.spec.priority);
            let since = queued_since(workload);
            (borrowing, Reverse(priority), since, entry.known.arrival)
        });
        let mut cycle = Cycle {
            tree,
            leaving: BTreeMap::new(),
            admitted: false,
        };
        for entry in entries {
            left.extend(self.process(entry, &mut cycle));
        }
        for left in left {
            let Left {
                known,
                queue,
                why,
                reason,
                requeue,
            } = left;
            // Whoever was in the way may be gone, or waits as well.
            let requeue = match requeue {
                Requeue::Skipped if cycle.admitted => Requeue::FailedWrite,
                other => other,
            };
            self.put_back(&known.workload, &queue, &why, reason, requeue);
        }
        if cycle.admitted {
            // Whoever stays first is tried without end, so that it says what is missing now.
            for name in relatives {
                self.queue(&name).unblock();
                self.ready.insert(name);
            }
        }
        true
    }

    fn takes_workloads(&self, name: &str, tree: &Tree) -> bool {
        self.is_active(name) && tree.queue(name).is_some_and(|node| !tree.has_cycle(node))
    }

    /// The first Workload of a ClusterQueue, whether or not it was tried before.
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
        // The scheduler's copy is that with which the Workload came into the queue: what has
        // changed since is written back (Kueue 0.19.2, `pkg/scheduler/scheduler.go`).
        if let Some(copy) = self.copies.remove(&key) {
            known.workload = copy;
        }
        Some((known, queue))
    }

    /// Why a Workload is not tried at all: the message, the reason, and when it may be.
    fn refusal(
        &self,
        workload: &Workload,
        queue: &ClusterQueue,
    ) -> Option<(&'static str, &'static str, Requeue)> {
        let failed = |state| workload.checks_in(state).next().is_some();
        if failed(State::Retry) || failed(State::Rejected) {
            let why = "The workload has failed admission checks";
            Some((why, "PendingEvaluation", Requeue::Other))
        } else if !self.selects(queue, &workload.metadata.namespace) {
            let why = if self.version.small_mismatch {
                "workload namespace doesn't match ClusterQueue selector"
            } else {
                "Workload namespace doesn't match ClusterQueue selector"
            };
            Some((why, "Misconfigured", Requeue::NamespaceMismatch))
        } else {
            None
        }
    }

    fn nominate(
        &mut self,
        known: CachedWorkload,
        queue: ClusterQueue,
        tree: &Tree,
    ) -> Option<Entry> {
        let node = tree.queue(&queue.metadata.name)?;
        let last_tried = self.last_tried.remove(&known.workload.metadata.key());
        let last_tried = last_tried.unwrap_or_default();
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
                replaced: replaced.as_ref().map(|old| old.workload.as_ref()),
            };
            let assignment = assign(&known.workload, &ground);
            let targets = match assignment.fit {
                Fit::Fits | Fit::No => Vec::new(),
                _ => {
                    let (wanted, cells) = (&assignment.usage, &assignment.without_capacity);
                    self.targets(&known, &queue, (wanted, cells), tree)
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

    /// The slice that a Workload replaces, if it has quota of the same ClusterQueue (Kueue 0.19.2,
    /// `ReplacedWorkloadSlice` in `pkg/workloadslicing/workloadslicing.go`).
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

    /// Takes one Workload of a cycle; what is left is put back.
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
        if !cycle.fits(&entry) {
            return Some(self.skip(entry, NO_LONGER_FITS));
        }
        cycle.tree.add(entry.node, &entry.assignment.usage);
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

    /// The admitted variant of the same job whose flavor compares so with this one's, by their
    /// places in the ClusterQueue.
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

    /// Evicts the variant that runs so that a better one may (Kueue 0.19.2, `issueMigration` in
    /// `pkg/scheduler/scheduler.go`): before that one's checks have been evaluated.
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
            let answer = write_admission(&self.api, old, new, Guard::Loose, self.version);
            self.settle(old, &answer, &outcome.notes);
        }
        let why = ". Pending the migration of 1 workload(s)".to_owned();
        let requeue = Requeue::PendingPreemption;
        entry.left(why, "WaitingForPreemptedWorkloads", requeue)
    }

    /// Finishes the slice that another has replaced. If that is refused, the job reconciler does it
    /// (Kueue 0.19.2, `replaceWorkloadSlice` in `pkg/scheduler/scheduler.go`).
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
        let over = Condition::new(
            "Finished",
            True(true),
            SLICE_REPLACED,
            message.as_str(),
            now,
        );
        finished.status.conditions.set(over);
        let answer = write_admission(&self.api, old, &finished, Guard::Strict, self.version);
        let note = EventRecord::normal(SLICE_REPLACED, message, SCHEDULER);
        self.settle(old, &answer, &[note]);
    }

    /// If there are flavors that were not tried, the search goes on with them at once.
    fn go_on(&mut self, entry: &Entry, otherwise: Requeue) -> Requeue {
        let last_tried = entry.assignment.last_tried.clone();
        if last_tried.is_empty() {
            return otherwise;
        }
        let key = entry.known.workload.metadata.key();
        self.last_tried.insert(key, last_tried);
        Requeue::FailedWrite
    }

    /// Somebody else of the same cycle was first.
    fn skip(&mut self, entry: Entry, why: &str) -> Left {
        let requeue = self.go_on(&entry, Requeue::Skipped);
        entry.left(why.to_owned(), "WaitingForQuota", requeue)
    }

    fn evict_victims(&mut self, entry: Entry, cycle: &mut Cycle) -> Option<Left> {
        if self.version.concurrent_admission && entry.known.workload.has_closed_gate() {
            return Some(entry.left(GATED.to_owned(), "AdmissionGated", Requeue::Gated));
        }
        let leaving = |target: &Target| cycle.leaving.contains_key(&target.workload.metadata.key());
        if entry.targets.iter().any(leaving) {
            return Some(self.skip(entry, OVERLAPPING));
        }
        if !cycle.fits(&entry) {
            return Some(self.skip(entry, NO_LONGER_FITS));
        }
        for target in &entry.targets {
            let left = (target.node, target.usage.clone());
            cycle.leaving.insert(target.workload.metadata.key(), left);
        }
        cycle.tree.add(entry.node, &entry.assignment.usage);
        if self.version.kep993 && !entry.queue.checks().is_empty() {
            // Quota is reserved first; when the others have to leave, the checks say.
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

    /// Whether the ClusterQueue takes Workloads of this Namespace.
    pub(super) fn selects(&self, queue: &ClusterQueue, namespace: &str) -> bool {
        let Some(selector) = &queue.spec.namespace_selector else {
            return false;
        };
        if selector.is_empty() {
            return true;
        }
        let resource = kueue_check_apiserver::Resource::new("", "v1", "namespaces");
        let found = self.api.get(&resource, "", namespace);
        let labels = found.map(|object| object["metadata"]["labels"].clone());
        let labels = labels.and_then(|labels| serde_json::from_value(labels).ok());
        selector.matches(&labels.unwrap_or_default())
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
        let mut notes = vec![EventRecord::normal("QuotaReserved", text, SCHEDULER)];
        if new.is_admitted() {
            notes.extend(admitted_event(&new, now, SCHEDULER));
        }
        let answer = write_admission(&self.api, old, &new, Guard::Loose, self.version);
        let written = self.settle(old, &answer, &notes);
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
        let requeued = requeued
            .filter(|c| c.is_true())
            .map(|c| c.last_transition_time);
        requeued.unwrap_or(workload.metadata.creation_timestamp)
    }

    /// The Workloads that hold quota of a ClusterQueue.
    pub(super) fn holders(&self, queue: &str) -> Vec<CachedWorkload> {
        let keys = self.cache.holders.get(queue).into_iter().flatten();
        keys.filter_map(|key| self.cache.workloads.get(key).cloned())
            .collect()
    }

    /// Says why there is no quota, and puts the Workload back into the queue. `reason` is the finer
    /// one.
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
        self.queue(&queue.metadata.name).requeue(&key, requeue, now);
        let mut new = workload.clone();
        // The event is about the Workload as it was before this write: if it was told the same
        // before, what is told now becomes part of that event's series, whatever it says (Kueue
        // 0.19.2, `requeueAndUpdate` in `pkg/scheduler/scheduler.go`).
        let known = self.cache.workloads.get(&key);
        let metadata = known.map_or(&workload.metadata, |known| &known.workload.metadata);
        let metadata = metadata.clone();
        let mut changed = unset_quota(&mut new, reason, why, self.version, now);
        if requeue == Requeue::Gated {
            let blocked = Condition::new(BLOCKED, True(true), "PreemptionGated", why, now);
            changed |= new.status.conditions.set(blocked);
        }
        if changed {
            write_admission(&self.api, workload, &new, Guard::Loose, self.version);
        }
        self.tell(&EventRecord::warning("Pending", why, SCHEDULER), &metadata);
    }
}

const NO_LONGER_FITS: &str = "Workload no longer fits after processing another workload";
const BETTER_ADMITTED: &str = "A more favorable variant is already admitted";
const GATED: &str = "Workload requires preemption, but it's gated";
const OVERLAPPING: &str = "Workload has overlapping preemption targets with another workload";

/// Whether there is room, or others can be made to leave.
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
        }
    }
}

impl Cycle {
    /// Whether there is still room once all that have to leave are gone.
    fn fits(&self, entry: &Entry) -> bool {
        let mut tree = self.tree.clone();
        let mut gone = BTreeSet::new();
        for (key, (node, usage)) in &self.leaving {
            gone.insert(key.clone());
            tree.remove(*node, usage);
        }
        for target in &entry.targets {
            if gone.insert(target.workload.metadata.key()) {
                tree.remove(target.node, &target.usage);
            }
        }
        tree.fits(entry.node, &entry.assignment.usage)
    }
}
