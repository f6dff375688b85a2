//! What a job's Pods get when it starts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::slices::SLICE_NAME;
use crate::kueue::objects::{PodSetAssignment, ResourceFlavor, Workload};

/// What a pod set's Pods get.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodSetInfo {
    /// The pod set.
    pub(super) name: String,
    /// How many Pods start.
    pub(super) count: Option<i64>,
    /// Labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(super) annotations: BTreeMap<String, String>,
    /// The node selector.
    pub(super) node_selector: BTreeMap<String, String>,
    /// Tolerations.
    pub(super) tolerations: Vec<Value>,
}

/// Two values for one key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("conflict for {field}: conflict for key={key}, value1={first}, value2={second}")]
pub(super) struct Conflict {
    /// `labels`, `annotations` or `nodeSelector`.
    pub(super) field: &'static str,
    /// The key.
    pub(super) key: String,
    /// What was there.
    pub(super) first: String,
    /// What was to come.
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

impl PodSetInfo {
    /// Adds another's: equal values agree, different ones conflict, tolerations are kept once.
    pub(super) fn merge(&mut self, other: &Self) -> Result<(), Conflict> {
        keep(&mut self.annotations, &other.annotations, "annotations")?;
        keep(&mut self.labels, &other.labels, "labels")?;
        keep(
            &mut self.node_selector,
            &other.node_selector,
            "nodeSelector",
        )?;
        for toleration in &other.tolerations {
            if !self.tolerations.contains(toleration) {
                self.tolerations.push(toleration.clone());
            }
        }
        Ok(())
    }

    /// What a pod set update, or a Pod template in the same shape, says.
    pub(super) fn read(update: &Value) -> Self {
        let map = |field: &str| {
            let entries = update[field].as_object().into_iter().flatten();
            entries
                .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
                .collect()
        };
        Self {
            name: update["name"].as_str().unwrap_or_default().to_owned(),
            count: None,
            labels: map("labels"),
            annotations: map("annotations"),
            node_selector: map("nodeSelector"),
            tolerations: update["tolerations"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        }
    }
}

/// For each pod set what its flavors, Kueue and the checks say; or why they can't be had together.
pub(super) fn pod_set_infos(
    workload: &Workload,
    flavors: &BTreeMap<String, ResourceFlavor>,
) -> Result<Vec<PodSetInfo>, String> {
    let Some(admission) = &workload.status.admission else {
        return Ok(Vec::new());
    };
    let sets = admission.pod_set_assignments.iter();
    sets.map(|set| {
        let mut info = of_kueue(workload, &admission.cluster_queue, set, flavors)
            .map_err(|e| e.to_string())?;
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

fn of_kueue(
    workload: &Workload,
    cluster_queue: &str,
    set: &PodSetAssignment,
    flavors: &BTreeMap<String, ResourceFlavor>,
) -> Result<PodSetInfo, Conflict> {
    let pair = |key: &str, value: &str| (format!("kueue.x-k8s.io/{key}"), value.to_owned());
    let mut info = PodSetInfo {
        name: set.name.clone(),
        count: set.count,
        labels: [
            pair("cluster-queue-name", cluster_queue),
            pair("local-queue-name", &workload.spec.queue_name),
            pair("podset", &set.name),
        ]
        .into(),
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
        info.merge(&PodSetInfo {
            node_selector: flavor.spec.node_labels.clone(),
            tolerations: flavor.spec.tolerations.clone(),
            ..PodSetInfo::default()
        })?;
    }
    Ok(info)
}

/// Whether a value of an earlier admission gives way (Kueue 0.19.2, `overrideableAnnotations` in
/// `pkg/podset/podset.go`): the names of an elastic job's slices do.
fn gives_way(key: &str, info: &PodSetInfo) -> bool {
    let of_slice = info.annotations.contains_key(SLICE_NAME);
    of_slice && (key == SLICE_NAME || key == "kueue.x-k8s.io/workload")
}

/// A Pod template with this in it.
pub(super) fn with_info(template: &Value, info: &PodSetInfo) -> Result<Value, Conflict> {
    let mut now = PodSetInfo::read(&template["metadata"]);
    now.annotations.retain(|key, _| !gives_way(key, info));
    let spec = PodSetInfo::read(&template["spec"]);
    now.node_selector = spec.node_selector;
    now.tolerations = spec.tolerations;
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
