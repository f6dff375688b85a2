//! The state of the runtime and its one step: inputs in, effects out.
//!
//! No client, no clock, no task: [`Core::step`] receives the time, events and the results of tasks,
//! and returns effects, which the session's loop carries out. So every order of events, replies,
//! deletions and changes of leadership is a sequence of steps.

mod activation;
mod after_admission;
mod cache;
mod checks;
mod cleanup;
#[cfg(test)]
mod driver;
mod effects;
mod enqueue;
mod evaluations;
mod families;
mod freshness;
mod leadership;
mod managed_check;
mod report;
mod tasks;
mod unreleased;
#[cfg(test)]
mod wall_clock_tests;
mod workloads;
mod writes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::activation::ParametersStore;
use super::backoff::Backoff;
use super::informers::{Failure, StoredParameters};
use super::queue::Queue;
use crate::api::{AdmissionCheck, Name, ResourceFlavor, ResourceVersion, ServedApi, Uid, Workload};
use crate::check::{DynCheck, Families, Lifetime, ParametersKind, Trigger};

pub(crate) use cache::{Key, WorkloadCache};
pub(crate) use effects::{Effect, ObserverEvent, Report};
pub(crate) use leadership::{LeaseState, Role};
pub(crate) use managed_check::ManagedCheck;
pub(crate) use report::Recent;
pub(crate) use tasks::{EvaluationTask, NotActivated, Task, TaskId, TaskResult};

use cleanup::Cleanups;
use leadership::Restoring;
use tasks::{CheckTask, Started};
use unreleased::Unreleased;

/// A point in time, on the monotonic clock and on the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

/// A controller of this process, with its constant properties.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    pub(crate) check: DynCheck,
    pub(crate) name: String,
    pub(crate) lifetime: Lifetime,
}

impl Controller {
    /// Returns the name for the watches of the controller with this number. It is its own name,
    /// with the kind of its parameters if several controllers have that name.
    pub(crate) fn label(all: &[Self], number: usize) -> String {
        let name = &all[number].name;
        let shared = all.iter().filter(|other| other.name == *name).count() > 1;
        match all[number].check.parameters().kind.filter(|_| shared) {
            Some(kind) => format!("{name}/{kind}"),
            None => name.clone(),
        }
    }
}

impl From<DynCheck> for Controller {
    fn from(check: DynCheck) -> Self {
        Self {
            name: check.controller_name().as_str().to_owned(),
            lifetime: check.lifetime(),
            check,
        }
    }
}

/// An input of a step: an event, or the result of a task.
#[derive(Debug)]
pub(crate) enum Input {
    AdmissionChecks(Event<AdmissionCheck>),
    /// `selected` is true if only Workloads with quota are sent, so that a deletion may be a loss
    /// of quota.
    Workloads {
        event: Event<Workload>,
        selected: bool,
    },
    /// A Workload without quota that has a verdict or is a growth, found by the scan.
    WithoutQuota(Workload),
    /// A Workload with quota, from a list of the version `as_of` that is read in addition to the
    /// watch.
    Compare {
        workload: Workload,
        as_of: ResourceVersion,
    },
    /// That list is complete, and contained these.
    Compared(BTreeSet<Uid>),
    Flavors(Event<ResourceFlavor>),
    /// Parameters of the kind with this number.
    Parameters {
        kind: usize,
        event: Event<StoredParameters>,
    },
    /// The kind with this number is not served, or its list is forbidden.
    ParametersFailed {
        kind: usize,
        failure: Failure,
    },
    /// A trigger of evaluations, for the controller with this number.
    Trigger {
        controller: usize,
        trigger: Trigger,
    },
    /// The state of the Lease.
    Lease(LeaseState),
    /// How the cluster serves Kueue's API.
    Served(ServedApi),
    /// A task ended.
    Finished(TaskId, TaskResult),
    /// Only time has passed.
    Time,
}

/// The constant settings of a [`Core`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of tasks in flight for each controller.
    pub(crate) concurrency: usize,
    pub(crate) backoff: Backoff,
}

/// The state of the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) controllers: Arc<[Controller]>,
    pub(crate) served: ServedApi,
    /// The time of its creation.
    created: Now,
    now: Now,
    pub(crate) role: Role,
    lists: Lists,
    pub(crate) workloads: WorkloadCache,
    families: Families,
    pub(crate) checks: BTreeMap<Name, ManagedCheck>,
    parameters: Vec<(ParametersKind, ParametersStore)>,
    flavors: Arc<BTreeMap<String, ResourceFlavor>>,
    pub(crate) cleanups: Cleanups,
    pub(crate) work: Work,
    pub(crate) recent: VecDeque<Recent>,
    effects: Vec<Effect>,
}

/// The lists that have been read, and the content of lists in progress.
#[derive(Clone, Debug)]
struct Lists {
    workloads: bool,
    checks: bool,
    /// Whether Workloads may have been created and deleted unobserved since the last complete list.
    missed: bool,
    /// Replaced slices, until the list of Workloads is complete.
    replaced: Vec<Workload>,
    named_checks: Option<BTreeSet<Name>>,
    flavors: Option<BTreeMap<String, ResourceFlavor>>,
}

/// Work that waits, and tasks in flight.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    limits: Limits,
    /// One for each controller, so that a slow check does not delay another one.
    pub(crate) queues: Vec<Queue<Key>>,
    timers: BTreeSet<(Instant, Timer)>,
    in_flight: BTreeMap<TaskId, Started>,
    /// Number of tasks in flight that count against each controller's concurrency.
    pub(crate) used_concurrency: Vec<usize>,
    next_task: u64,
    /// Whether evaluations are no longer started.
    stopping: bool,
    restoring: Restoring,
    unreleased: Vec<Unreleased>,
    /// Controllers that have returned that they never allocate anything.
    never_allocate: BTreeSet<usize>,
    /// Workloads to read, because a list disagrees with the cache: their namespaces and names.
    to_confirm: BTreeMap<Uid, (String, String)>,
    /// The times of the next reads of Workloads whose last such read failed.
    confirm_at: BTreeMap<Uid, Instant>,
    /// AdmissionChecks with a task that had to wait.
    waiting_checks: BTreeSet<(CheckTask, Name)>,
    /// The end of the pause that the API server requested.
    paused_until: Option<Instant>,
}

/// The purpose of a timer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Evaluate a Workload, or continue a cleanup.
    Key(Key),
    /// Activate an AdmissionCheck again.
    Activate(Name),
    /// Write an AdmissionCheck's condition again.
    Announce(Name),
    /// List the unreleased reservations of a controller.
    Unreleased(usize),
    /// Read a Workload, of this namespace and name, about which a list and the cache disagree. It
    /// is boxed because each Workload may have a timer, and few have this one.
    Confirm(Box<(Uid, (String, String))>),
}

impl Core {
    pub(crate) fn new(
        controllers: Arc<[Controller]>,
        limits: Limits,
        served: ServedApi,
        now: Now,
    ) -> Self {
        let mut kinds: Vec<ParametersKind> = controllers
            .iter()
            .filter_map(|controller| controller.check.parameters().kind)
            .collect();
        kinds.sort_by_key(ToString::to_string);
        kinds.dedup();
        let count = controllers.len();
        Self {
            controllers,
            served,
            created: now,
            now,
            role: Role::Standby,
            lists: Lists {
                workloads: false,
                checks: false,
                missed: true,
                replaced: Vec::new(),
                named_checks: None,
                flavors: None,
            },
            workloads: WorkloadCache::default(),
            families: Families::default(),
            checks: BTreeMap::new(),
            parameters: kinds
                .into_iter()
                .map(|kind| (kind, ParametersStore::default()))
                .collect(),
            flavors: Arc::default(),
            cleanups: Cleanups::default(),
            work: Work {
                limits,
                queues: vec![Queue::default(); count],
                timers: BTreeSet::new(),
                in_flight: BTreeMap::new(),
                used_concurrency: vec![0; count],
                next_task: 1,
                stopping: false,
                restoring: Restoring::default(),
                unreleased: vec![Unreleased::default(); count],
                never_allocate: BTreeSet::new(),
                to_confirm: BTreeMap::new(),
                confirm_at: BTreeMap::new(),
                waiting_checks: BTreeSet::new(),
                paused_until: None,
            },
            recent: VecDeque::new(),
            effects: Vec::new(),
        }
    }

    /// Handles `input` at `now`. Returns the effects, in order.
    pub(crate) fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::AdmissionChecks(event) => self.handle_check(event),
            Input::Workloads { event, selected } => {
                // The API server may refuse to select Workloads, whatever its schema contains.
                self.served.selects_reserved = selected;
                self.handle_workload(event);
            }
            Input::WithoutQuota(workload) => self.handle_without_quota(&workload),
            Input::Compare { workload, as_of } => self.compare(&workload, &as_of),
            Input::Compared(named) => self.compared(&named),
            Input::Flavors(event) => self.handle_flavor(event),
            Input::Parameters { kind, event } => self.handle_parameters(kind, event),
            Input::ParametersFailed { kind, failure } => self.parameters_failed(kind, failure),
            Input::Trigger {
                controller,
                trigger,
            } => self.handle_trigger(controller, &trigger),
            Input::Lease(state) => self.handle_lease(state),
            Input::Served(served) => self.handle_served(served),
            Input::Finished(task, result) => self.finished(task, result),
            Input::Time => {}
        }
        self.fire_timers();
        self.dispatch();
        std::mem::take(&mut self.effects)
    }

    /// Returns the kinds of parameters, by number.
    pub(crate) fn parameter_kinds(&self) -> impl Iterator<Item = &ParametersKind> {
        self.parameters.iter().map(|(kind, _)| kind)
    }

    /// Stops starting evaluations: the process is about to end.
    pub(crate) fn stop_starting(&mut self) {
        self.work
            .queues
            .iter_mut()
            .for_each(|queue| *queue = Queue::default());
        self.work.timers.clear();
        self.work.stopping = true;
    }

    /// Returns true if the lists that decisions depend on have been read.
    fn is_synced(&self) -> bool {
        self.lists.workloads && self.lists.checks
    }

    /// Returns the time of the next step, if nothing else happens.
    pub(crate) fn next_step(&self) -> Option<Instant> {
        if self.role == Role::Suspended {
            return None;
        }
        let timer = self.work.timers.first().map(|(at, _)| *at);
        let waits = self.work.queues.iter().any(|queue| queue.len() > 0)
            || !self.work.waiting_checks.is_empty()
            || !self.work.to_confirm.is_empty();
        let pause = self
            .work
            .paused_until
            .filter(|_| self.role == Role::Leading && waits);
        let restored = self.work.restoring.until;
        [timer, pause, restored]
            .into_iter()
            .flatten()
            .filter(|at| *at > self.now.instant || timer == Some(*at))
            .min()
    }

    fn fire_timers(&mut self) {
        if self.role == Role::Suspended {
            return;
        }
        while self
            .work
            .timers
            .first()
            .is_some_and(|(at, _)| *at <= self.now.instant)
            && let Some((_, timer)) = self.work.timers.pop_first()
        {
            match timer {
                Timer::Key(key) => self.timer_fired(&key),
                Timer::Activate(check) => self.activation_due(&check),
                Timer::Announce(check) => self.announcement_due(&check),
                Timer::Unreleased(controller) => self.unreleased_due(controller),
                Timer::Confirm(of) => self.confirm_due(of.0, of.1),
            }
        }
    }

    /// Returns the time of a clock that starts with the wall clock and ignores its later steps.
    fn steady(&self) -> Timestamp {
        let passed = self
            .now
            .instant
            .saturating_duration_since(self.created.instant);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        self.created
            .wall
            .saturating_add(passed)
            .unwrap_or(Timestamp::MAX)
    }

    /// Returns the tenths of a second since the core was created.
    fn tenths(&self) -> Option<NonZeroU32> {
        let passed = self
            .now
            .instant
            .saturating_duration_since(self.created.instant);
        let tenths = u32::try_from(passed.as_millis() / 100).unwrap_or(u32::MAX);
        NonZeroU32::new(tenths.saturating_add(1))
    }

    fn delay(&self, failures: u32, key: u64) -> Duration {
        self.work.limits.backoff.delay(failures, key)
    }

    fn report(&mut self, report: Report) {
        self.effects.push(Effect::Report(report));
    }

    fn notify_observers(&mut self, event: ObserverEvent) {
        self.effects.push(Effect::Observe(event));
    }
}

/// Returns the hash of the `Debug` output.
#[cfg(test)]
pub(crate) fn fingerprint(shown: &impl std::fmt::Debug) -> u64 {
    use std::fmt::Write;
    use std::hash::{BuildHasher, Hasher};

    use foldhash::fast::{FixedState, FoldHasher};

    struct Hashed(FoldHasher<'static>);
    impl Write for Hashed {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }

    let mut hashed = Hashed(FixedState::default().build_hasher());
    assert!(write!(hashed, "{shown:?}").is_ok());
    hashed.0.finish()
}

/// Returns the hashes of all values, in an order that does not depend on theirs.
#[cfg(test)]
pub(crate) fn fingerprints<T: std::fmt::Debug>(shown: impl IntoIterator<Item = T>) -> Vec<u64> {
    let mut all: Vec<u64> = shown.into_iter().map(|one| fingerprint(&one)).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
impl Core {
    /// Returns a hash of this state without the parts that have no consequence.
    pub(crate) fn fingerprint(&self) -> u64 {
        let Work {
            limits: _,
            queues,
            timers,
            in_flight,
            used_concurrency,
            next_task: _,
            stopping,
            restoring,
            unreleased,
            never_allocate: _,
            to_confirm,
            confirm_at: _,
            waiting_checks,
            paused_until,
        } = &self.work;
        let in_flight = fingerprints(in_flight.values());
        let work = (
            queues,
            timers,
            in_flight,
            used_concurrency,
            stopping,
            restoring,
        );
        let rest = (unreleased, to_confirm, waiting_checks, paused_until);
        let known = (&self.role, &self.lists, &self.workloads, &self.checks);
        let given = (&self.parameters, &self.flavors);
        fingerprint(&(work, rest, known, given, &self.cleanups))
    }
}
