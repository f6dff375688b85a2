//! A process: the runtime's core, the watches that feed it, and the tasks that it has started.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher::Event;

use super::server::{Entry, FLAVOR, Object, index_of, name_of, number, uid_of};
use super::{Answer, Model, Provided, Settings, Stream};
use crate::api::{AdmissionCheck, ApiVersion, CheckState, ResourceFlavor, ServedApi, Workload};
use crate::check::{
    Conflicts, DynCheck, ErrorKind, Parameters, ParametersKind, PodSetUpdates, ReleaseOutcome,
    ReleaseReason, Reservation, Verdict, samples, written_updates_are_suspected,
};
use crate::runtime::backoff::Backoff;
use crate::runtime::core::{Core, Effect, Input, Limits, NotActivated, Task, TaskId, TaskResult};
use crate::runtime::decide::{EntryPatch, Outcome};
use crate::runtime::evaluate::CallError;
use crate::runtime::informers::StoredParameters;
use crate::runtime::writer::WriteError;

/// One process.
#[derive(Clone)]
pub(super) struct Replica {
    pub(super) core: Core,
    /// The events that its watches have not delivered yet.
    pub(super) events: VecDeque<Event<Workload>>,
    pub(super) checks: VecDeque<Event<AdmissionCheck>>,
    pub(super) parameters: VecDeque<Event<StoredParameters>>,
    pub(super) flavors: VecDeque<Event<ResourceFlavor>>,
    pub(super) tasks: BTreeMap<TaskId, Stage>,
    /// The deletions that were delivered to it.
    pub(super) shown_deleted: BTreeSet<usize>,
    /// The AdmissionCheck's deletion, the parameters and the flavor, as delivered to it.
    pub(super) settings: Settings,
    /// The revision of the parameters with which each check was last activated.
    pub(super) activated: BTreeMap<usize, u64>,
    /// The inputs of the last evaluation of each Workload and check.
    pub(super) evaluated: BTreeMap<(usize, usize), Basis>,
    /// The last answer to an evaluation, and the reservation that it was about.
    pub(super) answered: BTreeMap<(usize, usize), (u64, Answer)>,
}

/// A write of an entry.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) uid: usize,
    pub(super) check: usize,
    /// The version of the Workload that it is about.
    version: u64,
    pub(super) patch: EntryPatch,
    /// The revision of the parameters that the entry was decided with.
    decided_with: u64,
}

impl Write {
    /// Returns true if the API server does not refuse it.
    pub(super) fn applies_to(&self, objects: &[Option<Object>]) -> bool {
        let object = objects[self.uid].as_ref();
        object.is_some_and(|object| object.version == self.version)
    }
}

/// The inputs of a verdict.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Basis {
    pub(super) reservation: u64,
    pub(super) priority: u64,
    revision: u64,
    labelled: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Stage {
    Sent(Task),
    Applied(Task, ApiResult),
}

#[derive(Clone, Debug)]
pub(super) enum ApiResult {
    Entry(Result<Workload, WriteError>),
    Read(Option<Workload>),
}

/// Returns a check of the model: the core never evaluates it.
pub(super) fn modelled<P: Parameters>(number: usize) -> DynCheck {
    DynCheck::new(samples::check::<P>(&format!("example.com/check-{number}")))
}

/// The parameters: their revision.
pub(super) struct Limit(u64);

impl Parameters for Limit {
    fn kind() -> Option<ParametersKind> {
        Some(samples::kind("Limit"))
    }

    fn decode(object: serde_json::Value) -> Result<Self, String> {
        if object["spec"]["valid"] == true {
            Ok(Self(object["spec"]["revision"].as_u64().unwrap()))
        } else {
            Err("not valid".to_owned())
        }
    }
}

impl Model {
    pub(super) fn process(&self) -> Replica {
        let limits = Limits {
            concurrency: self.bounds.concurrency,
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(5), 0),
        };
        let served = ServedApi {
            selects_reserved: true,
            requeue_after: true,
            preemption_required: true,
            ..ServedApi::fallback(ApiVersion::V1beta2)
        };
        Replica {
            core: Core::new(Arc::clone(&self.controllers), limits, served, self.now),
            events: VecDeque::new(),
            checks: VecDeque::new(),
            parameters: VecDeque::new(),
            flavors: VecDeque::new(),
            settings: self.settings.clone(),
            activated: BTreeMap::new(),
            tasks: BTreeMap::new(),
            shown_deleted: BTreeSet::new(),
            evaluated: BTreeMap::new(),
            answered: BTreeMap::new(),
        }
    }

    /// Starts the watches of a process: AdmissionChecks at once, Workloads event by event.
    pub(super) fn begin(&mut self, replica: usize) {
        self.feed(replica, Input::AdmissionChecks(Event::Init));
        for number in 0..self.bounds.checks {
            if number > 0 || !self.settings.deleted {
                let check = self.settings.admission_check(number, &[]);
                self.feed(replica, Input::AdmissionChecks(Event::InitApply(check)));
            }
        }
        self.feed(replica, Input::AdmissionChecks(Event::InitDone));
        if self.settings.provided != Provided::Never {
            let kind = 0;
            let listed = self.settings.parameters().map(Event::InitApply);
            for event in iter::once(Event::Init)
                .chain(listed)
                .chain([Event::InitDone])
            {
                self.feed(replica, Input::Parameters { kind, event });
            }
        }
        let flavor = Event::InitApply(self.settings.flavor());
        for event in [Event::Init, flavor, Event::InitDone] {
            self.feed(replica, Input::Flavors(event));
        }
        self.list(replica);
    }

    pub(super) fn list(&mut self, replica: usize) {
        let mut events = VecDeque::from([Event::Init]);
        let reserved = self.objects.iter().flatten().filter(|object| object.quota);
        events.extend(reserved.map(|object| Event::InitApply(Self::workload(object))));
        events.push_back(Event::InitDone);
        self.replicas[replica].events = events;
    }

    /// Feeds an input to a replica, and carries out the effects.
    pub(super) fn feed(&mut self, replica: usize, input: Input) {
        let effects = self.replicas[replica].core.step(self.now, input);
        for effect in effects {
            match effect {
                Effect::Start(id, task) => self.started(replica, id, *task),
                Effect::CancelTasks => self.forget_tasks(replica),
                Effect::WatchWorkloads => self.list(replica),
                Effect::ScanWithoutQuota => self.scan(replica),
                Effect::Observe(_) | Effect::Leads(_) | Effect::Report(_) => {}
            }
        }
    }

    /// Ends all tasks of the replica. What was sent may still arrive.
    pub(super) fn forget_tasks(&mut self, replica: usize) {
        let tasks = std::mem::take(&mut self.replicas[replica].tasks);
        for stage in tasks.into_values() {
            if let Stage::Sent(task) = stage {
                self.late.extend(self.write_of(replica, &task));
            }
        }
    }

    /// Scans for stale verdicts, as a new leader does: no Workload here is elastic.
    pub(super) fn scan(&mut self, replica: usize) {
        let stale: Vec<Workload> = self
            .objects
            .iter()
            .flatten()
            .filter(|object| !object.quota)
            .filter(|object| {
                object
                    .entries
                    .iter()
                    .any(|entry| entry.state != CheckState::Pending)
            })
            .map(Self::workload)
            .collect();
        for workload in stale {
            self.feed(replica, Input::WithoutQuota(workload));
        }
    }

    fn started(&mut self, replica: usize, id: TaskId, task: Task) {
        match &task {
            Task::Evaluate(task) => {
                let uid = uid_of(task.workload.uid());
                let check = task.controller;
                if self.replicas[replica].shown_deleted.contains(&uid) {
                    self.violate(format!(
                        "w{uid} is evaluated although its deletion was shown"
                    ));
                }
                self.forbid_overlap(replica, uid, check);
                let reservation = Reservation::of(&task.workload, &task.check).unwrap();
                let parameters = Arc::clone(&task.parameters).downcast::<Limit>();
                let flavor = task.flavors.get(FLAVOR);
                let inputs = Basis {
                    reservation: number(&reservation),
                    priority: task.workload.priority().unsigned_abs().into(),
                    revision: parameters.map_or(0, |limit| limit.0),
                    labelled: flavor.is_some_and(|flavor| !flavor.node_labels().is_empty()),
                };
                if check == 0 && self.replicas[replica].settings.deleted {
                    self.violate(format!(
                        "w{uid} is evaluated by an AdmissionCheck whose deletion was shown"
                    ));
                }
                self.replicas[replica]
                    .evaluated
                    .insert((uid, check), inputs);
                self.allocated.insert(reservation);
            }
            Task::Release {
                reservation,
                controller,
                why,
            } => {
                let uid = uid_of(reservation.uid());
                self.forbid_overlap(replica, uid, *controller);
                let lives = self.objects[uid]
                    .as_ref()
                    .is_some_and(|object| object.quota && object.since == number(reservation));
                if lives && *why != ReleaseReason::CheckRemoved {
                    self.violate(format!("the live reservation of w{uid} is released"));
                }
            }
            Task::WriteEntry {
                workload,
                check,
                patch,
                ..
            } => {
                let uid = uid_of(workload.uid());
                let known = &self.replicas[replica];
                let inputs = known.evaluated.get(&(uid, index_of(check)));
                let bound = Reservation::of(workload, check).map(|reservation| Basis {
                    reservation: number(&reservation),
                    priority: workload.priority().unsigned_abs().into(),
                    revision: known
                        .activated
                        .get(&index_of(check))
                        .copied()
                        .unwrap_or_default(),
                    labelled: known.settings.labelled,
                });
                if patch.state == CheckState::Ready && inputs != bound.as_ref() {
                    self.violate(format!(
                        "Ready for w{uid} is written for {bound:?}, decided from {inputs:?}"
                    ));
                }
                let known = &self.replicas[replica];
                let answered = known.answered.get(&(uid, index_of(check)));
                let requires = match patch.state {
                    CheckState::Retry => Some(Answer::Retry),
                    CheckState::Rejected => Some(Answer::Rejected),
                    CheckState::Ready => Some(Answer::Usual),
                    _ => None,
                };
                let answer = bound.zip(requires);
                let answer = answer.map(|(bound, answer)| (bound.reservation, answer));
                if requires.is_some() && answered != answer.as_ref() {
                    self.violate(format!(
                        "{} for w{uid} is written for {answer:?}, the check answered {answered:?}",
                        patch.state.as_str()
                    ));
                }
                if requires.is_some() && workload.conditions().evicted().is_true() {
                    self.violate(format!(
                        "{} is written for w{uid}, which is being evicted",
                        patch.state.as_str()
                    ));
                }
            }
            Task::ListUnreleased { controller } => {
                let check = name_of(*controller);
                let allocated = self.allocated.iter();
                let unreleased = allocated
                    .filter(|reservation| reservation.admission_check() == check)
                    .cloned()
                    .collect();
                return self.feed(
                    replica,
                    Input::Finished(id, TaskResult::Unreleased(Ok(unreleased))),
                );
            }
            Task::Activate { .. } if self.settings.provided != Provided::Never => {}
            Task::Activate { .. } => {
                return self.feed(replica, Input::Finished(id, TaskResult::Activated(Ok(()))));
            }
            Task::WriteConditions {
                object, conditions, ..
            } => {
                let number = index_of(object.name());
                let written = self.settings.admission_check(number, conditions);
                let same = written.uid() == object.uid() && (number > 0 || !self.settings.deleted);
                let result = if same {
                    Ok(Box::new(written))
                } else {
                    Err(WriteError::Gone)
                };
                return self.feed(
                    replica,
                    Input::Finished(id, TaskResult::ConditionsWritten(result)),
                );
            }
            Task::Read { .. } => {}
        }
        self.replicas[replica].tasks.insert(id, Stage::Sent(task));
    }

    fn forbid_overlap(&mut self, own: usize, uid: usize, check: usize) {
        let others = self
            .replicas
            .iter()
            .enumerate()
            .filter(|(number, _)| *number != own);
        let overlaps = others
            .flat_map(|(_, replica)| replica.tasks.values())
            .any(|stage| {
                let (Stage::Sent(task) | Stage::Applied(task, _)) = stage;
                match task {
                    Task::Evaluate(task) => {
                        task.controller == check && uid_of(task.workload.uid()) == uid
                    }
                    Task::Release {
                        reservation,
                        controller,
                        ..
                    } => *controller == check && uid_of(reservation.uid()) == uid,
                    _ => false,
                }
            });
        if overlaps {
            self.violate(format!(
                "two processes call check-{check} for w{uid} at once"
            ));
        }
    }

    /// Delivers the next event of a watch to the replica.
    pub(super) fn deliver(&mut self, replica: usize, stream: Stream) {
        let known = &mut self.replicas[replica];
        let input = match stream {
            Stream::Workloads => return self.deliver_workload(replica),
            Stream::Checks => known.checks.pop_front().map(|event| {
                known.settings.deleted = matches!(event, Event::Delete(_));
                Input::AdmissionChecks(event)
            }),
            Stream::Parameters => known.parameters.pop_front().map(|event| {
                known.settings.take_parameters(&event);
                Input::Parameters { kind: 0, event }
            }),
            Stream::Flavors => known.flavors.pop_front().map(|event| {
                known.settings.labelled =
                    matches!(&event, Event::Apply(flavor) if !flavor.node_labels().is_empty());
                Input::Flavors(event)
            }),
        };
        if let Some(input) = input {
            self.feed(replica, input);
        }
    }

    fn deliver_workload(&mut self, replica: usize) {
        let Some(event) = self.replicas[replica].events.pop_front() else {
            return;
        };
        if let Event::Delete(workload) = &event {
            let uid = uid_of(workload.uid());
            let last = self.replicas[replica].events.iter().all(|later| {
                !matches!(later, Event::Apply(later) | Event::Delete(later) if later.uid() == workload.uid())
            });
            if self.objects[uid].is_none() && last {
                self.replicas[replica].shown_deleted.insert(uid);
            }
        }
        self.feed(
            replica,
            Input::Workloads {
                event,
                selected: true,
            },
        );
    }

    pub(super) fn apply(&mut self, replica: usize, id: TaskId) {
        let Some(Stage::Sent(task)) = self.replicas[replica].tasks.remove(&id) else {
            return;
        };
        let done = match (self.write_of(replica, &task), &task) {
            (Some(write), _) => ApiResult::Entry(self.write(&write)),
            (None, Task::Read { uid, .. }) => {
                let object = self.objects[uid_of(uid)].as_ref();
                ApiResult::Read(object.map(Self::workload))
            }
            _ => return,
        };
        self.replicas[replica]
            .tasks
            .insert(id, Stage::Applied(task, done));
    }

    /// Returns the write that `task` requests.
    fn write_of(&self, replica: usize, task: &Task) -> Option<Write> {
        let Task::WriteEntry {
            workload,
            check,
            patch,
            ..
        } = task
        else {
            return None;
        };
        let (uid, check) = (uid_of(workload.uid()), index_of(check));
        let basis = self.replicas[replica].evaluated.get(&(uid, check));
        Some(Write {
            uid,
            check,
            version: workload.resource_version().to_string().parse().unwrap(),
            patch: patch.clone(),
            decided_with: basis.map_or(0, |basis| basis.revision),
        })
    }

    /// Carries out a write.
    pub(super) fn write(&mut self, write: &Write) -> Result<Workload, WriteError> {
        let before = self.objects[write.uid].clone().ok_or(WriteError::Gone)?;
        if !write.applies_to(&self.objects) {
            return Err(WriteError::Conflict);
        }
        let updates = write.patch.updates.as_slice().iter();
        let entry = Entry {
            state: write.patch.state.clone(),
            message: write.patch.message.to_string(),
            updates: updates
                .map(|update| serde_json::to_value(update).unwrap())
                .collect(),
            decided_for: before.since,
            decided_with: write.decided_with,
        };
        let stored = self.store(write.uid, before, |object| {
            object.entries[write.check] = entry;
        });
        Ok(stored)
    }

    pub(super) fn reply(&mut self, replica: usize, id: TaskId, answer: Answer) {
        let Some(stage) = self.replicas[replica].tasks.remove(&id) else {
            return;
        };
        let result = match stage {
            Stage::Sent(Task::Evaluate(task)) => {
                let about = (uid_of(task.workload.uid()), task.controller);
                let basis = &self.replicas[replica].evaluated[&about];
                let (reservation, revision) = (basis.reservation, basis.revision);
                let known = &mut self.replicas[replica].answered;
                known.insert(about, (reservation, answer));
                let (workload, check) = (&task.workload, &task.check);
                let verdict = match answer {
                    Answer::Usual | Answer::Later => Some(self.verdict(task.controller, revision)),
                    Answer::Pending => Some(Verdict::pending("not yet")),
                    Answer::Retry => Some(Verdict::retry_now("others first")),
                    Answer::Rejected => Some(Verdict::rejected("never")),
                    Answer::Fails => None,
                };
                let fits = verdict.as_ref().map_or(Conflicts::None, |verdict| {
                    let updates = &verdict.updates;
                    updates.conflicts(workload, check, &task.flavors)
                });
                let outcome = verdict.map_or_else(fails, Outcome::Verdict);
                let outcome = if outcome.keeps_ready(workload, check)
                    && written_updates_are_suspected(workload, check, &task.flavors)
                {
                    Outcome::Conflict {
                        message: "contradicts".into(),
                    }
                } else if fits == Conflicts::None {
                    outcome
                } else {
                    let kind = ErrorKind::Permanent;
                    Outcome::Failed {
                        kind,
                        message: "contradicts".into(),
                    }
                };
                TaskResult::Evaluated {
                    outcome,
                    label: "",
                    took: Duration::ZERO,
                    events: Vec::new(),
                }
            }
            Stage::Sent(Task::Release { reservation, .. }) => match answer {
                Answer::Fails => TaskResult::Released(Err(timed_out())),
                Answer::Later => {
                    let later = ReleaseOutcome::RetryAfter(Duration::from_secs(20));
                    TaskResult::Released(Ok(later))
                }
                _ => {
                    self.allocated.remove(&reservation);
                    TaskResult::Released(Ok(ReleaseOutcome::Done))
                }
            },
            Stage::Applied(_, ApiResult::Entry(result)) => TaskResult::EntryWritten(result),
            Stage::Applied(_, ApiResult::Read(result)) => TaskResult::Read(Ok(result)),
            Stage::Sent(Task::Activate { .. }) if answer == Answer::Fails => {
                TaskResult::Activated(Err(NotActivated::Failed(timed_out())))
            }
            Stage::Sent(Task::Activate {
                object, parameters, ..
            }) => {
                let known = &mut self.replicas[replica];
                let (settings, activated) = (&known.settings, &mut known.activated);
                // An activation with parameters that have changed since is repeated.
                if let Ok(limit) = parameters.downcast::<Limit>()
                    && settings.provided != Provided::Missing
                    && settings.revision == limit.0
                {
                    activated.insert(index_of(object.name()), limit.0);
                }
                TaskResult::Activated(Ok(()))
            }
            Stage::Sent(_) => return,
        };
        self.feed(replica, Input::Finished(id, result));
    }

    fn verdict(&self, check: usize, revision: u64) -> Verdict {
        let verdict = Verdict::ready(format!("yes, by revision {revision}"));
        if !self.bounds.updates {
            return verdict;
        }
        let zone = format!("zone-{check}");
        let updates = PodSetUpdates::builder()
            .pod_set("main", |pods| pods.node_selector("zone", zone))
            .build();
        verdict.with_updates(updates.unwrap())
    }
}

fn timed_out() -> CallError {
    CallError::TimedOut(Duration::from_secs(30))
}

fn fails() -> Outcome {
    let error = timed_out();
    Outcome::Failed {
        kind: error.kind(),
        message: error.to_string().into(),
    }
}
