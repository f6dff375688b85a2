//! Requests of containers that exceed their limits.

use serde_json::Value;

use crate::kueue::objects::{Requests, Workload, amount_of};

/// Returns why a Workload with requests above their limits gets no quota. A resource without a
/// limit is not compared (Kueue 0.19.2, `ValidateResources` in `pkg/workload/resources.go`; 0.15.0
/// and 0.17.0 do not compare `spec.resources`, and up to 0.18 the order of the names is that of a Go
/// map).
pub(crate) fn above_limits(workload: &Workload) -> Option<String> {
    let sets = workload.spec.pod_sets.iter().enumerate();
    let errors: Vec<String> = sets
        .flat_map(|(at, set)| {
            let path = format!("spec.podSets[{at}].template.spec");
            errors_of(&path, &set.template["spec"])
        })
        .collect();
    let text = match errors.as_slice() {
        [] => return None,
        [error] => error.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    Some(format!("resources validation failed: {text}"))
}

fn errors_of(path: &str, spec: &Value) -> Vec<String> {
    let containers = ["initContainers", "containers"].into_iter();
    let containers = containers.flat_map(|field| {
        let list = spec[field].as_array().into_iter().flatten().enumerate();
        list.map(move |(at, container)| (format!("{field}[{at}]"), &container["resources"]))
    });
    let whole = [("resources".to_owned(), &spec["resources"])];
    let parts = containers.chain(whole);
    let errors = parts.filter_map(|(part, resources)| {
        let names = larger(resources);
        let text = Value::from(names.clone());
        let error =
            format!("{path}.{part}: Invalid value: {text}: requests must not exceed its limits");
        (!names.is_empty()).then_some(error)
    });
    errors.collect()
}

/// Returns the resources whose request is larger than the limit, sorted.
fn larger(resources: &Value) -> Vec<String> {
    let limits = amounts(&resources["limits"]);
    let requests = amounts(&resources["requests"]).into_iter();
    let larger =
        requests.filter(|(name, amount)| limits.get(name).is_some_and(|limit| amount > limit));
    larger.map(|(name, _)| name).collect()
}

fn amounts(list: &Value) -> Requests {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.clone(), amount_of(name, amount)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error_of(spec: &Value) -> Option<String> {
        let sets = json!([{"name": "a", "template": {"spec": {}}}, {"name": "b", "template": {"spec": spec}}]);
        let workload = serde_json::from_value(json!({"spec": {"podSets": sets}})).unwrap();
        above_limits(&workload)
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
