//! Looking at a Workload: asking the check, concluding, writing.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::checks::Readiness;
use super::jobs;
use super::session::Session;
use super::tracked::Key;
use crate::api::{CheckState, Workload, digest};
use crate::check::{ErrorKind, ReadWorkload, RequestBuilder};
use crate::runtime::decide::{
    Conclusion, EntryPatch, Facts, LookAgain, Note, Outcome, Standing, conclude, standing,
};
use crate::runtime::metrics::{CheckLabels, OutcomeLabels};
use crate::runtime::queue::Lane;
use crate::runtime::writer::{EntryDigest, WriteError};

/// The pause after a write that came too late; doubled for each one in a row.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
/// The pause after a write that the lease forbade, if nothing is heard of the lease meanwhile.
const NOT_LEADER_PAUSE: Duration = Duration::from_secs(1);
/// After how many of them the Workload is read, because no event tells what changed.
const CONFLICTS_BEFORE_READING: u32 = 2;

impl Session {
    /// Begins as many looks as may be at work.
    pub(super) fn dispatch(&mut self) {
        while self.acting
            && self.looking < self.settings.concurrency
            && self.writer.pause().is_none()
            && let Some((name, lane)) = self.queue.pop(self.last_lane())
        {
            self.look(&name);
            if lane == Lane::Restore && self.key_mut(&name).is_some_and(|key| key.busy) {
                self.restoring.at_work.insert(name);
            }
        }
    }

    /// What was approved before this term is looked at before anything new, for a while.
    fn last_lane(&self) -> Lane {
        let restores = self.queue.has(Lane::Restore) || !self.restoring.at_work.is_empty();
        if restores
            && self
                .restoring
                .until
                .is_some_and(|until| Instant::now() < until)
        {
            Lane::Restore
        } else {
            Lane::Recheck
        }
    }

    fn look(&mut self, name: &Key) {
        let Some(tracked) = self.workloads.get(&name.uid) else {
            return;
        };
        let Some(key) = tracked.key(&name.check) else {
            return;
        };
        if key.owed.is_some() {
            self.pay(name);
            return;
        }
        let Some(workload) = tracked.workload.clone() else {
            return;
        };
        let Some(slot) = self.slots.get(&name.check) else {
            return;
        };
        let controller = slot.controller;
        match standing(
            &workload,
            &name.check,
            self.checks[controller].outlives_reservation(),
        ) {
            Standing::Waiting | Standing::Running => {}
            Standing::AwaitingReset | Standing::Over { .. } => return,
        }
        match slot.readiness() {
            // Everything is looked at again when it is known.
            Readiness::Unknown => {}
            Readiness::Inactive(message) => self.conclude(
                name,
                &Outcome::Blocked {
                    message,
                    again: None,
                },
            ),
            Readiness::Usable(good) => {
                let (parameters, generation) = (good.read.value.clone(), good.generation);
                self.ask(name, &workload, controller, parameters, generation);
            }
        }
    }

    fn ask(
        &mut self,
        name: &Key,
        workload: &Workload,
        controller: usize,
        parameters: crate::check::AnyParameters,
        generation: i64,
    ) {
        let Some(key) = self.key_mut(name) else {
            return;
        };
        key.busy = true;
        key.started = true;
        key.asked_at = Some(Instant::now());
        let evaluation = key.memory.evaluations.saturating_add(1);
        let reader: Arc<dyn ReadWorkload> = Arc::clone(&self.writer) as Arc<dyn ReadWorkload>;
        let request = RequestBuilder::new(workload.clone(), &name.check)
            .now(self.settings.clock.now())
            .evaluation(evaluation)
            .parameters_generation(generation)
            .flavors(Arc::clone(&self.flavors))
            .reader(reader)
            .build_any(parameters);
        let check = self.checks[controller].clone();
        let limit = check.timeout().unwrap_or(self.settings.timeout);
        self.looking += 1;
        self.jobs.spawn(jobs::evaluate(
            name.clone(),
            check,
            request,
            limit,
            Arc::clone(&self.flavors),
            Arc::clone(&self.writer),
        ));
    }

    pub(super) fn evaluated(
        &mut self,
        name: &Key,
        reservation: Timestamp,
        outcome: &Outcome,
        word: &'static str,
        took: Duration,
    ) {
        self.looking -= 1;
        let check = name.check.to_string();
        self.metrics
            .evaluations
            .get_or_create(&OutcomeLabels {
                check: check.clone(),
                outcome: word,
            })
            .inc();
        self.metrics
            .evaluation_seconds
            .get_or_create(&CheckLabels { check })
            .observe(took.as_secs_f64());
        let Some(key) = self.key_mut(name) else {
            return;
        };
        key.busy = false;
        // An answer for a reservation that is over, or by one who no longer leads, is worth nothing (rule 8).
        let late = key.reservation != Some(reservation);
        if !late && self.acting {
            if let Some(key) = self.key_mut(name) {
                key.memory.evaluations = key.memory.evaluations.saturating_add(1);
            }
            self.remember_outcome(name, outcome, word);
            if let Outcome::Failed {
                kind: ErrorKind::Parameters,
                message,
            } = &outcome
            {
                self.reject_parameters(&name.check, message.clone());
            }
            self.conclude(name, outcome);
        }
        self.finish(name);
    }

    /// What follows from `outcome` is written, if anything.
    pub(super) fn conclude(&mut self, name: &Key, outcome: &Outcome) {
        let Some((workload, conclusion)) = self.conclusion(name, outcome) else {
            return;
        };
        let Some(key) = self.key_mut(name) else {
            return;
        };
        key.memory = conclusion.memory.clone();
        match &conclusion.write {
            Some(patch) => self.write(name, workload, patch.clone(), conclusion),
            None => self.settle(name, &conclusion),
        }
    }

    fn conclusion(&self, name: &Key, outcome: &Outcome) -> Option<(Workload, Conclusion)> {
        let tracked = self.workloads.get(&name.uid)?;
        let workload = tracked.workload.as_ref()?;
        let key = tracked.key(&name.check)?;
        let slot = self.slots.get(&name.check)?;
        let running = match standing(
            workload,
            &name.check,
            self.checks[slot.controller].outlives_reservation(),
        ) {
            Standing::Waiting => false,
            Standing::Running => true,
            Standing::AwaitingReset | Standing::Over { .. } => return None,
        };
        let now = self.settings.clock.now();
        let facts = Facts {
            reservation: &self.reservation(name)?,
            entry: workload.check(&name.check)?,
            running,
            served: self.served,
            policy: &slot.policy,
            memory: &key.memory,
            evictions_last_hour: slot.evictions_last_hour(now),
            now,
        };
        Some((workload.clone(), conclude(facts, outcome)))
    }

    fn write(&mut self, name: &Key, workload: Workload, patch: EntryPatch, conclusion: Conclusion) {
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
    fn settle(&mut self, name: &Key, conclusion: &Conclusion) {
        let stands = self
            .workloads
            .get(&name.uid)
            .and_then(|tracked| tracked.workload.as_ref()?.check(&name.check))
            .map(EntryDigest::of);
        if let Some(key) = self.key_mut(name) {
            key.expected = stands;
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
            .is_some_and(Workload::is_admitted)
    }
}
