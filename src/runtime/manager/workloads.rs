//! What happens to Workloads, and what is looked at because of it.

use std::sync::Arc;

use kube::runtime::watcher::Event;

use super::session::Session;
use super::tracked::{Key, KeyState};
use crate::api::{CheckState, Name, ResourceFlavor, Uid, Workload};
use crate::check::{ReleaseReason, Seen};
use crate::runtime::decide::{Standing, standing};
use crate::runtime::defect::{Defect, has};
use crate::runtime::metrics::CheckLabels;
use crate::runtime::queue::Lane;
use crate::runtime::writer::EntryDigest;

/// How often somebody else may change what we wrote before each assertion waits longer.
const OVERWRITES_AT_ONCE: u32 = 3;

impl Session {
    pub(super) fn take_workload(&mut self, event: Event<Workload>) {
        self.slices.take(&event);
        match event {
            Event::Init => {
                // Within one watch, a second list means that events were lost.
                self.unseen |= self.synced.workloads;
                self.listed_workloads = Some(std::collections::BTreeSet::new());
                self.show(Seen::Listing);
            }
            Event::InitApply(workload) => {
                if let Some(listed) = &mut self.listed_workloads {
                    listed.insert(workload.uid().clone());
                }
                self.apply(&workload);
            }
            Event::InitDone => {
                // Objects that vanished while nobody watched send no event of their own.
                let listed = self.listed_workloads.take().unwrap_or_default();
                let vanished: Vec<Uid> = self
                    .workloads
                    .keys()
                    .filter(|uid| !listed.contains(uid))
                    .cloned()
                    .collect();
                for uid in &vanished {
                    self.gone(uid, None);
                }
                self.show(Seen::Listed {
                    unbroken: !self.unseen,
                });
                self.unseen = false;
                self.synced.workloads = true;
                self.act_if_ready();
            }
            Event::Apply(workload) => self.apply(&workload),
            // Under the selector a Workload that lost its quota leaves in the same way as one that was deleted.
            Event::Delete(workload) => self.gone(
                workload.uid(),
                (!self.served.selects_reserved || has(Defect::TakesLossForDeletion))
                    .then_some(ReleaseReason::Deleted),
            ),
        }
    }

    /// Takes in `workload` as it is now, unless something newer is known.
    pub(super) fn apply(&mut self, workload: &Workload) {
        let uid = workload.uid().clone();
        let keep = workload.holds_quota() && !workload.conditions().finished().is_true();
        if !keep && !self.workloads.contains_key(&uid) {
            return;
        }
        let tracked = self.workloads.entry(uid.clone()).or_default();
        let newer = tracked.workload.as_ref().filter(|known| {
            workload
                .resource_version()
                .is_older_than(known.resource_version())
        });
        if let Some(newer) = newer.cloned() {
            // It is in the list all the same.
            self.show(Seen::Workload(&newer));
            return;
        }
        let before = tracked.workload.replace(workload.clone());
        self.show(Seen::Workload(workload));
        self.observe(workload, before.as_ref());
        if !keep && let Some(tracked) = self.workloads.get_mut(&uid) {
            tracked.workload = None;
        }
        self.tidy(&uid);
    }

    /// Withdraws what stands on a Workload that lost its quota before this replica led. Of a Workload that is known already, the watch knows better.
    pub(super) fn take_left_behind(&mut self, workload: &Workload) {
        let uid = workload.uid();
        if !self.acting || self.workloads.contains_key(uid) {
            return;
        }
        self.workloads.entry(uid.clone()).or_default();
        self.observe(workload, None);
        self.tidy(uid);
    }

    /// The Workload is no longer among those that are watched.
    fn gone(&mut self, uid: &Uid, why: Option<ReleaseReason>) {
        let Some(tracked) = self.workloads.get(uid) else {
            return;
        };
        let last = tracked.workload.clone();
        if let Some(workload) = &last {
            self.show(Seen::Gone(workload));
        }
        let Some(tracked) = self.workloads.get(uid) else {
            return;
        };
        let checks: Vec<Name> = tracked.keys.iter().map(|key| key.check.clone()).collect();
        for check in checks {
            let answered = last
                .as_ref()
                .is_some_and(|workload| self.leaves_an_answer(workload, &check));
            self.end_reservation(uid, &check, why, answered);
        }
        if let Some(tracked) = self.workloads.get_mut(uid) {
            tracked.workload = None;
        }
        self.tidy(uid);
    }

    /// Shows the checks what is seen.
    fn show(&self, seen: Seen<'_>) {
        for check in &*self.checks {
            check.observe(seen);
        }
    }

    /// Whether an answer stands on `workload` that must not serve its next reservation.
    fn leaves_an_answer(&self, workload: &Workload, check: &str) -> bool {
        let Some(slot) = self.slots.get(check) else {
            return false;
        };
        let state = workload.check(check).map(|entry| entry.state().clone());
        match state {
            Some(CheckState::Ready) => !self.checks[slot.controller].outlives_reservation(),
            Some(CheckState::Retry | CheckState::Rejected | CheckState::PreemptionRequired) => true,
            _ => false,
        }
    }

    /// Looks at `workload` with the eyes of each of our checks.
    fn observe(&mut self, workload: &Workload, before: Option<&Workload>) {
        let tracked = self.workloads.get(workload.uid());
        let known = tracked
            .iter()
            .flat_map(|tracked| &tracked.keys)
            .map(|key| key.check.clone());
        let entries = workload
            .checks()
            .iter()
            .filter_map(|entry| self.slots.get_key_value(entry.name()))
            .map(|(name, _)| name.clone());
        let mut checks: Vec<Name> = known.chain(entries).collect();
        checks.sort_unstable();
        checks.dedup();
        for check in checks {
            self.observe_check(workload, before, &check);
        }
    }

    fn observe_check(&mut self, workload: &Workload, before: Option<&Workload>, check: &Name) {
        let Some(slot) = self.slots.get(check) else {
            self.end_reservation(
                workload.uid(),
                check,
                Some(ReleaseReason::CheckRemoved),
                false,
            );
            return;
        };
        let controller = slot.controller;
        let now_stands = standing(
            workload,
            check,
            self.checks[controller].outlives_reservation(),
        );
        if let Standing::Over { why, withdraw } = now_stands {
            self.end_reservation(workload.uid(), check, Some(why), false);
            if withdraw {
                self.owe_withdrawal(workload, check, controller, why);
            }
            return;
        }
        let Some(entry) = workload.check(check) else {
            return;
        };
        let since = workload
            .conditions()
            .quota_reserved()
            .at()
            .unwrap_or_default();
        // An entry that says something may be of an earlier life of ours, which may have started something.
        let said = *entry.state() != CheckState::Pending || self.listed_workloads.is_some();
        let digest = EntryDigest::of(entry);
        let fresh = is_undecided(workload, check);
        self.end_if_other(workload, check, since);
        let Some(tracked) = self.workloads.get_mut(workload.uid()) else {
            return;
        };
        let key = tracked.key_or_new(check, controller);
        if key.reservation != Some(since) {
            key.begin(since, said);
        }
        if now_stands == Standing::AwaitingReset || !self.acting {
            return;
        }
        let lane = key.lane(fresh);
        let reason = reason_to_look(
            key,
            digest,
            before.is_some_and(|before| !before.decides_like(workload)),
        );
        let key_name = Key {
            uid: workload.uid().clone(),
            check: check.clone(),
        };
        match reason {
            None => {}
            Some(Reason::New | Reason::InputsChanged) => self.enqueue(&key_name, lane),
            Some(Reason::Overwritten) if has(Defect::NeverReasserts) => {}
            Some(Reason::Overwritten) => self.overwritten(&key_name, lane),
        }
    }

    /// Somebody else changed what we wrote: Kueue's scheduler may have applied an older copy (rule 7). It is asserted again, and ever more slowly if that goes on.
    fn overwritten(&mut self, name: &Key, lane: Lane) {
        self.metrics
            .overwritten
            .get_or_create(&CheckLabels {
                check: name.check.to_string(),
            })
            .inc();
        let Some(key) = self.key_mut(name) else {
            return;
        };
        // From here on it counts as unasked, so that this is not noticed twice.
        key.expected = None;
        key.memory
            .change_trouble(|trouble| trouble.overwritten = trouble.overwritten.saturating_add(1));
        let times = key.memory.trouble().overwritten;
        if times <= OVERWRITES_AT_ONCE {
            self.enqueue(name, lane);
        } else {
            let delay = self
                .backoff
                .delay(times - OVERWRITES_AT_ONCE, crate::api::digest(&*name.check));
            tracing::warn!(key = %name, times, ?delay, "somebody else keeps changing this check's entry");
            self.set_timer(name, Some(delay));
        }
    }

    /// Ends a reservation that another one has followed without a sign of its end.
    fn end_if_other(&mut self, workload: &Workload, check: &Name, since: jiff::Timestamp) {
        let known = self
            .workloads
            .get(workload.uid())
            .and_then(|tracked| tracked.key(check))
            .and_then(|key| key.reservation);
        if known.is_none_or(|known| known == since) {
            return;
        }
        let evicted = workload.conditions().evicted();
        let why = if evicted.at() >= known && evicted.at().is_some() {
            ReleaseReason::Evicted
        } else {
            ReleaseReason::QuotaLost
        };
        self.end_reservation(workload.uid(), check, Some(why), false);
    }

    /// The reservation about which `check` was deciding is over. `why` is `None` if that must be found out; then `answered` says whether there may be an
    /// answer to withdraw.
    pub(super) fn end_reservation(
        &mut self,
        uid: &Uid,
        check: &Name,
        why: Option<ReleaseReason>,
        answered: bool,
    ) {
        let name = Key {
            uid: uid.clone(),
            check: check.clone(),
        };
        let Some(key) = self.key_mut(&name) else {
            return;
        };
        let Some(since) = key.reservation.take() else {
            return;
        };
        let owes_already = key.owed.is_some();
        let (started, controller) = (key.started, key.controller);
        key.started = false;
        key.again = None;
        key.forget();
        if !owes_already {
            self.queue.remove(&name);
            self.set_timer(&name, None);
        }
        let release = started && !self.release_nothing.contains(&controller);
        if release || (why.is_none() && answered) {
            self.owe(&name, since, why, release);
        }
    }

    /// Compares `check`'s entry on `workload` with what should stand there.
    pub(super) fn observe_again(&mut self, workload: &Workload, check: &Name) {
        self.observe_check(workload, None, check);
    }

    /// Looks at every Workload afresh.
    pub(super) fn observe_all(&mut self) {
        let workloads: Vec<Workload> = self
            .workloads
            .values()
            .filter_map(|tracked| tracked.workload.clone())
            .collect();
        for workload in workloads {
            self.observe(&workload, None);
        }
        let indebted: Vec<Key> = self
            .keys()
            .filter(|(_, key)| key.owed.is_some())
            .map(|(name, _)| name)
            .collect();
        for name in indebted {
            self.enqueue(&name, Lane::Release);
        }
    }

    pub(super) fn take_flavor(&mut self, event: Event<ResourceFlavor>) {
        match event {
            Event::Init => self.listed_flavors = Some(std::collections::BTreeMap::new()),
            Event::InitApply(flavor) => {
                self.listed_flavors
                    .get_or_insert_default()
                    .insert(flavor.name.clone(), flavor);
            }
            Event::InitDone => {
                self.flavors = Arc::new(self.listed_flavors.take().unwrap_or_default());
            }
            Event::Apply(flavor) => {
                Arc::make_mut(&mut self.flavors).insert(flavor.name.clone(), flavor);
            }
            Event::Delete(flavor) => {
                Arc::make_mut(&mut self.flavors).remove(&flavor.name);
            }
        }
    }
}

/// Whether a job waits for the check's first word.
pub(super) fn is_undecided(workload: &Workload, check: &str) -> bool {
    let pending = workload
        .check(check)
        .is_some_and(|entry| *entry.state() == CheckState::Pending);
    pending && !workload.is_admitted()
}

/// Why a Workload is looked at.
enum Reason {
    /// Nothing has been said about this reservation in this term.
    New,
    /// What stands there is not what should.
    Overwritten,
    /// Something that the check can decide on has changed.
    InputsChanged,
}

fn reason_to_look(key: &KeyState, stands: EntryDigest, inputs_changed: bool) -> Option<Reason> {
    // What comes while a job is at work is compared when it is done.
    if key.busy {
        return inputs_changed.then_some(Reason::InputsChanged);
    }
    match key.expected {
        // Its turn, or its timer, is still to come.
        None if key.timer.is_some() => None,
        None => Some(Reason::New),
        Some(expected) if expected != stands => Some(Reason::Overwritten),
        Some(_) => inputs_changed.then_some(Reason::InputsChanged),
    }
}
