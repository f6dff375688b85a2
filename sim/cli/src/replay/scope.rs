//! The limits of what a trace may contain.

use serde_json::Value;

use super::ReplayError;
use super::trace::Trace;

/// Features that the model does not have, and their signs: part of a path, or a field of an object.
const NOT_MODELLED: [(&str, &[&str], &[&str]); 2] = [
    (
        "topologies",
        &["/topologies"],
        &["/spec/topologyName", "/spec/podSets/0/topologyRequest"],
    ),
    ("MultiKueue", &["/multikueue"], &[]),
];

/// The controller name of Kueue's `MultiKueue`.
const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";

/// Rejects a trace that uses a feature that the model does not have.
pub(super) fn check(trace: &Trace) -> Result<(), ReplayError> {
    let found = trace.bodies().find_map(|(path, body)| missing(path, body));
    found.map_or(Ok(()), |what| Err(ReplayError::NotModelled(what)))
}

fn missing(path: &str, body: &Value) -> Option<&'static str> {
    if body["spec"]["controllerName"] == MULTI_KUEUE {
        return Some("MultiKueue");
    }
    let has = |field: &&str| body.pointer(field).is_some_and(|value| !value.is_null());
    let found = NOT_MODELLED.iter().find(|(_, paths, fields)| {
        paths.iter().any(|part| path.contains(part)) || fields.iter().any(has)
    });
    found.map(|(what, ..)| *what)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_modelled_is_named() {
        let flavors = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors";
        let checks = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks";
        let queues = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues";
        let clusters = "/apis/kueue.x-k8s.io/v1beta2/multikueueclusters";
        let table = [
            (
                flavors,
                json!({"spec": {"topologyName": "racks"}}),
                Some("topologies"),
            ),
            (flavors, json!({"spec": {}}), None),
            (
                checks,
                json!({"spec": {"controllerName": MULTI_KUEUE}}),
                Some("MultiKueue"),
            ),
            (clusters, json!({}), Some("MultiKueue")),
            (
                queues,
                json!({"spec": {"concurrentAdmissionPolicy": {}}}),
                None,
            ),
        ];
        for (path, body, expected) in table {
            assert_eq!(missing(path, &body), expected, "{path} {body}");
        }
    }
}
