//! Construction of ProvisioningRequests.

use serde_json::{Map, Value, json};

use super::{API_VERSION, KIND, MANAGED, RequestPlan};
use crate::backend::{ATTEMPT, CHECK, Owner};
use crate::request::RequestAnnotations;

/// The annotations with the Workload's `metadata.uid` and name.
pub(super) const WORKLOAD_UID: &str = "provisioning.kueue-check.dev/workload-uid";
pub(super) const WORKLOAD: &str = "provisioning.kueue-check.dev/workload";
pub(super) const CONTROLLER: &str = "provisioning.kueue-check.dev/controller-name";
pub(super) const RESERVED: &str = "provisioning.kueue-check.dev/reserved";
pub(super) const FAMILY: &str = "provisioning.kueue-check.dev/family";
pub(super) const ERRORS: &str = "provisioning.kueue-check.dev/failed-with-error";
pub(super) const NO_CAPACITY: &str = "provisioning.kueue-check.dev/failed-without-capacity";
pub(super) const KEEP: &str = "provisioning.kueue-check.dev/keep-failed";
pub(super) const MERGED: &str = "provisioning.kueue-check.dev/merged-pod-sets";

/// Returns the ProvisioningRequest of `plan`. Labels and spec are those of Kueue's own check; the
/// annotations are those of this check.
///
/// The Workload does not own the request: Kueue's own check deletes requests whose owner has the
/// name of a Workload, unless it created them (0.19.2). The request is owned by a template, which
/// the Workload owns, so the request is still deleted with the Workload.
pub(super) fn object(plan: &RequestPlan, owner: &Value) -> Value {
    let pod_sets: Vec<Value> = plan
        .pods
        .iter()
        .map(|pods| json!({"count": pods.count, "podTemplateRef": {"name": pods.template_name}}))
        .collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "namespace": plan.namespace,
            "name": plan.name,
            "labels": {MANAGED.0: MANAGED.1},
            "annotations": annotations(&plan.workload, &plan.mark),
            "ownerReferences": [owner],
        },
        "spec": {
            "provisioningClassName": plan.class,
            "parameters": plan.parameters,
            "podSets": pod_sets,
        },
    })
}

fn annotations(workload: &Owner, mark: &RequestAnnotations) -> Map<String, Value> {
    let mut annotations = Map::new();
    let mut add = |key: &str, value: String| {
        annotations.insert(key.to_owned(), Value::String(value));
    };
    add(WORKLOAD_UID, workload.uid.to_string());
    add(WORKLOAD, workload.name.clone());
    add(CONTROLLER, mark.controller.to_string());
    add(CHECK, mark.check.to_string());
    add(ATTEMPT, mark.attempt.to_string());
    add(RESERVED, mark.reserved.to_string());
    if let Some(family) = &mark.family {
        add(FAMILY, family.to_string());
    }
    if mark.tally.errors > 0 {
        add(ERRORS, mark.tally.errors.to_string());
    }
    if mark.tally.no_capacity > 0 {
        add(NO_CAPACITY, mark.tally.no_capacity.to_string());
    }
    if mark.keep_failed {
        add(KEEP, "true".to_owned());
    }
    if !mark.merged.is_empty() {
        add(MERGED, json!(mark.merged).to_string());
    }
    annotations
}
