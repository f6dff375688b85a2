//! The model: what the API server, Kueue, the lease and the checks do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::time::Instant;

use crate::api::{AdmissionCheck, ApiVersion, CheckState, ServedApi, Uid, Workload};
use crate::check::{
    AdmissionCheckController, CheckError, CheckRequest, Conflicts, ControllerName, DynCheck,
    ErrorKind, NoParameters, PodSetUpdates, ReleaseOutcome, Reservation, Verdict,
};
use crate::runtime::backoff::Backoff;
use crate::runtime::core::{
    Controller, Core, Effect, Input, LeaseState, Limits, Now, Role, Task, TaskId, TaskResult,
};
use crate::runtime::decide::Outcome;
use crate::runtime::writer::{ConditionPatch, WriteError};

/// What one search allows.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) workloads: usize,
    pub(super) checks: usize,
    pub(super) replicas: usize,
    /// Changes by Kueue and users.
    pub(super) moves: usize,
    /// Lost replies, lapses, deaths.
    pub(super) faults: usize,
    /// How often time may pass to the next timer.
    pub(super) ticks: usize,
    /// Which changes there are.
    pub(super) kinds: &'static [Move],
    /// Whether the checks set contradicting updates.
    pub(super) updates: bool,
}

/// A change by Kueue or a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Move {
    Reserve,
    Admit,
    LoseQuota,
    /// Kueue evicts, and resets the entries.
    Evict,
    /// Kueue evicts from an older copy, and resets nothing.
    EvictStale,
    /// The pods are gone: quota is released.
    ReleaseQuota,
    Delete,
    ChangePriority,
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Move(Move, usize),
    /// The next event reaches the replica.
    Deliver(usize),
    /// The API server takes a request.
    Apply(usize, TaskId),
    /// A result reaches the replica.
    Reply(usize, TaskId),
    /// The reply is lost.
    Lose(usize, TaskId),
    Lapse(usize),
    Regain(usize),
    /// The replica takes the lease, from one that is known to have stopped.
    Acquire(usize),
    Die(usize),
    Tick,
}

/// A Workload on the server.
#[derive(Clone, Debug)]
struct Object {
    uid: usize,
    version: u64,
    since: u64,
    quota: bool,
    admitted: bool,
    evicted: bool,
    priority: u64,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    state: CheckState,
    message: String,
    updates: Vec<serde_json::Value>,
    /// The reservation that the verdict was decided for.
    decided_for: u64,
}

/// One process.
#[derive(Clone)]
struct Replica {
    core: Core,
    events: VecDeque<Event<Workload>>,
    tasks: BTreeMap<TaskId, Stage>,
    /// Which deletions it has been shown.
    shown_deleted: BTreeSet<usize>,
    /// The inputs of the last evaluation of each Workload and check: reservation and priority.
    evaluated: BTreeMap<(usize, usize), (u64, u64)>,
}

#[derive(Clone, Debug)]
enum Stage {
    Sent(Task),
    Applied(Task, Done),
}

#[derive(Clone, Debug)]
enum Done {
    Entry(Result<Workload, WriteError>),
    Read(Option<Workload>),
}

/// Everything.
#[derive(Clone)]
pub(super) struct World {
    bounds: Arc<Bounds>,
    controllers: Arc<[Controller]>,
    objects: Vec<Option<Object>>,
    version: u64,
    /// Counts reservations: each begins a second after the one before.
    reservations: u64,
    replicas: Vec<Replica>,
    holder: Option<usize>,
    lapsed: bool,
    /// What the checks have allocated.
    allocated: BTreeSet<Reservation>,
    moves: usize,
    faults: usize,
    ticks: usize,
    now: Now,
    pub(super) violation: Option<String>,
}

/// A check of the model: the core never calls it.
struct Modelled(usize);

impl AdmissionCheckController for Modelled {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        format!("example.com/check-{}", self.0).parse().unwrap()
    }

    async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        Ok(Verdict::ready(""))
    }
}

fn name_of(check: usize) -> String {
    format!("check-{check}")
}

fn index_of(name: &str) -> usize {
    name.rsplit('-').next().unwrap().parse().unwrap()
}

/// The number of a Workload.
fn uid_of(uid: &Uid) -> usize {
    index_of(&uid.to_string())
}

/// How many timers may fire until everything is done.
const TIMERS: usize = 30;

const START: i64 = 1_763_715_600;

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let controllers: Arc<[Controller]> = (0..bounds.checks)
            .map(|number| Controller::from(DynCheck::new(Modelled(number))))
            .collect();
        let now = Now {
            instant: Instant::now(),
            wall: Timestamp::from_second(START).unwrap(),
        };
        let mut world = Self {
            objects: (0..bounds.workloads)
                .map(|uid| {
                    Some(Object {
                        uid,
                        version: 1,
                        since: 0,
                        quota: false,
                        admitted: false,
                        evicted: false,
                        priority: 0,
                        entries: vec![Entry::pending(""); bounds.checks],
                    })
                })
                .collect(),
            bounds: Arc::new(bounds),
            controllers,
            version: 1,
            reservations: 0,
            replicas: Vec::new(),
            holder: None,
            lapsed: false,
            allocated: BTreeSet::new(),
            moves: 0,
            faults: 0,
            ticks: 0,
            now,
            violation: None,
        };
        for _ in 0..world.bounds.replicas {
            let replica = world.process();
            world.replicas.push(replica);
        }
        for replica in 0..world.bounds.replicas {
            world.begin(replica);
        }
        world.acquire(0);
        world.settle_lists();
        world
    }

    fn process(&self) -> Replica {
        let limits = Limits {
            concurrency: 10,
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
            tasks: BTreeMap::new(),
            shown_deleted: BTreeSet::new(),
            evaluated: BTreeMap::new(),
        }
    }

    /// A process begins to watch: AdmissionChecks at once, Workloads event by event.
    fn begin(&mut self, replica: usize) {
        self.feed(replica, Input::AdmissionChecks(Event::Init));
        for number in 0..self.bounds.checks {
            let check = admission_check(number);
            self.feed(replica, Input::AdmissionChecks(Event::InitApply(check)));
        }
        self.feed(replica, Input::AdmissionChecks(Event::InitDone));
        self.list(replica);
    }

    fn list(&mut self, replica: usize) {
        let mut events = VecDeque::from([Event::Init]);
        let reserved = self.objects.iter().flatten().filter(|object| object.quota);
        events.extend(reserved.map(|object| Event::InitApply(Self::workload(object))));
        events.push_back(Event::InitDone);
        self.replicas[replica].events = events;
    }

    /// Delivers all events, so that the search starts from a replica that leads.
    fn settle_lists(&mut self) {
        for replica in 0..self.bounds.replicas {
            while !self.replicas[replica].events.is_empty() {
                self.deliver(replica);
            }
        }
    }

    fn workload(object: &Object) -> Workload {
        let mut conditions = vec![json!({
            "type": "QuotaReserved", "status": if object.quota { "True" } else { "False" },
            "lastTransitionTime": second(object.since),
        })];
        if object.admitted {
            conditions.push(json!({"type": "Admitted", "status": "True"}));
        }
        if object.evicted {
            conditions.push(json!({"type": "Evicted", "status": "True", "lastTransitionTime": second(object.since)}));
        }
        let entries: Vec<_> = object
            .entries
            .iter()
            .enumerate()
            .map(|(check, entry)| {
                json!({"name": name_of(check), "state": entry.state.as_str(), "message": entry.message,
                       "podSetUpdates": entry.updates, "lastTransitionTime": second(object.since)})
            })
            .collect();
        let mut status = json!({"conditions": conditions, "admissionChecks": entries});
        if object.quota {
            status["admission"] = json!({"clusterQueue": "queue",
                "podSetAssignments": [{"name": "main", "count": 1}]});
        }
        Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": format!("w{}", object.uid), "uid": format!("uid-{}", object.uid),
                         "resourceVersion": object.version.to_string()},
            "spec": {"priority": object.priority, "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
            "status": status,
        }))
        .unwrap()
    }

    /// Feeds a replica, and carries out what it wants done.
    fn feed(&mut self, replica: usize, input: Input) {
        let effects = self.replicas[replica].core.step(self.now, input);
        for effect in effects {
            match effect {
                Effect::Start(id, task) => self.started(replica, id, *task),
                Effect::CancelTasks => self.replicas[replica].tasks.clear(),
                Effect::WatchWorkloads => self.list(replica),
                Effect::ScanStaleVerdicts => self.scan(replica),
                Effect::Show(_) | Effect::Leads(_) | Effect::Report(_) => {}
            }
        }
    }

    /// The scan of a new leader for stale verdicts.
    fn scan(&mut self, replica: usize) {
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
            self.feed(replica, Input::StaleVerdict(workload));
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
                let inputs = (
                    number(&reservation),
                    task.workload.priority().unsigned_abs().into(),
                );
                self.replicas[replica]
                    .evaluated
                    .insert((uid, check), inputs);
                self.allocated.insert(reservation);
            }
            Task::Release {
                reservation,
                controller,
                ..
            } => {
                let uid = uid_of(reservation.uid());
                self.forbid_overlap(replica, uid, *controller);
                let lives = self.objects[uid]
                    .as_ref()
                    .is_some_and(|object| object.quota && object.since == number(reservation));
                if lives {
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
                let inputs = self.replicas[replica]
                    .evaluated
                    .get(&(uid, index_of(check)));
                let bound = Reservation::of(workload, check).map(|reservation| {
                    (
                        number(&reservation),
                        workload.priority().unsigned_abs().into(),
                    )
                });
                if patch.state == CheckState::Ready && inputs != bound.as_ref() {
                    self.violate(format!(
                        "Ready for w{uid} is written for {bound:?}, decided from {inputs:?}"
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
            Task::Activate { .. } => {
                return self.feed(replica, Input::Finished(id, TaskResult::Activated(Ok(()))));
            }
            Task::WriteConditions {
                object, conditions, ..
            } => {
                let object = with_conditions(object, conditions);
                return self.feed(
                    replica,
                    Input::Finished(id, TaskResult::ConditionsWritten(Ok(Box::new(object)))),
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

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// What can happen now.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (number, replica) in self.replicas.iter().enumerate() {
            if !replica.events.is_empty() {
                actions.push(Action::Deliver(number));
            }
            for (id, stage) in &replica.tasks {
                match stage {
                    Stage::Sent(Task::Evaluate(_) | Task::Release { .. }) => {
                        actions.push(Action::Reply(number, *id));
                    }
                    Stage::Sent(_) => actions.push(Action::Apply(number, *id)),
                    Stage::Applied(task, _) => {
                        actions.push(Action::Reply(number, *id));
                        if self.may_fail() && matches!(task, Task::WriteEntry { .. }) {
                            actions.push(Action::Lose(number, *id));
                        }
                    }
                }
            }
            if self.may_fail() {
                actions.push(Action::Die(number));
                if self.holder == Some(number) && !self.lapsed {
                    actions.push(Action::Lapse(number));
                }
            }
            if self.lapsed && self.holder == Some(number) {
                actions.push(Action::Regain(number));
            }
            if self.holder != Some(number) && (self.holder.is_none() || self.lapsed) {
                actions.push(Action::Acquire(number));
            }
        }
        if self.moves < self.bounds.moves {
            // The Workloads are alike, so the first change is one of the first.
            let alike = if self.moves == 0 {
                1
            } else {
                self.bounds.workloads
            };
            for uid in 0..alike {
                let kinds = self.bounds.kinds.iter();
                actions.extend(
                    kinds
                        .filter(|kind| self.may(**kind, uid))
                        .map(|kind| Action::Move(*kind, uid)),
                );
            }
        }
        if self.is_idle() && self.ticks < self.bounds.ticks && self.next_timer().is_some() {
            actions.push(Action::Tick);
        }
        actions
    }

    fn may_fail(&self) -> bool {
        self.faults < self.bounds.faults
    }

    fn next_timer(&self) -> Option<Instant> {
        self.replicas
            .iter()
            .filter_map(|replica| replica.core.next_step())
            .min()
    }

    /// Whether the leader has done all that it can do now.
    fn leader_is_idle(&self) -> bool {
        let leader = self.holder.map(|holder| &self.replicas[holder]);
        leader.is_some_and(|leader| {
            leader.core.role == Role::Leading
                && leader.events.is_empty()
                && leader.tasks.is_empty()
                && leader.core.cleanups.iter().next().is_none()
        })
    }

    fn may(&self, kind: Move, uid: usize) -> bool {
        let Some(object) = &self.objects[uid] else {
            return false;
        };
        let carries_verdict = object
            .entries
            .iter()
            .any(|entry| entry.state != CheckState::Pending);
        match kind {
            // A verdict that nobody has had the time to withdraw is a race that no check can win.
            Move::Reserve => !object.quota && (!carries_verdict || self.leader_is_idle()),
            Move::Admit => {
                object.quota
                    && !object.evicted
                    && !object.admitted
                    && object
                        .entries
                        .iter()
                        .all(|entry| entry.state == CheckState::Ready)
            }
            Move::LoseQuota => object.quota && !object.admitted && !object.evicted,
            Move::Evict | Move::EvictStale => object.quota && !object.evicted,
            Move::ReleaseQuota => object.quota && object.evicted,
            Move::Delete => true,
            Move::ChangePriority => !object.admitted,
        }
    }

    /// Lets `action` happen.
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Move(kind, uid) => {
                self.moves += 1;
                self.change(kind, uid);
            }
            Action::Deliver(replica) => self.deliver(replica),
            Action::Apply(replica, id) => self.apply(replica, id),
            Action::Reply(replica, id) => self.reply(replica, id),
            Action::Lose(replica, id) => {
                self.faults += 1;
                self.replicas[replica].tasks.remove(&id);
                let lost = WriteError::Unavailable("lost".to_owned());
                self.feed(
                    replica,
                    Input::Finished(id, TaskResult::EntryWritten(Err(lost))),
                );
            }
            Action::Lapse(replica) => {
                self.faults += 1;
                self.lapsed = true;
                self.feed(replica, Input::Lease(LeaseState::Lapsed));
            }
            Action::Regain(replica) => {
                self.lapsed = false;
                self.feed(replica, Input::Lease(LeaseState::Acquired));
            }
            Action::Acquire(replica) => {
                // Who lapsed and lost the lease ends its process, and a fresh one stands by.
                if let Some(old) = self.holder.take() {
                    self.restart(old);
                }
                self.acquire(replica);
            }
            Action::Die(replica) => {
                self.faults += 1;
                if self.holder == Some(replica) {
                    self.holder = None;
                    self.lapsed = false;
                }
                self.restart(replica);
            }
            Action::Tick => {
                self.ticks += 1;
                if let Some(at) = self.next_timer() {
                    let passed = at.saturating_duration_since(self.now.instant);
                    self.now.instant += passed;
                    self.now.wall += SignedDuration::try_from(passed).unwrap();
                }
                for replica in 0..self.bounds.replicas {
                    self.feed(replica, Input::Time);
                }
            }
        }
        self.check_updates();
        self.check_at_rest();
    }

    fn acquire(&mut self, replica: usize) {
        self.holder = Some(replica);
        self.lapsed = false;
        self.feed(replica, Input::Lease(LeaseState::Acquired));
    }

    fn restart(&mut self, replica: usize) {
        self.replicas[replica] = self.process();
        self.begin(replica);
    }

    fn deliver(&mut self, replica: usize) {
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

    fn apply(&mut self, replica: usize, id: TaskId) {
        let Some(Stage::Sent(task)) = self.replicas[replica].tasks.remove(&id) else {
            return;
        };
        let done = match &task {
            Task::WriteEntry {
                workload,
                check,
                patch,
                ..
            } => {
                let uid = uid_of(workload.uid());
                let known = workload.resource_version().to_string();
                let result = match &self.objects[uid] {
                    None => Err(WriteError::Gone),
                    Some(object) if object.version.to_string() != known => {
                        Err(WriteError::Conflict)
                    }
                    Some(object) => {
                        let before = object.clone();
                        let updates: Vec<serde_json::Value> = patch
                            .updates
                            .as_slice()
                            .iter()
                            .map(|update| serde_json::to_value(update).unwrap())
                            .collect();
                        let decided_for = object.since;
                        let entry = Entry {
                            state: patch.state.clone(),
                            message: patch.message.to_string(),
                            updates,
                            decided_for,
                        };
                        self.store(uid, before, |object| {
                            object.entries[index_of(check)] = entry;
                        });
                        Ok(Self::workload(self.objects[uid].as_ref().unwrap()))
                    }
                };
                Done::Entry(result)
            }
            Task::Read { uid, .. } => {
                let object = self.objects[uid_of(uid)].as_ref();
                Done::Read(object.map(Self::workload))
            }
            _ => return,
        };
        self.replicas[replica]
            .tasks
            .insert(id, Stage::Applied(task, done));
    }

    fn reply(&mut self, replica: usize, id: TaskId) {
        let Some(stage) = self.replicas[replica].tasks.remove(&id) else {
            return;
        };
        let result = match stage {
            Stage::Sent(Task::Evaluate(task)) => {
                let verdict = self.verdict(task.controller);
                let updates = &verdict.updates;
                let fits = updates.conflicts(&task.workload, &task.check, &task.flavors);
                let outcome = if fits == Conflicts::None {
                    Outcome::Verdict(verdict)
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
            Stage::Sent(Task::Release { reservation, .. }) => {
                self.allocated.remove(&reservation);
                TaskResult::Released(Ok(ReleaseOutcome::Done))
            }
            Stage::Applied(_, Done::Entry(result)) => TaskResult::EntryWritten(result),
            Stage::Applied(_, Done::Read(result)) => TaskResult::Read(Ok(result)),
            Stage::Sent(_) => return,
        };
        self.feed(replica, Input::Finished(id, result));
    }

    fn verdict(&self, check: usize) -> Verdict {
        let verdict = Verdict::ready("yes");
        if !self.bounds.updates {
            return verdict;
        }
        let zone = format!("zone-{check}");
        let updates = PodSetUpdates::builder()
            .pod_set("main", |pods| pods.node_selector("zone", zone))
            .build();
        verdict.with_updates(updates.unwrap())
    }

    fn change(&mut self, kind: Move, uid: usize) {
        let Some(before) = self.objects[uid].clone() else {
            return;
        };
        if kind == Move::Delete {
            self.version += 1;
            let mut last = before.clone();
            last.version = self.version;
            self.objects[uid] = None;
            let last = Self::workload(&last);
            if before.quota {
                for replica in &mut self.replicas {
                    replica.events.push_back(Event::Delete(last.clone()));
                }
            }
            return;
        }
        if kind == Move::Reserve {
            self.reservations += 1;
        }
        if kind == Move::Admit {
            let stale = before
                .entries
                .iter()
                .position(|entry| entry.decided_for != before.since);
            if let Some(check) = stale {
                self.violate(format!(
                    "w{uid} is admitted by a Ready of check-{check} for an earlier reservation"
                ));
            }
        }
        let since = self.reservations;
        self.store(uid, before, |object| match kind {
            Move::Reserve => {
                object.quota = true;
                object.evicted = false;
                object.since = since;
            }
            Move::Admit => object.admitted = true,
            Move::LoseQuota => object.quota = false,
            Move::Evict => {
                object.evicted = true;
                for entry in &mut object.entries {
                    *entry = Entry::pending("Reset to Pending after eviction");
                }
            }
            Move::EvictStale => object.evicted = true,
            Move::ReleaseQuota => {
                object.quota = false;
                object.admitted = false;
            }
            Move::ChangePriority => object.priority += 1,
            Move::Delete => {}
        });
    }

    /// Stores what `change` makes of an object, and shows it to whoever watches.
    fn store(&mut self, uid: usize, before: Object, change: impl FnOnce(&mut Object)) {
        let was_selected = before.quota;
        let mut object = before;
        change(&mut object);
        self.version += 1;
        object.version = self.version;
        let workload = Self::workload(&object);
        let event = match (was_selected, object.quota) {
            (_, true) => Some(Event::Apply(workload)),
            (true, false) => Some(Event::Delete(workload)),
            (false, false) => None,
        };
        self.objects[uid] = Some(object);
        for replica in &mut self.replicas {
            replica.events.extend(event.clone());
        }
    }

    /// Two entries that contradict each other would end the job as FailedToStart.
    fn check_updates(&mut self) {
        let contradicts = self.objects.iter().flatten().any(|object| {
            let ready = object
                .entries
                .iter()
                .filter(|entry| entry.state == CheckState::Ready);
            let updates: BTreeSet<String> = ready
                .filter(|entry| !entry.updates.is_empty())
                .map(|entry| format!("{:?}", entry.updates))
                .collect();
            updates.len() > 1
        });
        if contradicts {
            self.violate("two checks have written contradicting updates".to_owned());
        }
    }

    /// What does not hold, now that nothing happens any more.
    fn check_at_rest(&mut self) {
        if self.is_idle()
            && self.next_timer().is_none()
            && let Some(problem) = self.problem()
        {
            self.violate(problem);
        }
    }

    /// Whether nothing is on its way, of events, requests or calls.
    pub(super) fn is_idle(&self) -> bool {
        self.replicas
            .iter()
            .all(|replica| replica.events.is_empty() && replica.tasks.is_empty())
    }

    /// Whether all ends well from here, if neither Kueue nor users change anything and nothing
    /// fails: each Workload with quota is decided, everything that was allocated is released, and
    /// nothing is left to do.
    pub(super) fn settles(mut self) -> Result<(), String> {
        for _ in 0..TIMERS {
            while let Some(action) = self.next_of_its_own() {
                self.act(action);
            }
            if self.violation.is_some() || self.next_timer().is_none() {
                break;
            }
            self.act(Action::Tick);
        }
        let problem = self.violation.take();
        let problem = problem.or_else(|| self.problem());
        problem.map_or(Ok(()), |problem| Err(format!("in the end {problem}")))
    }

    /// What happens next if nobody interferes.
    fn next_of_its_own(&self) -> Option<Action> {
        let own = |action: &Action| {
            matches!(
                action,
                Action::Deliver(_)
                    | Action::Apply(..)
                    | Action::Reply(..)
                    | Action::Regain(_)
                    | Action::Acquire(_)
            )
        };
        self.actions().into_iter().find(own)
    }

    fn problem(&self) -> Option<String> {
        let leader = self.holder.filter(|_| !self.lapsed)?;
        let core = &self.replicas[leader].core;
        if core.role != Role::Leading {
            return None;
        }
        let mut problems = Vec::new();
        for (uid, object) in self.objects.iter().enumerate() {
            let Some(object) = object else { continue };
            let decides = object.quota && !object.evicted;
            for (check, entry) in object.entries.iter().enumerate() {
                // Of contradicting updates one check waits, and says so.
                let waits = entry.state == CheckState::Pending && !self.bounds.updates;
                if decides && waits {
                    problems.push(format!("check-{check} leaves w{uid} undecided"));
                }
                if !object.quota && entry.state == CheckState::Ready {
                    problems.push(format!(
                        "the Ready of check-{check} on w{uid} is not withdrawn"
                    ));
                }
            }
        }
        for reservation in &self.allocated {
            let uid = uid_of(reservation.uid());
            let lives = self.objects[uid]
                .as_ref()
                .is_some_and(|object| object.quota && object.since == number(reservation));
            if !lives {
                problems.push(format!(
                    "what was allocated for {reservation} is not released"
                ));
            }
        }
        let present = self
            .objects
            .iter()
            .flatten()
            .filter(|object| object.quota)
            .count();
        if core.workloads.len() != present {
            problems.push(format!(
                "{} Workloads are tracked, {present} hold quota",
                core.workloads.len()
            ));
        }
        if core.cleanups.iter().next().is_some() {
            problems.push("a cleanup is pending for ever".to_owned());
        }
        problems.into_iter().next()
    }

    /// What tells this state from others.
    pub(super) fn fingerprint(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        format!("{:?} {:?}", self.objects, self.allocated).hash(&mut hasher);
        (
            self.holder,
            self.lapsed,
            self.moves,
            self.faults,
            self.ticks,
            self.reservations,
        )
            .hash(&mut hasher);
        for replica in &self.replicas {
            replica.core.fingerprint().hash(&mut hasher);
            let tasks: Vec<&Stage> = replica.tasks.values().collect();
            format!(
                "{:?} {tasks:?} {:?} {:?}",
                replica.events, replica.shown_deleted, replica.evaluated
            )
            .hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl Entry {
    fn pending(message: &str) -> Self {
        Self {
            state: CheckState::Pending,
            message: message.to_owned(),
            updates: Vec::new(),
            decided_for: 0,
        }
    }
}

fn second(number: u64) -> String {
    Timestamp::from_second(START + i64::try_from(number).unwrap())
        .unwrap()
        .to_string()
}

fn number(reservation: &Reservation) -> u64 {
    u64::try_from(reservation.since().as_second() - START).unwrap()
}

fn admission_check(number: usize) -> AdmissionCheck {
    AdmissionCheck::from_json(json!({
        "metadata": {"name": name_of(number), "uid": name_of(number), "resourceVersion": "1", "generation": 1},
        "spec": {"controllerName": format!("example.com/check-{number}")},
    }))
    .unwrap()
}

/// The AdmissionCheck once its conditions are written.
fn with_conditions(check: &AdmissionCheck, conditions: &[ConditionPatch]) -> AdmissionCheck {
    AdmissionCheck::from_json(json!({
        "metadata": {"name": check.name(), "uid": check.name(), "resourceVersion": "2", "generation": 1},
        "spec": {"controllerName": check.controller_name()},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}
