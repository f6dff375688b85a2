//! Looking at a Workload: asking the check, and concluding from its answer.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::checks::{Problem, Readiness};
use super::jobs;
use super::session::Session;
use super::tracked::Key;
use crate::api::Workload;
use crate::check::{ErrorKind, ReadWorkload, ReleaseReason, RequestBuilder, Verdict};
use crate::runtime::decide::{Conclusion, Facts, Outcome, Standing, conclude, standing};
use crate::runtime::defect::{Defect, has};
use crate::runtime::metrics::{CheckLabels, OutcomeLabels};
use crate::runtime::queue::Lane;

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
            Readiness::Inactive(problem) => {
                let problem = problem.clone();
                self.say_inactive(name, controller, &problem);
            }
            Readiness::Usable(good) => {
                let (parameters, generation) = (good.read.value.clone(), good.generation);
                self.ask(name, &workload, controller, parameters, generation);
            }
        }
    }

    /// There are no parameters to ask with. What the check said and started before ends here, if it does not go on without them.
    fn say_inactive(&mut self, name: &Key, controller: usize, problem: &Problem) {
        let Some(message) = self.checks[controller].without_parameters(&problem.public()) else {
            let message = format!("the admission check is not active: {}", problem.message);
            let outcome = Outcome::Blocked {
                message: message.into(),
                again: None,
            };
            return self.conclude(name, &outcome);
        };
        self.conclude(name, &Outcome::Verdict(Verdict::pending(message)));
        let releases = !self.release_nothing.contains(&controller);
        let reservation = self.reservation(name);
        if let Some(key) = self.key_mut(name).filter(|key| key.started && releases) {
            key.started = false;
            if let Some(reservation) = reservation {
                let why = Some(ReleaseReason::CheckInactive);
                self.owe_for(name, reservation, why, true, None);
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
        let late = key.reservation != Some(reservation) && !has(Defect::KeepsLateAnswers);
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
            growth: self.slices.growth(workload),
            served: self.served,
            policy: &slot.policy,
            memory: &key.memory,
            evictions_last_hour: slot.evictions_last_hour(now),
            now,
        };
        Some((workload.clone(), conclude(facts, outcome)))
    }
}
