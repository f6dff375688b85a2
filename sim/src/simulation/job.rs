//! Jobs that users submit.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::QUEUE;

/// A batch/v1 Job. Default: one pod of one CPU, in the Namespace `default`, for the LocalQueue `queue`.
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
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    node_selector: BTreeMap<String, String>,
}

impl Job {
    /// A Job of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: "default".to_owned(),
            queue: QUEUE.to_owned(),
            pods: 1,
            cpus: 1,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            node_selector: BTreeMap::new(),
        }
    }

    /// In another Namespace, which needs a LocalQueue of its own.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// For another LocalQueue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// How many pods run together.
    pub fn pods(mut self, pods: u32) -> Self {
        self.pods = pods;
        self
    }

    /// CPUs for each pod.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// A label of the Job.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// An annotation of the Job.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// A node selector of its pods.
    pub fn node_selector(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.node_selector.insert(key.into(), value.into());
        self
    }

    /// The object.
    pub fn to_object(&self) -> Value {
        let mut labels = self.labels.clone();
        labels.insert("kueue.x-k8s.io/queue-name".to_owned(), self.queue.clone());
        let container = json!({"name": "main", "image": "job", "resources": {"requests": {"cpu": self.cpus.to_string()}}});
        let mut pod = json!({"restartPolicy": "Never", "containers": [container]});
        if !self.node_selector.is_empty() {
            pod["nodeSelector"] = json!(self.node_selector);
        }
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": self.annotations},
            "spec": {"suspend": true, "parallelism": self.pods, "completions": self.pods, "template": {"spec": pod}},
        })
    }
}
