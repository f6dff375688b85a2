//! The states of a CustomResourceDefinition that is being deleted, as in the files that
//! [`definitions`](super::definitions) names.

use serde_json::{Value, json};

use crate::kinds::terminating;
use crate::metadata::{finalizers, finalizers_without, is_deleting};

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition as deleted. Its generation stays.
pub(super) fn mark(definition: &mut Value, now: &str) {
    let mut list = finalizers_without(definition, FINALIZER);
    list.push(FINALIZER.to_owned());
    definition["metadata"]["finalizers"] = list.into();
    definition["metadata"]["deletionTimestamp"] = now.into();
    let why =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_terminating(definition, ("True", "InstanceDeletionPending", why), now);
}

/// Sets the condition `Terminating` to a status, with reason and message.
fn set_terminating(definition: &mut Value, condition: (&str, &str, &str), now: &str) {
    let (status, reason, message) = condition;
    let conditions = &mut definition["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    let new = json!({"type": "Terminating", "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
    match list.iter_mut().find(|c| c["type"] == "Terminating") {
        Some(known) => {
            let since = if known["status"] == status {
                known["lastTransitionTime"].clone()
            } else {
                now.into()
            };
            *known = new;
            known["lastTransitionTime"] = since;
        }
        None => list.push(new),
    }
}

/// Returns true if the objects of this definition are being removed.
pub(crate) fn is_ending(definition: &Value) -> bool {
    is_deleting(definition) && finalizers(definition).contains(&FINALIZER)
}

/// Returns what becomes of a definition that is being deleted, with or without objects; `None` if
/// it stays as it is.
pub(super) fn ended(found: &Value, is_empty: bool, now: &str) -> Option<Value> {
    const WAITS: &str = "InstanceDeletionInProgress";
    if !is_empty && terminating(found).is_some_and(|c| c["reason"] == WAITS) {
        return None;
    }
    let mut definition = found.clone();
    if is_empty {
        let done = "removed all instances";
        set_terminating(
            &mut definition,
            ("False", "InstanceDeletionCompleted", done),
            now,
        );
        definition["metadata"]["finalizers"] = finalizers_without(found, FINALIZER).into();
    } else {
        let why = "CustomResource deletion is in progress";
        set_terminating(&mut definition, ("True", WAITS, why), now);
    }
    Some(definition)
}
