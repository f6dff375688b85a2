//! Validation of Workloads, including their status.

mod admission;
mod updates;

use serde_json::{Value, json};

use super::metadata;
use crate::jobs::is_elastic;
use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::objects::amount_of;
use kueue_check_apiserver::FieldError;

const IMMUTABLE: &str = "field is immutable";

/// Returns the errors of a Workload; `old` is null for a new one.
pub(super) fn errors(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    let mut errors = pod_sets(new, version);
    errors.extend(admission::errors(new, old));
    errors.extend(reclaimable(new, old, version));
    errors.extend(updates::errors(new));
    errors.extend(super::gates::created(new, version));
    if !old.is_null() {
        errors.extend(changed_pod_sets(new, old, version));
        errors.extend(less_reclaimable(new, old, version));
        errors.extend(admission::changed(new, old));
        errors.extend(updates::changed_while_ready(new, old));
        errors.extend(cluster_name(new));
        errors.extend(super::gates::updated(new, old, version));
    }
    errors
}

/// Returns true if it holds quota.
fn reserved(workload: &Value) -> bool {
    list(&workload["status"]["conditions"])
        .any(|c| c["type"] == "QuotaReserved" && c["status"] == "True")
}

fn pod_sets(workload: &Value, version: KueueVersion) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let sets = &workload["spec"]["podSets"];
    for (at, set) in list(sets).enumerate() {
        let path = format!("spec.podSets[{at}].template");
        if version.validates_templates {
            let given = &set["template"]["metadata"];
            let field = format!("{path}.metadata.labels");
            metadata::labels(&given["labels"], &field, &mut errors);
            let field = format!("{path}.metadata.annotations");
            metadata::annotations(&given["annotations"], &field, &mut errors);
        }
        let spec = &set["template"]["spec"];
        for kind in ["initContainers", "containers"] {
            for (nth, container) in list(&spec[kind]).enumerate() {
                let field = format!("{path}.spec.{kind}[{nth}].resources");
                amounts(&container["resources"], &field, version, &mut errors);
            }
        }
        if version.validates_templates {
            let field = format!("{path}.spec.resources");
            amounts(&spec["resources"], &field, version, &mut errors);
        }
    }
    let variable = list(sets).filter(|set| !set["minCount"].is_null()).count();
    if variable > 1 {
        let why = "at most one podSet can use minCount";
        errors.push(FieldError::invalid("spec.podSets", &json!(variable), why));
    }
    if variable > 0 && is_elastic(workload, version) {
        let why = "partial admission and elastic job cannot be used together";
        errors.push(FieldError::invalid("spec.podSets", &json!(variable), why));
    }
    errors
}

/// Rejects `pods`, which Kueue counts itself, and negative amounts; before `validates_templates`
/// only requests of `pods` (Kueue 0.19.2, `validateResourceList` in
/// `pkg/webhooks/workload_webhook.go`).
fn amounts(resources: &Value, path: &str, version: KueueVersion, errors: &mut Vec<FieldError>) {
    let kinds = ["requests", "limits"].into_iter();
    for kind in kinds.filter(|kind| version.validates_templates || *kind == "requests") {
        for (name, amount) in resources[kind].as_object().into_iter().flatten() {
            let field = format!("{path}.{kind}[{name}]");
            if name == "pods" {
                let why = "the key is reserved for internal kueue use";
                errors.push(FieldError::invalid(field.clone(), &json!("pods"), why));
            }
            let negative = amount_of(name, amount).is_some_and(|amount| amount < 0);
            if version.validates_templates && negative {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(field, amount, why));
            }
        }
    }
}

/// Rejects other pod sets while quota is held. Those of elastic jobs may shrink.
fn changed_pod_sets(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    if !reserved(old) {
        return Vec::new();
    }
    let (now, before) = (&new["spec"]["podSets"], &old["spec"]["podSets"]);
    if list(now).count() != list(before).count() {
        return vec![FieldError::invalid("spec.podSets", now, IMMUTABLE)];
    }
    let is_changed = |now: &Value, before: &Value| {
        let mut now = now.clone();
        if version.elastic_jobs && count(&now) < count(before) {
            now["count"] = before["count"].clone();
        }
        now != *before
    };
    let pairs = list(now).zip(list(before)).enumerate();
    pairs
        .filter(|(_, (now, before))| is_changed(now, before))
        .map(|(at, (now, _))| FieldError::invalid(format!("spec.podSets.{at}"), now, IMMUTABLE))
        .collect()
}

fn count(of: &Value) -> i64 {
    of["count"].as_i64().unwrap_or_default()
}

fn named<'a>(entries: &'a Value, name: &Value) -> Option<&'a Value> {
    list(entries).find(|entry| entry["name"] == *name)
}

/// Rejects reclaimable Pods of an unknown pod set, and more of them than it has Pods. A number that
/// an elastic job had before it became smaller may stay.
fn reclaimable(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    let sets = &new["spec"]["podSets"];
    let before = &old["status"]["reclaimablePods"];
    let names: Vec<Value> = list(sets).map(|set| set["name"].clone()).collect();
    let entries = list(&new["status"]["reclaimablePods"]);
    entries
        .filter_map(|entry| {
            let name = &entry["name"];
            let path = format!(
                "status.reclaimablePods[{}]",
                name.as_str().unwrap_or_default()
            );
            let Some(set) = named(sets, name) else {
                let field = format!("{path}.name");
                return Some(FieldError::not_supported(field, name, &names));
            };
            let stays = || named(before, name).is_some_and(|old| count(old) == count(entry));
            let exceeds = count(entry) > count(set) && !(is_elastic(new, version) && stays());
            exceeds.then(|| {
                let why = format!("should be less or equal to {}", count(set));
                FieldError::invalid(format!("{path}.count"), &entry["count"], why)
            })
        })
        .collect()
}

/// Rejects fewer reclaimable Pods while quota is held, except in a pod set that an elastic job has
/// made smaller (Kueue 0.19.2, `validateReclaimablePodsUpdate` in
/// `pkg/webhooks/workload_webhook.go`).
fn less_reclaimable(new: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    if !reserved(new) || !reserved(old) {
        return Vec::new();
    }
    let field = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        format!("status.reclaimablePods[{name}]")
    };
    let (now, before) = (
        &new["status"]["reclaimablePods"],
        &old["status"]["reclaimablePods"],
    );
    let known = list(before).filter(|entry| !has_shrunk(new, entry, version));
    let known: Vec<&Value> = known.collect();
    let less = list(now).filter_map(|entry| {
        let before = known.iter().find(|known| known["name"] == entry["name"])?;
        (count(entry) < count(before)).then(|| {
            let than = if version.revised_messages {
                "than"
            } else {
                "then"
            };
            let why = format!("cannot be less {than} {}", count(before));
            FieldError::invalid(
                format!("{}.count", field(&entry["name"])),
                &entry["count"],
                why,
            )
        })
    });
    let removed = known
        .iter()
        .filter(|entry| named(now, &entry["name"]).is_none())
        .map(|entry| FieldError::required(field(&entry["name"]), "cannot be removed"));
    less.chain(removed).collect()
}

/// Returns true if an elastic job has made the pod set of these reclaimable Pods smaller: it has
/// fewer Pods than were admitted; before `revised_slices`, as many as were reclaimable, or fewer.
fn has_shrunk(workload: &Value, reclaimable: &Value, version: KueueVersion) -> bool {
    let name = &reclaimable["name"];
    let Some(set) = named(&workload["spec"]["podSets"], name) else {
        return false;
    };
    let assigned = &workload["status"]["admission"]["podSetAssignments"];
    is_elastic(workload, version)
        && if version.revised_slices {
            named(assigned, name).is_some_and(|assigned| count(assigned) > count(set))
        } else {
            count(set) <= count(reclaimable)
        }
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
