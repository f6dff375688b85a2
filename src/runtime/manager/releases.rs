//! What is owed to reservations that are over: withdrawing an answer, stopping what was started.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::jobs;
use super::session::Session;
use super::tracked::{Key, Owed};
use crate::api::{CheckState, Name, Workload, digest};
use crate::check::{PodSetUpdates, ReleaseReason, Released, Reservation};
use crate::runtime::decide::{EntryPatch, Outcome, Standing, standing};
use crate::runtime::evaluate::NoAnswer;
use crate::runtime::metrics::OutcomeLabels;
use crate::runtime::queue::Lane;
use crate::runtime::writer::WriteError;

/// A replica that takes over pays what came up in this time before it, because the old leader may have died in between.
const INHERITED: Duration = Duration::from_mins(1);
/// What a withdrawn entry says.
const WITHDRAWN: &str = "quota was lost; decided again with the next reservation";

impl Session {
    /// Notes that something has to be done about the reservation that `name` held since `since`.
    pub(super) fn owe(
        &mut self,
        name: &Key,
        since: Timestamp,
        why: Option<ReleaseReason>,
        release: bool,
    ) {
        let Some(workload) = self.last_known(name) else {
            return;
        };
        let reservation = Reservation::new(
            &workload.0,
            &workload.1,
            name.uid.clone(),
            &name.check,
            since,
        );
        self.owe_for(name, reservation, why, release, None);
    }

    /// Notes that the answer that stands on `workload` is to be withdrawn (rule 15).
    pub(super) fn owe_withdrawal(
        &mut self,
        workload: &Workload,
        check: &Name,
        controller: usize,
        why: ReleaseReason,
    ) {
        let name = Key {
            uid: workload.uid().clone(),
            check: check.clone(),
        };
        let since = workload
            .conditions()
            .quota_reserved()
            .at()
            .unwrap_or_default();
        let reservation = Reservation::new(
            workload.namespace(),
            workload.name(),
            workload.uid().clone(),
            check,
            since,
        );
        let Some(tracked) = self.workloads.get_mut(&name.uid) else {
            return;
        };
        tracked.key_or_new(check, controller);
        self.owe_for(&name, reservation, Some(why), false, Some(workload.clone()));
    }

    pub(super) fn owe_for(
        &mut self,
        name: &Key,
        reservation: Reservation,
        why: Option<ReleaseReason>,
        release: bool,
        withdraw: Option<Workload>,
    ) {
        let now = Instant::now();
        let Some(key) = self.key_mut(name) else {
            return;
        };
        if let Some(owed) = &mut key.owed {
            // What is owed to an earlier reservation comes first; nothing can have been started since.
            owed.withdraw = withdraw.or(owed.withdraw.take());
            owed.release |= release;
        } else {
            key.owed = Some(Box::new(Owed {
                reservation,
                why,
                withdraw,
                release,
                failures: 0,
                since: now,
            }));
            self.outstanding_gauge(&name.check).inc();
        }
        if self.acting {
            self.enqueue(name, Lane::Release);
        } else {
            self.inherit(now, name);
        }
    }

    /// While another replica leads, only what is recent is kept.
    fn inherit(&mut self, now: Instant, name: &Key) {
        self.owed_as_standby.push_back((now, name.clone()));
        while self
            .owed_as_standby
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) > INHERITED)
            && let Some((_, old)) = self.owed_as_standby.pop_front()
        {
            self.forgive(&old);
        }
    }

    /// What the old leader must have done long ago is not done again.
    pub(super) fn drop_old_debts(&mut self) {
        let now = Instant::now();
        while let Some((at, name)) = self.owed_as_standby.pop_front() {
            if now.duration_since(at) > INHERITED {
                self.forgive(&name);
            }
        }
    }

    fn forgive(&mut self, name: &Key) {
        let now = Instant::now();
        if let Some(key) = self.key_mut(name)
            && key
                .owed
                .as_ref()
                .is_some_and(|owed| now.duration_since(owed.since) > INHERITED)
        {
            key.owed = None;
            self.outstanding_gauge(&name.check).dec();
        }
        self.tidy(&name.uid);
    }

    /// Does the next thing that is owed: finds out why the reservation is over, withdraws, releases.
    pub(super) fn pay(&mut self, name: &Key) {
        let slot = self
            .slots
            .get(&name.check)
            .map(|slot| Arc::clone(&slot.manager));
        let writer = Arc::clone(&self.writer);
        let since = self.settings.clock.now();
        let Some(key) = self.key_mut(name).filter(|key| !key.busy) else {
            return;
        };
        let controller = key.controller;
        let Some(owed) = &mut key.owed else { return };
        let reservation = owed.reservation.clone();
        let withdrawal = owed.withdraw.clone().zip(slot);
        match (owed.why, withdrawal) {
            (None, _) => {
                self.jobs
                    .spawn(jobs::find_out(name.clone(), reservation, writer));
            }
            (Some(_), Some((workload, manager))) => {
                let patch = EntryPatch {
                    state: CheckState::Pending,
                    message: WITHDRAWN.into(),
                    since,
                    requeue_after_seconds: None,
                    updates: PodSetUpdates::default(),
                };
                self.jobs.spawn(jobs::withdraw(
                    name.clone(),
                    workload,
                    manager,
                    patch,
                    writer,
                ));
            }
            (Some(why), None) if owed.release && !self.release_nothing.contains(&controller) => {
                let check = self.checks[controller].clone();
                let limit = check.timeout().unwrap_or(self.settings.timeout);
                self.jobs
                    .spawn(jobs::release(name.clone(), check, reservation, why, limit));
            }
            (Some(_), None) => {
                self.paid(name);
                return;
            }
        }
        if let Some(key) = self.key_mut(name) {
            key.busy = true;
        }
        self.looking += 1;
    }

    /// Nothing is owed any more.
    fn paid(&mut self, name: &Key) {
        if let Some(key) = self.key_mut(name) {
            key.owed = None;
            // A later reservation may have been told to wait; it is asked about now.
            key.expected = None;
            self.outstanding_gauge(&name.check).dec();
        }
        self.set_timer(name, None);
        self.finish(name);
    }

    pub(super) fn found_out(&mut self, name: &Key, result: Result<Option<Workload>, WriteError>) {
        self.step_done(name);
        let found = match result {
            Ok(found) => found,
            Err(error) => return self.pay_later(name, &error.to_string(), None),
        };
        // What was read is shown before anybody is told that the reservation is over: it may have been reserved again since.
        if let Some(workload) = &found {
            self.apply(workload);
        }
        let outlives = self
            .slots
            .get(&name.check)
            .is_some_and(|slot| self.checks[slot.controller].outlives_reservation());
        let (why, withdraw) = match &found {
            None => (ReleaseReason::Deleted, false),
            Some(workload) => match standing(workload, &name.check, outlives) {
                Standing::Over { why, withdraw } => (why, withdraw),
                // It has quota again already, which is another reservation.
                _ => (ReleaseReason::QuotaLost, false),
            },
        };
        if let Some(owed) = self.key_mut(name).and_then(|key| key.owed.as_mut()) {
            owed.why = Some(why);
            owed.withdraw = found.filter(|_| withdraw);
        }
        self.pay(name);
    }

    pub(super) fn withdrawn(&mut self, name: &Key, result: Result<Workload, WriteError>) {
        self.step_done(name);
        let word = result.as_ref().map_or_else(WriteError::as_str, |_| "ok");
        self.metrics
            .writes
            .get_or_create(&OutcomeLabels {
                check: name.check.to_string(),
                outcome: word,
            })
            .inc();
        match result {
            Ok(_) | Err(WriteError::Gone) => {
                if let Some(owed) = self.key_mut(name).and_then(|key| key.owed.as_mut()) {
                    owed.withdraw = None;
                }
                self.pay(name);
            }
            // The Workload has changed: what is to be withdrawn, if anything, is found out again.
            Err(WriteError::Conflict) => {
                if let Some(owed) = self.key_mut(name).and_then(|key| key.owed.as_mut()) {
                    owed.withdraw = None;
                    owed.why = None;
                }
                self.pay(name);
            }
            Err(error) => self.pay_later(name, &error.to_string(), None),
        }
    }

    pub(super) fn released(&mut self, name: &Key, result: Result<Released, NoAnswer>) {
        self.step_done(name);
        let word = match &result {
            Ok(Released::Done) => "done",
            Ok(Released::Later(_)) => "later",
            Ok(Released::NothingToRelease) => "nothing",
            Err(none) => none.as_str(),
        };
        self.metrics
            .releases
            .get_or_create(&OutcomeLabels {
                check: name.check.to_string(),
                outcome: word,
            })
            .inc();
        match result {
            Ok(Released::Done) => self.paid(name),
            Ok(Released::NothingToRelease) => {
                if let Some(controller) = self.key_mut(name).map(|key| key.controller) {
                    self.release_nothing.insert(controller);
                }
                self.paid(name);
            }
            Ok(Released::Later(delay)) => self.pay_later(name, "it takes time", Some(delay)),
            Err(none) => {
                tracing::warn!(key = %name, error = %none, "a release failed and is tried again");
                self.pay_later(name, &none.to_string(), None);
            }
        }
    }

    /// Tries again after `delay`, or after one that grows; says so where a new reservation waits for it.
    fn pay_later(&mut self, name: &Key, problem: &str, delay: Option<Duration>) {
        let Some(key) = self.key_mut(name) else {
            return;
        };
        let waits = key.reservation.is_some();
        let Some(owed) = &mut key.owed else { return };
        owed.failures = owed.failures.saturating_add(1);
        let failures = owed.failures;
        let delay = delay.unwrap_or_else(|| self.backoff.delay(failures, digest(name)));
        if waits {
            let message = format!(
                "what was started for an earlier reservation is still being stopped: {problem}"
            )
            .into();
            self.conclude(
                name,
                &Outcome::Blocked {
                    message,
                    again: Some(delay),
                },
            );
        }
        self.set_timer(name, Some(delay));
    }

    fn step_done(&mut self, name: &Key) {
        self.looking -= 1;
        if let Some(key) = self.key_mut(name) {
            key.busy = false;
        }
    }
}
