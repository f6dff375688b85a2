//! Requests of containers that exceed their limits.

use serde_json::Value;

use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::objects::{Workload, amount_of};

/// Returns why a Workload with requests above their limits gets no quota. A resource without a
/// limit is not compared (Kueue 0.19.2, `ValidateResources` in `pkg/workload/resources.go`; up to
/// 0.18 the order of the names is that of a Go map).
pub(crate) fn above_limits(workload: &Workload, version: KueueVersion) -> Option<String> {
    let sets = workload.spec.pod_sets.iter().enumerate();
    let errors: Vec<String> = sets
        .flat_map(|(at, set)| {
            let path = format!("spec.podSets[{at}].template.spec");
            errors_of(&path, &set.template["spec"], version)
        })
        .collect();
    let text = match errors.as_slice() {
        [] => return None,
        [error] => error.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    Some(format!("resources validation failed: {text}"))
}

fn errors_of(path: &str, spec: &Value, version: KueueVersion) -> Vec<String> {
    let containers = ["initContainers", "containers"].into_iter();
    let containers = containers.flat_map(|field| {
        let all = list(&spec[field]).enumerate();
        all.map(move |(at, container)| (field, Some(at), &container["resources"]))
    });
    let whole = ("resources", None, &spec["resources"]);
    let whole = version.compares_pod_limits.then_some(whole);
    let errors = containers
        .chain(whole)
        .filter_map(|(field, at, resources)| {
            let names = larger(resources);
            if names.is_empty() {
                return None;
            }
            let at = at.map(|at| format!("[{at}]")).unwrap_or_default();
            let names = Value::from(names);
            Some(format!(
                "{path}.{field}{at}: Invalid value: {names}: requests must not exceed its limits"
            ))
        });
    errors.collect()
}

/// Returns the resources whose request is larger than the limit, sorted.
fn larger(resources: &Value) -> Vec<&str> {
    let limits = &resources["limits"];
    let requests = resources["requests"]
        .as_object()
        .filter(|_| limits.is_object());
    let larger = requests.into_iter().flatten().filter(|(name, request)| {
        let limit = amount_of(name, &limits[name.as_str()]);
        limit.is_some_and(|limit| amount_of(name, request) > Some(limit))
    });
    larger.map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error_of(spec: &Value) -> Option<String> {
        let sets = json!([{"name": "a", "template": {"spec": {}}}, {"name": "b", "template": {"spec": spec}}]);
        let workload = serde_json::from_value(json!({"spec": {"podSets": sets}})).unwrap();
        above_limits(&workload, KueueVersion::V0_19)
    }

    #[test]
    fn every_container_with_requests_above_its_limits_is_named() {
        let of = |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
        let one = of(json!({"cpu": "2"}), json!({"cpu": 1}));
        let two = of(
            json!({"memory": "2Gi", "cpu": "1001m", "example.com/gpu": 1}),
            json!({"memory": "2G", "cpu": "1", "example.com/gpu": 1}),
        );
        let right = of(json!({"cpu": "1", "memory": "2Gi"}), json!({"cpu": "1"}));
        let error = |part: &str, names: &str| {
            format!(
                "spec.podSets[1].template.spec.{part}: Invalid value: [{names}]: requests must not exceed its limits"
            )
        };
        for (spec, errors) in [
            (json!({"containers": [right, {}]}), vec![]),
            (
                json!({"containers": [right, one]}),
                vec![error("containers[1]", r#""cpu""#)],
            ),
            (
                json!({"initContainers": [two], "containers": [one], "resources": one["resources"]}),
                vec![
                    error("initContainers[0]", r#""cpu","memory""#),
                    error("containers[0]", r#""cpu""#),
                    error("resources", r#""cpu""#),
                ],
            ),
        ] {
            let expected = match errors.as_slice() {
                [] => None,
                [error] => Some(format!("resources validation failed: {error}")),
                all => Some(format!("resources validation failed: [{}]", all.join(", "))),
            };
            assert_eq!(error_of(&spec), expected, "{spec}");
        }
    }
}
