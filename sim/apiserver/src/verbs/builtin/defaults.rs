//! Default values of fields that are not set.

use serde_json::{Value, json};

use super::zero::{fill_in, zero_fields};
use crate::kinds::Kind;
use crate::metadata::text;

/// Sets a field that is missing.
pub(super) fn default(value: &mut Value, field: &str, default: Value) {
    if let Some(map) = value.as_object_mut() {
        map.entry(field).or_insert(default);
    }
}

/// Fills in the defaults of a decoded object.
pub(crate) fn default_object(kind: &Kind, object: &mut Value) {
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
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        default(port, "protocol", json!("TCP"));
    }
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

/// Adds the times of conditions, which Go always writes.
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

/// Moves `stringData` to `data`, encoded.
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
