//! Empty objects, as Go encodes them.

use serde_json::{Value, json};

use crate::kinds::Kind;

/// Returns an empty object. Go always writes its structs, with required fields as null.
pub(crate) fn zero(kind: &Kind) -> Value {
    let mut object = zero_fields(kind);
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.clone().into();
    object["metadata"] = json!({});
    object
}

pub(super) fn zero_fields(kind: &Kind) -> Value {
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

/// Adds the fields that Go always writes.
pub(super) fn fill_in(object: &mut Value, zero: &Value) {
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
