//! What is on the cluster before anybody submits anything.

use serde_json::{Value, json};

use super::failure::fail;
use crate::apiserver::{ApiServer, Call, Resource, Verb};

/// The AdmissionCheck's name.
pub(crate) const CHECK: &str = "check";
/// The name of the ClusterQueue and of its LocalQueue.
pub(crate) const QUEUE: &str = "queue";

const KUEUE: &str = "kueue.x-k8s.io/v1beta2";

/// Flavor, queues, and the AdmissionCheck.
pub(super) fn defaults(controller: &str, parameters: Option<&Value>, cpus: u32) -> Vec<Value> {
    let mut check = json!({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": CHECK}, "spec": {"controllerName": controller}});
    if let Some(parameters) = parameters {
        let group = parameters["apiVersion"].as_str().and_then(|version| version.split('/').next());
        check["spec"]["parameters"] = json!({"apiGroup": group, "kind": parameters["kind"], "name": parameters["metadata"]["name"]});
    }
    let resources = json!([{"name": "cpu", "nominalQuota": cpus.to_string()}]);
    vec![
        json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}),
        check,
        json!({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": {
            "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO",
            "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}],
        }}),
        json!({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": QUEUE, "namespace": "default"}, "spec": {"clusterQueue": QUEUE}}),
    ]
}

/// The resource of an object. Kinds here have regular plurals.
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
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let call = Call::new(Verb::Create, &resource_of(object))
        .namespace(namespace)
        .body(object.clone())
        .agent("user");
    let answer = server.call(&call);
    if answer.code >= 300 {
        fail(format!("the API server refuses {object}: {}", answer.body["message"]));
    }
}
