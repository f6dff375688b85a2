//! Cleanup of reservations that ended: verdicts to withdraw, resources to release.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cache::{Key, KeyState};
use super::tasks::{InFlight, Leftover, Subject};
use super::workloads::replacement_reason;
use super::{Core, Report, Task};
use crate::api::{Name, ResourceVersion, Workload, digest};
use crate::check::{Message, PodSetUpdates, PodsState, ReleaseOutcome, ReleaseReason, Reservation};
use crate::runtime::decide::{CheckPhase, Delay, EntryPatch, Outcome};
use crate::runtime::evaluate::CallError;
use crate::runtime::queue::Lane;
use crate::runtime::writer::WriteError;

/// Age up to which a new leader runs cleanups from before its term: the old leader may have died
/// before it ran them.
const TAKEOVER_WINDOW: Duration = Duration::from_mins(1);
/// Time after which a watch has delivered changes that a list was too old to contain.
const LIST_AGE: Duration = Duration::from_secs(15);
/// The message of a withdrawn entry.
pub(super) const WITHDRAWN: &str = "quota was lost; evaluated again once quota is reserved";

/// The pending cleanups, in order of arrival for each key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleanups(BTreeMap<Key, VecDeque<Cleanup>>);

/// The pending work for one reservation that ended.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    pub(crate) subject: Subject,
    /// The reason of its end; `None` until that is determined.
    why: Option<ReleaseReason>,
    /// The Workload whose verdict is to be withdrawn.
    withdraw: Option<Workload>,
    /// Whether the check's `release` must be called.
    release: bool,
    failures: u32,
    since: Instant,
    /// The end of the delay before the next read or withdrawal. No event shortens it, except that of
    /// a verdict which may have to be withdrawn.
    due: Instant,
    /// The end of the delay before the next call of `release`, which nothing shortens: it may change
    /// what the check watches, or the Workload.
    release_due: Instant,
    /// The message of a new reservation that waits for it, after a failure.
    message: Option<Message>,
}

/// The next step of a cleanup.
#[derive(Debug, PartialEq)]
enum Step {
    FindReason,
    Withdraw(Workload),
    Release(ReleaseReason),
    Done,
}

impl Cleanup {
    fn next(&self, releases: bool) -> Step {
        match (&self.why, &self.withdraw) {
            (None, _) => Step::FindReason,
            (Some(_), Some(workload)) => Step::Withdraw(workload.clone()),
            (Some(why), None) if self.release && releases => Step::Release(why.clone()),
            (Some(_), None) => Step::Done,
        }
    }

    /// Returns the time left until `step`, the next one.
    fn left(&self, step: &Step, now: Instant) -> Duration {
        let due = match step {
            Step::FindReason | Step::Withdraw(_) => self.due,
            Step::Release(_) => self.release_due,
            Step::Done => now,
        };
        due.saturating_duration_since(now)
    }
}

impl Cleanups {
    /// Returns true if a new reservation of `key` has to wait.
    pub(crate) fn blocks(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.0.keys().cloned().collect()
    }

    /// Returns all pending cleanups.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cleanup> {
        self.0.values().flatten()
    }

    /// Returns the controller of the next cleanup.
    pub(super) fn controller(&self, key: &Key) -> Option<usize> {
        Some(self.first(key)?.subject.controller)
    }

    fn first(&self, key: &Key) -> Option<&Cleanup> {
        self.0.get(key)?.front()
    }

    fn get(&self, key: &Key, subject: &Subject) -> Option<&Cleanup> {
        let mut of_key = self.0.get(key)?.iter();
        of_key.find(|cleanup| cleanup.subject == *subject)
    }

    fn get_mut(&mut self, key: &Key, subject: &Subject) -> Option<&mut Cleanup> {
        let mut of_key = self.0.get_mut(key)?.iter_mut();
        of_key.find(|cleanup| cleanup.subject == *subject)
    }

    /// Adds a cleanup, or merges it into the one about the same subject. It comes `first`, and at
    /// once, if a verdict may have to be withdrawn: Kueue may admit by it.
    fn add(&mut self, key: &Key, cleanup: Cleanup, first: bool) {
        let of_key = self.0.entry(key.clone()).or_default();
        let same = |known: &Cleanup| known.subject == cleanup.subject;
        let at = of_key.iter().position(same);
        let merged = match at.and_then(|at| of_key.remove(at)) {
            None => cleanup,
            Some(mut known) => {
                known.release |= cleanup.release;
                if cleanup.why.is_none() {
                    // The reason must be determined again, whatever is in flight.
                    known.why = None;
                }
                if first {
                    known.due = known.due.min(cleanup.due);
                }
                if cleanup.withdraw.is_some() {
                    known.withdraw = cleanup.withdraw;
                    known.why = known.why.take().or(cleanup.why);
                }
                known
            }
        };
        let at = if first { 0 } else { at.unwrap_or(of_key.len()) };
        of_key.insert(at, merged);
    }

    /// Drops the cleanup about `subject`.
    fn remove(&mut self, key: &Key, subject: &Subject) {
        if let Some(of_key) = self.0.get_mut(key) {
            of_key.retain(|cleanup| cleanup.subject != *subject);
            if of_key.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// Drops cleanups older than `limit`. Returns the keys that have none any more.
    fn drop_older(&mut self, now: Instant, limit: Duration) -> Vec<Key> {
        for of_key in self.0.values_mut() {
            of_key.retain(|cleanup| now.saturating_duration_since(cleanup.since) <= limit);
        }
        let empty: Vec<Key> = self
            .0
            .iter()
            .filter(|(_, of_key)| of_key.is_empty())
            .map(|(key, _)| key.clone())
            .collect();
        self.0.retain(|_, of_key| !of_key.is_empty());
        empty
    }
}

impl Core {
    /// Enqueues the withdrawal of the verdict in `workload` (rule 15). `found` is `None` if a read
    /// must determine whether the verdict remains, and why its reservation ended.
    pub(super) fn enqueue_withdrawal(
        &mut self,
        workload: &Workload,
        key: &Key,
        controller: usize,
        found: Option<(ReleaseReason, Workload)>,
    ) {
        self.workloads
            .entry(&key.uid)
            .key_or_new(&key.check, controller);
        let subject = Subject {
            reservation: Reservation::last_of(workload, &key.check),
            controller,
        };
        let (why, leaves) = match found {
            Some((why, workload)) => (Some(why), Leftover::Verdict(workload)),
            None => (None, Leftover::Unknown),
        };
        self.enqueue_cleanup(key, subject, why, false, leaves);
    }

    pub(super) fn enqueue_cleanup(
        &mut self,
        key: &Key,
        subject: Subject,
        why: Option<ReleaseReason>,
        release: bool,
        leaves: Leftover,
    ) {
        let now = self.now.instant;
        if self.role == super::Role::Standby {
            // While another replica leads, only recent cleanups are kept.
            self.drop_inherited_cleanups();
        }
        let first = !matches!(leaves, Leftover::Nothing);
        let withdraw = match leaves {
            Leftover::Verdict(workload) => Some(workload),
            Leftover::Nothing | Leftover::Unknown => None,
        };
        let cleanup = Cleanup {
            subject,
            why,
            withdraw,
            release,
            failures: 0,
            since: now,
            due: now,
            release_due: now,
            message: None,
        };
        self.cleanups.add(key, cleanup, first);
        self.enqueue(key, Lane::Release);
    }

    /// Drops cleanups that the old leader must have run long ago.
    pub(super) fn drop_inherited_cleanups(&mut self) {
        for key in self.cleanups.drop_older(self.now.instant, TAKEOVER_WINDOW) {
            self.remove_idle(&key);
        }
    }

    /// Runs the next step of the first cleanup of `key`.
    pub(super) fn run_cleanup(&mut self, key: &Key) {
        if !self.leads() {
            return;
        }
        if self.workloads.key(key).is_none_or(|state| state.in_flight) {
            return;
        }
        let Some(cleanup) = self.cleanups.first(key) else {
            return;
        };
        let subject = cleanup.subject.clone();
        let (reservation, controller) = (&subject.reservation, subject.controller);
        let releases = !self.work.never_allocate.contains(&controller);
        let step = cleanup.next(releases);
        let left = cleanup.left(&step, self.now.instant);
        if !left.is_zero() {
            let message = cleanup.message.clone();
            return self.await_cleanup(key, message, left);
        }
        if self.is_full(controller) {
            // The previous step was of another controller.
            return self.enqueue(key, Lane::Release);
        }
        let key = key.clone();
        match step {
            Step::FindReason => {
                let task = Task::read(reservation.namespace(), reservation.name(), &key.uid);
                let known = self.workloads.newest_version(&key.uid);
                let purpose = InFlight::FindReason {
                    key,
                    subject,
                    known,
                };
                self.start(purpose, task);
            }
            Step::Withdraw(workload) => {
                let Some(check) = self.checks.get(&key.check) else {
                    // Without an AdmissionCheck there is no entry of this process.
                    if let Some(cleanup) = self.cleanups.get_mut(&key, &subject) {
                        cleanup.withdraw = None;
                    }
                    return self.run_cleanup(&key);
                };
                let patch = EntryPatch {
                    state: crate::api::CheckState::Pending,
                    message: WITHDRAWN.into(),
                    since: self.now.wall,
                    requeue_after_seconds: None,
                    updates: PodSetUpdates::default(),
                };
                let task = Task::WriteEntry {
                    workload,
                    check: key.check.clone(),
                    manager: Arc::clone(&check.manager),
                    patch,
                };
                self.start(InFlight::Withdrawal { key, subject }, task);
            }
            Step::Release(why) => {
                let why = self.unless_over(why, &key.check, controller);
                let task = Task::Release {
                    controller,
                    reservation: reservation.clone(),
                    why,
                };
                self.start(InFlight::Release { key, subject }, task);
            }
            Step::Done => self.cleanup_done(&key, &subject),
        }
    }

    /// Returns the current reason why a reservation ended. Resources that passed to another
    /// Workload end with that Workload, if its own release was called while this cleanup waited for
    /// a task to end.
    fn unless_over(&self, why: ReleaseReason, check: &Name, controller: usize) -> ReleaseReason {
        let (ReleaseReason::Replaced { by, .. } | ReleaseReason::VariantAdmitted { by }) = &why
        else {
            return why;
        };
        let key = Key::new(by.uid(), check);
        let is_held = |state: &KeyState| {
            state.reservation == Some(by.since()) && state.controller() == controller
        };
        let subject = Subject {
            reservation: by.clone(),
            controller,
        };
        let waits =
            |state: &KeyState| !state.in_flight && self.cleanups.get(&key, &subject).is_some();
        let state = self.workloads.key(&key);
        if state.is_some_and(|state| is_held(state) || waits(state)) {
            return why;
        }
        let last = self.workloads.get(by.uid());
        let last = last.and_then(|tracked| tracked.newest());
        if last.is_some_and(|workload| workload.conditions().evicted().is_true()) {
            ReleaseReason::Evicted
        } else {
            ReleaseReason::Finished
        }
    }

    fn cleanup_done(&mut self, key: &Key, subject: &Subject) {
        self.cleanups.remove(key, subject);
        if let Some(state) = self.workloads.key_mut(key) {
            // A later reservation may wait for the cleanup; it is evaluated now.
            state.expected = None;
        }
        self.set_timer(key, None);
        if self.cleanups.blocks(key) {
            self.enqueue(key, Lane::Release);
        }
        self.finish_without_write(key);
    }

    /// Returns true if the Workload of `reservation` has another namespace or name: a user has made
    /// the reservation up.
    pub(super) fn is_elsewhere(&self, reservation: &Reservation) -> bool {
        let known = self.workloads.workload(reservation.uid());
        known.is_some_and(|known| {
            known.namespace() != reservation.namespace() || known.name() != reservation.name()
        })
    }

    pub(super) fn reason_found(
        &mut self,
        key: &Key,
        subject: &Subject,
        known: Option<&ResourceVersion>,
        result: Result<Option<Workload>, WriteError>,
    ) {
        let found = match result {
            Ok(found) => found,
            Err(error) => return self.retry_cleanup(key, subject, &error.to_string(), None),
        };
        // The read state is applied before `release` is called: quota may have been reserved again.
        match &found {
            Some(workload) => self.take_read(workload, known),
            None if self.is_elsewhere(&subject.reservation) => {
                return self.cleanup_done(key, subject);
            }
            None => self.deleted(&key.uid),
        }
        if found
            .as_ref()
            .is_some_and(|workload| self.workloads.has_newer(workload))
        {
            // The watch has delivered a newer state than the read.
            return self.run_cleanup(key);
        }
        // An AdmissionCheck that another controller manages by now is no longer this one's.
        let lifetime = self
            .checks
            .get(&key.check)
            .filter(|check| check.controller == subject.controller)
            .map(|check| self.controllers[check.controller].lifetime);
        let (why, stale) = match (&found, lifetime) {
            (None, _) => match self.families.pods_state_of_deleted(&subject.reservation) {
                None => (ReleaseReason::Deleted, false),
                Some(PodsState::Runs) => {
                    let problem = "pods run until the growth of the job is admitted";
                    return self.retry_cleanup(key, subject, problem, None);
                }
                Some(PodsState::Replaced(by)) => {
                    let family = subject.reservation.family_key();
                    let by = by.reservation(&key.check, family);
                    (ReleaseReason::Replaced { by, ran: true }, false)
                }
                Some(PodsState::Evicted) => (ReleaseReason::Evicted, false),
                Some(PodsState::Finished) => (ReleaseReason::Finished, false),
            },
            (Some(_), None) => {
                let since = self.cleanups.get(key, subject).map(|cleanup| cleanup.since);
                let age = since.map(|since| self.now.instant.saturating_duration_since(since));
                let left = age.and_then(|age| LIST_AGE.checked_sub(age));
                let left = left.filter(|left| !left.is_zero());
                if let Some(left) = left.filter(|_| !self.checks.contains_key(&key.check)) {
                    let problem = "the AdmissionCheck is not in the cache yet";
                    return self.retry_cleanup(key, subject, problem, Some(left));
                }
                (ReleaseReason::CheckRemoved, false)
            }
            (Some(workload), Some(lifetime)) => match self.phase(workload, &key.check, lifetime) {
                CheckPhase::Ended { why, withdraw } => (why, withdraw),
                // The reservation has not ended: a list was older than the watch. It keeps its
                // resources.
                _ if Reservation::last_of(workload, &key.check) == subject.reservation => {
                    return self.reservation_exists(key, subject);
                }
                // The Workload holds quota again already, by another reservation.
                _ => (
                    replacement_reason(workload, Some(subject.reservation.since())),
                    false,
                ),
            },
        };
        let Some(cleanup) = self.cleanups.get_mut(key, subject) else {
            return self.finish_without_write(key);
        };
        cleanup.why = Some(why);
        cleanup.withdraw = found.filter(|_| stale);
        self.run_cleanup(key);
    }

    /// Ends the cleanup of a reservation that has not ended and keeps its resources.
    fn reservation_exists(&mut self, key: &Key, subject: &Subject) {
        let cleanup = self.cleanups.get_mut(key, subject);
        let release = cleanup.is_some_and(|cleanup| cleanup.release);
        if let Some(state) = self.workloads.key_mut(key) {
            state.started |= release;
        }
        self.cleanup_done(key, subject);
    }

    pub(super) fn withdrawn(
        &mut self,
        key: &Key,
        subject: &Subject,
        result: Result<Workload, WriteError>,
    ) {
        self.report(Report::Written {
            check: key.check.to_string(),
            label: result.as_ref().map_or_else(WriteError::as_str, |_| "ok"),
        });
        let Some(cleanup) = self.cleanups.get_mut(key, subject) else {
            return self.finish_without_write(key);
        };
        match result {
            Ok(_) | Err(WriteError::Gone) => cleanup.withdraw = None,
            // The Workload has changed: a read determines again whether a verdict must be
            // withdrawn.
            Err(error @ WriteError::Conflict) => {
                cleanup.withdraw = None;
                cleanup.why = None;
                if cleanup.failures > 0 {
                    return self.retry_cleanup(key, subject, &error.to_string(), None);
                }
                cleanup.failures = 1;
            }
            Err(error) => return self.retry_cleanup(key, subject, &error.to_string(), None),
        }
        self.run_cleanup(key);
    }

    pub(super) fn released(
        &mut self,
        key: &Key,
        subject: &Subject,
        result: Result<ReleaseOutcome, CallError>,
    ) {
        let report = Report::Released {
            reservation: subject.reservation.clone(),
            label: match &result {
                Ok(ReleaseOutcome::Done) => "done",
                Ok(ReleaseOutcome::RetryAfter(_)) => "later",
                Ok(ReleaseOutcome::NeverAllocates(_)) => "nothing",
                Err(error) => error.as_str(),
            },
            error: result.as_ref().err().map(ToString::to_string),
        };
        self.report(report);
        match result {
            Ok(ReleaseOutcome::Done) => {
                self.release_done(key, subject);
            }
            Ok(ReleaseOutcome::NeverAllocates(_)) => {
                self.work.never_allocate.insert(subject.controller);
                self.release_done(key, subject);
            }
            Ok(ReleaseOutcome::RetryAfter(delay)) => {
                let delay = Delay::retry(delay).get();
                self.retry_release(key, subject, "it takes time", Some(delay));
            }
            Err(error) => self.retry_release(key, subject, &error.to_string(), None),
        }
    }

    /// Handles a completed release. The cleanup may have got another step meanwhile.
    fn release_done(&mut self, key: &Key, subject: &Subject) {
        if let Some(cleanup) = self.cleanups.get_mut(key, subject) {
            cleanup.release = false;
            self.run_cleanup(key);
        } else {
            self.finish_without_write(key);
        }
    }

    /// Retries a read or a withdrawal after `delay`, or after an exponential backoff.
    fn retry_cleanup(
        &mut self,
        key: &Key,
        subject: &Subject,
        problem: &str,
        delay: Option<Duration>,
    ) {
        self.retry_step(key, subject, problem, delay, |cleanup| &mut cleanup.due);
    }

    /// Retries a release after `delay`, or after an exponential backoff.
    fn retry_release(
        &mut self,
        key: &Key,
        subject: &Subject,
        problem: &str,
        delay: Option<Duration>,
    ) {
        self.retry_step(key, subject, problem, delay, |cleanup| {
            &mut cleanup.release_due
        });
    }

    fn retry_step(
        &mut self,
        key: &Key,
        subject: &Subject,
        problem: &str,
        delay: Option<Duration>,
        due: impl FnOnce(&mut Cleanup) -> &mut Instant,
    ) {
        let Some(cleanup) = self.cleanups.get_mut(key, subject) else {
            return self.finish_without_write(key);
        };
        let message =
            format!("resources of an earlier reservation are not released yet: {problem}");
        let message = Message::new(message);
        cleanup.message = Some(message.clone());
        cleanup.failures = cleanup.failures.saturating_add(1);
        let backoff = self.work.limits.backoff;
        let delay = delay.unwrap_or_else(|| backoff.delay(cleanup.failures, digest(key)));
        if let Some(at) = self.now.instant.checked_add(delay) {
            *due(cleanup) = at;
        }
        self.await_cleanup(key, Some(message), delay);
        self.finish_without_write(key);
    }

    /// Waits for a cleanup whose next step is due after `delay`. A new reservation gets `message`,
    /// and the policy bounds its time of waiting.
    fn await_cleanup(&mut self, key: &Key, message: Option<Message>, delay: Duration) {
        let state = self.workloads.key(key);
        let waits = state.is_some_and(|state| state.reservation.is_some());
        if let Some(message) = message.filter(|_| waits) {
            let again = Some(delay);
            self.conclude(key, &Outcome::Blocked { message, again });
        }
        self.set_timer_at_most(key, delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Name, Uid};

    fn cleanup(since: i64, why: Option<ReleaseReason>, release: bool) -> Cleanup {
        let since = jiff::Timestamp::from_second(since).unwrap();
        Cleanup {
            subject: Subject {
                reservation: Reservation::new("n", "w", Uid::new("u"), "c", since),
                controller: 0,
            },
            why,
            withdraw: None,
            release,
            failures: 0,
            since: Instant::now(),
            due: Instant::now(),
            release_due: Instant::now(),
            message: None,
        }
    }

    #[test]
    fn a_cleanup_finds_out_then_withdraws_then_releases() {
        let workload = Workload::from_json(serde_json::json!({
            "metadata": {"namespace": "n", "name": "w", "uid": "u"}, "spec": {},
        }))
        .unwrap();
        let why = ReleaseReason::QuotaLost;
        let mut cleanup = cleanup(1, None, true);
        assert_eq!(cleanup.next(true), Step::FindReason);
        cleanup.why = Some(why.clone());
        cleanup.withdraw = Some(workload.clone());
        assert_eq!(cleanup.next(true), Step::Withdraw(workload));
        cleanup.withdraw = None;
        assert_eq!(cleanup.next(true), Step::Release(why));
        assert_eq!(cleanup.next(false), Step::Done);
        cleanup.release = false;
        assert_eq!(cleanup.next(true), Step::Done);
    }

    #[test]
    fn each_reservation_and_controller_of_a_key_has_its_own_cleanup() {
        let of_another = || {
            let mut cleanup = cleanup(2, None, true);
            cleanup.subject.controller = 1;
            cleanup
        };
        let key = Key::new(&Uid::new("u"), &Name::from("c"));
        let mut cleanups = Cleanups::default();
        cleanups.add(&key, cleanup(1, None, false), false);
        cleanups.add(&key, cleanup(2, None, true), false);
        cleanups.add(&key, cleanup(1, None, true), false);
        cleanups.add(&key, of_another(), false);
        let found: Vec<(i64, usize, bool)> = cleanups
            .iter()
            .map(
                |Cleanup {
                     subject, release, ..
                 }| {
                    let since = subject.reservation.since().as_second();
                    (since, subject.controller, *release)
                },
            )
            .collect();
        assert_eq!(
            found,
            [(1, 0, true), (2, 0, true), (2, 1, true)],
            "none is lost to another one"
        );
        cleanups.remove(&key, &cleanup(1, None, false).subject);
        cleanups.remove(&key, &cleanup(2, None, false).subject);
        assert_eq!(cleanups.controller(&key), Some(1));
        cleanups.remove(&key, &of_another().subject);
        assert!(!cleanups.blocks(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn old_cleanups_are_dropped() {
        let key = Key::new(&Uid::new("u"), &Name::from("c"));
        let mut cleanups = Cleanups::default();
        cleanups.add(&key, cleanup(1, None, true), false);
        let now = Instant::now();
        assert_eq!(
            cleanups.drop_older(now + TAKEOVER_WINDOW, TAKEOVER_WINDOW),
            []
        );
        let late = now + TAKEOVER_WINDOW + Duration::from_secs(1);
        assert_eq!(cleanups.drop_older(late, TAKEOVER_WINDOW), [key]);
    }
}
