//! Validation of Pod spec updates, with the messages of the API server (KEP-3838).

use k8s_openapi::api::core::v1::PodSpec;
use kueue_check::scheduling_directives_may_change;
use serde_json::{Value, json};

use kueue_check_apiserver::FieldError;

/// The message of kube-apiserver 1.36, up to the diff that it appends.
const OTHER_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Returns the errors with which the API server rejects an update of a Pod's spec.
/// [`scheduling_directives_may_change`] has the rules for scheduling directives. Of the other
/// fields, images, the deadline and the grace period may change.
pub(crate) fn refused(old: &Value, new: &Value) -> Vec<FieldError> {
    let spec = |pod: &Value| serde_json::from_value::<PodSpec>(pod["spec"].clone());
    let (Ok(before), Ok(after)) = (spec(old), spec(new)) else {
        return Vec::new();
    };
    let refused = scheduling_directives_may_change(&before, &after);
    let mut errors: Vec<FieldError> = Vec::new();
    let mut others = rest(&old["spec"]) != rest(&new["spec"]);
    for change in refused {
        if change.field == "spec" {
            others = true;
        } else if change.invalid {
            let value = as_go_shows(&at(new, &change.field));
            errors.push(FieldError::invalid(change.field, &value, change.message));
        } else if change.field.starts_with("spec.schedulingGates") {
            let gate = at(new, &change.field);
            let why = format!("{} '{}'", change.message, gate.as_str().unwrap_or_default());
            errors.push(FieldError::forbidden(change.field, &why));
        } else {
            errors.push(FieldError::forbidden(change.field, change.message));
        }
    }
    if others {
        errors.push(FieldError::forbidden("spec", OTHER_FIELDS));
    }
    errors
}

/// Returns the value at the path of an error.
fn at(pod: &Value, path: &str) -> Value {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    let found = pod.pointer(&format!("/{pointer}"));
    found.cloned().unwrap_or(Value::Null)
}

/// Formats node selector terms with the names of Go's fields, including absent ones.
fn as_go_shows(value: &Value) -> Value {
    let term = |term: &Value| {
        let requirements = |field: &str| {
            let list = term[field].as_array()?;
            let shown = list.iter().map(
                |r| json!({"Key": r["key"], "Operator": r["operator"], "Values": r["values"]}),
            );
            Some(shown.collect::<Vec<Value>>())
        };
        json!({"MatchExpressions": requirements("matchExpressions"), "MatchFields": requirements("matchFields")})
    };
    match value {
        Value::Array(terms) => terms.iter().map(term).collect(),
        Value::Object(fields) if fields.keys().any(|field| field.starts_with("match")) => {
            term(value)
        }
        _ => value.clone(),
    }
}

/// Returns the spec without the fields that may change.
fn rest(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            container["image"] = json!("");
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        for field in [
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
            "nodeSelector",
            "affinity",
            "schedulingGates",
        ] {
            fields.remove(field);
        }
    }
    spec
}
