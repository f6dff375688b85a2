//! Fields that the server sets in objects of built-in kinds.

use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::metadata::text;

/// Sets the server's fields in a new object.
pub(crate) fn on_create(kind: &Kind, object: &mut Value) {
    match (kind.resource.group.as_str(), kind.resource.plural.as_str()) {
        ("", "namespaces") => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        ("", "pods") => create_pod(object),
        ("", "nodes") => create_node(object),
        ("batch", "jobs") => create_job(object),
        _ if kind.is_definition() => {
            let now = text(object, "creationTimestamp").to_owned();
            object["status"] = crate::kinds::condition_status(object, &now);
        }
        _ => {}
    }
}

/// Sets the server's fields in a changed object.
pub(crate) fn on_update(kind: &Kind, old: &Value, new: &mut Value) {
    if kind.is("", "namespaces") {
        new["spec"] = old["spec"].clone();
    }
    if kind.is_definition() {
        crate::kinds::note_storage(new);
    }
}

/// Taints a new Node as not ready, until a client removes the taint.
fn create_node(object: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let taints = &mut object["spec"]["taints"];
    if taints.is_null() {
        *taints = json!([]);
    }
    if let Some(taints) = taints.as_array_mut()
        && !taints.iter().any(|taint| taint["key"] == KEY)
    {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
    }
}

fn create_pod(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    tolerate_lost_nodes(spec);
    let class = quality(&object["spec"]);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    let gates = object.pointer("/spec/schedulingGates");
    if gates
        .and_then(Value::as_array)
        .is_some_and(|g| !g.is_empty())
    {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null,
            "lastTransitionTime": text(object, "creationTimestamp"),
        }]);
    }
    object["status"] = status;
}

fn tolerate_lost_nodes(spec: &mut Value) {
    if spec.get("tolerations").is_none() {
        spec["tolerations"] = json!([]);
    }
    let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let covered = list.iter().any(|t| {
            let field = |name: &str| t.get(name).and_then(Value::as_str).unwrap_or_default();
            (field("key") == key || field("key").is_empty())
                && matches!(field("effect"), "NoExecute" | "")
        });
        if !covered {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// Returns the quality of service class of a Pod, from the requests and limits of its containers.
fn quality(spec: &Value) -> &'static str {
    let containers = spec.get("containers").and_then(Value::as_array);
    let containers: Vec<&Value> = containers.into_iter().flatten().collect();
    let part = |c: &Value, name: &str| -> Map<String, Value> {
        let found = c.pointer(&format!("/resources/{name}"));
        let found = found.and_then(Value::as_object).into_iter().flatten();
        found
            .filter(|(k, _)| matches!(k.as_str(), "cpu" | "memory"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    let nothing = |c: &&Value| part(c, "requests").is_empty() && part(c, "limits").is_empty();
    if containers.iter().all(nothing) {
        return "BestEffort";
    }
    let full =
        |c: &&Value| part(c, "limits").len() == 2 && part(c, "limits") == part(c, "requests");
    if containers.iter().all(full) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn create_job(object: &mut Value) {
    let (name, uid) = (
        text(object, "name").to_owned(),
        text(object, "uid").to_owned(),
    );
    let manual = object.pointer("/spec/manualSelector") == Some(&Value::Bool(true));
    object["status"] = json!({});
    if manual || !object.get("spec").is_some_and(Value::is_object) {
        return;
    }
    let labels = &mut object["spec"]["template"]["metadata"]["labels"];
    for prefix in ["", "batch.kubernetes.io/"] {
        labels[format!("{prefix}job-name")] = name.clone().into();
        labels[format!("{prefix}controller-uid")] = uid.clone().into();
    }
    let labels = labels.clone();
    object["spec"]["selector"] =
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    if object.pointer("/metadata/labels").is_none() {
        object["metadata"]["labels"] = labels;
    }
}
