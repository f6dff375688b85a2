//! The role of a Pod in a group. Pods with the same role form a pod set of the group's Workload.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::hash;
use super::labels::annotation;
use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::objects::with_canonical_quantities;

/// The annotation with a hash over the Pod fields that matter for admission.
pub(super) const ROLE: &str = "kueue.x-k8s.io/role-hash";

/// Returns the role of a Pod in its group, which is the name of its pod set.
pub(super) fn role(pod: &Value) -> String {
    let known = annotation(pod, ROLE).map(str::to_owned);
    known.unwrap_or_else(|| role_hash(&pod["spec"], KueueVersion::default()))
}

/// Formats the elements of a list with their fields in this order, as Go serializes a struct.
fn in_order(elements: &Value, fields: &[&str]) -> String {
    let element = |element: &Value| {
        let present = fields.iter().filter(|field| !element[**field].is_null());
        let present = present.map(|field| format!("\"{field}\":{}", element[*field]));
        format!("{{{}}}", present.collect::<Vec<_>>().join(","))
    };
    let elements: Vec<String> = list(elements).map(element).collect();
    if elements.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", elements.join(","))
    }
}

/// Returns the tolerations of a Pod after the API server has added its own (admission plugin
/// `DefaultTolerationSeconds`), which happens before it calls webhooks.
fn tolerations(spec: &Value) -> Value {
    let mut all: Vec<Value> = list(&spec["tolerations"]).cloned().collect();
    for taint in ["not-ready", "unreachable"] {
        let key = format!("node.kubernetes.io/{taint}");
        let covers = |toleration: &Value| {
            let effect = toleration["effect"].as_str().unwrap_or_default();
            let of = toleration["key"].as_str().unwrap_or_default();
            (of == key || of.is_empty()) && matches!(effect, "" | "NoExecute")
        };
        if !all.iter().any(covers) {
            all.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    all.into()
}

/// Returns a hash over the Pod fields that matter for admission (`GenerateRoleHash` in
/// `pkg/util/pod`). Pods without a priority class have the priority 0: the API server sets it
/// before it calls webhooks. Requests of the Pod itself count since 0.18 (0.18.3, not 0.17.0:
/// `SpecShape` there).
pub(super) fn role_hash(spec: &Value, version: KueueVersion) -> String {
    let containers = |field: &str| {
        let ports = ["name", "hostPort", "containerPort", "protocol", "hostIP"];
        let shape = |container: &Value| {
            let ports = in_order(&container["ports"], &ports);
            let requests = with_canonical_quantities(&container["resources"]["requests"]);
            format!("{{\"ports\":{ports},\"resources\":{{\"requests\":{requests}}}}}")
        };
        let shapes: Vec<String> = list(&spec[field]).map(shape).collect();
        if shapes.is_empty() {
            "null".to_owned()
        } else {
            format!("[{}]", shapes.join(","))
        }
    };
    let fields = ["key", "operator", "value", "effect", "tolerationSeconds"];
    let priority = spec["priority"].as_i64().unwrap_or_default();
    // Go writes the keys of a map in order.
    let mut shape = BTreeMap::from([
        ("affinity", spec["affinity"].to_string()),
        ("containers", containers("containers")),
        ("initContainers", containers("initContainers")),
        ("nodeSelector", spec["nodeSelector"].to_string()),
        (
            "overhead",
            with_canonical_quantities(&spec["overhead"]).to_string(),
        ),
        ("priority", priority.to_string()),
        ("resourceClaims", spec["resourceClaims"].to_string()),
        ("runtimeClassName", spec["runtimeClassName"].to_string()),
        ("tolerations", in_order(&tolerations(spec), &fields)),
        (
            "topologySpreadConstraints",
            spec["topologySpreadConstraints"].to_string(),
        ),
    ]);
    let own = &spec["resources"];
    if version.compares_pod_limits && !own.is_null() {
        let requests = with_canonical_quantities(&own["requests"]);
        shape.insert("resources", requests.to_string());
    }
    let shape = shape.into_iter();
    let shape: Vec<String> = shape
        .map(|(field, value)| format!("\"{field}\":{value}"))
        .collect();
    let text = format!("{{\"spec\":{{{}}}}}", shape.join(","));
    hash::sha256(text.as_bytes())[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first hash is the pod set name of this Pod on Kueue 0.19.2 with kube-apiserver 1.36.3;
    /// those of 0.19.2 with requests of the Pod itself are results of its `GenerateRoleHash`.
    #[test]
    fn a_role_is_named_as_kueue_names_it() {
        let spec = |cpus: &str, more: Value| {
            let mut spec = json!({
                "containers": [{"image": "pause", "name": "c", "resources": {"requests": {"cpu": cpus}}}],
                "nodeSelector": {"pool": "b"}, "restartPolicy": "Never",
            });
            if !more.is_null() {
                spec["resources"] = more;
            }
            spec
        };
        let of_pod = json!({"limits": {"cpu": "4"}, "requests": {"cpu": "3000m"}});
        for (spec, version, expected) in [
            (spec("2", Value::Null), KueueVersion::V0_19, "99c0113b"),
            (spec("2000m", Value::Null), KueueVersion::V0_19, "99c0113b"),
            (spec("2", of_pod.clone()), KueueVersion::V0_19, "e16b3b36"),
            (spec("2", json!({})), KueueVersion::V0_19, "e874d165"),
            (spec("2", of_pod), KueueVersion::V0_17, "99c0113b"),
        ] {
            assert_eq!(role_hash(&spec, version), expected, "{spec}");
        }
    }
}
