//! Evaluations of a check for a Workload, and conclusions from their verdicts.

use std::sync::Arc;
use std::time::Duration;

use super::cache::{Key, KeyState};
use super::freshness::{Freshness, has_no_verdict};
use super::managed_check::{Problem, Readiness, ValidParameters};
use super::report::summary;
use super::tasks::{Basis, InFlight, Leftover, Subject};
use super::{Core, EvaluationTask, Report, Task};
use crate::api::{CheckState, Workload};
use crate::check::{
    CheckEvent, ErrorKind, ReleaseReason, Reservation, Verdict, written_updates_are_suspected,
};
use crate::runtime::decide::{CheckPhase, Conclusion, Delay, Facts, Growth, Outcome, conclude};
use crate::runtime::queue::Lane;

impl Core {
    /// Runs the next step of `key`: continues a cleanup, or evaluates.
    pub(super) fn process(&mut self, key: &Key) {
        if self.cleanups.blocks(key) {
            return self.run_cleanup(key);
        }
        let Some(workload) = self.workloads.workload(&key.uid).cloned() else {
            return;
        };
        let Some(check) = self.checks.get(&key.check) else {
            return;
        };
        let controller = check.controller;
        match self.phase(&workload, &key.check, self.controllers[controller].lifetime) {
            CheckPhase::AwaitingVerdict | CheckPhase::Admitted => {}
            CheckPhase::AwaitingReset | CheckPhase::PodsRemain | CheckPhase::Ended { .. } => return,
        }
        match check.readiness() {
            // As soon as that is determined, everything is evaluated.
            Readiness::Unknown => {}
            Readiness::Inactive(problem) => {
                let problem = problem.clone();
                self.report_inactive(key, controller, &problem);
            }
            Readiness::Active(valid) => {
                let valid = Arc::clone(valid);
                self.evaluate(key, &workload, controller, valid);
            }
        }
    }

    /// Handles a Workload of a check without valid parameters. Earlier verdicts and resources end
    /// here, unless the check continues without parameters.
    fn report_inactive(&mut self, key: &Key, controller: usize, problem: &Problem) {
        let check = &self.controllers[controller].check;
        let Some(message) = check.without_parameters(&problem.public()) else {
            let message = format!("the admission check is not active: {}", problem.message);
            let outcome = Outcome::Blocked {
                message: message.into(),
                again: None,
            };
            return self.conclude(key, &outcome);
        };
        // A running job keeps its resources: the parameters may be back the next moment, and a list
        // may be older than they are.
        let runs = self.workloads.workload(&key.uid);
        let runs = runs.is_some_and(Workload::is_admitted);
        let state = self.workloads.key(key);
        let releases = state.is_some_and(|state| state.started)
            && !runs
            && !self.work.never_allocate.contains(&controller);
        let verdict = Verdict::pending(message);
        if !releases {
            return self.conclude(key, &Outcome::Verdict(verdict));
        }
        // Kueue may admit by a Ready until that is withdrawn.
        let workload = self.workloads.workload(&key.uid);
        let entry = workload.and_then(|workload| workload.check(&key.check));
        let was_ready = entry.is_some_and(|entry| *entry.state() == CheckState::Ready);
        let verdict = if was_ready {
            verdict.recheck_in(Delay::MIN)
        } else {
            verdict
        };
        self.conclude(key, &Outcome::Verdict(verdict));
        let reservation = self.reservation(key);
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        // The delay is that of the withdrawal; once the job runs, it has its own.
        state.memory.recheck = None;
        if was_ready {
            let keeps_ready = !state.in_flight;
            if keeps_ready {
                // The policy does. The resources are released when the reservation ends.
                self.set_timer(key, None);
            }
            return;
        }
        if let Some(reservation) = reservation {
            state.started = false;
            let subject = Subject {
                reservation,
                controller,
            };
            let why = Some(ReleaseReason::CheckInactive);
            self.enqueue_cleanup(key, subject, why, true, Leftover::Nothing);
        }
    }

    fn evaluate(
        &mut self,
        key: &Key,
        workload: &Workload,
        controller: usize,
        parameters: Arc<ValidParameters>,
    ) {
        let evaluated_at = self.tenths();
        let Some(reservation) = Reservation::of(workload, &key.check) else {
            return;
        };
        let family = self.families.of(workload);
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        // Even a Workload that requests nothing more may get what is held for the running pods.
        state.started = true;
        state.evaluated_at = evaluated_at;
        if family.needs_nothing_more(workload) {
            let pods = family.all_running_pods().unwrap_or_default();
            let message = format!("requests no more than the {pods} pods that run");
            return self.conclude(key, &Outcome::Verdict(Verdict::ready(message)));
        }
        let task = EvaluationTask {
            controller,
            check: key.check.clone(),
            workload: workload.clone(),
            family: family.clone(),
            evaluation: state.memory.evaluations.saturating_add(1),
            now: self.now.wall,
            generation: parameters.generation,
            parameters: parameters.read.value.clone(),
            flavors: Arc::clone(&self.flavors),
        };
        let basis = Basis {
            reservation,
            workload: workload.clone(),
            family,
            parameters,
            flavors: Arc::clone(&self.flavors),
        };
        self.start(
            InFlight::Evaluation {
                key: key.clone(),
                basis: Box::new(basis),
            },
            Task::Evaluate(task),
        );
    }

    pub(super) fn evaluated(
        &mut self,
        key: &Key,
        basis: &Basis,
        outcome: &Outcome,
        (label, took): (&'static str, Duration),
        events: Vec<CheckEvent>,
    ) {
        let freshness = self.freshness(key, basis);
        self.report(Report::Evaluated {
            check: key.check.to_string(),
            label,
            took,
            dropped: freshness.dropped(),
        });
        match freshness {
            // A verdict for a reservation that ended is dropped (rule 8).
            Freshness::Over => {}
            // A verdict decided from other inputs does not apply to these (rule 2).
            Freshness::Stale { .. } => {
                if let Some(state) = self.workloads.key_mut(key) {
                    state.pending_lane = None;
                    state.expected = None;
                }
                self.enqueue(key, Lane::New);
            }
            Freshness::Current => {
                for event in events {
                    self.report(Report::Event {
                        reservation: basis.reservation.clone(),
                        event,
                    });
                }
                let state = self.workloads.key(key);
                let rejected_before = state.is_some_and(KeyState::has_rejected);
                self.record_outcome(key, &basis.reservation, outcome, label);
                self.conclude(key, outcome);
                if let Outcome::Failed {
                    kind: ErrorKind::Parameters,
                    message,
                } = outcome
                {
                    self.parameters_rejected_by(key, rejected_before, message);
                } else if matches!(outcome, Outcome::Verdict(_)) {
                    self.accept_parameters(&key.check);
                }
            }
        }
        self.finish_without_write(key);
    }

    /// Returns whether a verdict that was decided from `basis` still holds.
    fn freshness(&self, key: &Key, basis: &Basis) -> Freshness {
        let reservation = self
            .workloads
            .key(key)
            .and_then(|state| state.reservation)
            .filter(|since| *since == basis.reservation.since());
        if reservation.is_none() || !self.leads() {
            return Freshness::Over;
        }
        let Some(workload) = self.workloads.workload(&key.uid) else {
            return Freshness::Over;
        };
        let check = self.checks.get(&key.check);
        let ended = check.is_some_and(|check| {
            let lifetime = self.controllers[check.controller].lifetime;
            self.phase(workload, &key.check, lifetime) == CheckPhase::PodsRemain
        });
        if ended {
            return Freshness::Over;
        }
        let parameters = check.and_then(|check| check.valid());
        let same_parameters = parameters.is_some_and(|valid| Arc::ptr_eq(valid, &basis.parameters));
        let same_flavors = Arc::ptr_eq(&self.flavors, &basis.flavors)
            || basis
                .workload
                .flavors()
                .all(|flavor| self.flavors.get(flavor) == basis.flavors.get(flavor));
        // Updates that were written meanwhile have not been compared with the flavors.
        let written =
            |workload: &Workload| workload.check(&key.check).map(|entry| entry.updates_digest);
        let same_flavors = same_flavors
            && (written(workload) == written(&basis.workload)
                || !written_updates_are_suspected(workload, &key.check, &self.flavors));
        // A verdict that ends the wait of a job would evict the job once it runs.
        let same_stage = workload.is_admitted() == basis.workload.is_admitted();
        let same_family = self.families.of(workload).decides_like(&basis.family);
        if same_parameters
            && same_flavors
            && same_family
            && workload.same_inputs(&basis.workload, &key.check)
            && same_stage
        {
            Freshness::Current
        } else {
            Freshness::stale([same_parameters, same_flavors, same_family, same_stage])
        }
    }

    fn record_outcome(
        &mut self,
        key: &Key,
        reservation: &Reservation,
        outcome: &Outcome,
        label: &'static str,
    ) {
        let steady = self.steady();
        let state = self.workloads.key(key);
        let is_first = state.is_some_and(|state| state.memory.evaluations == 0);
        let entry = self.workloads.workload(&key.uid);
        let entry = entry.and_then(|workload| workload.check(&key.check));
        // A new process may repeat the evaluations of an earlier one.
        let is_first = is_first && entry.is_some_and(has_no_verdict);
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        state.memory.evaluations = state.memory.evaluations.saturating_add(1);
        let first = is_first.then(|| state.held(steady));
        let (message, failed) = summary(outcome);
        self.remember(reservation, label, &message);
        self.report(Report::Outcome {
            reservation: reservation.clone(),
            label,
            message,
            failed,
            first: first.filter(|_| !failed),
        });
    }

    /// Writes the consequences of `outcome`, if any.
    pub(super) fn conclude(&mut self, key: &Key, outcome: &Outcome) {
        let Some((workload, conclusion)) = self.conclusion(key, outcome) else {
            return;
        };
        if let Some(state) = self.workloads.key_mut(key) {
            state.memory = conclusion.memory.clone();
        }
        if conclusion.memory.monitored == Some(true)
            && let Some(check) = self.checks.get_mut(&key.check)
            && check.policy.on_failure.is_none()
            && !check.after_admission.monitors
        {
            check.after_admission.monitors = true;
            self.write_active(&key.check);
        }
        match &conclusion.write {
            Some(patch) => self.write(key, workload, patch.clone(), conclusion),
            None => self.unchanged(key, &conclusion),
        }
    }

    fn conclusion(&self, key: &Key, outcome: &Outcome) -> Option<(Workload, Conclusion)> {
        let workload = self.workloads.workload(&key.uid)?;
        let state = self.workloads.key(key)?;
        let check = self.checks.get(&key.check)?;
        let lifetime = self.controllers[check.controller].lifetime;
        let running = match self.phase(workload, &key.check, lifetime) {
            CheckPhase::AwaitingVerdict => false,
            CheckPhase::Admitted => true,
            CheckPhase::AwaitingReset | CheckPhase::PodsRemain | CheckPhase::Ended { .. } => {
                return None;
            }
        };
        let reservation = Reservation::of(workload, &key.check)?;
        let facts = Facts {
            entry: workload.check(&key.check)?,
            admitted: running,
            growth: Growth::of(&self.families.of(workload)),
            served: self.served,
            policy: &check.policy,
            memory: &state.memory,
            held: state.held(self.steady()),
            reserved: reservation.since(),
            monitors: check.after_admission.monitors,
            evictions_last_hour: check.after_admission.used(self.steady(), &reservation),
            now: self.now.wall,
            steady: self.steady(),
        };
        Some((workload.clone(), conclude(facts, outcome)))
    }
}

#[cfg(test)]
#[path = "evaluations_tests.rs"]
mod tests;
