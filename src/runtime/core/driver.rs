//! A core for tests. The tests end its tasks, in any order.

use std::time::Duration;

use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Controller, Core, Effect, Input, LeaseState, Limits, NotActivated, Now, Task, TaskId,
    TaskResult,
};
use crate::api::{AdmissionCheck, ApiVersion, ResourceVersion, ServedApi, Workload};
use crate::check::samples::{self, Limit, Quota};
use crate::check::{
    AfterAdmission, Check, DynCheck, OnFailure, Parameters, Policy, ReleaseOutcome, ReleaseReason,
    Trigger, Verdict,
};
use crate::runtime::backoff::Backoff;
use crate::runtime::decide::Outcome;
use crate::runtime::informers::{Revision, StoredParameters};
use crate::runtime::writer::WriteError;

/// The check that takes a `Limit`.
pub(super) const OLD: usize = 0;
/// The check of the same controller name that takes a `Quota`.
pub(super) const NEW: usize = 1;

/// Returns a check that the core never calls.
pub(super) fn limited<P: Parameters>() -> Check<P> {
    samples::check("example.com/limited")
}

/// Evicts at the first failing verdict, `limit` times an hour.
pub(super) fn evicts_at_once(limit: Option<u32>) -> Policy {
    Policy {
        after_admission: Some(AfterAdmission {
            on_failure: Some(OnFailure::Evict),
            consecutive: Some(1),
            max_evictions_per_hour: limit,
        }),
        ..Policy::default()
    }
}

/// Returns a core of `checks`, and its time.
pub(super) fn core(checks: Vec<DynCheck>, concurrency: usize) -> (Core, Now) {
    let now = Now {
        instant: Instant::now(),
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    let limits = Limits {
        concurrency,
        backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(5), 0),
    };
    let controllers = checks.into_iter().map(Controller::from).collect();
    let served = ServedApi {
        selects_reserved: true,
        ..ServedApi::fallback(ApiVersion::V1beta2)
    };
    (Core::new(controllers, limits, served, now), now)
}

/// A core with the parameters `a` and `b` of each kind, and the tasks that it has started.
pub(super) struct Driver {
    pub(super) core: Core,
    pub(super) now: Now,
    pub(super) started: Vec<(TaskId, Task)>,
    /// Whether the watch of Workloads was restarted, and its list has not begun.
    pub(super) restarted: bool,
    /// The number of scans for verdicts without quota.
    pub(super) scans: usize,
}

impl Driver {
    /// Returns a driver of two checks, which evict at the first failing verdict.
    pub(super) fn new(concurrency: usize) -> Self {
        let policy = || evicts_at_once(None);
        let checks = [
            DynCheck::new(limited::<Limit>().policy(policy())),
            DynCheck::new(limited::<Quota>().policy(policy())),
        ];
        Self::of(checks.into(), concurrency)
    }

    pub(super) fn of(checks: Vec<DynCheck>, concurrency: usize) -> Self {
        let kinds = checks.len();
        let (core, now) = core(checks, concurrency);
        let mut driver = Self {
            core,
            now,
            started: Vec::new(),
            restarted: false,
            scans: 0,
        };
        for kind in 0..kinds {
            let listed = ["a", "b"].map(|name| Event::InitApply(stored(name)));
            for event in [Event::Init]
                .into_iter()
                .chain(listed)
                .chain([Event::InitDone])
            {
                driver.feed(Input::Parameters { kind, event });
            }
        }
        driver
    }

    /// Lists nothing, and leads.
    pub(super) fn leads_at_once(&mut self) {
        self.lists(Vec::new(), Vec::new());
        self.leads(Vec::new());
    }

    /// Returns a driver that leads, and whose AdmissionCheck `c` the old check has activated.
    pub(super) fn leading(concurrency: usize) -> Self {
        let mut driver = Self::new(concurrency);
        driver.leads_at_once();
        driver.refers_to(1, "c", "Limit");
        driver.activated(OLD);
        driver.finish_side_tasks();
        driver
    }

    pub(super) fn lists(&mut self, checks: Vec<AdmissionCheck>, workloads: Vec<Workload>) {
        self.feed(Input::AdmissionChecks(Event::Init));
        for check in checks {
            self.feed(Input::AdmissionChecks(Event::InitApply(check)));
        }
        self.feed(Input::AdmissionChecks(Event::InitDone));
        self.lists_workloads(workloads);
    }

    pub(super) fn lists_workloads(&mut self, workloads: Vec<Workload>) {
        self.restarted = false;
        let listed = workloads.into_iter().map(Event::InitApply);
        let all = [Event::Init].into_iter().chain(listed);
        for event in all.chain([Event::InitDone]) {
            let selected = true;
            self.feed(Input::Workloads { event, selected });
        }
    }

    /// Acquires the Lease, after which Workloads are listed again.
    pub(super) fn leads(&mut self, workloads: Vec<Workload>) {
        self.feed(Input::Lease(LeaseState::Acquired));
        self.lists_workloads(workloads);
    }

    pub(super) fn feed(&mut self, input: Input) {
        for effect in self.core.step(self.now, input) {
            match effect {
                Effect::Start(id, task) => self.started.push((id, *task)),
                Effect::CancelTasks => self.started.clear(),
                Effect::WatchWorkloads => self.restarted = true,
                Effect::ScanWithoutQuota => self.scans += 1,
                _ => {}
            }
        }
    }

    pub(super) fn refers_to(&mut self, version: i64, name: &str, kind: &str) {
        let check = admission_check(version, name, kind);
        self.feed(Input::AdmissionChecks(Event::Apply(check)));
    }

    pub(super) fn shows(&mut self, workload: Workload) {
        let (event, selected) = (Event::Apply(workload), true);
        self.feed(Input::Workloads { event, selected });
    }

    /// Removes the first started task that is `wanted`, if any.
    pub(super) fn take(&mut self, wanted: impl Fn(&Task) -> bool) -> Option<(TaskId, Task)> {
        let at = self.started.iter().position(|(_, task)| wanted(task))?;
        Some(self.started.remove(at))
    }

    pub(super) fn ends(&mut self, id: TaskId, result: TaskResult) {
        self.feed(Input::Finished(id, result));
    }

    /// Ends the activation by `controller`, which must have been started.
    pub(super) fn activated(&mut self, controller: usize) {
        let id = self.activation(controller).expect("it is activated");
        self.ends(id, TaskResult::Activated(Ok::<(), NotActivated>(())));
    }

    pub(super) fn activation(&mut self, of: usize) -> Option<TaskId> {
        let wanted =
            |task: &Task| matches!(task, Task::Activate { controller, .. } if *controller == of);
        Some(self.take(wanted)?.0)
    }

    pub(super) fn evaluation(&mut self, of: usize) -> Option<TaskId> {
        let wanted = |task: &Task| matches!(task, Task::Evaluate(task) if task.controller == of);
        Some(self.take(wanted)?.0)
    }

    pub(super) fn evaluated(&mut self, id: TaskId, verdict: Verdict) {
        self.concluded(id, Outcome::Verdict(verdict));
    }

    /// Ends the started evaluation of the old check with `verdict`.
    #[track_caller]
    pub(super) fn evaluates(&mut self, verdict: Verdict) {
        let id = self.evaluation(OLD).expect("it is evaluated");
        self.evaluated(id, verdict);
    }

    /// Ends an evaluation with `outcome`.
    pub(super) fn concluded(&mut self, id: TaskId, outcome: Outcome) {
        let result = TaskResult::Evaluated {
            outcome,
            label: "",
            took: Duration::ZERO,
            events: Vec::new(),
        };
        self.ends(id, result);
    }

    /// Returns the started release: by which check, of which reservation, and why.
    pub(super) fn release(&mut self) -> Option<(TaskId, (usize, i64, ReleaseReason))> {
        let (id, task) = self.take(|task| matches!(task, Task::Release { .. }))?;
        let Task::Release {
            controller,
            reservation,
            why,
        } = task
        else {
            unreachable!()
        };
        Some((id, (controller, reservation.since().as_second(), why)))
    }

    /// Ends the release of the reservation that began at `since`, which the old check must run.
    pub(super) fn released_by_the_old_one(&mut self, since: i64) {
        let (id, release) = self.release().expect("it is released");
        assert_eq!(release, (OLD, since, ReleaseReason::CheckRemoved));
        self.ends(id, TaskResult::Released(Ok(ReleaseOutcome::Done)));
    }

    /// Returns the started write of a verdict.
    pub(super) fn write(&mut self) -> Option<(TaskId, Workload)> {
        let (id, task) = self.take(|task| matches!(task, Task::WriteEntry { .. }))?;
        let Task::WriteEntry { workload, .. } = task else {
            unreachable!()
        };
        Some((id, workload))
    }

    /// Ends the started write of a verdict, after which the server has `workload`.
    #[track_caller]
    pub(super) fn written(&mut self, workload: Workload) {
        let (id, _) = self.write().expect("it is written");
        self.ends(id, TaskResult::EntryWritten(Ok(workload)));
    }

    /// Does the same with the Workload that was sent.
    #[track_caller]
    pub(super) fn written_back(&mut self) {
        let (id, workload) = self.write().expect("it is written");
        self.ends(id, TaskResult::EntryWritten(Ok(workload)));
    }

    #[track_caller]
    pub(super) fn write_fails(&mut self, error: WriteError) {
        let (id, _) = self.write().expect("it is written");
        self.ends(id, TaskResult::EntryWritten(Err(error)));
    }

    /// Ends an evaluation with Pending, and its write.
    pub(super) fn decided(&mut self, id: TaskId) {
        self.evaluated(id, Verdict::pending("a moment"));
        self.written_back();
    }

    pub(super) fn read(&mut self) -> Option<TaskId> {
        Some(self.take(|task| matches!(task, Task::Read { .. }))?.0)
    }

    /// Ends the started read of a Workload, which returns `workload`.
    #[track_caller]
    pub(super) fn reads(&mut self, workload: Workload) {
        let id = self.read().expect("it is read");
        self.ends(id, TaskResult::Read(Ok(Some(workload))));
    }

    /// Compares with a list as of the version `as_of`, which has `workload`.
    pub(super) fn compares(&mut self, workload: Workload, as_of: &str) {
        let as_of = ResourceVersion::new(as_of);
        self.feed(Input::Compare { workload, as_of });
    }

    pub(super) fn triggers(&mut self, controller: usize, trigger: Trigger) {
        self.feed(Input::Trigger {
            controller,
            trigger,
        });
    }

    /// Loses the Lease for a moment.
    pub(super) fn lapses(&mut self) {
        self.feed(Input::Lease(LeaseState::Lapsed));
        assert!(self.started.is_empty(), "canceled");
        self.feed(Input::Lease(LeaseState::Acquired));
        self.finish_side_tasks();
    }

    pub(super) fn conditions(&mut self) -> Option<(TaskId, AdmissionCheck)> {
        let (id, task) = self.take(|task| matches!(task, Task::WriteConditions { .. }))?;
        let Task::WriteConditions { object, .. } = task else {
            unreachable!()
        };
        Some((id, object))
    }

    /// Ends lists of unreleased reservations with none, and writes of conditions with an error.
    pub(super) fn finish_side_tasks(&mut self) {
        let lists = |task: &Task| matches!(task, Task::ListUnreleased { .. });
        while let Some((id, _)) = self.take(lists) {
            self.ends(id, TaskResult::Unreleased(Ok(Vec::new())));
        }
        while let Some((id, _)) = self.conditions() {
            self.ends(id, TaskResult::ConditionsWritten(Err(WriteError::Gone)));
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.wall += time;
        self.feed(Input::Time);
    }
}

/// The parameters `name`.
pub(super) fn stored(name: &str) -> StoredParameters {
    StoredParameters {
        name: name.to_owned(),
        revision: Revision::default(),
        generation: 1,
        object: json!({"metadata": {"name": name}}),
    }
}

/// The AdmissionCheck `name` in its state `version`, in which it refers to `a` of `kind`.
pub(super) fn admission_check(version: i64, name: &str, kind: &str) -> AdmissionCheck {
    let check = AdmissionCheck::from_json(json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string(), "generation": version},
        "spec": {"controllerName": "example.com/limited",
            "parameters": {"apiGroup": "example.com", "kind": kind, "name": "a"}},
    }));
    check.unwrap()
}

/// The Workload `w` in its state `version`, with quota since the second `since`. It waits for
/// the check `c`, and has the `changes`: values of JSON pointers.
pub(super) fn reserved(version: u32, since: i64, changes: &Value) -> Workload {
    let since = jiff::Timestamp::from_second(since).unwrap().to_string();
    let mut object = json!({
        "metadata": {"namespace": "t", "name": "w", "uid": "w", "resourceVersion": version.to_string()},
        "spec": {"podSets": [{"name": "main", "count": 1}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": since}],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "spot"}}]},
            "admissionChecks": [{"name": "c", "state": "Pending"}],
        },
    });
    set(&mut object, changes);
    Workload::from_json(object).unwrap()
}

/// Sets the values of the JSON pointers in `changes`.
fn set(object: &mut Value, changes: &Value) {
    for (pointer, value) in changes.as_object().unwrap() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        match object.pointer_mut(parent).expect("it exists") {
            Value::Array(list) => list.push(value.clone()),
            parent => parent[field] = value.clone(),
        }
    }
}
