//! Nodes that run everything at once: what the Job controller, the scheduler and the kubelets would do.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kueue_check::Clock;
use serde_json::{Value, json};

use super::integration::Integration;
use super::step::key_of;
use crate::apiserver::{ApiServer, Watch, WatchOptions};
use crate::kueue::Actor;
use crate::kueue::api::{Api, jobs};

/// Plays Job controller, scheduler and kubelets for a cluster with room for everything: a started Job has its Pods ready at once, a stopped one has none, and a
/// Pod without gates runs. Nothing ends by itself: see [`finish`](super::finish) and [`fail`](super::fail).
///
/// Pods of Jobs are not made: only the Job's status counts them.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use std::time::Duration;
/// use kueue_check_sim::jobs::Nodes;
/// use kueue_check_sim::{Job, Simulation};
///
/// Simulation::new(|| open).actor(Nodes::new).run(async |cluster| {
///     cluster.submit(Job::new("train").pods(4));
///     cluster.expect_admitted("train").await;
///     cluster.advance(Duration::from_secs(1)).await;
///     assert!(cluster.condition("train", "PodsReady")); // without nodes it stays False
/// });
/// ```
pub struct Nodes {
    api: Api,
    watches: Vec<(Integration, Watch)>,
    todo: BTreeSet<(Integration, String)>,
    seen: BTreeMap<(Integration, String), std::sync::Arc<Value>>,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

impl Nodes {
    /// The nodes of a cluster.
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
        }
    }

    fn observe(&mut self) {
        for (integration, watch) in &mut self.watches {
            while let Some(event) = watch.ready() {
                let place = (*integration, key_of(&event.object));
                if event.kind == "DELETED" {
                    self.seen.remove(&place);
                    self.todo.remove(&place);
                } else {
                    self.seen.insert(place.clone(), event.object);
                    self.todo.insert(place);
                }
            }
        }
    }
}

/// What the status of a Job has to be, if it is not.
fn job_status(job: &Value, now: &str) -> Option<Value> {
    let status = &job["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    if conditions.any(|c| matches!(c["type"].as_str(), Some("Complete" | "Failed"))) {
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

/// The same of a Pod.
fn pod_status(pod: &Value, now: &str) -> Option<Value> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    let gated = gates.is_some_and(|gates| !gates.is_empty());
    if gated || pod["status"]["phase"] != "Pending" {
        return None;
    }
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
    Some(json!({"phase": "Running", "startTime": now, "conditions": [ready]}))
}

impl Actor for Nodes {
    fn step(&mut self) -> bool {
        self.observe();
        let Some(place) = self.todo.pop_first() else {
            return false;
        };
        let now = format!("{:.0}", self.api.now());
        let Some(object) = self.seen.get(&place) else {
            return true;
        };
        let (integration, _) = place;
        let (status, resource) = match integration {
            Integration::Job => (job_status(object, &now), jobs()),
            Integration::Pod => (pod_status(object, &now), integration.resource()),
        };
        if let Some(status) = status {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let name = (text("namespace"), text("name"));
            self.api
                .merge(&resource, name, "status", &json!({"status": status}));
        }
        true
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        None
    }
}
