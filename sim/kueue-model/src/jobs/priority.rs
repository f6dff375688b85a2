//! The priority of a job's Workload.
//!
//! The rules are those of Kueue 0.19.2: `ExtractPriority` in
//! `pkg/controller/jobframework/reconciler.go`, and `pkg/util/priority/priority.go`.

use serde_json::{Value, json};

use super::labels::priority_class;
use crate::json::list;
use crate::kueue::api::{Api, kueue};
use kueue_check_apiserver::Resource;

/// A priority, and the class it comes from.
#[derive(Debug, PartialEq)]
pub(super) struct Priority {
    /// The priority; higher goes first.
    pub(super) value: i64,
    /// The reference to its class, if it comes from one.
    pub(super) class: Option<Value>,
}

impl Priority {
    fn from(class: &Value, group: &str, kind: &str) -> Self {
        Self {
            value: class["value"].as_i64().unwrap_or_default(),
            class: Some(json!({"group": group, "kind": kind, "name": class["metadata"]["name"]})),
        }
    }

    fn of_pods(class: &Value) -> Self {
        Self::from(class, "scheduling.k8s.io", "PriorityClass")
    }
}

/// Returns the first `PriorityClass` that a pod set of a Workload names, in their order (Kueue
/// 0.15.0 to 0.19.2, `extractPriorityFromPodSets` in `pkg/controller/jobframework/reconciler.go`).
pub(super) fn class_of_pods(pod_sets: &Value) -> Option<&str> {
    let classes = list(pod_sets).map(|set| &set["template"]["spec"]["priorityClassName"]);
    let mut names = classes.filter_map(Value::as_str);
    names.find(|name| !name.is_empty())
}

/// Returns the priority of a job whose Pods have this class: that of its `WorkloadPriorityClass`,
/// else of the `PriorityClass` of its Pods, else of the cluster's default `PriorityClass`, else 0.
/// `None` if its class does not exist.
pub(super) fn priority(api: &Api, job: &Value, class_of_pods: Option<&str>) -> Option<Priority> {
    let of_pods = Resource::new("scheduling.k8s.io", "v1", "priorityclasses");
    if let Some(name) = priority_class(job).filter(|name| !name.is_empty()) {
        let class = api.get(&kueue("workloadpriorityclasses"), "", name)?;
        return Some(Priority::from(
            &class,
            "kueue.x-k8s.io",
            "WorkloadPriorityClass",
        ));
    }
    if let Some(name) = class_of_pods {
        return Some(Priority::of_pods(&*api.get(&of_pods, "", name)?));
    }
    let all = api.list(&of_pods, "");
    let defaults = all.iter().filter(|class| class["globalDefault"] == true);
    let default = defaults.min_by_key(|class| class["value"].as_i64());
    Some(default.map_or(
        Priority {
            value: 0,
            class: None,
        },
        |class| Priority::of_pods(class),
    ))
}
