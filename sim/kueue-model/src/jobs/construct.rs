//! Construction of the Workload of a job.

use serde_json::{Map, Value, json};

use super::hash::sha1;
use super::labels::{GATED_BY, maximum_execution_time};
use super::priority::Priority;
use super::slices::{ELASTIC, REPLACES, SLICE_NAME};
use crate::kueue::objects::{FINALIZER, Workload};

/// The API group, kind and version of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    /// Such as `batch`.
    pub(super) group: &'a str,
    /// Such as `Job`.
    pub(super) kind: &'a str,
    /// Such as `batch/v1`.
    pub(super) api_version: &'a str,
}

/// The batch/v1 Job.
pub(super) const JOB: Owner<'static> = Owner {
    group: "batch",
    kind: "Job",
    api_version: "batch/v1",
};

/// The plain Pod.
pub(super) const POD: Owner<'static> = Owner {
    group: "",
    kind: "Pod",
    api_version: "v1",
};

/// Returns the name of the Workload of an object: kind, name, and five hexadecimal digits of a
/// hash. The hash covers kind, group, name and UID; for a slice also the generation.
pub(super) fn workload_name(
    owner: Owner<'_>,
    name: &str,
    uid: &str,
    generation: Option<i64>,
) -> String {
    const LONGEST: usize = 253 - 6;
    let mut text = format!("{}\n{}\n{name}\n{uid}", owner.kind, owner.group);
    if let Some(generation) = generation {
        text = format!("{text}\n{generation}");
    }
    let hash = sha1(text.as_bytes());
    let mut prefix = format!("{}-{name}", owner.kind.to_lowercase());
    prefix.truncate(LONGEST);
    format!("{prefix}-{}", &hash[..5])
}

/// Returns the name of a Workload variant for a flavor.
pub(crate) fn variant_name(parent: &str, uid: &str, flavor: &str) -> String {
    let base = parent.rsplit_once('-').map_or(parent, |(base, _)| base);
    let text = format!("Workload\nkueue.x-k8s.io\n{parent}\n{uid}\n{flavor}");
    let hash = sha1(text.as_bytes());
    format!("{base}-variant-{flavor}-{}", &hash[..5])
}

/// The number of Pods of a job, and the minimum with which it may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    /// The number of Pods.
    pub(super) pods: i64,
    /// The minimum number, if the job may start with fewer Pods.
    pub(super) least: Option<i64>,
}

/// Returns the Workload of an object that runs `count` Pods of a template. The names of the
/// Workloads of an elastic job differ. `gates` are its admission gates.
pub(super) fn workload_of(
    owner: Owner<'_>,
    object: &Value,
    template: &Value,
    count: Count,
    priority: Priority,
    (elastic, gates): (bool, &str),
) -> Value {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let (name, uid) = (text("name"), text("uid"));
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let mut passed_on: Map<String, Value> = annotations
        .filter(|(key, _)| key.starts_with("provreq.kueue.x-k8s.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !gates.is_empty() {
        passed_on.insert(GATED_BY.to_owned(), json!(gates));
    }
    let mut spec = json!({
        "active": true,
        "queueName": metadata["labels"]["kueue.x-k8s.io/queue-name"],
        "podSets": [{"name": "main", "count": count.pods, "template": cleaned(template)}],
    });
    if let Some(least) = count.least {
        spec["podSets"][0]["minCount"] = json!(least);
    }
    if let Some(seconds) = maximum_execution_time(object) {
        spec["maximumExecutionTimeSeconds"] = json!(seconds);
    }
    let generation = metadata["generation"].as_i64().unwrap_or_default();
    let generation = elastic.then_some(generation);
    spec["priority"] = json!(priority.value);
    if let Some(class) = priority.class {
        spec["priorityClassRef"] = class;
    }
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "namespace": text("namespace"),
            "name": workload_name(owner, name, uid, generation),
            "labels": {"kueue.x-k8s.io/job-uid": uid},
            "annotations": passed_on,
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": owner.api_version, "kind": owner.kind, "name": name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

/// Makes a Workload a slice: the first of its job, or the replacement of another.
pub(super) fn as_slice(workload: &mut Value, replaces: Option<&Workload>) {
    let first = match replaces {
        Some(old) => json!(old.slice_name()),
        None => workload["metadata"]["name"].clone(),
    };
    let annotations = &mut workload["metadata"]["annotations"];
    annotations[ELASTIC] = json!("true");
    annotations[SLICE_NAME] = first;
    if let Some(old) = replaces {
        annotations[REPLACES] = json!(old.metadata.key());
    }
}

/// Labels that the API server adds to a Job's template and that its Workload's template lacks.
const OF_THE_SERVER: [&str; 3] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
];

fn cleaned(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.retain(|key, _| !OF_THE_SERVER.contains(&key.as_str()));
    }
    template
}

/// Returns a Job's template as it was before the start: the Workload's template with the API
/// server's labels.
pub(super) fn restored(job: &Value, workload_template: &Value) -> Value {
    let mut template = job["spec"]["template"].clone();
    let mut labels = workload_template["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    for key in OF_THE_SERVER {
        let label = &template["metadata"]["labels"][key];
        if !label.is_null() {
            labels.insert(key.to_owned(), label.clone());
        }
    }
    template["metadata"]["labels"] = json!(labels);
    for (at, field) in [
        ("metadata", "annotations"),
        ("spec", "nodeSelector"),
        ("spec", "tolerations"),
    ] {
        let before = workload_template[at][field].clone();
        match template[at].as_object_mut() {
            Some(map) if before.is_null() => {
                map.remove(field);
            }
            Some(map) => {
                map.insert(field.to_owned(), before);
            }
            None => {}
        }
    }
    template
}
