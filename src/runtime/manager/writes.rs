//! Writing what was concluded, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use super::jobs;
use super::session::Session;
use super::tracked::Key;
use crate::api::{CheckState, Workload, digest};
use crate::runtime::decide::{Conclusion, EntryPatch, LookAgain, Note, Outcome};
use crate::runtime::defect::{Defect, has};
use crate::runtime::metrics::OutcomeLabels;
use crate::runtime::queue::Lane;
use crate::runtime::writer::{EntryDigest, WriteError};

/// The pause after a write that came too late; doubled for each one in a row.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);

/// The pause after a write that the lease forbade, if nothing is heard of the lease meanwhile.
const NOT_LEADER_PAUSE: Duration = Duration::from_secs(1);

/// After how many of them the Workload is read, because no event tells what changed.
const CONFLICTS_BEFORE_READING: u32 = 2;

impl Session {
    pub(super) fn write(
        &mut self,
        name: &Key,
        workload: Workload,
        patch: EntryPatch,
        conclusion: Conclusion,
    ) {
        let Some(manager) = self
            .slots
            .get(&name.check)
            .map(|slot| Arc::clone(&slot.manager))
        else {
            return;
        };
        let Some(key) = self.key_mut(name) else {
            return;
        };
        key.busy = true;
        self.looking += 1;
        self.jobs.spawn(jobs::write(
            name.clone(),
            workload,
            manager,
            Box::new(conclusion),
            patch,
            Arc::clone(&self.writer),
        ));
    }

    pub(super) fn written(
        &mut self,
        name: &Key,
        conclusion: &Conclusion,
        result: Result<Workload, WriteError>,
    ) {
        self.looking -= 1;
        let word = result.as_ref().map_or_else(WriteError::as_str, |_| "ok");
        self.metrics
            .writes
            .get_or_create(&OutcomeLabels {
                check: name.check.to_string(),
                outcome: word,
            })
            .inc();
        match result {
            Ok(workload) => self.wrote(name, conclusion, &workload),
            Err(error) => self.not_written(name, conclusion, &error),
        }
        self.finish(name);
    }

    /// The answer holds the Workload as it is now: nothing older is looked at after it (rule 9).
    fn wrote(&mut self, name: &Key, conclusion: &Conclusion, workload: &Workload) {
        let reservation = self.reservation(name);
        let digest = workload.check(&name.check).map(EntryDigest::of);
        if let Some(key) = self.key_mut(name) {
            key.stumbles = 0;
            key.expected = digest;
        }
        self.apply(workload);
        self.schedule(name, conclusion);
        if let Some(key) = self.key_mut(name) {
            key.busy = false;
        }
        self.report(name, reservation.as_ref(), conclusion);
    }

    fn not_written(&mut self, name: &Key, conclusion: &Conclusion, error: &WriteError) {
        let Some(key) = self.key_mut(name) else {
            return;
        };
        key.busy = false;
        key.stumbles = key.stumbles.saturating_add(1);
        key.expected = None;
        let stumbles = key.stumbles;
        match error {
            WriteError::NotLeader => self.set_timer(name, Some(NOT_LEADER_PAUSE)),
            // The verdict is forgotten: what changed may change it (rule 2).
            WriteError::Conflict if has(Defect::ForgetsConflicts) => self.believe(name),
            WriteError::Conflict if stumbles >= CONFLICTS_BEFORE_READING => self.read_again(name),
            WriteError::Conflict => self.set_timer(name, Some(CONFLICT_PAUSE)),
            WriteError::Refused { code, message } => self.refused(name, conclusion, *code, message),
            WriteError::Paused(pause) => self.set_timer(name, Some(*pause)),
            WriteError::Gone | WriteError::Unavailable(_) => {
                tracing::warn!(key = %name, %error, "a verdict could not be written and is tried again");
                let delay = self.backoff.delay(stumbles, digest(name));
                self.set_timer(name, Some(delay));
            }
        }
    }

    /// Takes what stands there for what should.
    fn believe(&mut self, name: &Key) {
        let tracked = self.workloads.get(&name.uid);
        let stands = tracked.and_then(|tracked| tracked.workload.as_ref()?.check(&name.check));
        let stands = stands.map(EntryDigest::of);
        if let Some(key) = self.key_mut(name) {
            key.expected = stands;
        }
    }

    /// Something that neither the builder nor the rules foresaw. It is said where it is seen, and tried again, rarely.
    fn refused(&mut self, name: &Key, conclusion: &Conclusion, code: u16, message: &str) {
        tracing::warn!(key = %name, code, message, "the API server refused a verdict");
        self.tell_refusal(name, code, message);
        let stumbles = self.key_mut(name).map_or(1, |key| key.stumbles);
        let delay = self.backoff.delay(stumbles.saturating_add(5), digest(name));
        let changes_state = conclusion
            .write
            .as_ref()
            .is_some_and(|patch| patch.state != CheckState::Pending);
        if changes_state && code != 403 {
            let message = format!("the API server refused the verdict ({code}): {message}").into();
            self.conclude(
                name,
                &Outcome::Blocked {
                    message,
                    again: Some(delay),
                },
            );
        } else {
            self.set_timer(name, Some(delay));
        }
    }

    /// Reads the Workload, because no event has told what is different.
    fn read_again(&mut self, name: &Key) {
        let Some(workload) = self
            .workloads
            .get(&name.uid)
            .and_then(|tracked| tracked.workload.clone())
        else {
            return;
        };
        let Some(key) = self.key_mut(name) else {
            return;
        };
        key.busy = true;
        self.looking += 1;
        self.jobs.spawn(jobs::fetch(
            name.clone(),
            workload,
            Arc::clone(&self.writer),
        ));
    }

    pub(super) fn fetched(&mut self, name: &Key, result: Result<Option<Workload>, WriteError>) {
        self.looking -= 1;
        let stumbles = self.key_mut(name).map_or(1, |key| {
            key.busy = false;
            key.stumbles
        });
        match result {
            Ok(Some(workload)) => {
                self.apply(&workload);
                self.set_timer(
                    name,
                    Some(CONFLICT_PAUSE * 2_u32.saturating_pow(stumbles.min(10))),
                );
            }
            // Its deletion is on the way.
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(key = %name, %error, "a Workload could not be read");
                let delay = self.backoff.delay(stumbles, digest(name));
                self.set_timer(name, Some(delay));
            }
        }
        self.finish(name);
    }

    /// Nothing had to be written: what stands there is what should.
    pub(super) fn settle(&mut self, name: &Key, conclusion: &Conclusion) {
        self.believe(name);
        if has(Defect::ForgetsTimers) {
            return;
        }
        if let Some(key) = self.key_mut(name) {
            key.stumbles = 0;
        }
        self.schedule(name, conclusion);
        let reservation = self.reservation(name);
        self.report(name, reservation.as_ref(), conclusion);
    }

    fn schedule(&mut self, name: &Key, conclusion: &Conclusion) {
        let delay = match conclusion.look_again {
            LookAgain::OnChange => None,
            LookAgain::After(delay) => Some(delay),
            LookAgain::Backoff { at_most } => {
                let delay = self
                    .backoff
                    .delay(conclusion.memory.trouble().failures, digest(name));
                Some(at_most.map_or(delay, |limit| delay.min(limit)))
            }
        };
        self.set_timer(name, delay);
    }

    /// A job is done with `name`: what came up meanwhile is looked at.
    pub(super) fn finish(&mut self, name: &Key) {
        self.restoring.at_work.remove(name);
        let Some(key) = self.key_mut(name).filter(|key| !key.busy) else {
            self.tidy(&name.uid);
            return;
        };
        match key.again.take() {
            None => {}
            Some(Lane::Recheck) => self.enqueue_again(name),
            Some(lane) => self.enqueue(name, lane),
        }
        let workload = self
            .workloads
            .get(&name.uid)
            .and_then(|tracked| tracked.workload.clone());
        if let Some(workload) = workload {
            self.observe_again(&workload, &name.check);
        }
        self.tidy(&name.uid);
    }

    /// Reports what was noted, once it is so.
    fn report(
        &mut self,
        name: &Key,
        reservation: Option<&crate::check::Reservation>,
        conclusion: &Conclusion,
    ) {
        let Some(reservation) = reservation else {
            return;
        };
        for note in &conclusion.notes {
            if let Note::StateChanged {
                to: to @ (CheckState::Retry | CheckState::Rejected),
                ..
            } = note
                && self.is_running(name)
                && let Some(slot) = self.slots.get_mut(&name.check)
            {
                slot.evicted(self.settings.clock.now());
                self.report_eviction(&name.check, to);
            }
            self.report_note(name, reservation, note);
        }
    }

    fn is_running(&self, name: &Key) -> bool {
        self.workloads
            .get(&name.uid)
            .and_then(|tracked| tracked.workload.as_ref())
            .is_some_and(|workload| {
                workload.is_admitted() || self.slices.growth(workload).is_some()
            })
    }
}
