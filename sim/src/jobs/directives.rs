//! What of a Pod may change, as the API server says it (KEP-3838).

use k8s_openapi::api::core::v1::PodSpec;
use kueue_check::scheduling_directives_may_change;
use serde_json::{Value, json};

use crate::apiserver::FieldError;

/// The words of kube-apiserver 1.36, up to where it shows what differs.
const OTHER_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What the API server refuses in the update of a Pod's spec. The rules for scheduling directives are [`scheduling_directives_may_change`]'s; of the rest, images,
/// deadline and grace period may change.
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
            let value = shown(new, &change.field);
            errors.push(FieldError::invalid(change.field, &value, change.message));
        } else {
            errors.push(FieldError::forbidden(change.field, change.message));
        }
    }
    if others {
        errors.push(FieldError::forbidden("spec", OTHER_FIELDS));
    }
    errors
}

/// The value that the path of an error leads to.
fn shown(pod: &Value, path: &str) -> Value {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    pod.pointer(&format!("/{pointer}"))
        .cloned()
        .unwrap_or(Value::Null)
}

/// The spec without what may change.
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
