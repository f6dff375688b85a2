//! Jobs of users.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::QUEUE;

/// The annotation of an elastic job.
const ELASTIC: &str = "kueue.x-k8s.io/elastic-job";

/// A batch/v1 Job. Default: one pod of one CPU, in the Namespace `default`, for the LocalQueue
/// `queue`.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use kueue_check_sim::{Job, Simulation};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train").namespace("team-a").pods(4));
///     cluster.expect_admitted("team-a/train").await;
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Job {
    pub(crate) name: String,
    pub(crate) namespace: String,
    queue: String,
    pods: u32,
    cpus: u32,
    elastic: bool,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    node_selector: BTreeMap<String, String>,
}

impl Job {
    /// Returns a Job with that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: "default".to_owned(),
            queue: QUEUE.to_owned(),
            pods: 1,
            cpus: 1,
            elastic: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            node_selector: BTreeMap::new(),
        }
    }

    /// Sets another Namespace, which requires a LocalQueue of its own.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets another LocalQueue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Sets the number of pods that run together.
    pub fn pods(mut self, pods: u32) -> Self {
        self.pods = pods;
        self
    }

    /// Sets the CPUs of each pod.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Lets it grow and shrink while it runs: see [`Cluster::scale`](super::Cluster::scale).
    pub fn elastic(mut self) -> Self {
        self.elastic = true;
        self
    }

    /// Adds a label to the Job.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation to the Job.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Adds a node selector to its pods.
    pub fn node_selector(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.node_selector.insert(key.into(), value.into());
        self
    }

    /// Returns the object.
    pub fn to_object(&self) -> Value {
        let mut labels = self.labels.clone();
        labels.insert("kueue.x-k8s.io/queue-name".to_owned(), self.queue.clone());
        let container = json!({"name": "main", "image": "job", "resources": {"requests": {"cpu": self.cpus.to_string()}}});
        let mut pod = json!({"restartPolicy": "Never", "containers": [container]});
        if !self.node_selector.is_empty() {
            pod["nodeSelector"] = json!(self.node_selector);
        }
        let mut annotations = self.annotations.clone();
        let mut spec =
            json!({"suspend": true, "parallelism": self.pods, "template": {"spec": pod}});
        if self.elastic {
            // Its pods run until one succeeds, so their number has no limit.
            annotations.insert(ELASTIC.to_owned(), "true".to_owned());
        } else {
            spec["completions"] = json!(self.pods);
        }
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": annotations},
            "spec": spec,
        })
    }
}
