//! The admission plugin that resolves the priority class of a Pod (Kubernetes 1.36.3,
//! `plugin/pkg/admission/priority/admission.go`).

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::priority_classes;
use crate::metadata::text;
use crate::status::Status;
use crate::verbs::Context;

/// Sets what the class of a new Pod determines. A changed Pod keeps it.
pub(crate) fn admit(
    context: &Context<'_>,
    old: Option<&Value>,
    object: &mut Value,
) -> Result<(), Status> {
    if !context.kind.is("", "pods") || !context.subresource().is_empty() {
        return Ok(());
    }
    let Some(spec) = object.get("spec").filter(|spec| spec.is_object()) else {
        return Ok(());
    };
    if let Some(old) = old {
        keep(&old["spec"], &mut object["spec"]);
        return Ok(());
    }
    let forbidden =
        |why: &str| Status::forbidden(&context.kind.resource, name_of(context, object), why);
    let wanted = spec.get("priorityClassName").and_then(Value::as_str);
    let class = match wanted.unwrap_or_default() {
        "" => default_class(context),
        wanted => {
            let found = context.core.store().get(&priority_classes(), wanted);
            let why = || forbidden(&format!("no PriorityClass with name {wanted} was found"));
            Some(found.ok_or_else(why)?)
        }
    };
    let (name, priority, policy) = match &class {
        Some(class) => (
            text(class, "name"),
            class["value"].as_i64().unwrap_or(0),
            class["preemptionPolicy"].as_str().unwrap_or_default(),
        ),
        None => ("", 0, "PreemptLowerPriority"),
    };
    let given = spec.get("priority").and_then(Value::as_i64);
    if let Some(given) = given.filter(|given| *given != priority) {
        return Err(forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        )));
    }
    let given = spec.get("preemptionPolicy").and_then(Value::as_str);
    if let Some(given) = given.filter(|given| *given != policy && !policy.is_empty()) {
        return Err(forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )));
    }
    let spec = &mut object["spec"];
    if !name.is_empty() {
        spec["priorityClassName"] = name.into();
    }
    spec["priority"] = priority.into();
    if !policy.is_empty() {
        spec["preemptionPolicy"] = policy.into();
    }
    Ok(())
}

/// Copies the priority of a Pod into its changed `spec`, if that has none.
fn keep(old: &Value, spec: &mut Value) {
    for field in ["priority", "preemptionPolicy"] {
        if spec[field].is_null() && !old[field].is_null() {
            spec[field] = old[field].clone();
        }
    }
}

/// Returns the name of a new Pod in messages. The real server makes one from `generateName` later.
fn name_of<'a>(context: &'a Context<'_>, object: &'a Value) -> &'a str {
    match (
        text(&context.call.body, "name"),
        text(object, "generateName"),
    ) {
        ("", "") => text(object, "name"),
        ("", prefix) => prefix,
        (name, _) => name,
    }
}

/// Returns the class of Pods without one: the lowest of the global defaults.
fn default_class(context: &Context<'_>) -> Option<Arc<Value>> {
    let table = priority_classes();
    let store = context.core.store();
    let classes = store.list(&table, "").map(|(_, class)| class);
    classes
        .filter(|class| class["globalDefault"] == true)
        .min_by_key(|class| class["value"].as_i64())
        .cloned()
}
