//! Activation of AdmissionChecks, and their condition `Active`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::cache::{Key, KeyState};
use super::managed_check::{Acceptance, ActivationInput, Activity, Next, Problem, ValidParameters};
use super::tasks::{CheckTask, InFlight, NotActivated, Started};
use super::workloads::is_undecided;
use super::writes::NOT_LEADER_DELAY;
use super::{Core, ManagedCheck, Report, Task, Timer};
use crate::api::{AdmissionCheck, Name, Uid};
use crate::check::{Message, Policy};
use crate::runtime::activation::{Located, decode, locate};
use crate::runtime::decide::{CheckPhase, Delay};
use crate::runtime::queue::{Lane, Queue};
use crate::runtime::writer::WriteError;

/// Number of repeated writes of the same condition before further ones are delayed: another client
/// writes it too.
const REPEATS_AT_ONCE: u32 = 3;
/// Number of backoff steps skipped before the first retry after a check has rejected its
/// parameters: about 1 min.
const REFUSED_STEPS: u32 = 6;
/// Consecutive attempts after which a result counts although the parameters have changed meanwhile:
/// parameters that change more often than the check is activated would leave it inactive.
const SUPERSEDED_AT_MOST: u32 = 3;

impl Core {
    pub(super) fn refresh_all(&mut self) {
        let names: Vec<Name> = self.checks.keys().cloned().collect();
        for name in &names {
            self.refresh(name);
        }
    }

    /// Starts the tasks of AdmissionChecks that had to wait.
    pub(super) fn start_waiting_checks(&mut self) {
        let waiting = std::mem::take(&mut self.work.waiting_checks);
        for (task, name) in waiting {
            let Some(controller) = self.checks.get(&name).map(|check| check.controller) else {
                continue;
            };
            if !self.may_start_check_task(task, controller) {
                self.work.waiting_checks.insert((task, name));
                continue;
            }
            match task {
                CheckTask::Activation => self.refresh(&name),
                CheckTask::Conditions => self.write_active(&name),
            }
        }
    }

    /// Returns true if another task of this kind may start. An activation runs the check's code, so
    /// each controller has a limit of its own.
    fn may_start_check_task(&self, task: CheckTask, controller: usize) -> bool {
        let started = match task {
            CheckTask::Activation => self.activations(controller),
            CheckTask::Conditions => self.writes_of_conditions(),
        };
        !self.is_paused() && started < self.work.limits.concurrency
    }

    /// Reconciles the activation of an AdmissionCheck with its current inputs.
    pub(super) fn refresh(&mut self, name: &Name) {
        if !self.leads() {
            return;
        }
        let Some(check) = self.checks.get(name) else {
            return;
        };
        let controller = check.controller;
        if self.serving(&check.object) != Some(controller) {
            // The reply to a write has parameters of another kind. The watch event follows.
            return;
        }
        let generation = check.object.generation();
        let (stored, revision) = match self.locate(check) {
            Located::Unknown => return,
            Located::Invalid { reason, message } => {
                let problem = Problem::new(reason, message);
                self.set_activation_timer(name, None);
                if let Some(check) = self.checks.get_mut(name) {
                    check.activation.input = None;
                }
                return self.set_result(name, generation, Activity::Inactive(problem));
            }
            Located::Found(stored, revision) => (stored, revision),
        };
        let inputs = check.inputs(revision);
        match check.activation.next(&inputs) {
            Next::Wait => return,
            Next::Known => return self.write_active(name),
            Next::Try => {}
        }
        let kinds = self.controllers[controller].check.parameters();
        let valid = match decode(&kinds, stored) {
            Ok((read, generation)) => Arc::new(ValidParameters { read, generation }),
            Err(problem) => {
                self.set_activation_timer(name, None);
                if let Some(check) = self.checks.get_mut(name) {
                    check.activation.input = Some(inputs);
                }
                let problem = Problem::new("ParametersInvalid", problem);
                return self.set_result(name, generation, Activity::Inactive(problem));
            }
        };
        let kind = CheckTask::Activation;
        if !self.may_start_check_task(kind, controller) {
            self.work.waiting_checks.insert((kind, name.clone()));
            return;
        }
        let task = Task::Activate {
            controller,
            object: check.object.clone(),
            parameters: valid.read.value.clone(),
        };
        self.set_activation_timer(name, None);
        if let Some(check) = self.checks.get_mut(name) {
            check.activation.in_flight = Some(inputs.clone());
            // Whatever the call ends with, the check has been given other parameters.
            check.activation.input = None;
        }
        self.start(
            InFlight::Activation {
                controller,
                check: name.clone(),
                tried: inputs,
                valid,
            },
            task,
        );
    }

    pub(super) fn activated(
        &mut self,
        name: &Name,
        tried: ActivationInput,
        valid: Arc<ValidParameters>,
        result: Result<(), NotActivated>,
    ) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        if check.activation.in_flight.as_ref() != Some(&tried) {
            // It is another AdmissionCheck of that name, or another check manages it.
            return self.refresh(name);
        }
        let current = self.current_inputs(name);
        let is_current = current.as_ref() == Some(&tried);
        let same_object = current.is_some_and(|current| current.same_object(&tried));
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let activation = &mut check.activation;
        activation.in_flight = None;
        activation.superseded = if is_current {
            0
        } else {
            activation.superseded.saturating_add(1)
        };
        let superseded = activation.superseded;
        if is_current || same_object && superseded >= SUPERSEDED_AT_MOST {
            self.activation_ended(name, tried, valid, result);
        }
        if !is_current {
            self.pause_activation(name, superseded);
        }
        self.refresh(name);
    }

    /// Starts the next attempt after a pause, unless the inputs changed only once.
    fn pause_activation(&mut self, name: &Name, superseded: u32) {
        if let Some(check) = self.checks.get_mut(name) {
            check.activation.input = None;
        }
        let pause = superseded.checked_sub(1).filter(|before| *before > 0);
        let pause = pause.map(|before| self.delay(before, 0));
        self.set_activation_timer(name, pause);
    }

    /// Handles the result of an activation.
    fn activation_ended(
        &mut self,
        name: &Name,
        tried: ActivationInput,
        valid: Arc<ValidParameters>,
        result: Result<(), NotActivated>,
    ) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let activation = &mut check.activation;
        let generation = tried.generation;
        activation.input = Some(tried.clone());
        match result {
            Ok(()) => self.activation_succeeded(name, tried, valid),
            Err(NotActivated::Inactive(inactive)) => {
                activation.failures = 0;
                let delay = Delay::retry(inactive.recheck_in).get();
                self.set_activation_timer(name, Some(delay));
                let problem = Problem {
                    reason: inactive.reason,
                    message: inactive.message,
                };
                self.set_result(name, generation, Activity::Inactive(problem));
            }
            // After a failed call, the validity of the parameters is unknown: the earlier result
            // stays.
            Err(NotActivated::Failed(error)) => {
                let rejected = activation.is_rejected() && activation.acceptance.is_of(&tried);
                let never = activation.valid.is_none() && !rejected;
                self.retry_activation(name, 0);
                self.report(Report::ActivationFailed {
                    check: name.to_string(),
                    error: error.to_string(),
                });
                if never {
                    let message = format!("activating the check failed; will retry: {error}");
                    let problem = Problem::new("ActivationFailed", message);
                    self.set_result(name, generation, Activity::Inactive(problem));
                }
            }
        }
    }

    /// Locates the parameters of `check`.
    fn locate(&self, check: &ManagedCheck) -> Located<'_> {
        let author = &self.controllers[check.controller].check;
        let kinds = author.parameters();
        let store = kinds
            .kind
            .as_ref()
            .and_then(|kind| self.parameters.iter().find(|(known, _)| known == kind))
            .map(|(_, store)| store);
        let all = self.controllers.iter().map(|controller| &controller.check);
        locate(&check.object, &kinds, &author.other_kinds(all), store)
    }

    /// Returns the current inputs of an AdmissionCheck, if its parameters exist.
    fn current_inputs(&self, name: &Name) -> Option<ActivationInput> {
        let check = self.checks.get(name)?;
        match self.locate(check) {
            Located::Found(_, revision) => Some(check.inputs(revision)),
            Located::Invalid { .. } | Located::Unknown => None,
        }
    }

    fn activation_succeeded(
        &mut self,
        name: &Name,
        inputs: ActivationInput,
        valid: Arc<ValidParameters>,
    ) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let author = &self.controllers[check.controller].check;
        check.policy = Policy::resolve(valid.read.policy.as_ref(), &author.policy());
        check.activation.message = author.active_message(&check.object);
        let generation = inputs.generation;
        let activation = &mut check.activation;
        let is_again = activation.acceptance.is_of(&inputs);
        if is_again && activation.is_rejected() {
            return self.rejected_activated(name, generation, valid);
        }
        if !is_again {
            activation.acceptance = Acceptance::new(inputs);
        }
        let unchanged = is_again && matches!(activation.result, Some((_, Activity::Active)));
        if !unchanged {
            activation.valid = Some(valid);
        }
        self.set_active(name, generation);
        if !unchanged {
            self.enqueue_users(name, |_, _| true);
        }
    }

    /// Handles an activation with the parameters that evaluations have rejected. While the check
    /// stays inactive, Workloads that did not reject them are asked again.
    fn rejected_activated(&mut self, name: &Name, generation: i64, valid: Arc<ValidParameters>) {
        let users = self.decidable_users(name);
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let activation = &mut check.activation;
        let had_none = activation.valid.is_none();
        activation.valid.get_or_insert(valid);
        let opens = activation.acceptance.activated(&users);
        if opens {
            self.set_active(name, generation);
        } else {
            self.retry_activation(name, REFUSED_STEPS);
        }
        if had_none {
            self.enqueue_users(name, |_, _| true);
        } else if !opens {
            self.enqueue_users(name, |uid, state| users.contains(uid) && !state.fails());
        }
    }

    /// Makes the AdmissionCheck active.
    fn set_active(&mut self, name: &Name, generation: i64) {
        self.set_activation_timer(name, None);
        if let Some(check) = self.checks.get_mut(name) {
            check.activation.failures = 0;
        }
        self.set_result(name, generation, Activity::Active);
    }

    /// Stores whether the AdmissionCheck is active.
    fn set_result(&mut self, name: &Name, generation: i64, result: Activity) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let activation = &check.activation;
        let changed = activation.result() != Some(result.as_result());
        // Some Workloads reject what others have shown to be valid, and do not take theirs away.
        let accepted = activation.acceptance.was_accepted();
        let disputed = accepted && matches!(result, Activity::Rejected(_));
        if let Err(problem) = result.as_result()
            && !disputed
        {
            let author = &self.controllers[check.controller].check;
            if author.without_parameters(&problem.public()).is_some() {
                check.activation.valid = None;
            }
        }
        let never_valid = result.as_result().is_err() && check.activation.valid.is_none();
        check.activation.result = Some((generation, result));
        if changed && never_valid {
            self.enqueue_users(name, |_, _| true);
        }
        self.write_active(name);
    }

    /// Activates the AdmissionCheck again after an exponential backoff, of which the first `skipped`
    /// steps are left out.
    fn retry_activation(&mut self, name: &Name, skipped: u32) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let failures = &mut check.activation.failures;
        *failures = failures.saturating_add(1);
        let delay = failures.saturating_add(skipped);
        let delay = self.delay(delay, 0);
        self.set_activation_timer(name, Some(delay));
    }

    /// Handles an evaluation that rejected the parameters; `rejected_before` is true if one since the
    /// last verdict about the Workload has as well, so that it shows nothing new while the check is
    /// active. See [`Acceptance`].
    pub(super) fn parameters_rejected_by(
        &mut self,
        key: &Key,
        rejected_before: bool,
        message: &Message,
    ) {
        let asked = self.evaluates_others(key);
        let Some(check) = self.checks.get_mut(&key.check) else {
            return;
        };
        let activation = &mut check.activation;
        let new = !rejected_before || activation.is_rejected();
        if activation.acceptance.reject(&key.uid, new, asked) {
            self.reject_parameters(&key.check, message.clone());
        }
    }

    /// Makes an active AdmissionCheck inactive, because evaluations reject its parameters. It is
    /// activated again after an exponential backoff: unreadable inputs may be readable then.
    pub(super) fn reject_parameters(&mut self, name: &Name, message: Message) {
        let result = self.checks.get(name).map(|check| &check.activation.result);
        let Some(&Some((generation, Activity::Active))) = result else {
            return;
        };
        let problem = Problem::new("ParametersRejected", message);
        self.set_result(name, generation, Activity::Rejected(problem));
        self.retry_activation(name, REFUSED_STEPS);
    }

    /// Handles a verdict that a check returned with its parameters: they are valid. If they counted
    /// as rejected, Workloads whose evaluation failed are evaluated again.
    pub(super) fn accept_parameters(&mut self, name: &Name) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let activation = &mut check.activation;
        let rejected = activation.is_rejected();
        activation.acceptance.accept(rejected);
        let Some((generation, Activity::Rejected(_))) = activation.result else {
            return;
        };
        // The check may have been given other parameters since, and be due to be activated again.
        let tried = activation.input.as_ref();
        if tried.is_some_and(|tried| activation.acceptance.is_of(tried)) {
            self.set_active(name, generation);
        } else {
            self.set_result(name, generation, Activity::Active);
        }
        self.enqueue_users(name, |_, state| state.fails());
    }

    /// Returns true if another Workload of the check is being evaluated, or is about to be.
    fn evaluates_others(&self, key: &Key) -> bool {
        let is_other = |other: &Key| other.check == key.check && other.uid != key.uid;
        let mut queued = self.work.queues.iter().flat_map(Queue::keys);
        let in_flight = |started: &Started| matches!(&started.purpose, InFlight::Evaluation { key, .. } if is_other(key));
        queued.any(is_other) || self.work.in_flight.values().any(in_flight)
    }

    /// Returns the Workloads of the check about which it may decide.
    fn decidable_users(&self, name: &Name) -> BTreeSet<Uid> {
        let Some(check) = self.checks.get(name) else {
            return BTreeSet::new();
        };
        let lifetime = self.controllers[check.controller].lifetime;
        let users = self.workloads.present().filter(|(workload, tracked)| {
            let state = tracked.key(name);
            let phase = || self.phase(workload, name, lifetime);
            state.is_some_and(|state| state.reservation.is_some())
                && !self.cleanups.blocks(&Key::new(workload.uid(), name))
                && matches!(phase(), CheckPhase::AwaitingVerdict | CheckPhase::Admitted)
        });
        users.map(|(workload, _)| workload.uid().clone()).collect()
    }

    /// Enqueues the `wanted` Workloads of the check for evaluation.
    fn enqueue_users(&mut self, name: &Name, wanted: impl Fn(&Uid, &KeyState) -> bool) {
        let users = self.workloads.present().filter_map(|(workload, tracked)| {
            let state = tracked.key(name)?;
            state.reservation?;
            if !wanted(workload.uid(), state) {
                return None;
            }
            let lane = state.lane(is_undecided(workload, name));
            Some((Key::new(workload.uid(), name), lane))
        });
        let users: Vec<(Key, Lane)> = users.collect();
        for (key, lane) in users {
            self.enqueue(&key, lane);
        }
    }

    /// Updates the message of active AdmissionChecks of `controller`, which may have changed: of
    /// the one named `only`, or of all.
    pub(super) fn update_messages(&mut self, controller: usize, only: Option<&str>) {
        let of_controller = self.checks.iter().filter(|(name, check)| {
            check.controller == controller && only.is_none_or(|only| only == &***name)
        });
        let names: Vec<Name> = of_controller.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(check) = self.checks.get_mut(&name) {
                let author = &self.controllers[controller].check;
                check.activation.message = author.active_message(&check.object);
            }
            self.write_active(&name);
        }
    }

    /// Writes the conditions of an AdmissionCheck, if they differ from the desired ones.
    pub(super) fn write_active(&mut self, name: &Name) {
        let (now, steady) = (self.now.wall, self.steady());
        if !self.leads() {
            return;
        }
        let Some(check) = self.checks.get(name) else {
            return;
        };
        let kind = CheckTask::Conditions;
        let may_start = self.may_start_check_task(kind, check.controller);
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        if check.announcement.in_flight || check.announcement.retry_at.is_some() {
            return;
        }
        let Some(conditions) = check.conditions(now, steady) else {
            return;
        };
        let written = check.object.after_admission.as_ref();
        let recorded = check.after_admission.is_recorded(written, steady);
        let active = &conditions[0];
        if recorded && active.is(check.object.active.as_ref()) {
            return;
        }
        if !may_start {
            self.work.waiting_checks.insert((kind, name.clone()));
            return;
        }
        let announcement = &mut check.announcement;
        let content = conditions
            .iter()
            .map(|condition| (condition.reason.clone(), condition.message.clone()));
        let content: Vec<(String, String)> = content.collect();
        announcement.repeats = if announcement.last.as_ref() == Some(&content) {
            announcement.repeats.saturating_add(1)
        } else {
            0
        };
        announcement.last = Some(content);
        announcement.in_flight = true;
        let task = Task::WriteConditions {
            object: check.object.clone(),
            manager: Arc::clone(&check.manager),
            conditions,
        };
        self.start(
            InFlight::Conditions {
                check: name.clone(),
            },
            task,
        );
    }

    pub(super) fn conditions_written(
        &mut self,
        name: &Name,
        result: Result<Box<AdmissionCheck>, WriteError>,
    ) {
        let version = self.served.version;
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        check.announcement.in_flight = false;
        let delay = match result {
            Ok(object) => {
                check.announcement.failures = 0;
                check.take_written(*object);
                let repeats = check.announcement.repeats;
                let active = check.object.active.clone();
                let status = active.as_ref().map(|active| active.status.clone());
                if check.announcement.recorded != status
                    && let Some(active) = active
                {
                    check.announcement.recorded = status;
                    let object = Box::new(check.object.clone());
                    self.report(Report::Activation {
                        object,
                        version,
                        active: active.status == "True",
                        reason: active.reason,
                        message: active.message,
                    });
                }
                (repeats > REPEATS_AT_ONCE).then(|| self.delay(repeats - REPEATS_AT_ONCE, 0))
            }
            Err(WriteError::Gone) => return,
            Err(WriteError::NotLeader) => {
                check.announcement.last = None;
                Some(NOT_LEADER_DELAY)
            }
            Err(error) => {
                let announcement = &mut check.announcement;
                announcement.failures = announcement.failures.saturating_add(1);
                announcement.last = None;
                let failures = announcement.failures;
                self.report(Report::ConditionFailed {
                    check: name.to_string(),
                    error: error.to_string(),
                });
                Some(self.delay(failures, 0))
            }
        };
        self.set_announcement_timer(name, delay);
        self.write_active(name);
    }

    pub(super) fn set_activation_timer(&mut self, name: &Name, delay: Option<Duration>) {
        let at = delay.and_then(|delay| self.now.instant.checked_add(delay));
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let before = std::mem::replace(&mut check.activation.retry_at, at);
        self.replace_timer(before, at, Timer::Activate(name.clone()));
    }

    fn set_announcement_timer(&mut self, name: &Name, delay: Option<Duration>) {
        let at = delay.and_then(|delay| self.now.instant.checked_add(delay));
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let before = std::mem::replace(&mut check.announcement.retry_at, at);
        self.replace_timer(before, at, Timer::Announce(name.clone()));
    }

    /// Retries an inactive AdmissionCheck or a failed activation.
    pub(super) fn activation_due(&mut self, name: &Name) {
        if let Some(check) = self.checks.get_mut(name) {
            check.activation.retry_at = None;
            check.activation.input = None;
        }
        self.refresh(name);
    }

    pub(super) fn announcement_due(&mut self, name: &Name) {
        if let Some(check) = self.checks.get_mut(name) {
            check.announcement.retry_at = None;
        }
        self.write_active(name);
    }
}

#[cfg(test)]
#[path = "activation_tests.rs"]
mod tests;
