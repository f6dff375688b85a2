//! Simulated nodes that run every Pod at once: Job controller, scheduler and kubelets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kueue_check::Clock;
use serde_json::{Value, json};

use super::integration::Integration;
use super::job_pods::{is_over, plan, pod_of};
use super::slices::is_annotated;
use super::step::key_of;
use crate::kueue::Actor;
use crate::kueue::api::{Api, jobs};
use crate::kueue::objects::{Metadata, read};
use kueue_check_apiserver::{ApiServer, Resource, Watch, WatchOptions};

/// A simulated Job controller, scheduler and kubelets of a cluster with unlimited capacity.
///
/// All Pods of a started Job are ready at once, a stopped Job has none, and a Pod without gates
/// runs. Nothing ends by itself: see [`finish`](super::finish) and [`fail`](super::fail).
///
/// Only elastic Jobs get Pods, because Kueue removes the gates of these one by one. For other Jobs
/// only the status counts them.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use std::time::Duration;
/// use kueue_check_sim::{Job, Simulation};
///
/// for (simulation, runs) in [
///     (Simulation::new(|| open), true), // which has such nodes
///     (Simulation::new(|| open).without_nodes(), false),
/// ] {
///     simulation.run(async |cluster| {
///         cluster.submit(Job::new("train").pods(4));
///         cluster.expect_admitted("train").await;
///         cluster.advance(Duration::from_secs(1)).await;
///         assert_eq!(cluster.condition("train", "PodsReady"), runs);
///     });
/// }
/// ```
pub struct Nodes {
    api: Api,
    watches: Vec<(Integration, Watch)>,
    todo: BTreeSet<(Integration, String)>,
    seen: BTreeMap<(Integration, String), std::sync::Arc<Value>>,
    /// How long a Pod of an elastic Job keeps running after it starts to end.
    grace: SignedDuration,
    /// Pods that are ending, with the time at which they are deleted.
    ending: BTreeMap<String, Timestamp>,
    made: u64,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

impl Nodes {
    /// Creates the nodes of a cluster.
    pub fn new(server: &ApiServer, clock: &Clock) -> Self {
        let watches = Integration::ALL.into_iter().filter_map(|integration| {
            let options = WatchOptions::all(&integration.resource());
            Some((integration, server.watch(options).ok()?))
        });
        Self {
            api: Api::new(server, clock, "nodes"),
            watches: watches.collect(),
            todo: BTreeSet::new(),
            seen: BTreeMap::new(),
            grace: SignedDuration::ZERO,
            ending: BTreeMap::new(),
            made: 0,
        }
    }

    /// Sets how long a running Pod of an elastic Job takes to end.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = SignedDuration::try_from(grace).unwrap_or_default();
        self
    }

    fn observe(&mut self) {
        for (integration, watch) in &mut self.watches {
            while let Some(event) = watch.ready() {
                let place = (*integration, key_of(&event.object));
                if let Some(job) = job_of(&event.object) {
                    self.todo.insert((Integration::Job, job));
                }
                if event.kind == "DELETED" {
                    self.seen.remove(&place);
                    self.todo.remove(&place);
                    self.ending.remove(&place.1);
                } else {
                    self.seen.insert(place.clone(), event.object);
                    self.todo.insert(place);
                }
            }
        }
    }
}

impl Nodes {
    /// Creates and ends the Pods of an elastic Job.
    fn run_elastic(&mut self, job: &Value) {
        let namespace = job["metadata"]["namespace"].as_str().unwrap_or_default();
        let key = key_of(job);
        let all = self.seen.iter();
        let owned = all.filter(|((integration, _), pod)| {
            *integration == Integration::Pod && job_of(pod).as_ref() == Some(&key)
        });
        let pods: Vec<std::sync::Arc<Value>> = owned.map(|(_, pod)| pod.clone()).collect();
        let pods: Vec<&Value> = pods.iter().map(std::convert::AsRef::as_ref).collect();
        let prefix = format!("{namespace}/");
        let names = self
            .ending
            .keys()
            .filter_map(|key| key.strip_prefix(&prefix));
        let ending = names.map(str::to_owned).collect();
        let plan = plan(job, &pods, &ending);
        let resource = Integration::Pod.resource();
        for _ in 0..plan.create {
            self.made += 1;
            self.api.create(&resource, pod_of(job, self.made));
        }
        let runs = |name: &str| {
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
            pod.is_some_and(|pod| pod["status"]["phase"] == "Running")
        };
        for name in plan.end {
            if self.grace.is_zero() || !runs(&name) || is_over(job) {
                self.api.delete(&resource, namespace, &name);
            } else {
                let gone = self
                    .api
                    .now()
                    .saturating_add(self.grace)
                    .unwrap_or_default();
                self.ending.insert(format!("{namespace}/{name}"), gone);
            }
        }
        if let Some(mut status) = plan.status {
            let now = format!("{:.0}", self.api.now());
            let started = job["spec"]["suspend"] != true;
            status["startTime"] = if started { json!(now) } else { Value::Null };
            self.set_status(&jobs(), job, &status);
        }
    }

    /// Deletes one Pod whose grace period is over; returns true if there was one.
    fn end_one(&mut self) -> bool {
        let now = self.api.now();
        let due = self.ending.iter().find(|(_, at)| **at <= now);
        let Some(key) = due.map(|(key, _)| key.clone()) else {
            return false;
        };
        self.ending.remove(&key);
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        self.api
            .delete(&Integration::Pod.resource(), namespace, name);
        true
    }

    fn set_status(&self, resource: &Resource, object: &Value, status: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let name = (text("namespace"), text("name"));
        self.api
            .merge(resource, name, "status", json!({"status": status}));
    }
}

/// Returns the key of the Job that owns the Pod.
fn job_of(pod: &Value) -> Option<String> {
    let metadata: Metadata = read(&pod["metadata"]);
    let owner = metadata.controller().filter(|owner| owner.kind == "Job")?;
    Some(format!("{}/{}", metadata.namespace, owner.name))
}

/// Returns the status of a Job, or `None` if it is up to date.
fn job_status(job: &Value, now: &str) -> Option<Value> {
    let status = &job["status"];
    if is_over(job) {
        return None;
    }
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    let runs = job["spec"]["suspend"] != true && job["metadata"]["deletionTimestamp"].is_null();
    let wanted = if runs {
        job["spec"]["parallelism"].as_i64().unwrap_or(1)
    } else {
        0
    };
    if count("active") == wanted && count("ready") == wanted {
        return None;
    }
    let start = if runs { json!(now) } else { Value::Null };
    Some(json!({"active": wanted, "ready": wanted, "startTime": start}))
}

/// Returns the status of a Pod, or `None` if it is up to date.
fn pod_status(pod: &Value, now: &str) -> Option<Value> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    let gated = gates.is_some_and(|gates| !gates.is_empty());
    let deleted = !pod["metadata"]["deletionTimestamp"].is_null();
    if deleted && pod["status"]["phase"] == "Running" {
        // Its containers are terminated.
        return Some(json!({"phase": "Failed"}));
    }
    if gated || pod["status"]["phase"] != "Pending" {
        return None;
    }
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
    Some(json!({"phase": "Running", "startTime": now, "conditions": [ready]}))
}

impl Actor for Nodes {
    fn step(&mut self) -> bool {
        self.observe();
        if self.end_one() {
            return true;
        }
        let Some(place) = self.todo.pop_first() else {
            return false;
        };
        let now = format!("{:.0}", self.api.now());
        let Some(object) = self.seen.get(&place).cloned() else {
            return true;
        };
        let (integration, _) = place;
        let object = &*object;
        if integration == Integration::Job && is_annotated(object) {
            self.run_elastic(object);
            return true;
        }
        let (status, resource) = match integration {
            Integration::Job => (job_status(object, &now), jobs()),
            Integration::Pod | Integration::PodGroup => {
                (pod_status(object, &now), integration.resource())
            }
        };
        if let Some(status) = status {
            self.set_status(&resource, object, &status);
        }
        true
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        self.ending.values().min().copied()
    }
}
