//! Objects as they are sent.

use serde_json::{Value, json};

/// A resource that a ClusterQueue covers.
pub(crate) const CPU: &str = "cpu";
/// A resource of the second group, if there is one.
pub(crate) const GPU: &str = "example.com/gpu";

/// The path of a resource of Kueue's API without a Namespace.
pub(crate) fn cluster_path(plural: &str) -> String {
    format!("/apis/kueue.x-k8s.io/v1beta2/{plural}")
}

/// The path of a resource of Kueue's API in the history's Namespace.
pub(crate) fn namespaced_path(plural: &str) -> String {
    format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/t@/{plural}")
}

/// The path of a Job in the history's Namespace.
pub(crate) fn job_path(name: &str) -> String {
    format!("/apis/batch/v1/namespaces/t@/jobs/{name}")
}

/// Where an object is created.
pub(crate) fn collection(object: &Value) -> String {
    match object["kind"].as_str().unwrap_or_default() {
        "ResourceFlavor" => cluster_path("resourceflavors"),
        "AdmissionCheck" => cluster_path("admissionchecks"),
        "ClusterQueue" => cluster_path("clusterqueues"),
        "Cohort" => cluster_path("cohorts"),
        "WorkloadPriorityClass" => cluster_path("workloadpriorityclasses"),
        "LocalQueue" => namespaced_path("localqueues"),
        "Workload" => namespaced_path("workloads"),
        "Job" => "/apis/batch/v1/namespaces/t@/jobs".to_owned(),
        "Pod" => "/api/v1/namespaces/t@/pods".to_owned(),
        _ => "/api/v1/namespaces".to_owned(),
    }
}

/// An object of Kueue's API without a Namespace.
pub(crate) fn cluster_object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

/// An object of Kueue's API in the history's Namespace.
pub(crate) fn namespaced_object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": "t@"}, "spec": spec,
    })
}

/// Pods of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Pods {
    /// The name of the pod set.
    pub(crate) name: &'static str,
    /// How many.
    pub(crate) count: u64,
    /// With how few they may start, if that is less.
    pub(crate) least: Option<u64>,
    /// What each asks for, by resource.
    pub(crate) requests: Value,
    /// Labels of the nodes that they may run on.
    pub(crate) selector: Option<Value>,
    /// How much cpu each asks for before its container starts.
    pub(crate) init: Option<&'static str>,
    /// What they tolerate.
    pub(crate) tolerations: Option<Value>,
}

impl Pods {
    fn template(&self) -> Value {
        let mut resources = json!({"requests": self.requests});
        // The API server wants limits of what is not its own.
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

/// A Workload that no job owns.
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

/// The Pods of a group: each pod set is a role.
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

/// A Pod without a job and without a group.
pub(crate) fn single_pod(name: &str, queue: &str, pods: &Pods) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "t@", "labels": {"kueue.x-k8s.io/queue-name": queue},
        },
        "spec": pods.template()["spec"],
    })
}

/// A batch/v1 Job.
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
