//! The model of the API server, Kueue, the Lease and the checks.

mod describe;
mod properties;
mod replica;
mod server;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use self::replica::{ApiResult, Limit, Replica, Stage, Write, modelled};
use self::server::{Entry, Object};
use crate::api::CheckState;
use crate::check::{NoParameters, Reservation};
use crate::runtime::core::{
    Controller, Input, LeaseState, Now, Role, Task, TaskId, TaskResult, fingerprint, fingerprints,
};
use crate::runtime::writer::WriteError;

/// The bounds of one search.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is independent of the others"
)]
pub(super) struct Bounds {
    pub(super) workloads: usize,
    pub(super) checks: usize,
    pub(super) replicas: usize,
    /// Changes by Kueue and users.
    pub(super) changes: usize,
    /// Lost replies, lapses, deaths.
    pub(super) faults: usize,
    /// How many times the clock may advance to the next timer.
    pub(super) ticks: usize,
    /// Whether a timer may fire while something is in flight.
    pub(super) slow: bool,
    /// How many times the checks' code may answer otherwise than [`Answer::Usual`].
    pub(super) answers: usize,
    /// The kinds of changes.
    pub(super) kinds: &'static [ClusterChange],
    /// How many Workloads a check evaluates at once.
    pub(super) concurrency: usize,
    /// Whether the Workloads get quota before anything else happens; this counts as no change.
    pub(super) reserved: bool,
    /// Whether the checks set contradicting updates.
    pub(super) updates: bool,
    /// Whether the checks have parameters.
    pub(super) parameters: bool,
}

/// A change by Kueue or a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClusterChange {
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
    /// The parameters get another revision, and are valid.
    ChangeParameters,
    /// The parameters get another revision, and are invalid.
    BreakParameters,
    DeleteParameters,
    /// The flavor's label is added or removed.
    ChangeFlavor,
    /// The AdmissionCheck of the first check is deleted.
    DeleteCheck,
    MakeCheckAgain,
}

impl Answer {
    /// Returns the answers to `task` beside the usual one; none if the API server carries it out.
    fn of(task: &Task) -> &'static [Self] {
        match task {
            Task::Evaluate(_) => &[Self::Pending, Self::Retry, Self::Rejected, Self::Fails],
            Task::Release { .. } => &[Self::Later, Self::Fails],
            Task::Activate { .. } => &[Self::Fails],
            _ => &[],
        }
    }
}

impl ClusterChange {
    fn is_of_a_workload(self) -> bool {
        !matches!(
            self,
            Self::ChangeParameters
                | Self::BreakParameters
                | Self::DeleteParameters
                | Self::ChangeFlavor
                | Self::DeleteCheck
                | Self::MakeCheckAgain
        )
    }
}

/// A watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Workloads,
    Checks,
    Parameters,
    Flavors,
}

impl Stream {
    const ALL: [Self; 4] = [
        Self::Workloads,
        Self::Checks,
        Self::Parameters,
        Self::Flavors,
    ];
}

/// An answer of the checks' code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Ready, everything is released, active.
    Usual,
    Pending,
    Retry,
    Rejected,
    /// A transient error.
    Fails,
    /// The release takes time.
    Later,
}

/// An action: one thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    ClusterChange(ClusterChange, usize),
    /// The next event of a watch reaches the replica.
    Deliver(usize, Stream),
    /// The API server applies a request.
    Apply(usize, TaskId),
    /// A reply, or the usual answer of a check's code, reaches the replica.
    Reply(usize, TaskId),
    /// Another answer of a check's code reaches the replica.
    Answer(usize, TaskId, Answer),
    /// The reply is lost.
    Lose(usize, TaskId),
    /// The API server applies the request with this place, which a process sent before it died or
    /// its Lease lapsed.
    ApplyLate(usize),
    Lapse(usize),
    Regain(usize),
    /// The replica acquires the Lease, after the holder has stopped.
    Acquire(usize),
    Die(usize),
    Tick,
}

/// The parameters object of all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provided {
    /// The checks take no parameters.
    Never,
    Valid,
    Invalid,
    Missing,
}

/// The objects that belong to no Workload: the AdmissionChecks, their parameters and the flavor.
#[derive(Clone, Debug)]
struct Settings {
    provided: Provided,
    /// The revision of the parameters.
    revision: u64,
    /// Whether the flavor has a label that contradicts the checks' updates.
    labelled: bool,
    /// Whether the AdmissionCheck of the first check is deleted.
    deleted: bool,
    /// How many times it was made again.
    made: u64,
}

/// A state of the model.
#[derive(Clone)]
pub(super) struct Model {
    bounds: Arc<Bounds>,
    controllers: Arc<[Controller]>,
    objects: Vec<Option<Object>>,
    settings: Settings,
    replicas: Vec<Replica>,
    /// Writes whose sender no longer waits for them, and that the API server has not refused yet.
    late: Vec<Write>,
    holder: Option<usize>,
    lapsed: bool,
    /// The reservations for which the checks hold resources.
    allocated: BTreeSet<Reservation>,
    changes: usize,
    faults: usize,
    ticks: usize,
    answers: usize,
    now: Now,
    pub(super) violation: Option<String>,
}

/// How many timers may fire until everything is done.
const TIMERS: usize = 30;

const START: i64 = 1_763_715_600;

impl Replica {
    fn has_event(&self, stream: Stream) -> bool {
        !match stream {
            Stream::Workloads => self.events.is_empty(),
            Stream::Checks => self.checks.is_empty(),
            Stream::Parameters => self.parameters.is_empty(),
            Stream::Flavors => self.flavors.is_empty(),
        }
    }
}

impl Model {
    pub(super) fn new(bounds: Bounds) -> Self {
        let controllers: Arc<[Controller]> = (0..bounds.checks)
            .map(|number| {
                if bounds.parameters {
                    Controller::from(modelled::<Limit>(number))
                } else {
                    Controller::from(modelled::<NoParameters>(number))
                }
            })
            .collect();
        let now = Now {
            instant: Instant::now(),
            wall: Timestamp::from_second(START).unwrap(),
        };
        let settings = Settings {
            provided: if bounds.parameters {
                Provided::Valid
            } else {
                Provided::Never
            },
            revision: 1,
            labelled: false,
            deleted: false,
            made: 0,
        };
        let mut model = Self {
            settings,
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
            replicas: Vec::new(),
            late: Vec::new(),
            holder: None,
            lapsed: false,
            allocated: BTreeSet::new(),
            changes: 0,
            faults: 0,
            ticks: 0,
            answers: 0,
            now,
            violation: None,
        };
        for _ in 0..model.bounds.replicas {
            let replica = model.process();
            model.replicas.push(replica);
        }
        for replica in 0..model.bounds.replicas {
            model.begin(replica);
        }
        model.acquire(0);
        while let Some(action) = model.next_of_its_own() {
            model.act(action);
        }
        if model.bounds.reserved {
            for uid in 0..model.bounds.workloads {
                model.change(ClusterChange::Reserve, uid);
            }
        }
        model
    }

    /// Returns the actions that are possible now.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (number, replica) in self.replicas.iter().enumerate() {
            let streams = Stream::ALL
                .into_iter()
                .filter(|stream| replica.has_event(*stream) && self.may_receive(number));
            actions.extend(streams.map(|stream| Action::Deliver(number, stream)));
            for (id, stage) in &replica.tasks {
                match stage {
                    Stage::Sent(task) => {
                        let answers = Answer::of(task);
                        if answers.is_empty() {
                            actions.push(Action::Apply(number, *id));
                            continue;
                        }
                        actions.push(Action::Reply(number, *id));
                        if self.answers < self.bounds.answers {
                            let others = answers.iter();
                            actions.extend(others.map(|other| Action::Answer(number, *id, *other)));
                        }
                    }
                    Stage::Applied(..) => {
                        actions.push(Action::Reply(number, *id));
                        if self.may_fail() {
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
            if self.may_acquire(number) {
                actions.push(Action::Acquire(number));
            }
        }
        actions.extend((0..self.late.len()).map(Action::ApplyLate));
        if self.changes < self.bounds.changes {
            // The Workloads are equal, so the first change is one of the first Workload.
            let alike = if self.changes == 0 {
                1
            } else {
                self.bounds.workloads
            };
            for uid in 0..alike {
                let kinds = self.bounds.kinds.iter();
                actions.extend(
                    kinds
                        .filter(|kind| {
                            self.may(**kind, uid) && (uid == 0 || kind.is_of_a_workload())
                        })
                        .map(|kind| Action::ClusterChange(*kind, uid)),
                );
            }
        }
        let may_pass = self.bounds.slow || self.is_idle();
        if may_pass && self.ticks < self.bounds.ticks && self.next_timer().is_some() {
            actions.push(Action::Tick);
        }
        actions
    }

    fn may_acquire(&self, replica: usize) -> bool {
        self.holder != Some(replica) && (self.holder.is_none() || self.lapsed)
    }

    /// Returns true if events are delivered to this replica now.
    ///
    /// An event on a standby changes only its cache, until the replica acquires the Lease or time
    /// passes. Events keep their order, and none is removed. So each interleaving has the same
    /// outcome as one in which they are delivered right before that.
    fn may_receive(&self, replica: usize) -> bool {
        self.holder == Some(replica)
            || self.may_acquire(replica)
            || self.replicas.iter().enumerate().all(|(number, other)| {
                let received = Stream::ALL.iter().all(|stream| !other.has_event(*stream));
                other.tasks.is_empty() && (received || self.holder != Some(number))
            })
    }

    fn may_fail(&self) -> bool {
        self.faults < self.bounds.faults
    }

    fn may(&self, kind: ClusterChange, uid: usize) -> bool {
        match kind {
            ClusterChange::ChangeParameters | ClusterChange::ChangeFlavor => return true,
            ClusterChange::BreakParameters => return self.settings.provided == Provided::Valid,
            ClusterChange::DeleteParameters => return self.settings.provided != Provided::Missing,
            ClusterChange::DeleteCheck => return !self.settings.deleted,
            ClusterChange::MakeCheckAgain => return self.settings.deleted,
            _ => {}
        }
        let Some(object) = &self.objects[uid] else {
            return false;
        };
        let carries_verdict = object
            .entries
            .iter()
            .any(|entry| entry.state != CheckState::Pending);
        match kind {
            // If no replica had the time to withdraw a verdict, no check can win the race.
            ClusterChange::Reserve => !object.quota && (!carries_verdict || self.leader_is_idle()),
            ClusterChange::Admit => {
                object.quota
                    && !object.evicted
                    && !object.admitted
                    && object
                        .entries
                        .iter()
                        .all(|entry| entry.state == CheckState::Ready)
            }
            ClusterChange::LoseQuota => object.quota && !object.admitted && !object.evicted,
            ClusterChange::Evict | ClusterChange::EvictStale => object.quota && !object.evicted,
            ClusterChange::ReleaseQuota => object.quota && object.evicted,
            ClusterChange::Delete => true,
            ClusterChange::ChangePriority => !object.admitted,
            _ => false,
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.replicas
            .iter()
            .filter_map(|replica| replica.core.next_step())
            .min()
    }

    /// Returns true if the leader has done all that it can do now.
    fn leader_is_idle(&self) -> bool {
        let leader = self.holder.map(|holder| &self.replicas[holder]);
        leader.is_some_and(|leader| {
            leader.core.role == Role::Leading
                && Stream::ALL.iter().all(|stream| !leader.has_event(*stream))
                && leader.tasks.is_empty()
                && leader.core.cleanups.iter().next().is_none()
        })
    }

    /// Applies `action`.
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::ClusterChange(kind, uid) => {
                self.changes += 1;
                self.change(kind, uid);
            }
            Action::Deliver(replica, stream) => {
                self.deliver(replica, stream);
                if self.holder != Some(replica) && !self.replicas[replica].tasks.is_empty() {
                    self.violate("a standby starts tasks".to_owned());
                }
            }
            Action::Apply(replica, id) => self.apply(replica, id),
            Action::Reply(replica, id) => self.reply(replica, id, Answer::Usual),
            Action::Answer(replica, id, answer) => {
                self.answers += 1;
                self.reply(replica, id, answer);
            }
            Action::Lose(replica, id) => {
                self.faults += 1;
                let lost = WriteError::Unavailable("lost".to_owned());
                let result = match self.replicas[replica].tasks.remove(&id) {
                    Some(Stage::Applied(_, ApiResult::Read(_))) => TaskResult::Read(Err(lost)),
                    _ => TaskResult::EntryWritten(Err(lost)),
                };
                self.feed(replica, Input::Finished(id, result));
            }
            Action::ApplyLate(place) => {
                let write = self.late.remove(place);
                let _ = self.write(&write);
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
                // A replica that lapsed and lost the Lease ends its process; a new one is a
                // standby.
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
        // The API server refuses the others, whenever they arrive.
        let objects = &self.objects;
        self.late.retain(|write| write.applies_to(objects));
        self.check_updates();
        self.check_at_rest();
    }

    fn acquire(&mut self, replica: usize) {
        self.holder = Some(replica);
        self.lapsed = false;
        self.feed(replica, Input::Lease(LeaseState::Acquired));
    }

    fn restart(&mut self, replica: usize) {
        self.forget_tasks(replica);
        self.replicas[replica] = self.process();
        self.begin(replica);
    }

    /// Returns true if no event, request or call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.replicas.iter().all(|replica| {
            replica.tasks.is_empty() && Stream::ALL.iter().all(|stream| !replica.has_event(*stream))
        })
    }

    /// Returns a hash that distinguishes states. Replicas are equal, and tasks in flight have no
    /// order.
    pub(super) fn fingerprint(&self) -> u64 {
        let replicas = self.replicas.iter().enumerate();
        let replicas = fingerprints(replicas.map(|(number, replica)| {
            let Replica {
                core,
                events,
                checks,
                parameters,
                flavors,
                tasks,
                shown_deleted,
                settings,
                activated,
                evaluated,
                answered,
            } = replica;
            let to_show = (events, checks, parameters, flavors);
            let tasks = fingerprints(tasks.values());
            let known = (shown_deleted, settings, activated, evaluated, answered);
            let holds = self.holder == Some(number);
            fingerprint(&(core.fingerprint(), to_show, tasks, known, holds))
        }));
        let late = fingerprints(&self.late);
        let server = (&self.objects, &self.allocated, &self.settings, late);
        let counted = (self.changes, self.faults, self.ticks, self.answers);
        fingerprint(&(server, self.lapsed, counted, replicas))
    }
}
