//! Changes of Workloads, and the evaluations that follow from them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;

use super::cache::{Applied, Key, KeyState, Origin, TimerPurpose};
use super::tasks::{InFlight, Leftover, Subject};
use super::{Core, Effect, ObserverEvent, Report, Role, Task, Timer};
use crate::api::{CheckState, Name, ResourceFlavor, ResourceVersion, Slice, Uid, Workload};
use crate::check::{FamilyRole, ReleaseReason, Reservation};
use crate::runtime::decide::{CheckPhase, must_withdraw};
use crate::runtime::queue::Lane;
use crate::runtime::writer::{EntryDigest, WriteError};

/// Number of overwrites of an entry by another client before further writes are delayed.
const OVERWRITES_AT_ONCE: u32 = 3;

/// Time without an overwrite after which the count starts again.
const OVERWRITES_APART: SignedDuration = SignedDuration::from_mins(10);

/// Delay until a read that confirms a difference is repeated after a failure.
const CONFIRM_RETRY: Duration = Duration::from_mins(1);

impl Core {
    pub(super) fn handle_workload(&mut self, event: Event<Workload>) {
        self.change_families(self.families.affected_by(&event), |core| {
            core.families.take(&event);
            core.follow(event);
        });
    }

    /// Handles a state from a read or a second list, like a missed event of the watch: the others
    /// of its job may depend on it.
    fn handle_missed(&mut self, workload: &Workload, take_in: impl FnOnce(&mut Self)) {
        self.change_families(self.families.relatives(workload), |core| {
            core.families.apply(workload);
            take_in(core);
            // The cache omits what is finished, which the watch selects all the same.
            let here = core.workloads.workload(workload.uid()).is_some();
            if !here && (!workload.holds_quota() || core.workloads.has_newer(workload)) {
                core.families.remove(workload);
            }
        });
    }

    fn follow(&mut self, event: Event<Workload>) {
        match event {
            Event::Init => {
                // Within one watch, a second list means that events were lost.
                self.lists.missed |= self.lists.workloads;
                self.lists.replaced.clear();
                self.workloads.start_list();
                self.notify_observers(ObserverEvent::ListStarted);
            }
            // The rest of the list contains the slices that determine what became of its pods.
            Event::InitApply(workload)
                if workload.conditions().replaced
                    && self.workloads.get(workload.uid()).is_none() =>
            {
                self.lists.replaced.push(workload);
            }
            Event::InitApply(workload) | Event::Apply(workload) => {
                self.take_in(&workload, Origin::Watch);
            }
            Event::InitDone => {
                for workload in self.listed_replaced() {
                    self.take_in(&workload, Origin::Watch);
                }
                // Objects that vanished while no watch ran cause no event of their own.
                let (vanished, older) = self.workloads.end_list();
                for uid in &vanished {
                    self.removed(uid, None, None);
                }
                for uid in older {
                    if let Some(known) = self.workloads.workload(&uid).cloned() {
                        self.confirm(&known);
                    }
                }
                let continuous = !self.lists.missed;
                self.notify_observers(ObserverEvent::ListCompleted { continuous });
                self.lists.missed = false;
                self.lists.workloads = true;
                self.lead_if_synced();
            }
            // Under the selector, a Workload that lost its quota leaves like one that was deleted.
            Event::Delete(workload) => {
                let why = (!self.served.selects_reserved).then_some(ReleaseReason::Deleted);
                self.removed(workload.uid(), Some(&workload), why);
            }
        }
    }

    /// Applies a state of a Workload, unless a newer one is cached.
    pub(super) fn take_in(&mut self, workload: &Workload, origin: Origin) {
        if !self.is_held(workload) && self.workloads.get(workload.uid()).is_none() {
            return;
        }
        match self.workloads.apply(workload, origin) {
            // It is in the list nevertheless.
            Applied::Superseded(newer) => self.show_workload(&newer),
            Applied::Discarded => {}
            Applied::Newest(before) => self.taken(workload, before.as_ref()),
        }
    }

    /// Handles a new state in the cache.
    fn taken(&mut self, workload: &Workload, before: Option<&Workload>) {
        let uid = workload.uid();
        let holds = self.is_held(workload);
        self.show_workload(workload);
        self.reconcile(workload, before);
        if !holds {
            self.workloads.remove(uid, Some(workload));
        }
        self.remove_idle_workload(uid);
    }

    /// Compares the cache with `workload`, from a list of the version `as_of` that is read in
    /// addition to the watch. The watch should have delivered it.
    pub(super) fn compare(&mut self, workload: &Workload, as_of: &ResourceVersion) {
        let (uid, listed) = (workload.uid(), workload.resource_version());
        match self.workloads.workload(uid).map(Workload::resource_version) {
            // The rest of the list contains the slices that determine what became of its pods.
            Some(known) if known.is_older_than(listed) && workload.conditions().replaced => {
                self.lists.replaced.push(workload.clone());
            }
            Some(known) if known.is_older_than(listed) => {
                self.handle_missed(workload, |core| core.take_in(workload, Origin::Watch));
            }
            // The list should contain the cached version. After a restore of the API server's
            // storage it does not.
            Some(known) if listed.is_older_than(known) && !as_of.is_older_than(known) => {
                self.confirm(workload);
            }
            Some(_) => {}
            None if self.role == Role::Standby || workload.conditions().finished().is_true() => {}
            // It may have left the watch since it was listed, so it is read. Until then, it counts
            // for the slice that it may have replaced.
            None => {
                if !self.families.members(workload.family_key()).contains(uid) {
                    self.change_families(self.families.relatives(workload), |core| {
                        core.families.apply(workload);
                    });
                }
                self.confirm(workload);
            }
        }
    }

    /// Ends that comparison. Workloads missing from the list should have left the watch.
    pub(super) fn compared(&mut self, named: &BTreeSet<Uid>) {
        for workload in self.listed_replaced() {
            let known = self.workloads.workload(workload.uid());
            let listed = workload.resource_version();
            if known.is_some_and(|known| known.resource_version().is_older_than(listed)) {
                self.handle_missed(&workload, |core| core.take_in(&workload, Origin::Watch));
            }
        }
        let missing: Vec<Workload> = self
            .workloads
            .present()
            .map(|(workload, _)| workload)
            .filter(|workload| !named.contains(workload.uid()))
            .cloned()
            .collect();
        for workload in missing {
            self.confirm(&workload);
        }
    }

    /// Returns the Workloads of a list that others have replaced, and looks for successors that have
    /// lost their quota again: only they show what became of the pods.
    fn listed_replaced(&mut self) -> Vec<Workload> {
        let replaced = std::mem::take(&mut self.lists.replaced);
        if self.leads() && !replaced.is_empty() {
            self.effects.push(Effect::ScanWithoutQuota);
        }
        replaced
    }

    /// Reads a Workload about which a list and the cache disagree.
    fn confirm(&mut self, workload: &Workload) {
        let place = (workload.namespace().to_owned(), workload.name().to_owned());
        self.confirm_at(workload.uid().clone(), place);
    }

    /// A standby reads nothing: it lists all Workloads before it leads.
    pub(super) fn confirm_at(&mut self, uid: Uid, place: (String, String)) {
        if self.role != Role::Standby {
            self.work.to_confirm.insert(uid, place);
        }
    }

    /// Starts these reads, up to the limit on reads in flight.
    pub(super) fn confirm_waiting(&mut self) {
        while self.confirming() < self.work.limits.concurrency
            && let Some((uid, place)) = self.work.to_confirm.pop_first()
        {
            // From here on, a deletion is kept until the reply arrives.
            self.workloads.entry(&uid);
            let task = Task::read(&place.0, &place.1, &uid);
            let known = self.workloads.newest_version(&uid);
            self.start(InFlight::Confirm { uid, place, known }, task);
        }
    }

    pub(super) fn confirmed(
        &mut self,
        uid: &Uid,
        place: (String, String),
        known: Option<&ResourceVersion>,
        result: Result<Option<Workload>, WriteError>,
    ) {
        let again = result.is_err().then(|| self.now.instant + CONFIRM_RETRY);
        match result {
            Ok(Some(workload)) => self.take_read(&workload, known),
            Ok(None) => self.deleted(uid),
            Err(_) => {}
        }
        // Another list may have started this read before the retry of an earlier one was due.
        let before = match again {
            Some(at) => self.work.confirm_at.insert(uid.clone(), at),
            None => self.work.confirm_at.remove(uid),
        };
        let timer = Timer::Confirm(Box::new((uid.clone(), place)));
        self.replace_timer(before, again, timer);
        self.remove_idle_workload(uid);
    }

    /// Repeats a read that failed.
    pub(super) fn confirm_due(&mut self, uid: Uid, place: (String, String)) {
        self.work.confirm_at.remove(&uid);
        self.confirm_at(uid, place);
    }

    /// Applies a state from a read. `known`: the newest version that was known when the read began.
    pub(super) fn take_read(&mut self, workload: &Workload, known: Option<&ResourceVersion>) {
        if known.is_some_and(|known| workload.resource_version().is_older_than(known)) {
            // The API server's storage was restored.
            self.handle_missed(workload, |core| {
                let before = core.workloads.replace(workload);
                core.taken(workload, before.as_ref());
            });
        } else if self.workloads.has_newer(workload) {
            self.take_in(workload, Origin::Read);
        } else {
            self.handle_missed(workload, |core| core.take_in(workload, Origin::Read));
        }
    }

    /// Handles a Workload that does not exist, by a response of the API server.
    pub(super) fn deleted(&mut self, uid: &Uid) {
        self.change_families(self.families.job_of(uid), |core| {
            core.families.remove_uid(uid);
            core.removed(uid, None, Some(ReleaseReason::Deleted));
        });
    }

    /// Withdraws the verdict of a Workload that lost its quota before this replica led, or before
    /// its AdmissionCheck was created. Also records what became of its job's pods. For a Workload
    /// with quota, the watch has newer data.
    pub(super) fn handle_without_quota(&mut self, workload: &Workload) {
        let uid = workload.uid();
        if !self.leads() || self.workloads.workload(uid).is_some() {
            return;
        }
        self.apply_unselected(workload);
        self.reconcile(workload, None);
        self.remove_idle_workload(uid);
    }

    /// Handles a Workload that left the watch, in the state `last` if that was observed. `why` is
    /// `None` if it is unknown whether it was deleted.
    pub(super) fn removed(
        &mut self,
        uid: &Uid,
        last: Option<&Workload>,
        why: Option<ReleaseReason>,
    ) {
        let left = last.is_some();
        let Some(last) = self.workloads.remove(uid, last) else {
            return;
        };
        self.notify_observers(ObserverEvent::Removed(last.clone()));
        for check in self.checks_of(&last) {
            let key = Key::new(uid, &check);
            let stale = self.leaves_a_verdict(&last, &check);
            let left = left && !stale && why.is_none();
            let why = if left {
                self.end_reason(&last, &check)
            } else {
                why.clone()
            };
            let decided = self
                .workloads
                .key(&key)
                .is_some_and(|state| state.reservation.is_some());
            if decided {
                self.end_reservation(&key, why, stale);
            } else if stale
                && why.is_none()
                && let Some(known) = self.checks.get(&check)
            {
                // Its reservation ended by an eviction that did not reset the verdict.
                self.enqueue_withdrawal(&last, &key, known.controller, None);
            }
        }
        self.remove_idle_workload(uid);
    }

    /// Returns true if `workload` has a verdict that must not apply to its next reservation.
    fn leaves_a_verdict(&self, workload: &Workload, check: &str) -> bool {
        let Some(known) = self.checks.get(check) else {
            return false;
        };
        let lifetime = self.controllers[known.controller].lifetime;
        workload
            .check(check)
            .filter(|_| !workload.is_parent())
            .is_some_and(|entry| must_withdraw(entry, lifetime))
    }

    /// Returns the checks of this process that have or had an entry in `workload`.
    pub(super) fn checks_of(&self, workload: &Workload) -> BTreeSet<Name> {
        let tracked = self.workloads.get(workload.uid());
        let known = tracked
            .iter()
            .flat_map(|tracked| &tracked.keys)
            .map(|state| state.check.clone());
        let entries = workload
            .checks()
            .iter()
            .filter_map(|entry| self.checks.get_key_value(entry.name()))
            .map(|(name, _)| name.clone());
        known.chain(entries).collect()
    }

    /// Reconciles `workload` for each check of this process.
    pub(super) fn reconcile(&mut self, workload: &Workload, before: Option<&Workload>) {
        for check in self.checks_of(workload) {
            self.reconcile_check(workload, before, &check);
        }
    }

    /// Compares the entry of `check` in `workload` with its desired state.
    pub(super) fn reconcile_check(
        &mut self,
        workload: &Workload,
        before: Option<&Workload>,
        check: &Name,
    ) {
        let key = Key::new(workload.uid(), check);
        let Some(known) = self.checks.get(check) else {
            return self.end_reservation(&key, Some(ReleaseReason::CheckRemoved), false);
        };
        let controller = known.controller;
        let phase = self.phase(workload, check, self.controllers[controller].lifetime);
        if let CheckPhase::Ended { why, withdraw } = phase {
            self.end_reservation(&key, Some(why.clone()), false);
            if withdraw {
                let found = Some((why, workload.clone()));
                self.enqueue_withdrawal(workload, &key, controller, found);
            }
            return;
        }
        let Some(entry) = workload.check(check) else {
            return;
        };
        let since = workload
            .conditions()
            .quota_reserved()
            .last_transition_time()
            .unwrap_or_default();
        // The verdict may be of an earlier process, which may have allocated resources.
        let started = *entry.state() != CheckState::Pending || !self.leads();
        let digest = EntryDigest::of(entry);
        // A growth is evaluated early in a term: the running slices of its job were approved
        // before.
        let undecided = is_undecided(workload, check)
            && *self.families.of(workload).role() != FamilyRole::Growth;
        let evicted = workload.conditions().evicted().is_true();
        if !evicted && self.workloads.key(&key).is_some_and(|state| state.evicted) {
            self.end_reservation(&key, Some(ReleaseReason::Evicted), false);
        }
        self.end_other_reservation(workload, &key, since);
        let (now, steady, leads) = (self.now, self.steady(), self.leads());
        let cleans = self.cleanups.blocks(&key);
        let Some(tracked) = self.workloads.get_mut(workload.uid()) else {
            return;
        };
        let state = tracked.key_or_new(check, controller);
        if state.reservation != Some(since) {
            state.start_reservation(controller, since, started, now.wall, steady);
            if state.in_flight && !cleans {
                // The task in flight decides for another reservation.
                state.pending_lane = Some(Lane::New);
            }
        }
        state.evicted = evicted;
        if phase == CheckPhase::PodsRemain {
            // It is evaluated again if it may go on after all: a deactivation may be undone.
            state.expected = None;
            if !cleans {
                self.dequeue(&key);
                self.set_timer(&key, None);
            }
        }
        if matches!(phase, CheckPhase::AwaitingReset | CheckPhase::PodsRemain) {
            return;
        }
        let inputs_changed = before.is_some_and(|before| {
            // The updates of other checks matter until this one is Ready, which fixes its own.
            let same = if *entry.state() == CheckState::Ready {
                before.decides_like(workload)
            } else {
                before.same_inputs(workload, check)
            };
            // An admitted growth is the whole job from here on.
            let grown = matches!(workload.slice(), Slice::Replaces(_))
                && workload.is_admitted()
                && !before.is_admitted();
            !same || grown
        });
        // What was to be rechecked until the admission is not monitored after it.
        let admitted = workload.is_admitted() && before.is_some_and(|before| !before.is_admitted());
        let rechecked = |state: &KeyState| state.purpose == TimerPurpose::UntilAdmitted;
        if admitted && self.workloads.key(&key).is_some_and(rechecked) {
            self.set_timer(&key, None);
        }
        if !leads {
            if inputs_changed {
                self.enqueue_recheck(&key);
            }
            return;
        }
        let Some(state) = self.workloads.key_mut(&key) else {
            return;
        };
        let lane = state.lane(undecided);
        match reason_to_evaluate(state, digest, inputs_changed) {
            None => {}
            Some(Reason::InputsChanged) if lane == Lane::Recheck => self.enqueue_recheck(&key),
            Some(Reason::New | Reason::InputsChanged) => self.enqueue(&key, lane),
            Some(Reason::Overwritten) => self.state_overwritten(&key, lane),
        }
    }

    /// Handles an entry that another client changed: Kueue's scheduler may have applied an older
    /// copy (rule 7). The entry is written again, after growing delays if that continues.
    fn state_overwritten(&mut self, key: &Key, lane: Lane) {
        let steady = self.steady();
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        // From here on it counts as not evaluated, so that this change is counted only once.
        state.expected = None;
        state.memory.update_failure_state(|failure| {
            let quiet = failure
                .overwritten_at
                .is_some_and(|last| steady.duration_since(last) > OVERWRITES_APART);
            failure.overwritten = if quiet {
                1
            } else {
                failure.overwritten.saturating_add(1)
            };
            failure.overwritten_at = Some(steady);
        });
        let times = state.memory.failure_state().overwritten;
        let delayed = (times > OVERWRITES_AT_ONCE)
            .then(|| self.delay(times - OVERWRITES_AT_ONCE, crate::api::digest(&*key.check)));
        self.report(Report::Overwritten {
            check: key.check.to_string(),
            delayed: delayed.map(|delay| (key.to_string(), times, delay)),
        });
        match delayed {
            None => self.enqueue(key, lane),
            Some(delay) => self.set_timer(key, Some(delay)),
        }
    }

    /// Ends a reservation that another one has followed without an observed end.
    fn end_other_reservation(&mut self, workload: &Workload, key: &Key, since: Timestamp) {
        let known = self.workloads.key(key).and_then(|state| state.reservation);
        if known.is_none_or(|known| known == since) {
            return;
        }
        let why = replacement_reason(workload, known);
        self.end_reservation(key, Some(why), false);
    }

    /// Ends the reservation of `key`. `why` is `None` if the reason must be determined; `stale` is
    /// true if there may be a verdict to withdraw then.
    pub(super) fn end_reservation(&mut self, key: &Key, why: Option<ReleaseReason>, stale: bool) {
        let last = self
            .workloads
            .get(&key.uid)
            .and_then(|tracked| tracked.newest())
            .cloned();
        // A cleanup of an earlier reservation continues, even if it waits for a task to end.
        let again = self.cleanups.blocks(key).then_some(Lane::Release);
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        let Some(since) = state.reservation.take() else {
            return;
        };
        let (started, controller) = (state.started, state.controller());
        state.started = false;
        state.pending_lane = again;
        state.reset();
        if !self.cleanups.blocks(key) {
            self.dequeue(key);
            self.set_timer(key, None);
        }
        let release = started && !self.work.never_allocate.contains(&controller);
        let stale = why.is_none() && stale;
        if (release || stale)
            && let Some(last) = last
        {
            let (namespace, name) = (last.namespace(), last.name());
            let reservation = Reservation::new(namespace, name, key.uid.clone(), &key.check, since)
                .in_family(last.family_key());
            // For a deleted slice, the cleanup must determine whether its pods still run.
            let why = why.filter(|why| {
                *why != ReleaseReason::Deleted
                    || self.families.pods_state_of_deleted(&reservation).is_none()
            });
            let subject = Subject {
                reservation,
                controller,
            };
            let leaves = if stale {
                Leftover::Unknown
            } else {
                Leftover::Nothing
            };
            self.enqueue_cleanup(key, subject, why, release, leaves);
        }
    }

    /// Reconciles every Workload, and continues every cleanup.
    pub(super) fn reconcile_all(&mut self) {
        let workloads: Vec<Workload> = self
            .workloads
            .present()
            .map(|(workload, _)| workload.clone())
            .collect();
        for workload in workloads {
            self.reconcile(&workload, None);
        }
        for key in self.cleanups.keys() {
            self.enqueue(&key, Lane::Release);
        }
    }

    pub(super) fn handle_flavor(&mut self, event: Event<ResourceFlavor>) {
        match event {
            Event::Init => self.lists.flavors = Some(std::collections::BTreeMap::new()),
            Event::InitApply(flavor) => {
                self.lists
                    .flavors
                    .get_or_insert_default()
                    .insert(flavor.name.clone(), flavor);
            }
            Event::InitDone => {
                let listed = self.lists.flavors.take().unwrap_or_default();
                let names = listed.keys().chain(self.flavors.keys());
                let differs = |name: &&String| listed.get(*name) != self.flavors.get(*name);
                let changed: BTreeSet<String> = names.filter(differs).cloned().collect();
                self.flavors = Arc::new(listed);
                self.flavors_changed(&changed);
            }
            Event::Apply(flavor) => {
                let name = flavor.name.clone();
                let known = Arc::make_mut(&mut self.flavors).insert(name.clone(), flavor);
                if known.as_ref() != self.flavors.get(&name) {
                    self.flavors_changed(&BTreeSet::from([name]));
                }
            }
            Event::Delete(flavor) => {
                Arc::make_mut(&mut self.flavors).remove(&flavor.name);
                self.flavors_changed(&BTreeSet::from([flavor.name]));
            }
        }
    }

    /// Evaluates again the Workloads that are not admitted and have one of the flavors `changed`.
    /// Updates may no longer contradict their labels, or may contradict them now.
    fn flavors_changed(&mut self, changed: &BTreeSet<String>) {
        if changed.is_empty() {
            return;
        }
        let assigned =
            |workload: &Workload| workload.flavors().any(|flavor| changed.contains(flavor));
        let keys: Vec<Key> = self
            .workloads
            .present()
            .filter(|(workload, _)| !workload.is_admitted() && assigned(workload))
            .flat_map(|(workload, tracked)| {
                let keys = tracked.keys.iter();
                keys.map(|state| Key::new(workload.uid(), &state.check))
            })
            .collect();
        for key in keys {
            self.enqueue_recheck(&key);
        }
    }
}

/// Returns why the reservation that began at `since` ended, if `workload` has another one now.
pub(super) fn replacement_reason(workload: &Workload, since: Option<Timestamp>) -> ReleaseReason {
    let evicted = workload.conditions().evicted();
    let at = evicted.last_transition_time();
    // The next reservation resets the condition, so that one from before `since` is reset at
    // `since`.
    let later = at > since || (at == since && evicted.is_true());
    if at.is_some() && later {
        ReleaseReason::Evicted
    } else {
        ReleaseReason::QuotaLost
    }
}

/// Returns true if a job waits for the check's first verdict.
pub(super) fn is_undecided(workload: &Workload, check: &str) -> bool {
    let pending = workload
        .check(check)
        .is_some_and(|entry| *entry.state() == CheckState::Pending);
    pending && !workload.is_admitted()
}

/// The reason to evaluate a check for a Workload.
enum Reason {
    /// The check was not evaluated for this reservation.
    New,
    /// The entry differs from the expected one.
    Overwritten,
    /// An input of the check has changed.
    InputsChanged,
}

fn reason_to_evaluate(
    state: &KeyState,
    entry: EntryDigest,
    inputs_changed: bool,
) -> Option<Reason> {
    // Changes while a task is in flight are compared when it ends.
    if state.in_flight {
        return inputs_changed.then_some(Reason::InputsChanged);
    }
    match state.expected {
        // Its timer has not fired yet.
        None if state.timer.is_some() => None,
        None => Some(Reason::New),
        Some(expected) if expected != entry => Some(Reason::Overwritten),
        Some(_) => inputs_changed.then_some(Reason::InputsChanged),
    }
}
