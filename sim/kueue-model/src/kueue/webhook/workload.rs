//! Validation of Workloads, including their status.

mod admission;
mod updates;

use serde_json::{Value, json};

use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::objects::amount_of;
use kueue_check_apiserver::FieldError;

const IMMUTABLE: &str = "field is immutable";

/// Returns the errors of a Workload; `old` is null for a new one.
pub(super) fn errors(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    let mut errors = pod_sets(new);
    errors.extend(admission::errors(new));
    errors.extend(reclaimable(new));
    errors.extend(updates::errors(new));
    if !old.is_null() {
        errors.extend(changed_pod_sets(new, old));
        errors.extend(less_reclaimable(new, old, version));
        errors.extend(admission::changed(new, old));
        errors.extend(updates::changed_while_ready(new, old));
    }
    errors.extend(super::gates::errors(new, old, version));
    if !old.is_null() {
        errors.extend(cluster_name(new));
    }
    errors
}

/// Returns true if it holds quota.
fn reserved(workload: &Value) -> bool {
    list(&workload["status"]["conditions"])
        .any(|c| c["type"] == "QuotaReserved" && c["status"] == "True")
}

fn pod_sets(workload: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let sets = &workload["spec"]["podSets"];
    for (at, set) in list(sets).enumerate() {
        let path = format!("spec.podSets[{at}].template");
        let metadata = &set["template"]["metadata"];
        updates::labels(
            &metadata["labels"],
            &format!("{path}.metadata.labels"),
            &mut errors,
        );
        let field = format!("{path}.metadata.annotations");
        updates::annotations(&metadata["annotations"], &field, &mut errors);
        for kind in ["initContainers", "containers"] {
            for (nth, container) in list(&set["template"]["spec"][kind]).enumerate() {
                for list in ["requests", "limits"] {
                    let field = format!("{path}.spec.{kind}[{nth}].resources.{list}");
                    amounts(&container["resources"][list], &field, &mut errors);
                }
            }
        }
    }
    let variable = list(sets).filter(|set| !set["minCount"].is_null()).count();
    if variable > 1 {
        let why = "at most one podSet can use minCount";
        errors.push(FieldError::invalid("spec.podSets", &json!(variable), why));
    }
    if variable > 0 && is_slice(workload) {
        let why = "partial admission and elastic job cannot be used together";
        errors.push(FieldError::invalid("spec.podSets", &json!(variable), why));
    }
    errors
}

fn is_slice(workload: &Value) -> bool {
    workload["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] == "true"
}

/// Rejects `pods`, which Kueue counts itself, and negative amounts (Kueue 0.19.2,
/// `validateResourceList` in `pkg/webhooks/workload_webhook.go`).
fn amounts(of: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (name, amount) in of.as_object().into_iter().flatten() {
        let field = format!("{path}[{name}]");
        if name == "pods" {
            let why = "the key is reserved for internal kueue use";
            errors.push(FieldError::invalid(field.clone(), &json!("pods"), why));
        }
        if amount_of(name, amount).is_some_and(|amount| amount < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(field, amount, why));
        }
    }
}

/// Returns true if pod sets are the same or have fewer Pods, as when an elastic job shrinks.
fn is_less(now: &Value, before: &Value) -> bool {
    let same_size = list(now).count() == list(before).count();
    let mut pairs = list(now).zip(list(before));
    let shrinks = pairs.all(|(now, before)| {
        let mut now = now.clone();
        if now["count"].as_i64() < before["count"].as_i64() {
            now["count"] = before["count"].clone();
        }
        now == *before
    });
    same_size && shrinks
}

fn changed_pod_sets(new: &Value, old: &Value) -> Option<FieldError> {
    let (now, before) = (&new["spec"]["podSets"], &old["spec"]["podSets"]);
    (reserved(old) && !is_less(now, before))
        .then(|| FieldError::invalid("spec.podSets", now, IMMUTABLE))
}

/// Rejects reclaimable Pods of an unknown pod set, and more of them than it has Pods.
fn reclaimable(workload: &Value) -> Vec<FieldError> {
    let sets = &workload["spec"]["podSets"];
    let names: Vec<Value> = list(sets).map(|set| set["name"].clone()).collect();
    let entries = list(&workload["status"]["reclaimablePods"]);
    entries
        .filter_map(|entry| {
            let name = entry["name"].as_str().unwrap_or_default();
            let path = format!("status.reclaimablePods[{name}]");
            let Some(set) = list(sets).find(|set| set["name"] == name) else {
                let field = format!("{path}.name");
                return Some(FieldError::not_supported(field, &entry["name"], &names));
            };
            let count = |of: &Value| of["count"].as_i64().unwrap_or_default();
            (count(entry) > count(set)).then(|| {
                let why = format!("should be less or equal to {}", count(set));
                FieldError::invalid(format!("{path}.count"), &entry["count"], why)
            })
        })
        .collect()
}

/// Rejects fewer reclaimable Pods while quota is held, except for a slice of an elastic job (Kueue
/// 0.19.2, `validateReclaimablePodsUpdate` in `pkg/webhooks/workload_webhook.go`).
fn less_reclaimable(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    if !reserved(new) || !reserved(old) || is_slice(new) {
        return Vec::new();
    }
    let now = &new["status"]["reclaimablePods"];
    let count = |of: &Value| of["count"].as_i64().unwrap_or_default();
    let entries = list(&old["status"]["reclaimablePods"]);
    entries
        .filter_map(|before| {
            let name = before["name"].as_str().unwrap_or_default();
            let path = format!("status.reclaimablePods[{name}]");
            let Some(entry) = list(now).find(|entry| entry["name"] == name) else {
                return Some(FieldError::required(path, "cannot be removed"));
            };
            (count(entry) < count(before)).then(|| {
                let than = if version.revised_messages {
                    "than"
                } else {
                    "then"
                };
                let why = format!("cannot be less {than} {}", count(before));
                FieldError::invalid(format!("{path}.count"), &entry["count"], why)
            })
        })
        .collect()
}

/// Rejects a cluster name that is not nominated.
fn cluster_name(workload: &Value) -> Option<FieldError> {
    let status = &workload["status"];
    let (name, nominated) = (&status["clusterName"], &status["nominatedClusterNames"]);
    let known = nominated
        .as_array()
        .is_none_or(|names| names.is_empty() || names.contains(name));
    (!name.is_null() && !known).then(|| {
        let why = "must be one of the nominatedClusterNames";
        FieldError::invalid("status.clusterName", name, why)
    })
}
