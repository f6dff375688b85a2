//! A stand-in for the scheduler and the kubelets of a namespace. The real Job controller creates
//! and deletes pods, and the real Kueue ungates those of elastic jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::harness::{Stage, now};

/// The interval between two passes.
const TICK: Duration = Duration::from_millis(50);

/// The pods of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfJob {
    /// The running pods, including those that are ending.
    pub(super) running: usize,
    /// The running pods that are ending.
    pub(super) ending: usize,
    /// The gated pods.
    pub(super) gated: usize,
}

/// The pods of each job.
pub(super) type Pods = BTreeMap<String, OfJob>;

/// Runs all pods of a namespace until it is dropped.
pub(super) struct Node {
    pub(super) pods: ObservedPods,
    task: JoinHandle<()>,
}

/// The observed pods.
#[derive(Clone, Default)]
pub(super) struct ObservedPods(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    pods: Pods,
    /// Each change of `pods`.
    history: Vec<(Instant, Pods)>,
    /// The number of pods that are to succeed, by job.
    succeed: BTreeMap<String, usize>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    /// Starts to run the pods of the stage's namespace. They take `grace` to end.
    pub(super) fn start(stage: &Stage, grace: Duration) -> Self {
        let seen = ObservedPods::default();
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": stage.namespace}});
        let mut kubelet = Kubelet {
            api: stage.api(&pod),
            seen: seen.clone(),
            grace,
            ending: BTreeMap::new(),
        };
        let task = tokio::spawn(async move {
            loop {
                kubelet.tick().await;
                sleep(TICK).await;
            }
        });
        Self { pods: seen, task }
    }
}

impl ObservedPods {
    /// Returns the running pods of a job.
    pub(super) fn of(&self, job: &str) -> OfJob {
        self.all().get(job).copied().unwrap_or_default()
    }

    /// Returns the running pods of all jobs.
    pub(super) fn all(&self) -> Pods {
        self.lock().pods.clone()
    }

    /// Returns the running pods after each change.
    pub(super) fn history(&self) -> Vec<(Instant, Pods)> {
        self.lock().history.clone()
    }

    /// Lets `pods` pods of a job succeed.
    pub(super) fn succeed(&self, job: &str, pods: usize) {
        self.lock().succeed.insert(job.to_owned(), pods);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Kubelet {
    api: Api<DynamicObject>,
    seen: ObservedPods,
    grace: Duration,
    /// When each pod was to end, by UID.
    ending: BTreeMap<String, Instant>,
}

impl Kubelet {
    async fn tick(&mut self) {
        // The next pass will retry.
        let Ok(pods) = self.api.list(&ListParams::default()).await else {
            return;
        };
        let mut seen = Pods::new();
        for pod in pods {
            let pod = serde_json::to_value(pod).unwrap();
            let job = pod["metadata"]["ownerReferences"][0]["name"].as_str();
            let job = job.unwrap_or_default().to_owned();
            let of_job = seen.entry(job.clone()).or_default();
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            let runs = phase == "Running";
            of_job.running += usize::from(runs);
            if pod["metadata"]["deletionTimestamp"].is_string() {
                of_job.ending += usize::from(runs);
                self.end(&pod).await;
            } else if pod["spec"]["nodeName"].is_null() {
                let gates = pod["spec"]["schedulingGates"].as_array();
                if gates.is_some_and(|gates| !gates.is_empty()) {
                    of_job.gated += 1;
                } else {
                    self.bind(&pod).await;
                }
            } else if phase == "Pending" {
                self.phase(&pod, "Running").await;
            } else if runs && self.may_succeed(&job) {
                self.phase(&pod, "Succeeded").await;
            }
        }
        seen.retain(|_, of_job| *of_job != OfJob::default());
        let mut shared = self.seen.lock();
        if shared.pods != seen {
            shared.pods.clone_from(&seen);
            shared.history.push((Instant::now(), seen));
        }
    }

    fn may_succeed(&self, job: &str) -> bool {
        let mut shared = self.seen.lock();
        let left = shared.succeed.get_mut(job).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }

    async fn bind(&self, pod: &Value) {
        let name = name(pod);
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"}});
        let bound: Result<Value, _> = self
            .api
            .create_subresource("binding", name, &PostParams::default(), &binding)
            .await;
        drop(bound);
    }

    async fn phase(&self, pod: &Value, phase: &str) {
        let ready = if phase == "Running" { "True" } else { "False" };
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": now()});
        let status = json!({"status": {"phase": phase, "startTime": now(), "conditions": [ready]}});
        let patch = Patch::Merge(status);
        let parameters = PatchParams::default();
        drop(self.api.patch_status(name(pod), &parameters, &patch).await);
    }

    /// Deletes the pod after its grace period.
    async fn end(&mut self, pod: &Value) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let since = self.ending.entry(uid.to_owned());
        if since.or_insert_with(Instant::now).elapsed() >= self.grace {
            let at_once = DeleteParams::default().grace_period(0);
            drop(self.api.delete(name(pod), &at_once).await);
        }
    }
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}
