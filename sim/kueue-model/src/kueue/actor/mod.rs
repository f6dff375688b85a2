//! The actor: keeps up with the cluster, and carries out what the decisions say.

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
mod second_pass;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::Clock;

use self::cache::Cache;
use super::KueueVersion;
use super::api::{Api, Recorder};
use super::objects::{CheckEntry, Workload};
use super::queue::PendingQueue;
use super::scheduler::LastTried;
use kueue_check_apiserver::ApiServer;

pub use run::{Actor, Pace, run, run_at};

/// Something to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// An AdmissionCheck needs its finalizer.
    Check(String),
    /// A ClusterQueue.
    ClusterQueue(String),
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
    cache: Cache,
    recorder: Recorder,
    queues: BTreeMap<String, PendingQueue>,
    /// In the order in which they came, each once.
    todo: std::collections::VecDeque<Task>,
    queued: BTreeSet<Task>,
    timers: BTreeSet<(Timestamp, Task)>,
    /// Workloads whose variants are looked at once there is nothing else to do: of the controllers
    /// that change variants, which run side by side, the one of variants is the last here.
    families: BTreeSet<String>,
    /// ClusterQueues with something to schedule.
    ready: BTreeSet<String>,
    /// What the checks of waiting Workloads said when these were last queued, for a scheduler that
    /// is behind.
    queued_checks: BTreeMap<String, Vec<CheckEntry>>,
    /// Workloads that have been in a queue, or before a LocalQueue when it was opened.
    assigned: BTreeSet<String>,
    /// ClusterQueues whose first Workload blocks them and has changed: the scheduler tries it
    /// without end, so that it is there before the reconciler.
    urgent: BTreeSet<String>,
    /// Workloads that came into an empty queue, as the scheduler has copied them.
    copies: BTreeMap<String, Arc<Workload>>,
    /// The ends of delays that were written for Workloads that are not active.
    delays_written: BTreeMap<String, Timestamp>,
    /// Where the search of flavors goes on for Workloads that others were before.
    last_tried: BTreeMap<String, LastTried>,
}

impl Kueue {
    /// Kueue of a cluster.
    pub fn new(server: &ApiServer, clock: &Clock, version: KueueVersion) -> Self {
        Self {
            api: Api::new(server, clock, "kueue"),
            version,
            cache: Cache::new(server, version),
            recorder: Recorder::default(),
            queues: BTreeMap::new(),
            todo: std::collections::VecDeque::new(),
            queued: BTreeSet::new(),
            timers: BTreeSet::new(),
            families: BTreeSet::new(),
            ready: BTreeSet::new(),
            queued_checks: BTreeMap::new(),
            assigned: BTreeSet::new(),
            urgent: BTreeSet::new(),
            copies: BTreeMap::new(),
            delays_written: BTreeMap::new(),
            last_tried: BTreeMap::new(),
        }
    }

    fn enqueue(&mut self, task: Task) {
        if self.queued.insert(task.clone()) {
            self.todo.push_back(task);
        }
    }

    fn later(&mut self, at: Timestamp, task: Task) {
        self.timers.insert((at, task));
    }

    fn fire_timers(&mut self) {
        let now = self.api.now();
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, task)) = self.timers.pop_first() {
                self.enqueue(task);
            }
        }
    }

    fn queue(&mut self, name: &str) -> &mut PendingQueue {
        let hashing = self.version.equivalence_hashing;
        self.queues
            .entry(name.to_owned())
            .or_insert_with(|| PendingQueue::new(hashing))
    }
}

impl Actor for Kueue {
    /// Sees all changes, then does one thing.
    fn step(&mut self) -> bool {
        self.observe();
        self.fire_timers();
        while let Some(name) = self.urgent.pop_first() {
            if self.cycle(&name) {
                return true;
            }
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
            Task::Flavor(name) => self.reconcile_flavor(&name),
            Task::PriorityClass(name) => self.reconcile_priority_class(&name),
            Task::LocalQueue(key) => self.reconcile_local_queue(&key),
            Task::Workload(key) => {
                self.reconcile_workload(&key);
                // What follows from its own write it does before others have seen that.
                self.observe();
                let again = Task::Workload(key.clone());
                let scheduler_first = self.version.quick_scheduler && !self.urgent.is_empty();
                if !scheduler_first && self.queued.remove(&again) {
                    self.todo.retain(|task| *task != again);
                    self.reconcile_workload(&key);
                }
            }
            Task::Family(key) => {
                self.families.insert(key);
            }
            Task::RetryInadmissible(name) => self.retry_inadmissible(&name),
        }
        true
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }
}
