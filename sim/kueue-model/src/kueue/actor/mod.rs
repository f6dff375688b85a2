//! The Kueue actor: watches the cluster and carries out decisions.

mod cache;
mod cluster_queues;
mod families;
mod flavors;
mod local_queues;
mod place;
mod preemption;
mod priority_classes;
mod requests;
mod run;
mod schedule;
mod searches;
mod second_pass;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kueue_check::Clock;

use self::cache::Cache;
use self::searches::FlavorSearches;
use super::KueueVersion;
use super::api::{Api, Recorder, kueue};
use super::objects::{AdmissionCheckState, Workload, read};
use super::queue::PendingQueue;
use kueue_check_apiserver::ApiServer;

pub use run::{Actor, Pace, run, run_at};

/// The delay of a batch: changes of Workloads, AdmissionChecks and flavors, and freed quota.
const BATCH: SignedDuration = SignedDuration::from_secs(1);

/// A task of a controller: what to reconcile or retry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// An AdmissionCheck needs its finalizer.
    Check(String),
    /// A ClusterQueue.
    ClusterQueue(String),
    /// A Cohort, whose status has its share.
    Cohort(String),
    /// A ResourceFlavor needs its finalizer.
    Flavor(String),
    /// A LocalQueue.
    LocalQueue(String),
    /// A `WorkloadPriorityClass`.
    PriorityClass(String),
    /// A Workload.
    Workload(String),
    /// The variants of a Workload.
    Family(String),
    /// The Workloads of a ClusterQueue that did not fit may be tried again.
    RetryInadmissible(String),
}

/// A switch of the version of a running [`Kueue`]. The outcome of a race may vary within a run. Do
/// not change the other differences between versions during a run.
///
/// ```
/// # let clock = kueue_check::Clock::system();
/// use kueue_check_sim::apiserver::ApiServer;
/// use kueue_check_sim::kueue::{Kueue, KueueVersion};
///
/// let kueue = Kueue::new(&ApiServer::new(clock.clone()), &clock, KueueVersion::V0_19);
/// let switch = kueue.switch();
/// switch.set(KueueVersion { quick_scheduler: true, ..KueueVersion::V0_19 });
/// ```
#[derive(Clone, Debug)]
pub struct VersionSwitch(Arc<Mutex<KueueVersion>>);

impl VersionSwitch {
    fn get(&self) -> KueueVersion {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the version from the next step on.
    pub fn set(&self, version: KueueVersion) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }
}

/// Kueue's controllers and scheduler.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # use kueue_check::Clock;
/// # use serde_json::json;
/// # use std::time::Duration;
/// # let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
/// use kueue_check_sim::apiserver::{ApiServer, ApiRequest, Resource, Verb};
/// use kueue_check_sim::definitions;
/// use kueue_check_sim::kueue::{Kueue, KueueVersion, run};
///
/// let server = ApiServer::with_definitions(clock.clone(), definitions::kueue());
/// tokio::spawn(run(Kueue::new(&server, &clock, KueueVersion::V0_19), server.clone(), clock));
/// let queues = Resource::new("kueue.x-k8s.io", "v1beta2", "clusterqueues");
/// let spec = json!({"namespaceSelector": {}, "admissionChecksStrategy": {"admissionChecks": [{"name": "licences"}]}});
/// server.call(&ApiRequest::new(Verb::Create, &queues).body(json!({
///     "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "team-a"}, "spec": spec,
/// })));
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// let active = &server.get(&queues, "", "team-a").unwrap()["status"]["conditions"][0];
/// assert_eq!(active["message"], "Can't admit new workloads: references missing AdmissionCheck(s): licences.");
/// # }
/// ```
#[derive(Debug)]
pub struct Kueue {
    api: Api,
    version: KueueVersion,
    switch: VersionSwitch,
    cache: Cache,
    recorder: Recorder,
    queues: BTreeMap<String, PendingQueue>,
    /// Tasks in order of arrival, each once.
    todo: std::collections::VecDeque<Task>,
    queued: BTreeSet<Task>,
    timers: BTreeSet<(Timestamp, Task)>,
    /// Tasks that run once for all changes within a [`BATCH`], and their times.
    batches: BTreeMap<Task, Timestamp>,
    /// Workloads whose variants are reconciled once no other task is left. Kueue's controllers that
    /// change variants run in parallel. Here the controller of variants runs last.
    families: BTreeSet<String>,
    /// ClusterQueues with something to schedule.
    ready: BTreeSet<String>,
    /// The cycle that waits, until all Pods are ready or for the time of its writes.
    paused: Option<Box<schedule::Cycle>>,
    /// Check entries of waiting Workloads when these were last queued, for `stale_scheduler`.
    queued_checks: BTreeMap<String, Vec<AdmissionCheckState>>,
    /// Workloads that have been in a queue, or in a LocalQueue when it was started, or that existed
    /// before Kueue started.
    assigned: BTreeSet<String>,
    /// ClusterQueues whose head blocks them and has changed. The scheduler retries such a head
    /// without end, so that it acts before the reconciler.
    urgent: BTreeSet<String>,
    /// The scheduler's copies of Workloads that entered an empty queue.
    copies: BTreeMap<String, Arc<Workload>>,
    /// Ends of requeue delays that were written for inactive Workloads.
    delays_written: BTreeMap<String, Timestamp>,
    searches: FlavorSearches,
    /// The Workload that was reconciled last, if its reconciler acts on its own write next.
    again: Option<String>,
}

impl Kueue {
    /// Creates the model of Kueue for the cluster of `server`.
    pub fn new(server: &ApiServer, clock: &Clock, version: KueueVersion) -> Self {
        let api = Api::new(server, clock, "kueue");
        let existing = api.list(&kueue("workloads"), "");
        let existing = existing.iter().map(|object| read::<Workload>(object));
        Self {
            api,
            version,
            switch: VersionSwitch(Arc::new(Mutex::new(version))),
            cache: Cache::new(server, version),
            recorder: Recorder::new(version),
            queues: BTreeMap::new(),
            todo: std::collections::VecDeque::new(),
            queued: BTreeSet::new(),
            timers: BTreeSet::new(),
            batches: BTreeMap::new(),
            families: BTreeSet::new(),
            ready: BTreeSet::new(),
            paused: None,
            queued_checks: BTreeMap::new(),
            assigned: existing.map(|workload| workload.metadata.key()).collect(),
            urgent: BTreeSet::new(),
            copies: BTreeMap::new(),
            delays_written: BTreeMap::new(),
            searches: FlavorSearches::default(),
            again: None,
        }
    }

    /// Enqueues a task. This replaces a waiting batch of the task: a controller's work queue has
    /// each item once.
    fn enqueue(&mut self, task: Task) {
        if let Some(at) = self.batches.remove(&task) {
            self.timers.remove(&(at, task.clone()));
        }
        if self.queued.insert(task.clone()) {
            self.todo.push_back(task);
        }
    }

    /// Removes a waiting task. Returns false if there is none.
    fn dequeue(&mut self, task: &Task) -> bool {
        let waited = self.queued.remove(task);
        if waited {
            self.todo.retain(|waiting| waiting != task);
        }
        waited
    }

    fn later(&mut self, at: Timestamp, task: Task) {
        self.timers.insert((at, task));
    }

    /// Enqueues a task after a [`BATCH`]. A batch of the task that waits already keeps its time.
    fn batch(&mut self, task: Task) {
        if !self.batches.contains_key(&task) {
            let at = self.api.now().saturating_add(BATCH).unwrap_or_default();
            self.batches.insert(task.clone(), at);
            self.later(at, task);
        }
    }

    fn fire_timers(&mut self) {
        let now = self.api.now();
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, task)) = self.timers.pop_first() {
                self.enqueue(task);
            }
        }
    }

    /// Returns a switch that changes the version while the model runs.
    #[must_use]
    pub fn switch(&self) -> VersionSwitch {
        self.switch.clone()
    }

    fn queue(&mut self, name: &str) -> &mut PendingQueue {
        let version = self.version;
        self.queues
            .entry(name.to_owned())
            .or_insert_with(|| PendingQueue::new(version))
    }
}

impl Actor for Kueue {
    /// Processes all changes, then runs one task.
    fn step(&mut self) -> bool {
        self.version = self.switch.get();
        self.observe();
        self.fire_timers();
        if let Some(key) = self.again.take()
            && self.dequeue(&Task::Workload(key.clone()))
        {
            self.reconcile_workload(&key);
            return true;
        }
        while self.paused.is_none()
            && let Some(name) = self.urgent.pop_first()
        {
            if self.cycle(&name) {
                return true;
            }
        }
        if self
            .paused
            .as_ref()
            .is_some_and(|cycle| cycle.is_overtaken())
        {
            return self.schedule_one();
        }
        let Some(task) = self.todo.pop_front() else {
            if let Some(key) = self.families.pop_first() {
                self.reconcile_family(&key);
                return true;
            }
            return self.schedule_one();
        };
        self.queued.remove(&task);
        match task {
            Task::Check(name) => self.reconcile_check(&name),
            Task::ClusterQueue(name) => self.reconcile_cluster_queue(&name),
            Task::Cohort(name) => self.reconcile_cohort(&name),
            Task::Flavor(name) => self.reconcile_flavor(&name),
            Task::PriorityClass(name) => self.reconcile_priority_class(&name),
            Task::LocalQueue(key) => self.reconcile_local_queue(&key),
            Task::Workload(key) => {
                self.reconcile_workload(&key);
                // The reconciler acts on its own write before other controllers observe it, except
                // on an eviction: a job's controller is faster with the release of its quota
                // (measured on 0.19.2: five times of five).
                self.observe();
                let scheduler_first = self.version.quick_scheduler && !self.urgent.is_empty();
                let evicts =
                    self.cache.workloads.get(&key).is_some_and(|known| {
                        known.workload.has_quota() && known.workload.is_evicted()
                    });
                let queued = self.queued.contains(&Task::Workload(key.clone()));
                self.again = (queued && !scheduler_first && !evicts).then_some(key);
            }
            Task::Family(key) => {
                self.families.insert(key);
            }
            Task::RetryInadmissible(name) => self.retry_inadmissible(&name),
        }
        true
    }

    fn is_first(&self) -> bool {
        self.again.is_some()
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.goes_on_at()).min()
    }
}
