//! All job integrations as one actor.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kueue_check::Clock;
use serde_json::Value;

use super::integration::Integration;
use super::pod_group::{group_of, is_of_a_group};
use super::slices::is_elastic;
use super::step::{Owned, Step, key_of};
use super::ungater::Ungater;
use crate::kueue::api::{Api, Recorder, kueue};
use crate::kueue::objects::{Metadata, Workload, read};
use crate::kueue::{Actor, KueueVersion};
use kueue_check_apiserver::{ApiServer, Watch, WatchOptions};

/// Kueue's job integrations: create the Workload of a job, start the job and stop it.
///
/// Jobs are batch/v1 Jobs with a queue, and Pods that the [webhook](crate::kueue::Webhook) has
/// gated, alone or in groups.
///
/// It runs no Pods: see [`Nodes`](super::Nodes) for that.
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
/// use kueue_check_sim::jobs::Jobs;
/// use kueue_check_sim::kueue::run;
///
/// let server = ApiServer::with_definitions(clock.clone(), definitions::kueue());
/// tokio::spawn(run(Jobs::new(&server, &clock), server.clone(), clock));
/// # let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job"}]}});
/// let job = json!({
///     "apiVersion": "batch/v1", "kind": "Job",
///     "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
///     "spec": {"suspend": true, "parallelism": 4, "template": pod},
/// });
/// server.call(&ApiRequest::new(Verb::Create, &Resource::new("batch", "v1", "jobs")).namespace("default").body(job));
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// let workloads = server.objects(&Resource::new("kueue.x-k8s.io", "v1beta2", "workloads"), "default");
/// assert!(workloads[0]["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("job-train-")));
/// assert_eq!(workloads[0]["spec"]["podSets"][0]["count"], 4);
/// # }
/// ```
pub struct Jobs {
    api: Api,
    version: KueueVersion,
    recorder: Recorder,
    watches: Vec<(Integration, Watch)>,
    workloads_watch: Option<Watch>,
    objects: BTreeMap<(Integration, String), Arc<Value>>,
    /// Workloads by the UID of the owner, then by name.
    workloads: BTreeMap<String, BTreeMap<String, Arc<Value>>>,
    /// All Workloads by key, to find the one with the name of a group.
    groups: BTreeMap<String, Arc<Value>>,
    todo: VecDeque<Task>,
    queued: BTreeSet<Task>,
    ungater: Ungater,
    /// When to finish the replaced slices of a job, if that is delayed.
    replacements: BTreeMap<Task, Timestamp>,
    /// The number of failures of a task in a row, and the time of its next attempt.
    failures: BTreeMap<Task, (u32, Timestamp)>,
}

/// Returns the delay after a number of failures in a row, that of controller-runtime's default rate
/// limiter.
fn delay(failures: u32) -> SignedDuration {
    let millis = 5_i64.saturating_mul(1 << failures.saturating_sub(1).min(18));
    SignedDuration::from_millis(millis.min(1_000_000))
}

/// The maximum delay of the job reconciler after the scheduler, where their order matters.
const MAX_RECONCILE_DELAY: SignedDuration = SignedDuration::from_millis(200);

/// A job to be reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Task {
    integration: Integration,
    key: String,
    uid: String,
}

impl Task {
    fn of_group(namespace: &str, name: &str) -> Self {
        Self {
            integration: Integration::PodGroup,
            key: format!("{namespace}/{name}"),
            uid: String::new(),
        }
    }
}

/// Returns the task to reconcile the group of a Pod.
fn group_task(pod: &Value, version: KueueVersion) -> Option<Task> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    group_of(pod, version).map(|name| Task::of_group(namespace, name))
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

impl Jobs {
    /// Creates the integrations of Kueue 0.19.2.
    pub fn new(server: &ApiServer, clock: &Clock) -> Self {
        Self::of_version(server, clock, KueueVersion::default())
    }

    /// Creates the integrations of another Kueue version.
    pub fn of_version(server: &ApiServer, clock: &Clock, version: KueueVersion) -> Self {
        let watches = Integration::ALL.into_iter().filter_map(|integration| {
            let options = WatchOptions::all(&integration.resource());
            Some((integration, server.watch(options).ok()?))
        });
        Self {
            api: Api::new(server, clock, "kueue"),
            version,
            recorder: Recorder::new(version),
            watches: watches.collect(),
            workloads_watch: server.watch(WatchOptions::all(&kueue("workloads"))).ok(),
            objects: BTreeMap::new(),
            workloads: BTreeMap::new(),
            groups: BTreeMap::new(),
            todo: VecDeque::new(),
            queued: BTreeSet::new(),
            ungater: Ungater::new(server, clock, version),
            replacements: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    fn observe(&mut self) {
        let mut seen = Vec::new();
        for (integration, watch) in &mut self.watches {
            while let Some(event) = watch.ready() {
                seen.push((*integration, event));
            }
        }
        for (integration, event) in seen {
            let key = key_of(&event.object);
            let group =
                (integration == Integration::Pod).then(|| group_task(&event.object, self.version));
            let uid = event.object["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let place = (integration, key.clone());
            if event.kind == "DELETED" {
                self.objects.remove(&place);
            } else {
                self.objects.insert(place, event.object);
            }
            self.enqueue(group.flatten().unwrap_or(Task {
                integration,
                key,
                uid,
            }));
        }
        while let Some(event) = self.workloads_watch.as_mut().and_then(Watch::ready) {
            self.workload_changed(event.kind, event.object);
        }
    }

    fn workload_changed(&mut self, kind: &str, object: Arc<Value>) {
        let metadata: Metadata = read(&object["metadata"]);
        // The Workload of a group has the group's name. The deletion of another Workload of that
        // name ends a conflict (0.19.2, `queueReconcileForBlockedPodGroup` in
        // `pkg/controller/jobs/pod/event_handlers.go`; not 0.18.3, which sees none).
        let group = Task::of_group(&metadata.namespace, &metadata.name);
        if kind == "DELETED" {
            self.groups.remove(&group.key);
        } else {
            self.groups.insert(group.key.clone(), Arc::clone(&object));
        }
        let unblocks = kind == "DELETED" && self.version.refuses_other_workloads;
        if unblocks || is_of_a_group(&object) {
            self.enqueue(group);
        }
        let Some(owner) = metadata.controller() else {
            return;
        };
        let mut integrations = Integration::ALL.into_iter();
        let Some(integration) = integrations.find(|i| i.owner().kind == owner.kind) else {
            return;
        };
        let owned = self.workloads.entry(owner.uid.clone()).or_default();
        if kind == "DELETED" {
            owned.remove(&metadata.name);
            if owned.is_empty() {
                self.workloads.remove(&owner.uid);
            }
        } else {
            owned.insert(metadata.name.clone(), object);
        }
        self.enqueue(Task {
            integration,
            key: format!("{}/{}", metadata.namespace, owner.name),
            uid: owner.uid.clone(),
        });
    }

    fn enqueue(&mut self, task: Task) {
        if self.queued.insert(task.clone()) {
            self.todo.push_back(task);
        }
    }

    /// Returns the Workloads of a job, the oldest first.
    fn owned_by(&self, uid: &str) -> Vec<(Workload, Arc<Value>)> {
        let owned = self.workloads.get(uid).into_iter();
        let owned = owned.flat_map(BTreeMap::values);
        let mut all: Vec<_> = owned
            .map(|raw| (read::<Workload>(raw), Arc::clone(raw)))
            .collect();
        all.sort_by_key(|(workload, _)| workload.age());
        all
    }

    /// Returns true if finishing a replaced slice is still delayed.
    fn is_too_early(&mut self, task: &Task, all: &[(Workload, Arc<Value>)]) -> bool {
        let holds =
            |(workload, _): &&(Workload, _)| workload.has_quota() && !workload.is_finished();
        if !self.version.late_replacement || all.iter().filter(holds).count() < 2 {
            self.replacements.remove(task);
            return false;
        }
        let now = self.api.now();
        let due = now.saturating_add(MAX_RECONCILE_DELAY).unwrap_or_default();
        let at = *self.replacements.entry(task.clone()).or_insert(due);
        if at <= now {
            self.replacements.remove(task);
        }
        at > now
    }

    /// Reconciles a group. Returns false if that failed.
    fn reconcile_group(&mut self, group: &Task) -> bool {
        let Some((namespace, name)) = group.key.split_once('/') else {
            return true;
        };
        let first = (Integration::Pod, format!("{namespace}/"));
        let of_namespace = |(place, _): &(&(Integration, String), _)| {
            place.0 == Integration::Pod && place.1.starts_with(&first.1)
        };
        let pods = self.objects.range(first.clone()..).take_while(of_namespace);
        let of_group = |pod: &&Arc<Value>| group_of(pod, self.version) == Some(name);
        let pods: Vec<Arc<Value>> = pods.map(|(_, pod)| pod).filter(of_group).cloned().collect();
        let raw = self.groups.get(&group.key).cloned();
        let mut step = Step {
            api: &self.api,
            version: self.version,
            recorder: &mut self.recorder,
            integration: Integration::PodGroup,
            failed: false,
        };
        step.reconcile_group(name, &pods, raw.as_deref());
        !step.failed
    }

    /// Reconciles a job. Returns false if that failed.
    fn reconcile(&mut self, task: &Task) -> bool {
        if task.integration == Integration::PodGroup {
            return self.reconcile_group(task);
        }
        let place = (task.integration, task.key.clone());
        let object = self.objects.get(&place);
        let object = object
            .filter(|o| o["metadata"]["uid"] == task.uid.as_str())
            .cloned();
        let all = self.owned_by(&task.uid);
        let elastic = object
            .as_deref()
            .is_some_and(|job| is_elastic(job, self.version));
        let early = elastic && self.is_too_early(task, &all);
        let mut step = Step {
            api: &self.api,
            version: self.version,
            recorder: &mut self.recorder,
            integration: task.integration,
            failed: false,
        };
        match object {
            Some(object) if !Integration::is_deleted(&object) => {
                if task.integration.manages(&object) && !early {
                    step.reconcile(&object, &all);
                }
            }
            gone => {
                self.replacements.remove(task);
                // One after the other: the scheduler may act in between (measured on 0.19.2).
                all.iter()
                    .any(|(workload, raw)| step.abandon(Owned { workload, raw }));
                if let Some(object) = gone {
                    step.let_job_go(&object);
                }
            }
        }
        !step.failed
    }
}

impl Actor for Jobs {
    fn step(&mut self) -> bool {
        self.observe();
        if self.ungater.step() {
            return true;
        }
        let now = self.api.now();
        let due = self.replacements.iter().filter(|(_, at)| **at <= now);
        let again = self.failures.iter().filter(|(_, (_, at))| *at <= now);
        let due = due.map(|(task, _)| task.clone());
        let due: Vec<Task> = due.chain(again.map(|(task, _)| task.clone())).collect();
        for task in due {
            self.enqueue(task);
        }
        let Some(task) = self.todo.pop_front() else {
            return false;
        };
        self.queued.remove(&task);
        if self.reconcile(&task) {
            self.failures.remove(&task);
        } else {
            let before = self
                .failures
                .get(&task)
                .map_or(0, |(failures, _)| *failures);
            let failures = before.saturating_add(1);
            let at = now.saturating_add(delay(failures)).unwrap_or(now);
            self.failures.insert(task, (failures, at));
        }
        true
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        let replacements = self.replacements.values().copied();
        let failures = self.failures.values().map(|(_, at)| *at);
        let retries = replacements.chain(failures);
        retries.chain(self.ungater.wakes_at()).min()
    }
}
