//! The initial objects of a simulation.

use serde_json::{Value, json};

use super::failure::fail;
use crate::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};

/// The name of the AdmissionCheck.
pub(crate) const CHECK: &str = "check";
/// The name of the ClusterQueue and of its LocalQueue.
pub(crate) const QUEUE: &str = "queue";

const KUEUE: &str = "kueue.x-k8s.io/v1beta2";

/// Returns a flavor, and a ClusterQueue with `checks`.
pub(super) fn defaults(checks: &[&str], cpus: u32) -> Vec<Value> {
    let resources = json!([{"name": "cpu", "nominalQuota": cpus.to_string()}]);
    let checks: Vec<_> = checks.iter().map(|name| json!({"name": name})).collect();
    vec![
        json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}),
        json!({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": {
            "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO",
            "admissionChecksStrategy": {"admissionChecks": checks},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}],
        }}),
    ]
}

/// Returns an AdmissionCheck that refers to `parameters`.
pub(super) fn admission_check(name: &str, controller: &str, parameters: Option<&Value>) -> Value {
    let mut check = json!({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": {"controllerName": controller}});
    if let Some(parameters) = parameters {
        let group = parameters["apiVersion"]
            .as_str()
            .and_then(|version| version.split('/').next());
        check["spec"]["parameters"] = json!({"apiGroup": group, "kind": parameters["kind"], "name": parameters["metadata"]["name"]});
    }
    check
}

/// Returns the LocalQueue of a Namespace.
pub(super) fn local_queue(namespace: &str) -> Value {
    json!({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": QUEUE, "namespace": namespace}, "spec": {"clusterQueue": QUEUE}})
}

pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns true if two objects have the same kind, namespace and name.
pub(super) fn same_place(a: &Value, b: &Value) -> bool {
    let place = |object: &Value| {
        let group = object["apiVersion"]
            .as_str()
            .and_then(|version| version.split_once('/'));
        let metadata = &object["metadata"];
        (
            group.map(|(group, _)| group.to_owned()),
            object["kind"].clone(),
            metadata["namespace"].clone(),
            metadata["name"].clone(),
        )
    };
    place(a) == place(b)
}

/// Returns the resource of an object. Kinds here have regular plurals.
pub(super) fn resource_of(object: &Value) -> Resource {
    let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
    let (Some(version), Some(kind)) = (version, kind) else {
        fail(format!("an object needs apiVersion and kind: {object}"));
    };
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Resource::new(group, version, plural(&kind.to_lowercase()))
}

fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") || kind.ends_with("sh") => {
            format!("{kind}es")
        }
        _ => format!("{kind}s"),
    }
}

/// Creates an object as a user does.
pub(super) fn create(server: &ApiServer, object: &Value) {
    let call = call(Verb::Create, object).body(object.clone());
    done(server, &call, object);
}

/// Creates an object, or applies the given fields to an existing one. It works as `kubectl apply
/// --server-side --force-conflicts` does.
pub(super) fn apply(server: &ApiServer, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let call = call(Verb::Patch(Patch::Apply), object)
        .name(name)
        .query("fieldManager", "user")
        .query("force", "true")
        .body(object.clone());
    done(server, &call, object);
}

/// Changes an object by a merge patch.
pub(super) fn merge(server: &ApiServer, object: &Value, patch: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let call = call(Verb::Patch(Patch::Merge), object)
        .name(name)
        .body(patch.clone());
    done(server, &call, patch);
}

/// Deletes an object as kubectl does, with the objects that it owns.
pub(super) fn delete(server: &ApiServer, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let call = call(Verb::Delete, object)
        .name(name)
        .query("propagationPolicy", "Background");
    done(server, &call, object);
}

fn call(verb: Verb, object: &Value) -> ApiRequest {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    ApiRequest::new(verb, &resource_of(object))
        .namespace(namespace)
        .agent("user")
}

fn done(server: &ApiServer, call: &ApiRequest, sent: &Value) {
    let response = server.call(call);
    if response.code >= 300 {
        let (code, message) = (response.code, &response.body["message"]);
        fail(format!(
            "the API server refuses with {code} {message}: {sent}"
        ));
    }
}
