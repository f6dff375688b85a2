//! Pod set information: what a job's Pods receive when the job starts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::slices::SLICE_NAME;
use crate::kueue::KueueVersion;
use crate::kueue::objects::{PodSetAssignment, ResourceFlavor, Workload};
use kueue_check_apiserver::names;

/// What the Pods of a pod set receive.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodSetInfo {
    /// The pod set.
    pub(super) name: String,
    /// The number of Pods that start.
    pub(super) count: Option<i64>,
    /// Labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(super) annotations: BTreeMap<String, String>,
    /// The node selector.
    pub(super) node_selector: BTreeMap<String, String>,
    /// Tolerations.
    pub(super) tolerations: Vec<Value>,
    /// Whether the names of slices from an earlier admission may be overridden (Kueue 0.19.2,
    /// `overrideableAnnotations` in `pkg/podset/podset.go`; not 0.18.3, where they conflict).
    pub(super) overrides_slices: bool,
    /// Whether tolerations are the same only if all their fields are (before 0.18, see
    /// [`KueueVersion::matches_tolerations`]).
    pub(super) exact_tolerations: bool,
}

/// A conflict: two values for one key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("conflict for {field}: conflict for key={key}, value1={first}, value2={second}")]
pub(super) struct Conflict {
    /// `labels`, `annotations` or `nodeSelector`.
    pub(super) field: &'static str,
    /// The key.
    pub(super) key: String,
    /// The existing value.
    pub(super) first: String,
    /// The value to be added.
    pub(super) second: String,
}

fn keep(
    into: &mut BTreeMap<String, String>,
    more: &BTreeMap<String, String>,
    field: &'static str,
) -> Result<(), Conflict> {
    for (key, second) in more {
        match into.get(key) {
            Some(first) if first != second => {
                return Err(Conflict {
                    field,
                    key: key.clone(),
                    first: first.clone(),
                    second: second.clone(),
                });
            }
            _ => {
                into.insert(key.clone(), second.clone());
            }
        }
    }
    Ok(())
}

/// Returns true if Kueue takes two tolerations for the same one.
fn is_same(first: &Value, second: &Value, exact: bool) -> bool {
    fn text<'a>(of: &'a Value, field: &str) -> &'a str {
        of[field].as_str().unwrap_or_default()
    }
    fn operator(of: &Value, exact: bool) -> &str {
        match text(of, "operator") {
            "" if !exact => "Equal",
            given => given,
        }
    }
    let is_timed = |toleration: &Value| !toleration["tolerationSeconds"].is_null();
    let mut fields = ["key", "value", "effect"].into_iter();
    fields.all(|field| text(first, field) == text(second, field))
        && operator(first, exact) == operator(second, exact)
        && !(exact && (is_timed(first) || is_timed(second)))
}

impl PodSetInfo {
    /// Adds the values of `other`. Equal values agree, different ones conflict, and duplicate
    /// tolerations are kept once.
    pub(super) fn merge(&mut self, other: &Self) -> Result<(), Conflict> {
        keep(&mut self.annotations, &other.annotations, "annotations")?;
        keep(&mut self.labels, &other.labels, "labels")?;
        keep(
            &mut self.node_selector,
            &other.node_selector,
            "nodeSelector",
        )?;
        for toleration in &other.tolerations {
            let exact = self.exact_tolerations;
            let mut known = self.tolerations.iter();
            if !known.any(|known| is_same(known, toleration, exact)) {
                self.tolerations.push(toleration.clone());
            }
        }
        Ok(())
    }

    /// Reads a pod set update, or a Pod template in the same shape.
    pub(super) fn read(update: &Value) -> Self {
        let map = |field: &str| {
            let entries = update[field].as_object().into_iter().flatten();
            entries
                .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
                .collect()
        };
        Self {
            name: update["name"].as_str().unwrap_or_default().to_owned(),
            labels: map("labels"),
            annotations: map("annotations"),
            node_selector: map("nodeSelector"),
            tolerations: update["tolerations"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// Returns for each pod set the values from its flavors, Kueue and the checks, or the conflict
/// between them.
pub(super) fn pod_set_infos(
    workload: &Workload,
    flavors: &BTreeMap<String, ResourceFlavor>,
    version: KueueVersion,
) -> Result<Vec<PodSetInfo>, String> {
    let Some(admission) = &workload.status.admission else {
        return Ok(Vec::new());
    };
    let sets = admission.pod_set_assignments.iter();
    sets.map(|set| {
        let mut info = of_kueue(workload, set, flavors);
        info.overrides_slices = version.revised_slices && workload.is_slice();
        info.exact_tolerations = !version.matches_tolerations;
        if version.labels_pods {
            info.labels.extend(queue_labels(
                &admission.cluster_queue,
                &workload.spec.queue_name,
            ));
        }
        for check in &workload.status.admission_checks {
            let update = check
                .pod_set_updates
                .iter()
                .find(|u| u["name"] == set.name.as_str());
            let Some(update) = update else { continue };
            info.merge(&PodSetInfo::read(update)).map_err(|conflict| {
                format!(
                    "in admission check {:?}: invalid admission check PodSetUpdate: {conflict}",
                    check.name
                )
            })?;
        }
        Ok(info)
    })
    .collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (format!("kueue.x-k8s.io/{key}"), value.to_owned())
}

/// Returns the labels with the names of the queues. That of the ClusterQueue requires a name that is
/// a DNS label (0.19.2, `assignQueueLabels` in `pkg/controller/jobframework/reconciler.go`).
fn queue_labels<'a>(
    cluster_queue: &'a str,
    local_queue: &'a str,
) -> impl Iterator<Item = (String, String)> {
    let of_cluster = names::dns_label(cluster_queue).is_empty();
    let of_cluster = of_cluster.then(|| pair("cluster-queue-name", cluster_queue));
    of_cluster
        .into_iter()
        .chain([pair("local-queue-name", local_queue)])
}

fn of_kueue(
    workload: &Workload,
    set: &PodSetAssignment,
    flavors: &BTreeMap<String, ResourceFlavor>,
) -> PodSetInfo {
    let mut info = PodSetInfo {
        name: set.name.clone(),
        count: set.count,
        labels: [pair("podset", &set.name)].into(),
        annotations: [pair("workload", &workload.metadata.name)].into(),
        ..PodSetInfo::default()
    };
    if workload.is_slice() {
        let first = workload.slice_name().to_owned();
        info.annotations.insert(SLICE_NAME.to_owned(), first);
    }
    let mut seen: Vec<&str> = Vec::new();
    for name in set.flavors.values() {
        let Some(flavor) = flavors.get(name).filter(|_| !seen.contains(&name.as_str())) else {
            continue;
        };
        seen.push(name);
        // Kueue copies the labels without looking for conflicts, in the order of a Go map (0.19.2,
        // `FromAssignment` in `pkg/podset/podset.go`). Here it is the order of the resources.
        info.node_selector.extend(flavor.spec.node_labels.clone());
        info.tolerations.extend(flavor.spec.tolerations.clone());
    }
    info
}

/// Returns true if `info` overrides a value of an earlier admission.
fn gives_way(key: &str, info: &PodSetInfo) -> bool {
    info.overrides_slices && (key == SLICE_NAME || key == "kueue.x-k8s.io/workload")
}

/// Returns the Pod template with `info` merged into it.
pub(super) fn with_info(template: &Value, info: &PodSetInfo) -> Result<Value, Conflict> {
    let mut now = PodSetInfo::read(&template["metadata"]);
    now.annotations.retain(|key, _| !gives_way(key, info));
    let spec = PodSetInfo::read(&template["spec"]);
    now.node_selector = spec.node_selector;
    now.tolerations = spec.tolerations;
    now.exact_tolerations = info.exact_tolerations;
    now.merge(info)?;
    let mut template = template.clone();
    template["metadata"]["labels"] = serde_json::json!(now.labels);
    template["metadata"]["annotations"] = serde_json::json!(now.annotations);
    if !now.node_selector.is_empty() {
        template["spec"]["nodeSelector"] = serde_json::json!(now.node_selector);
    }
    if !now.tolerations.is_empty() {
        template["spec"]["tolerations"] = serde_json::json!(now.tolerations);
    }
    Ok(template)
}
