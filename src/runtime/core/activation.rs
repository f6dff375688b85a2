//! Activation: whether an AdmissionCheck can be evaluated, and its condition `Active`.

use std::sync::Arc;
use std::time::Duration;

use super::cache::Key;
use super::managed_check::{ActivationInput, Next, Problem, ValidParameters, view};
use super::tasks::{InFlight, NotActivated};
use super::workloads::is_undecided;
use super::{Core, Report, Task, Timer};
use crate::api::{AdmissionCheck, Name};
use crate::check::{Message, Policy};
use crate::runtime::activation::{Located, decode, locate};
use crate::runtime::decide::Delay;
use crate::runtime::queue::Lane;
use crate::runtime::writer::WriteError;

/// How often the same condition may be written in a row before it is written more slowly: another
/// client writes it too.
const REPEATS_AT_ONCE: u32 = 3;
/// The steps of the backoff that come before the first retry after a check has refused its
/// parameters: about a minute.
const REFUSED_STEPS: u32 = 6;

impl Core {
    pub(super) fn refresh_all(&mut self) {
        let names: Vec<Name> = self.checks.keys().cloned().collect();
        for name in &names {
            self.refresh(name);
        }
    }

    /// AdmissionChecks whose tasks had to wait.
    pub(super) fn start_waiting_checks(&mut self) {
        while self.may_start_check_task()
            && let Some(name) = self.work.waiting_checks.pop_first()
        {
            self.refresh(&name);
        }
    }

    fn may_start_check_task(&self) -> bool {
        !self.is_paused() && self.check_tasks() < self.limits.concurrency
    }

    /// Reconciles the activation of an AdmissionCheck with the inputs as they are now.
    pub(super) fn refresh(&mut self, name: &Name) {
        if !self.leads() {
            return;
        }
        let Some(check) = self.checks.get(name) else {
            return;
        };
        let controller = check.controller;
        let generation = check.object.generation();
        let kinds = self.controllers[controller].check.parameters();
        let store = kinds
            .kind
            .as_ref()
            .and_then(|kind| self.parameters.iter().find(|(known, _)| known == kind))
            .map(|(_, store)| store);
        let (stored, revision) = match locate(&check.object, &kinds, store) {
            Located::Unknown => return,
            Located::Invalid { reason, message } => {
                let problem = Problem::new(reason, message);
                self.set_activation_timer(name, None);
                if let Some(check) = self.checks.get_mut(name) {
                    check.activation.input = None;
                }
                return self.judge(name, generation, Err(problem));
            }
            Located::Found(stored, revision) => (stored, revision),
        };
        let inputs = ActivationInput {
            uid: check.object.uid().clone(),
            generation,
            parameters: revision,
        };
        match check.activation.next(&inputs) {
            Next::Wait => return,
            Next::Known => return self.write_active(name),
            Next::Try => {}
        }
        let valid = match decode(&kinds, stored) {
            Ok((read, generation)) => Arc::new(ValidParameters { read, generation }),
            Err(problem) => {
                self.set_activation_timer(name, None);
                if let Some(check) = self.checks.get_mut(name) {
                    check.activation.input = Some(inputs);
                }
                let problem = Problem::new("ParametersInvalid", problem);
                return self.judge(name, generation, Err(problem));
            }
        };
        if !self.may_start_check_task() {
            self.work.waiting_checks.insert(name.clone());
            return;
        }
        let task = Task::Activate {
            controller,
            object: check.object.clone(),
            parameters: valid.read.value.clone(),
        };
        if let Some(check) = self.checks.get_mut(name) {
            check.activation.in_flight = true;
        }
        self.start(
            InFlight::Activation {
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
        if check.object.uid() != &tried.uid {
            // Another one of that name.
            return self.refresh(name);
        }
        let activation = &mut check.activation;
        activation.in_flight = false;
        let generation = tried.generation;
        activation.input = Some(tried);
        activation.failures = match &result {
            Err(NotActivated::Failed(_)) => activation.failures.saturating_add(1),
            _ => 0,
        };
        let failures = activation.failures;
        match result {
            Ok(()) => {
                let author = self.controllers[check.controller].check.policy();
                check.policy = Policy::resolve(valid.read.policy.as_ref(), &author);
                check.activation.valid = Some(valid);
                self.set_activation_timer(name, None);
                self.judge(name, generation, Ok(()));
                self.enqueue_users(name);
            }
            Err(NotActivated::Inactive(inactive)) => {
                let delay = Delay::retry(inactive.recheck_in).get();
                self.set_activation_timer(name, Some(delay));
                let problem = Problem {
                    reason: inactive.reason,
                    message: inactive.message,
                };
                self.judge(name, generation, Err(problem));
            }
            // A failed call says nothing about the parameters: what was known stays.
            Err(NotActivated::Failed(error)) => {
                let never = check.activation.valid.is_none();
                let delay = self.delay(failures, 0);
                self.set_activation_timer(name, Some(delay));
                self.report(Report::ActivationFailed {
                    check: name.to_string(),
                    error: error.to_string(),
                });
                if never {
                    let message =
                        format!("activating the check failed and is tried again: {error}");
                    let problem = Problem::new("ActivationFailed", message);
                    self.judge(name, generation, Err(problem));
                }
            }
        }
        self.refresh(name);
    }

    /// It is known whether the AdmissionCheck is active.
    fn judge(&mut self, name: &Name, generation: i64, judged: Result<(), Problem>) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let changed = check.activation.judged() != Some(view(&judged));
        if let Err(problem) = &judged {
            let author = &self.controllers[check.controller].check;
            if author.without_parameters(&problem.public()).is_some() {
                check.activation.valid = None;
            }
        }
        let unusable = judged.is_err() && check.activation.valid.is_none();
        check.activation.judged = Some((generation, judged));
        if changed && unusable {
            self.enqueue_users(name);
        }
        self.write_active(name);
    }

    /// A check refused its parameters while it was evaluated. It is activated again after a delay
    /// that grows: what it could not read may be readable then.
    pub(super) fn reject_parameters(&mut self, name: &Name, message: Message) {
        let Some(check) = self.checks.get_mut(name) else {
            return;
        };
        let Some((generation, Ok(()))) = check.activation.judged else {
            return;
        };
        check.activation.refusals = check.activation.refusals.saturating_add(1);
        let refusals = check.activation.refusals;
        let delay = self.delay(refusals.saturating_add(REFUSED_STEPS), 0);
        self.set_activation_timer(name, Some(delay));
        let problem = Problem::new("ParametersRejected", message);
        self.judge(name, generation, Err(problem));
    }

    /// A check returned a verdict with its parameters.
    pub(super) fn accept_parameters(&mut self, name: &Name) {
        if let Some(check) = self.checks.get_mut(name) {
            check.activation.refusals = 0;
        }
    }

    /// Every Workload of the check is evaluated again.
    fn enqueue_users(&mut self, name: &Name) {
        let users = self.workloads.present().filter_map(|(workload, tracked)| {
            let state = tracked.key(name)?;
            state.reservation?;
            let lane = state.lane(is_undecided(workload, name));
            Some((Key::new(workload.uid(), name), lane))
        });
        let users: Vec<(Key, Lane)> = users.collect();
        for (key, lane) in users {
            self.enqueue(&key, lane);
        }
    }

    /// Writes the conditions of an AdmissionCheck, if they are not as they should be.
    pub(super) fn write_active(&mut self, name: &Name) {
        let (now, steady) = (self.now.wall, self.steady());
        if !self.leads() {
            return;
        }
        let may_start = self.may_start_check_task();
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
            self.work.waiting_checks.insert(name.clone());
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
            Err(WriteError::NotLeader | WriteError::Gone) => return,
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

    fn set_activation_timer(&mut self, name: &Name, delay: Option<Duration>) {
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

    /// An inactive AdmissionCheck, or a failed activation, is tried again.
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
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::super::{Controller, Effect, Input, LeaseState, Limits, Now, TaskId, TaskResult};
    use super::*;
    use crate::api::{ApiVersion, ResourceFlavor, ServedApi, Uid, Workload};
    use crate::check::{
        AdmissionCheckController, CheckError, CheckRequest, ControllerName, DynCheck, Parameters,
        ParametersKind, Verdict,
    };
    use crate::runtime::backoff::Backoff;
    use crate::runtime::core::managed_check::Activation;
    use crate::runtime::decide::Outcome;
    use crate::runtime::evaluate::CallError;
    use crate::runtime::informers::{Revision, StoredParameters};
    use tokio::time::Instant;

    fn inputs(generation: i64) -> ActivationInput {
        ActivationInput {
            uid: Uid::new("u"),
            generation,
            parameters: Revision::default(),
        }
    }

    #[test]
    fn what_was_tried_is_not_tried_again_until_it_changes_or_a_retry_is_due() {
        let fresh = Activation::default();
        let tried = Activation {
            input: Some(inputs(1)),
            ..Activation::default()
        };
        let in_flight = Activation {
            in_flight: true,
            ..Activation::default()
        };
        for (name, activation, generation, next) in [
            ("nothing was tried", &fresh, 1, Next::Try),
            ("these were tried", &tried, 1, Next::Known),
            ("others were tried", &tried, 2, Next::Try),
            ("something is being tried", &in_flight, 1, Next::Wait),
        ] {
            assert_eq!(activation.next(&inputs(generation)), next, "{name}");
        }
    }

    struct Limit(String);

    impl Parameters for Limit {
        fn kind() -> Option<ParametersKind> {
            Some(ParametersKind {
                group: "example.com".into(),
                kind: "Limit".into(),
                plural: "limits".into(),
                versions: vec!["v1".into()],
            })
        }

        fn decode(object: serde_json::Value) -> Result<Self, String> {
            Ok(Self(object["metadata"]["name"].to_string()))
        }
    }

    struct Limited;

    impl AdmissionCheckController for Limited {
        type Parameters = Limit;

        fn controller_name(&self) -> ControllerName {
            const { ControllerName::from_static("example.com/limited") }
        }

        async fn evaluate(&self, request: CheckRequest<Limit>) -> Result<Verdict, CheckError> {
            Ok(Verdict::ready(&request.parameters().0))
        }
    }

    /// A core that leads, with the parameters `a` and `b`, and the tasks that it has started.
    struct Driver {
        core: Core,
        now: Now,
        started: Vec<(TaskId, Task)>,
    }

    impl Driver {
        fn new() -> Self {
            let now = Now {
                instant: Instant::now(),
                wall: jiff::Timestamp::UNIX_EPOCH,
            };
            let limits = Limits {
                concurrency: 10,
                backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(5), 0),
            };
            let controllers = [Controller::from(DynCheck::new(Limited))].into();
            let served = ServedApi::fallback(ApiVersion::V1beta2);
            let mut driver = Self {
                core: Core::new(controllers, limits, served, now),
                now,
                started: Vec::new(),
            };
            let parameters = |event| Input::Parameters { kind: 0, event };
            driver.feed(Input::AdmissionChecks(Event::Init));
            driver.feed(Input::AdmissionChecks(Event::InitDone));
            driver.feed(Input::Workloads {
                event: Event::Init,
                selected: true,
            });
            driver.feed(Input::Workloads {
                event: Event::InitDone,
                selected: true,
            });
            driver.feed(parameters(Event::Init));
            driver.feed(parameters(Event::InitApply(stored("a"))));
            driver.feed(parameters(Event::InitApply(stored("b"))));
            driver.feed(parameters(Event::InitDone));
            driver.feed(Input::Lease(LeaseState::Acquired));
            // A new leader lists Workloads anew.
            for event in [Event::Init, Event::InitDone] {
                let selected = true;
                driver.feed(Input::Workloads { event, selected });
            }
            driver
        }

        fn feed(&mut self, input: Input) {
            for effect in self.core.step(self.now, input) {
                if let Effect::Start(id, task) = effect {
                    self.started.push((id, *task));
                }
            }
        }

        fn refers_to(&mut self, generation: i64, parameters: &str) {
            let check = AdmissionCheck::from_json(json!({
                "metadata": {"name": "c", "uid": "u", "resourceVersion": generation.to_string(), "generation": generation},
                "spec": {"controllerName": "example.com/limited",
                    "parameters": {"apiGroup": "example.com", "kind": "Limit", "name": parameters}},
            }));
            self.feed(Input::AdmissionChecks(Event::Apply(check.unwrap())));
        }

        /// Ends the activation that was started, with the parameters of which it is.
        fn activated(&mut self, result: Result<(), NotActivated>) -> String {
            let at = self
                .started
                .iter()
                .position(|(_, task)| matches!(task, Task::Activate { .. }))
                .unwrap();
            let (id, task) = self.started.remove(at);
            let Task::Activate { parameters, .. } = task else {
                unreachable!()
            };
            self.feed(Input::Finished(id, TaskResult::Activated(result)));
            parameters.downcast::<Limit>().unwrap().0.clone()
        }

        /// The evaluation that was started, if there is one.
        fn evaluation(&mut self) -> Option<TaskId> {
            let mut tasks = self.started.iter();
            let at = tasks.position(|(_, task)| matches!(task, Task::Evaluate(_)))?;
            Some(self.started.remove(at).0)
        }

        fn activates(&self) -> bool {
            let mut tasks = self.started.iter();
            tasks.any(|(_, task)| matches!(task, Task::Activate { .. }))
        }

        fn pass(&mut self, time: Duration) {
            self.now.instant += time;
            self.feed(Input::Time);
        }
    }

    fn stored(name: &str) -> StoredParameters {
        StoredParameters {
            name: name.to_owned(),
            revision: Revision::default(),
            generation: 1,
            object: json!({"metadata": {"name": name}}),
        }
    }

    fn timed_out() -> NotActivated {
        NotActivated::Failed(CallError::TimedOut(Duration::from_secs(30)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_activation_that_failed_after_the_reference_was_changed_is_retried() {
        let mut driver = Driver::new();
        driver.refers_to(1, "a");
        assert_eq!(driver.activated(Ok(())), "\"a\"");
        driver.refers_to(2, "b");
        assert_eq!(driver.activated(Err(timed_out())), "\"b\"");
        assert!(!driver.activates(), "not at once");
        // The condition of the first generation is written meanwhile.
        driver.pass(Duration::from_secs(5));
        assert_eq!(driver.activated(Ok(())), "\"b\"");
        let valid = driver.core.checks["c"].valid().unwrap();
        assert_eq!(valid.read.value.downcast_ref::<Limit>().unwrap().0, "\"b\"");
    }

    #[tokio::test(start_paused = true)]
    async fn parameters_that_a_check_has_refused_are_tried_again() {
        let mut driver = Driver::new();
        driver.refers_to(1, "a");
        driver.activated(Ok(()));
        let name = Name::from("c");
        driver
            .core
            .reject_parameters(&name, Message::new("no such zone"));
        assert!(driver.core.checks["c"].active().unwrap().is_err());
        driver.pass(Duration::from_secs(20));
        assert!(!driver.activates(), "not at once");
        driver.pass(Duration::from_mins(5));
        driver.activated(Ok(()));
        assert!(driver.core.checks["c"].active().unwrap().is_ok());
    }

    fn with_quota(version: u32, message: &str) -> Workload {
        let workload = Workload::from_json(json!({
            "metadata": {"namespace": "t", "name": "w", "uid": "w", "resourceVersion": version.to_string()},
            "spec": {"podSets": [{"name": "main", "count": 1}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"}],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "spot"}}]},
                "admissionChecks": [{"name": "c", "state": "Pending", "message": message}],
            },
        }));
        workload.unwrap()
    }

    fn flavor(zone: &str) -> ResourceFlavor {
        ResourceFlavor {
            name: "spot".to_owned(),
            node_labels: [("zone".to_owned(), zone.to_owned())].into(),
            ..ResourceFlavor::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_is_dropped_when_what_it_was_decided_from_changed_meanwhile() {
        type Change = fn(&mut Driver);
        let table: [(&str, Change, bool); 4] = [
            ("nothing", |_| {}, true),
            (
                "the parameters",
                |driver| {
                    driver.refers_to(2, "b");
                    driver.activated(Ok(()));
                },
                false,
            ),
            (
                "a flavor",
                |driver| driver.feed(Input::Flavors(Event::Apply(flavor("b")))),
                false,
            ),
            (
                "a flavor, to what it was",
                |driver| driver.feed(Input::Flavors(Event::Apply(flavor("a")))),
                true,
            ),
        ];
        for (changed, change, written) in table {
            let mut driver = Driver::new();
            driver.feed(Input::Flavors(Event::Apply(flavor("a"))));
            driver.refers_to(1, "a");
            driver.activated(Ok(()));
            let (event, selected) = (Event::Apply(with_quota(5, "")), true);
            driver.feed(Input::Workloads { event, selected });
            let id = driver.evaluation().expect("it is evaluated");
            change(&mut driver);
            assert!(
                driver.evaluation().is_none(),
                "{changed}: not twice at once"
            );
            let outcome = Outcome::Verdict(Verdict::ready("ok"));
            let (label, took, events) = ("", Duration::ZERO, Vec::new());
            let result = TaskResult::Evaluated {
                outcome,
                label,
                took,
                events,
            };
            driver.feed(Input::Finished(id, result));
            driver.pass(Duration::from_secs(10));
            let mut tasks = driver.started.iter();
            let writes = tasks.any(|(_, task)| matches!(task, Task::WriteEntry { .. }));
            assert_eq!(writes, written, "{changed} changed");
            assert_eq!(driver.evaluation().is_none(), written, "{changed} changed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_flavor_is_decided_about_again() {
        let mut driver = Driver::new();
        driver.feed(Input::Flavors(Event::Apply(flavor("a"))));
        driver.refers_to(1, "a");
        driver.activated(Ok(()));
        let (event, selected) = (Event::Apply(with_quota(5, "")), true);
        driver.feed(Input::Workloads { event, selected });
        let id = driver.evaluation().expect("it is evaluated");
        let result = TaskResult::Evaluated {
            outcome: Outcome::Blocked {
                message: Message::new("another zone"),
                again: None,
            },
            label: "",
            took: Duration::ZERO,
            events: Vec::new(),
        };
        driver.feed(Input::Finished(id, result));
        let mut tasks = driver.started.iter();
        let at = tasks.position(|(_, task)| matches!(task, Task::WriteEntry { .. }));
        let (id, _) = driver.started.remove(at.expect("it is written"));
        let written = with_quota(6, "another zone");
        driver.feed(Input::Finished(id, TaskResult::EntryWritten(Ok(written))));
        for (zone, again) in [("a", false), ("b", true)] {
            driver.feed(Input::Flavors(Event::Apply(flavor(zone))));
            driver.pass(Duration::from_secs(10));
            assert_eq!(driver.evaluation().is_some(), again, "zone {zone}");
        }
    }
}
