//! What the server does to objects of particular built-in kinds.

use serde_json::{Map, Value, json};

use super::meta::text;
use crate::apiserver::kinds::Kind;
use crate::apiserver::status::FieldError;

/// Whether objects of this kind count their generations.
pub(super) fn has_generation(kind: &Kind) -> bool {
    kind.is("", "pods")
        || kind.is("batch", "jobs")
        || kind.is("", "podtemplates")
        || kind.is("scheduling.k8s.io", "priorityclasses")
        || kind.is("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Whether deleting answers with the object.
pub(super) fn returns_deleted(kind: &Kind) -> bool {
    kind.resource.group.is_empty()
        && matches!(
            kind.resource.plural.as_str(),
            "pods" | "podtemplates" | "serviceaccounts" | "resourcequotas"
        )
}

/// What becomes of dependents when nothing is said.
pub(super) fn default_policy(kind: &Kind) -> &'static str {
    if kind.is("batch", "jobs") {
        "Orphan"
    } else {
        "Background"
    }
}

/// Whether replacing an object that is not there makes it.
pub(super) fn creates_on_update(kind: &Kind) -> bool {
    kind.is("coordination.k8s.io", "leases")
        || kind.resource.plural == "events"
        || kind.resource.group == "rbac.authorization.k8s.io"
}

/// An object with nothing in it. Go's structs are always there, with what they must have as null.
pub(crate) fn zero(kind: &Kind) -> Value {
    let mut object = zero_fields(kind);
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.clone().into();
    object["metadata"] = json!({});
    object
}

fn zero_fields(kind: &Kind) -> Value {
    match (kind.resource.group.as_str(), kind.resource.plural.as_str()) {
        _ if kind.custom => json!({}),
        ("", "pods") => json!({"spec": {"containers": null}, "status": {}}),
        ("", "podtemplates") => {
            json!({"template": {"metadata": {}, "spec": {"containers": null}}})
        }
        ("batch", "jobs") => {
            json!({"spec": {"template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}})
        }
        ("", "namespaces" | "resourcequotas") => json!({"spec": {}, "status": {}}),
        ("", "nodes") => json!({"spec": {}, "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
            },
        }}),
        ("", "limitranges") => json!({"spec": {"limits": null}}),
        ("", "events") => json!({
            "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null, "reportingComponent": "",
            "reportingInstance": "",
        }),
        ("events.k8s.io", "events") => json!({
            "regarding": {}, "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null, "eventTime": null,
        }),
        ("coordination.k8s.io", "leases") => json!({"spec": {}}),
        ("scheduling.k8s.io", "priorityclasses") => json!({"value": 0}),
        ("rbac.authorization.k8s.io", "clusterroles" | "roles") => json!({"rules": null}),
        ("rbac.authorization.k8s.io", _) => {
            json!({"roleRef": {"apiGroup": "", "kind": "", "name": ""}})
        }
        _ => json!({}),
    }
}

/// Sets what Go always writes.
fn fill_in(object: &mut Value, zero: &Value) {
    let (Value::Object(map), Value::Object(zero)) = (object, zero) else {
        return;
    };
    for (name, value) in zero {
        match map.get_mut(name) {
            Some(found) => fill_in(found, value),
            None => {
                map.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Sets a field that is missing.
fn default(value: &mut Value, field: &str, default: Value) {
    if let Some(map) = value.as_object_mut() {
        map.entry(field).or_insert(default);
    }
}

/// Fills in the defaults of a decoded object.
pub(super) fn default_object(kind: &Kind, object: &mut Value) {
    fill_in(object, &zero_fields(kind));
    fill_conditions(kind, object);
    match (kind.resource.group.as_str(), kind.resource.plural.as_str()) {
        ("", "namespaces") => {
            let name = text(object, "name").to_owned();
            if !name.is_empty() {
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            }
        }
        ("", "pods") => {
            default_pod(&mut object["spec"]);
            default(&mut object["spec"], "enableServiceLinks", json!(true));
        }
        ("", "podtemplates") => default_pod(&mut object["template"]["spec"]),
        ("", "secrets") => {
            encode_secret(object);
            default_secret(object);
        }
        ("", "nodes") => {
            if let Some(capacity) = object.pointer("/status/capacity").cloned() {
                default(&mut object["status"], "allocatable", capacity);
            }
        }
        ("batch", "jobs") => default_job(object),
        ("scheduling.k8s.io", "priorityclasses") => {
            default(object, "preemptionPolicy", json!("PreemptLowerPriority"));
        }
        _ => {}
    }
}

fn default_secret(object: &mut Value) {
    default(object, "type", json!("Opaque"));
}

fn default_pod(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    default(spec, "restartPolicy", json!("Always"));
    default(spec, "terminationGracePeriodSeconds", json!(30));
    default(spec, "dnsPolicy", json!("ClusterFirst"));
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", json!("default-scheduler"));
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            default_container(container);
        }
    }
}

fn default_container(container: &mut Value) {
    default(
        container,
        "terminationMessagePath",
        json!("/dev/termination-log"),
    );
    default(container, "terminationMessagePolicy", json!("File"));
    default(container, "resources", json!({}));
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let newest =
        !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    let policy = if newest { "Always" } else { "IfNotPresent" };
    default(container, "imagePullPolicy", json!(policy));
    let limits = container.pointer("/resources/limits").cloned();
    for (name, limit) in limits
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let requests = &mut container["resources"]["requests"];
        if requests.is_null() {
            *requests = json!({});
        }
        default(requests, name, limit.clone());
    }
}

fn default_job(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        return;
    }
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        spec["completions"] = json!(1);
    }
    default(spec, "parallelism", json!(1));
    default(spec, "completionMode", json!("NonIndexed"));
    default(spec, "suspend", json!(false));
    default(spec, "manualSelector", json!(false));
    default(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
    let per_index = spec.get("backoffLimitPerIndex").is_some();
    default(
        spec,
        "backoffLimit",
        json!(if per_index { i64::from(i32::MAX) } else { 6 }),
    );
    default_pod(&mut spec["template"]["spec"]);
}

/// What the server writes into a new object.
pub(super) fn on_create(kind: &Kind, object: &mut Value) {
    match (kind.resource.group.as_str(), kind.resource.plural.as_str()) {
        ("", "namespaces") => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        ("", "pods") => create_pod(object),
        ("", "nodes") => create_node(object),
        ("batch", "jobs") => create_job(object),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            let now = text(object, "creationTimestamp").to_owned();
            object["status"] = crate::apiserver::kinds::condition_status(object, &now);
        }
        _ => {}
    }
}

/// What the server writes into a changed object.
pub(super) fn on_update(kind: &Kind, old: &Value, new: &mut Value) {
    if kind.is("", "namespaces") {
        new["spec"] = old["spec"].clone();
    }
}

/// The times of conditions, which Go always writes.
fn fill_conditions(kind: &Kind, object: &mut Value) {
    let times = if kind.is("", "nodes") {
        ["lastHeartbeatTime", "lastTransitionTime"]
    } else if kind.is("", "pods") || kind.is("batch", "jobs") {
        ["lastProbeTime", "lastTransitionTime"]
    } else {
        return;
    };
    let conditions = object.pointer_mut("/status/conditions");
    for condition in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for time in times {
            default(condition, time, Value::Null);
        }
    }
}

/// A Node is not ready until something says so.
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

/// `stringData` goes into `data`.
fn encode_secret(object: &mut Value) {
    let Some(Value::Object(plain)) = object
        .as_object_mut()
        .and_then(|map| map.remove("stringData"))
    else {
        return;
    };
    for (key, value) in plain {
        let bytes = value.as_str().unwrap_or_default().as_bytes().to_vec();
        let encoded = k8s_openapi::ByteString(bytes);
        object["data"][key] = serde_json::to_value(encoded).unwrap_or_default();
    }
}

fn create_pod(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    default(spec, "priority", json!(0));
    default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
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

/// The class of service of a Pod, from what its containers ask for.
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

/// What is wrong with an object of a built-in kind. Few rules: those that a model of Kueue could break.
pub(super) fn check(kind: &Kind, old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (kind.resource.group.as_str(), kind.resource.plural.as_str()) {
        ("", "pods") => check_containers(&new["spec"], "spec", &mut errors),
        ("batch", "jobs") => check_job(old, new, &mut errors),
        _ => {}
    }
    errors
}

fn check_containers(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let containers = spec.get("containers").and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
}

fn check_job(old: Option<&Value>, new: &Value, errors: &mut Vec<FieldError>) {
    check_containers(
        &new["spec"]["template"]["spec"],
        "spec.template.spec",
        errors,
    );
    let policy = &new["spec"]["template"]["spec"]["restartPolicy"];
    if !matches!(policy.as_str(), Some("OnFailure" | "Never")) {
        let allowed = [json!("OnFailure"), json!("Never")];
        let mut error = FieldError::required(
            "spec.template.spec.restartPolicy",
            "valid values: \"OnFailure\", \"Never\"",
        );
        if policy.as_str().is_some_and(|p| p != "Always") {
            error = FieldError::not_supported("spec.template.spec.restartPolicy", policy, &allowed);
        }
        errors.push(error);
    }
    if let Some(old) = old {
        for field in ["completionMode", "selector"] {
            if old["spec"].get(field) != new["spec"].get(field) {
                errors.push(FieldError::invalid(
                    format!("spec.{field}"),
                    &new["spec"][field],
                    "field is immutable",
                ));
            }
        }
    }
}
