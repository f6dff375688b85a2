//! Writes of admission check states, and their results.

use std::sync::Arc;
use std::time::Duration;

use super::cache::{Key, Origin, TimerPurpose};
use super::tasks::{ConcludedVerdict, InFlight};
use super::{Core, Report, Task};
use crate::api::{AdmissionCheck, CheckState, ResourceVersion, Workload, digest};
use crate::check::Reservation;
use crate::runtime::decide::{Conclusion, Delay, EntryPatch, NextEvaluation, Outcome};
use crate::runtime::writer::{EntryDigest, WriteError};

/// The delay after a conflict; doubled for each consecutive failed write.
const CONFLICT_DELAY: Duration = Duration::from_millis(50);

/// The delay of an eviction while the conditions of its AdmissionCheck are being written.
const RECORD_DELAY: Duration = Duration::from_secs(1);

/// The delay after a write that the Lease did not allow, unless the Lease changes earlier.
pub(super) const NOT_LEADER_DELAY: Duration = Duration::from_secs(1);

/// Consecutive failed writes after which a conflict causes a read: no event has shown the change.
const CONFLICTS_BEFORE_READING: u32 = 2;

impl Core {
    pub(super) fn write(
        &mut self,
        key: &Key,
        workload: Workload,
        patch: EntryPatch,
        conclusion: Conclusion,
    ) {
        let Some(reservation) = Reservation::of(&workload, &key.check) else {
            return;
        };
        let check = self.checks.get(&key.check);
        // Without a limit, the next leader needs no record.
        let counts = check.is_some_and(|check| check.policy.max_evictions_per_hour != u32::MAX);
        let evicts = conclusion.evicts && counts;
        let verdict = ConcludedVerdict {
            reservation,
            workload,
            patch,
            conclusion,
        };
        if evicts {
            self.record_eviction(key, verdict);
        } else {
            self.write_entry(key, verdict);
        }
    }

    /// Takes a slot in the limit on evictions, and records it for the next leader.
    fn record_eviction(&mut self, key: &Key, verdict: ConcludedVerdict) {
        let (now, steady) = (self.now.wall, self.steady());
        let Some(check) = self.checks.get_mut(&key.check) else {
            return;
        };
        if check.announcement.in_flight {
            // Conditions are written one after the other, or an older list might win.
            return self.set_timer(key, Some(RECORD_DELAY));
        }
        check.after_admission.take(steady, &verdict.reservation);
        let recorded = check.object.after_admission.as_ref();
        if check.after_admission.is_recorded(recorded, steady) {
            return self.write_entry(key, verdict);
        }
        let Some(conditions) = check.conditions(now, steady) else {
            return;
        };
        check.announcement.in_flight = true;
        let task = Task::WriteConditions {
            object: check.object.clone(),
            manager: Arc::clone(&check.manager),
            conditions,
        };
        let key = key.clone();
        let verdict = Box::new(verdict);
        self.start(InFlight::Eviction { key, verdict }, task);
    }

    pub(super) fn eviction_recorded(
        &mut self,
        key: &Key,
        verdict: ConcludedVerdict,
        result: Result<Box<AdmissionCheck>, WriteError>,
    ) {
        if let Some(check) = self.checks.get_mut(&key.check) {
            check.announcement.in_flight = false;
        }
        // An input that changed meanwhile has enqueued the key again, or is a newer version.
        let changed = self
            .workloads
            .key(key)
            .is_none_or(|state| state.pending_lane.is_some());
        let known = self.workloads.workload(&key.uid);
        let same = known.is_some_and(|known| {
            known.resource_version() == verdict.workload.resource_version() && !changed
        });
        match result {
            Ok(object) => {
                if let Some(check) = self.checks.get_mut(&key.check) {
                    check.take_written(*object);
                }
                if same {
                    return self.write_entry(key, verdict);
                }
                self.release_slot(key, &verdict.reservation, true);
                if self.reservation(key).is_some() {
                    self.set_timer(key, Some(CONFLICT_DELAY));
                }
            }
            // The AdmissionCheck is gone, so its verdict is dropped. One of the same name may have
            // taken over its limit.
            Err(WriteError::Gone) => self.release_slot(key, &verdict.reservation, false),
            Err(error) => {
                // Without a reply, the record may have been written.
                if !matches!(error, WriteError::Unavailable(_)) {
                    self.release_slot(key, &verdict.reservation, false);
                }
                self.write_failed(key, &verdict.reservation, &verdict.conclusion, &error);
            }
        }
        self.write_active(&key.check);
        self.finish_without_write(key);
    }

    /// Releases the slot of an eviction that was certainly not written. `recorded` is true if the
    /// slot may be recorded.
    pub(super) fn release_slot(&mut self, key: &Key, reservation: &Reservation, recorded: bool) {
        if let Some(check) = self.checks.get_mut(&key.check) {
            check.after_admission.release(reservation, recorded);
        }
    }

    /// Keeps the slot of an eviction in the limit: a write without a reply may have been applied.
    pub(super) fn keep_slot(&mut self, key: &Key, reservation: &Reservation) {
        if let Some(check) = self.checks.get_mut(&key.check) {
            check.after_admission.keep(reservation);
        }
    }

    fn write_entry(&mut self, key: &Key, verdict: ConcludedVerdict) {
        let Some(check) = self.checks.get(&key.check) else {
            return;
        };
        let manager = Arc::clone(&check.manager);
        self.start(
            InFlight::Verdict {
                key: key.clone(),
                reservation: verdict.reservation,
                conclusion: Box::new(verdict.conclusion),
            },
            Task::WriteEntry {
                workload: verdict.workload,
                check: key.check.clone(),
                manager,
                patch: verdict.patch,
            },
        );
    }

    pub(super) fn written(
        &mut self,
        key: &Key,
        reservation: &Reservation,
        conclusion: &Conclusion,
        result: Result<Workload, WriteError>,
    ) {
        self.report(Report::Written {
            check: key.check.to_string(),
            label: result.as_ref().map_or_else(WriteError::as_str, |_| "ok"),
        });
        match result {
            Ok(workload) => self.write_succeeded(key, conclusion, &workload),
            Err(error) => self.write_failed(key, reservation, conclusion, &error),
        }
        self.finish_without_write(key);
    }

    /// Handles a write: the reply is the current Workload, unless a newer one is cached (rule 9).
    fn write_succeeded(&mut self, key: &Key, conclusion: &Conclusion, workload: &Workload) {
        let reservation = self.reservation(key);
        if let Some(state) = self.workloads.key_mut(key) {
            state.failed_writes = 0;
            state.expected = workload.check(&key.check).map(EntryDigest::of);
        }
        self.take_in(workload, Origin::Reply);
        self.schedule(key, conclusion);
        if conclusion.evicts
            && let Some(patch) = &conclusion.write
        {
            self.report(Report::Evicted {
                check: key.check.to_string(),
                state: patch.state.clone(),
            });
        }
        if let Some(reservation) = reservation {
            self.report_notices(key, &reservation, conclusion);
        }
    }

    fn write_failed(
        &mut self,
        key: &Key,
        reservation: &Reservation,
        conclusion: &Conclusion,
        error: &WriteError,
    ) {
        if conclusion.evicts {
            match error {
                WriteError::Unavailable(_) => self.keep_slot(key, reservation),
                _ => self.release_slot(key, reservation, true),
            }
        }
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        state.failed_writes = state.failed_writes.saturating_add(1);
        state.expected = None;
        let failures = u32::from(state.failed_writes);
        match error {
            WriteError::NotLeader => self.set_timer(key, Some(NOT_LEADER_DELAY)),
            // The verdict is dropped: the change may lead to another one (rule 2).
            WriteError::Conflict if failures >= CONFLICTS_BEFORE_READING => self.start_reread(key),
            WriteError::Conflict => self.set_timer(key, Some(CONFLICT_DELAY)),
            WriteError::Gone => self.deleted(&key.uid),
            WriteError::Refused { code, message } => self.rejected(key, conclusion, *code, message),
            WriteError::Paused(pause) => {
                self.set_timer(key, Some(Delay::pause(*pause).get()));
            }
            WriteError::Unavailable(error) => {
                if let Some(reservation) = self.reservation(key) {
                    self.report(Report::WriteFailed {
                        reservation,
                        error: error.clone(),
                    });
                }
                let delay = self.delay(failures, digest(key));
                self.set_timer(key, Some(delay));
            }
        }
    }

    /// Handles a state that the API server rejects, which neither the builder nor the rules
    /// prevented. It is reported and rarely retried.
    fn rejected(&mut self, key: &Key, conclusion: &Conclusion, code: u16, message: &str) {
        let Some(reservation) = self.reservation(key) else {
            return;
        };
        self.report(Report::WriteRejected {
            reservation,
            code,
            message: message.to_owned(),
        });
        let failures = self
            .workloads
            .key(key)
            .map_or(1, |state| u32::from(state.failed_writes));
        let delay = self.delay(failures.saturating_add(5), digest(key));
        let changes_state = conclusion
            .write
            .as_ref()
            .is_some_and(|patch| patch.state != CheckState::Pending);
        if changes_state && code != 403 {
            let message = format!("the API server rejected the state ({code}): {message}").into();
            self.conclude(
                key,
                &Outcome::Blocked {
                    message,
                    again: Some(delay),
                },
            );
        } else {
            self.set_timer(key, Some(delay));
        }
    }

    /// Reads the Workload, because no event has shown the difference.
    fn start_reread(&mut self, key: &Key) {
        let Some(workload) = self.workloads.workload(&key.uid) else {
            return;
        };
        let task = Task::read(workload.namespace(), workload.name(), &key.uid);
        let known = Some(workload.resource_version().clone());
        let key = key.clone();
        self.start(InFlight::Reread { key, known }, task);
    }

    pub(super) fn reread(
        &mut self,
        key: &Key,
        known: Option<&ResourceVersion>,
        result: Result<Option<Workload>, WriteError>,
    ) {
        let failures = self
            .workloads
            .key(key)
            .map_or(1, |state| u32::from(state.failed_writes));
        match result {
            Ok(Some(workload)) => {
                self.take_read(&workload, known);
                let delay = CONFLICT_DELAY * 2_u32.saturating_pow(failures.min(10));
                self.set_timer(key, Some(delay));
            }
            Ok(None) => self.deleted(&key.uid),
            Err(_) => {
                let delay = self.delay(failures, digest(key));
                self.set_timer(key, Some(delay));
            }
        }
        self.finish_without_write(key);
    }

    /// Handles a conclusion without a write: the entry has the desired content.
    pub(super) fn unchanged(&mut self, key: &Key, conclusion: &Conclusion) {
        self.adopt_entry(key);
        if let Some(state) = self.workloads.key_mut(key) {
            state.failed_writes = 0;
        }
        self.schedule(key, conclusion);
        if let Some(reservation) = self.reservation(key) {
            self.report_notices(key, &reservation, conclusion);
        }
    }

    /// Stores the current entry as the expected one.
    fn adopt_entry(&mut self, key: &Key) {
        let workload = self.workloads.workload(&key.uid);
        let entry = workload.and_then(|workload| workload.check(&key.check));
        let entry = entry.map(EntryDigest::of);
        if let Some(state) = self.workloads.key_mut(key) {
            state.expected = entry;
        }
    }

    fn schedule(&mut self, key: &Key, conclusion: &Conclusion) {
        let delay = match conclusion.next_evaluation {
            NextEvaluation::OnChange => None,
            NextEvaluation::After(delay) => Some(Delay::recheck(delay).get()),
            NextEvaluation::UntilAdmitted(delay) => {
                // The admission may be known before the reply to the write by which Kueue admits.
                let workload = self.workloads.workload(&key.uid);
                let waits = workload.is_some_and(|workload| !workload.is_admitted());
                waits.then(|| Delay::recheck(delay).get())
            }
            NextEvaluation::Backoff { at_most } => {
                let delay = self.delay(conclusion.memory.failure_state().failures, digest(key));
                Some(at_most.map_or(delay, |limit| delay.min(limit)))
            }
        };
        self.set_timer(key, delay);
        if matches!(conclusion.next_evaluation, NextEvaluation::UntilAdmitted(_))
            && let Some(state) = self.workloads.key_mut(key)
        {
            state.purpose = TimerPurpose::UntilAdmitted;
        }
    }

    fn report_notices(&mut self, key: &Key, reservation: &Reservation, conclusion: &Conclusion) {
        let steady = self.steady();
        let Some(state) = self.workloads.key(key) else {
            return;
        };
        let (controller, held) = (state.controller(), state.held(steady));
        for note in &conclusion.notes {
            self.report(Report::Notice {
                reservation: reservation.clone(),
                controller,
                note: Box::new(note.clone()),
                held,
            });
        }
    }
}
