//! Validation of the admission of a Workload.

use serde_json::{Map, Value, json};

use super::{IMMUTABLE, list, reserved};
use crate::kueue::objects::amount_of;
use kueue_check_apiserver::FieldError;

/// Returns the errors of the admission. Reserved quota requires an admission of existing pod sets,
/// in amounts divisible by their Pod counts. If it had none before, it may stay without.
pub(super) fn errors(workload: &Value, old: &Value) -> Vec<FieldError> {
    let admission = &workload["status"]["admission"];
    if !reserved(workload) {
        return Vec::new();
    }
    if admission.is_null() && reserved(old) && old["status"]["admission"].is_null() {
        return Vec::new();
    }
    if admission.is_null() {
        let why = "must be set while the QuotaReserved condition is true";
        return vec![FieldError::required("status.admission", why)];
    }
    let sets: Vec<&Value> = list(&workload["spec"]["podSets"])
        .map(|set| &set["name"])
        .collect();
    let mut errors = Vec::new();
    for (at, assignment) in list(&admission["podSetAssignments"]).enumerate() {
        let path = format!("status.admission.podSetAssignments[{at}]");
        if !sets.contains(&&assignment["name"]) {
            errors.push(FieldError {
                field: format!("{path}.name"),
                reason: "FieldValueNotFound",
                message: format!("Not found: {}", assignment["name"]),
            });
        }
        errors.extend(indivisible(assignment, &path));
    }
    errors
}

fn indivisible(assignment: &Value, path: &str) -> Vec<FieldError> {
    let count = assignment["count"].as_i64().unwrap_or_default();
    let usage = assignment["resourceUsage"]
        .as_object()
        .into_iter()
        .flatten();
    let odd = usage.filter(|(resource, amount)| {
        let amount = amount_of(resource, amount);
        count > 0 && amount.is_some_and(|amount| amount % count != 0)
    });
    odd.map(|(resource, amount)| {
        let why = format!("is not a multiple of {count}");
        FieldError::invalid(format!("{path}.resourceUsage[{resource}]"), amount, why)
    })
    .collect()
}

/// Rejects a change of an admission other than setting or removing it as a whole.
pub(super) fn changed(new: &Value, old: &Value) -> Option<FieldError> {
    let admission = |of: &Value| of["status"]["admission"].clone();
    let (now, before) = (admission(new), admission(old));
    let both = !now.is_null() && !before.is_null();
    (both && essentials(&now) != essentials(&before))
        .then(|| FieldError::invalid("status.admission", &now, IMMUTABLE))
}

/// Returns an admission without its topology, which may change.
fn essentials(admission: &Value) -> Value {
    let mut admission = admission.clone();
    let sets = admission["podSetAssignments"].as_array_mut();
    for set in sets.into_iter().flatten().filter_map(Value::as_object_mut) {
        let set: &mut Map<String, Value> = set;
        set.remove("topologyAssignment");
        set.remove("delayedTopologyRequest");
    }
    json!(admission)
}
