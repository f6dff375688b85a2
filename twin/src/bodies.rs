//! Paths and objects of requests.

use serde_json::{Value, json};

/// A resource that a ClusterQueue covers.
pub(crate) const CPU: &str = "cpu";
/// A resource of the second group, if there is one.
pub(crate) const GPU: &str = "example.com/gpu";

/// Returns the path of a resource of Kueue's API without a Namespace.
pub(crate) fn cluster_path(plural: &str) -> String {
    format!("/apis/kueue.x-k8s.io/v1beta2/{plural}")
}

/// Returns the path of a resource of Kueue's API in the history's Namespace.
pub(crate) fn namespaced_path(plural: &str) -> String {
    format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/t@/{plural}")
}

/// Returns the path of a Job in the history's Namespace.
pub(crate) fn job_path(name: &str) -> String {
    format!("/apis/batch/v1/namespaces/t@/jobs/{name}")
}

/// Returns the path at which an object is created.
pub(crate) fn collection(object: &Value) -> String {
    match object["kind"].as_str().unwrap_or_default() {
        "ResourceFlavor" => cluster_path("resourceflavors"),
        "AdmissionCheck" => cluster_path("admissionchecks"),
        "ClusterQueue" => cluster_path("clusterqueues"),
        "Cohort" => cluster_path("cohorts"),
        "WorkloadPriorityClass" => cluster_path("workloadpriorityclasses"),
        "PriorityClass" => "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
        "LocalQueue" => namespaced_path("localqueues"),
        "Workload" => namespaced_path("workloads"),
        "Job" => "/apis/batch/v1/namespaces/t@/jobs".to_owned(),
        "Pod" => "/api/v1/namespaces/t@/pods".to_owned(),
        _ => "/api/v1/namespaces".to_owned(),
    }
}

/// Returns an object of Kueue's API without a Namespace.
pub(crate) fn cluster_object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

/// Returns an object of Kueue's API in the history's Namespace.
pub(crate) fn namespaced_object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": "t@"}, "spec": spec,
    })
}

/// The Pods of one pod set.
#[derive(Clone, Debug)]
pub(crate) struct Pods {
    /// The name of the pod set.
    pub(crate) name: &'static str,
    /// Their number.
    pub(crate) count: u64,
    /// The minimum number to start with, if less than `count`.
    pub(crate) least: Option<u64>,
    /// The requests of each Pod, by resource.
    pub(crate) requests: Value,
    /// The labels of the nodes on which they may run.
    pub(crate) selector: Option<Value>,
    /// The cpu request of the init container of each Pod, if it has one.
    pub(crate) init: Option<&'static str>,
    /// Their tolerations.
    pub(crate) tolerations: Option<Value>,
}

impl Pods {
    fn template(&self) -> Value {
        let mut resources = json!({"requests": self.requests});
        // The API server requires limits for extended resources.
        let others = self.requests.as_object().into_iter().flatten();
        for (name, amount) in others.filter(|(name, _)| name.contains('/')) {
            resources["limits"][name] = amount.clone();
        }
        let container = json!({"name": "c", "image": "pause", "resources": resources});
        let mut spec = json!({"restartPolicy": "Never", "containers": [container]});
        if let Some(cpu) = self.init {
            let resources = json!({"requests": {CPU: cpu}});
            spec["initContainers"] =
                json!([{"name": "i", "image": "pause", "resources": resources}]);
        }
        if let Some(selector) = &self.selector {
            spec["nodeSelector"] = selector.clone();
        }
        if let Some(tolerations) = &self.tolerations {
            spec["tolerations"] = tolerations.clone();
        }
        json!({"spec": spec})
    }
}

/// Returns a Workload that no job owns.
pub(crate) fn workload(name: &str, queue: &str, priority: Option<i64>, sets: &[Pods]) -> Value {
    let sets: Vec<Value> = sets
        .iter()
        .map(|pods| {
            let mut set =
                json!({"name": pods.name, "count": pods.count, "template": pods.template()});
            if let Some(least) = pods.least {
                set["minCount"] = json!(least);
            }
            set
        })
        .collect();
    let mut spec = json!({"queueName": queue, "podSets": sets});
    if let Some(priority) = priority {
        spec["priority"] = json!(priority);
    }
    namespaced_object("Workload", name, spec)
}

/// Returns the Pods of a group: each pod set is a role.
pub(crate) fn group(name: &str, queue: &str, sets: &[Pods]) -> Vec<Value> {
    let total: u64 = sets.iter().map(|pods| pods.count).sum();
    let pod = |pods: &Pods, number: u64| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{}-{}-{number}@", name.trim_end_matches('@'), pods.name),
                "namespace": "t@",
                "labels": {
                    "kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/pod-group-name": name,
                },
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": total.to_string()},
            },
            "spec": pods.template()["spec"],
        })
    };
    let of_set = |pods: &Pods| -> Vec<Value> { (0..pods.count).map(|n| pod(pods, n)).collect() };
    sets.iter().flat_map(of_set).collect()
}

/// Returns a Pod without a job and without a group.
pub(crate) fn single_pod(name: &str, queue: &str, pods: &Pods) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "t@", "labels": {"kueue.x-k8s.io/queue-name": queue},
        },
        "spec": pods.template()["spec"],
    })
}

/// Returns a batch/v1 Job.
pub(crate) fn job(name: &str, queue: &str, class: Option<&str>, pods: &Pods) -> Value {
    let mut labels = json!({"kueue.x-k8s.io/queue-name": queue});
    if let Some(class) = class {
        labels["kueue.x-k8s.io/priority-class"] = json!(class);
    }
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "t@", "labels": labels},
        "spec": {
            "suspend": true, "parallelism": pods.count, "completions": pods.count,
            "template": pods.template(),
        },
    });
    if let Some(least) = pods.least {
        let least = least.to_string();
        job["metadata"]["annotations"] = json!({"kueue.x-k8s.io/job-min-parallelism": least});
    }
    job
}
