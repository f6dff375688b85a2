//! The admission plugin that resolves the priority class of a Pod (Kubernetes 1.36.3,
//! `plugin/pkg/admission/priority/admission.go`).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::metadata::text;
use crate::status::Status;
use crate::verbs::Context;

/// Sets what the class of a new Pod determines.
pub(crate) fn admit(context: &Context<'_>, object: &mut Value) -> Result<(), Status> {
    if !context.kind.is("", "pods") {
        return Ok(());
    }
    // The real server makes the name later.
    let name = match text(object, "generateName") {
        "" => text(object, "name"),
        prefix => prefix,
    };
    let name = name.to_owned();
    let forbidden = |why: &str| Status::forbidden(&context.kind.resource, &name, why);
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return Ok(());
    };
    let wanted = spec.get("priorityClassName").and_then(Value::as_str);
    let wanted = wanted.unwrap_or_default().to_owned();
    let class = if wanted.is_empty() {
        default_class(context)
    } else {
        let table = ("scheduling.k8s.io".to_owned(), "priorityclasses".to_owned());
        let found = context.core.store().get(&table, &wanted);
        let why = || forbidden(&format!("no PriorityClass with name {wanted} was found"));
        Some(found.ok_or_else(why)?)
    };
    let none = json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"});
    let class = class.as_deref().unwrap_or(&none);
    let priority = class["value"].as_i64().unwrap_or(0);
    let given = spec.get("priority").and_then(Value::as_i64);
    if let Some(given) = given.filter(|given| *given != priority) {
        return Err(forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        )));
    }
    let policy = class["preemptionPolicy"].as_str().unwrap_or_default();
    let given = spec.get("preemptionPolicy").and_then(Value::as_str);
    if let Some(given) = given.filter(|given| *given != policy && !policy.is_empty()) {
        return Err(forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )));
    }
    let name = text(class, "name");
    if !name.is_empty() {
        spec["priorityClassName"] = name.into();
    }
    spec["priority"] = priority.into();
    if !policy.is_empty() {
        spec["preemptionPolicy"] = policy.into();
    }
    Ok(())
}

/// Returns the class of Pods without one: the lowest of the global defaults.
fn default_class(context: &Context<'_>) -> Option<Arc<Value>> {
    let table = ("scheduling.k8s.io".to_owned(), "priorityclasses".to_owned());
    let store = context.core.store();
    let classes = store.list(&table, "").map(|(_, class)| class);
    classes
        .filter(|class| class["globalDefault"] == true)
        .min_by_key(|class| class["value"].as_i64())
        .cloned()
}
