//! What is refused in a Workload, its status included.

use serde_json::{Map, Value, json};

use super::labels::{is_key, is_value};
use crate::apiserver::FieldError;

const IMMUTABLE: &str = "field is immutable";

/// What is wrong with a Workload; `old` is null for a new one.
pub(super) fn errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, check) in list(&new["status"]["admissionChecks"]).enumerate() {
        let path = format!("status.admissionChecks[{at}]");
        for (nth, update) in list(&check["podSetUpdates"]).enumerate() {
            pod_set_update(
                new,
                update,
                &format!("{path}.podSetUpdates[{nth}]"),
                &mut errors,
            );
        }
        errors.extend(changed_while_ready(check, old, &path));
    }
    errors.extend(quota(new, old));
    errors
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn pod_set_update(workload: &Value, update: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let names: Vec<Value> = list(&workload["spec"]["podSets"])
        .map(|s| s["name"].clone())
        .collect();
    if !names.contains(&update["name"]) {
        let field = format!("{path}.name");
        errors.push(FieldError::not_supported(field, &update["name"], &names));
    }
    for (field, values_too) in [
        ("labels", true),
        ("nodeSelector", true),
        ("annotations", false),
    ] {
        for (key, value) in update[field].as_object().into_iter().flatten() {
            let field = format!("{path}.{field}");
            if !is_key(key) {
                let why = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
                errors.push(FieldError::invalid(field, &json!(key), why));
            } else if values_too && !value.as_str().is_some_and(is_value) {
                let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
                errors.push(FieldError::invalid(field, value, why));
            }
        }
    }
}

/// While a check stays Ready, what it gives the Pods stays too.
fn changed_while_ready(check: &Value, old: &Value, path: &str) -> Option<FieldError> {
    let mut before = list(&old["status"]["admissionChecks"]);
    let before = before.find(|b| b["name"] == check["name"])?;
    let stays_ready = check["state"] == "Ready" && before["state"] == "Ready";
    let updates = |of: &Value| list(&of["podSetUpdates"]).cloned().collect::<Vec<Value>>();
    if !stays_ready || updates(check) == updates(before) {
        return None;
    }
    let shown = updates(check)
        .iter()
        .map(in_order)
        .collect::<Vec<_>>()
        .join(",");
    Some(FieldError {
        field: format!("{path}.podSetUpdates"),
        reason: "FieldValueInvalid",
        message: format!("Invalid value: [{shown}]: {IMMUTABLE}"),
    })
}

/// The fields in the order in which Kueue's type has them.
fn in_order(update: &Value) -> String {
    let fields = [
        "name",
        "labels",
        "annotations",
        "nodeSelector",
        "tolerations",
    ];
    let present = fields.into_iter().filter(|f| !update[*f].is_null());
    let parts: Vec<String> = present
        .map(|f| format!("{}:{}", json!(f), update[f]))
        .collect();
    format!("{{{}}}", parts.join(","))
}

fn reserved(workload: &Value) -> bool {
    list(&workload["status"]["conditions"])
        .any(|c| c["type"] == "QuotaReserved" && c["status"] == "True")
}

/// Quota has an admission, and an admission stays as it is.
fn quota(new: &Value, old: &Value) -> Option<FieldError> {
    let admission = |of: &Value| of["status"]["admission"].clone();
    if reserved(new) && admission(new).is_null() {
        let field = "status.admission";
        return Some(FieldError::required(
            field,
            "must be set when the quota is reserved",
        ));
    }
    let both = reserved(new) && reserved(old);
    (both && essentials(&admission(new)) != essentials(&admission(old)))
        .then(|| FieldError::invalid("status.admission", &admission(new), IMMUTABLE))
}

/// An admission without its topology, which may change.
fn essentials(admission: &Value) -> Value {
    let mut admission = admission.clone();
    let sets = admission["podSetAssignments"].as_array_mut();
    for set in sets.into_iter().flatten().filter_map(Value::as_object_mut) {
        let set: &mut Map<String, Value> = set;
        set.remove("topologyAssignment");
        set.remove("delayedTopologyRequest");
    }
    admission
}
