//! Validation of the pod set updates of checks.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::metadata;
use super::{IMMUTABLE, list};
use kueue_check_apiserver::FieldError;

/// Returns the errors in the pod set updates of a Workload's checks.
pub(super) fn errors(workload: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, check) in list(&workload["status"]["admissionChecks"]).enumerate() {
        for (nth, update) in list(&check["podSetUpdates"]).enumerate() {
            let path = format!("status.admissionChecks[{at}].podSetUpdates[{nth}]");
            one(workload, update, &path, &mut errors);
        }
    }
    errors
}

fn one(workload: &Value, update: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let sets = list(&workload["spec"]["podSets"]);
    let names: BTreeSet<&str> = sets.filter_map(|set| set["name"].as_str()).collect();
    if update["name"]
        .as_str()
        .is_none_or(|name| !names.contains(name))
    {
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        let field = format!("{path}.name");
        errors.push(FieldError::not_supported(field, &update["name"], &names));
    }
    let field = |field: &str| format!("{path}.{field}");
    metadata::tolerations(&update["tolerations"], &field("tolerations"), errors);
    metadata::annotations(&update["annotations"], &field("annotations"), errors);
    for kind in ["nodeSelector", "labels"] {
        metadata::labels(&update[kind], &field(kind), errors);
    }
}

/// Rejects changed pod set updates of a check that stays Ready.
pub(super) fn changed_while_ready(new: &Value, old: &Value) -> Vec<FieldError> {
    let updates = |of: &Value| list(&of["podSetUpdates"]).cloned().collect::<Vec<Value>>();
    let mut errors = Vec::new();
    for (at, before) in list(&old["status"]["admissionChecks"]).enumerate() {
        let mut now = list(&new["status"]["admissionChecks"]);
        let Some(check) = now.find(|check| check["name"] == before["name"]) else {
            continue;
        };
        let stays_ready = check["state"] == "Ready" && before["state"] == "Ready";
        if stays_ready && updates(check) != updates(before) {
            let shown: Vec<String> = updates(check).iter().map(in_order).collect();
            // An absent list is a nil slice in Kueue.
            let shown = if check["podSetUpdates"].is_array() {
                format!("[{}]", shown.join(","))
            } else {
                "null".to_owned()
            };
            errors.push(FieldError {
                field: format!("status.admissionChecks[{at}].podSetUpdates"),
                reason: "FieldValueInvalid",
                message: format!("Invalid value: {shown}: {IMMUTABLE}"),
            });
        }
    }
    errors
}

/// Formats an update with its fields in the order of Kueue's type.
fn in_order(update: &Value) -> String {
    let fields = [
        "name",
        "labels",
        "annotations",
        "nodeSelector",
        "tolerations",
    ];
    ordered(update, &fields, &|field, value| match field {
        "tolerations" => {
            let fields = ["key", "operator", "value", "effect", "tolerationSeconds"];
            let each = list(value).map(|t| ordered(t, &fields, &|_, value| value.to_string()));
            format!("[{}]", each.collect::<Vec<_>>().join(","))
        }
        _ => value.to_string(),
    })
}

/// Formats an object with its fields in this order.
fn ordered(object: &Value, fields: &[&str], show: &dyn Fn(&str, &Value) -> String) -> String {
    let present = fields.iter().filter(|f| !object[**f].is_null());
    let parts: Vec<String> = present
        .map(|f| format!("{}:{}", json!(f), show(f, &object[*f])))
        .collect();
    format!("{{{}}}", parts.join(","))
}
