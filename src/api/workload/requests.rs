//! Requests of one pod of a template, by Kubernetes' rule.

use std::collections::BTreeMap;

use super::object::{Container, PodSpec, Resources};
use crate::api::Quantity;

type Requests = BTreeMap<String, Quantity>;

/// Returns what one pod requests of each resource.
///
/// Containers and restartable init containers (sidecars) run together; other init containers run
/// one after another, each with the sidecars started before it, so the pod needs the larger of
/// the two. Requests of the pod as a whole replace the sum; the overhead comes on top. A missing
/// request counts as the limit, as the API server defaults it.
pub(super) fn per_pod(spec: &PodSpec) -> Requests {
    let mut running = Requests::new();
    for container in &spec.containers.0 {
        add(&mut running, &of_container(&container.0));
    }
    let mut sidecars = Requests::new();
    let mut starting = Requests::new();
    for container in &spec.init_containers.0 {
        let own = of_container(&container.0);
        if container.0.restart_policy.0.as_deref() == Some("Always") {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            at_least(&mut starting, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &own);
            at_least(&mut starting, &together);
        }
    }
    at_least(&mut running, &starting);
    running.extend(of_resources(&spec.resources.0));
    add(
        &mut running,
        &spec
            .overhead
            .0
            .iter()
            .map(|(name, amount)| (name.clone(), amount.0.0))
            .collect(),
    );
    running
}

fn of_container(container: &Container) -> Requests {
    of_resources(&container.resources.0)
}

fn of_resources(resources: &Resources) -> Requests {
    let both = resources.limits.0.iter().chain(&resources.requests.0);
    both.map(|(name, amount)| (name.clone(), amount.0.0))
        .collect()
}

fn add(sum: &mut Requests, more: &Requests) {
    for (name, amount) in more {
        let known = sum.entry(name.clone()).or_default();
        *known = *known + *amount;
    }
}

fn at_least(requests: &mut Requests, floor: &Requests) {
    for (name, amount) in floor {
        let known = requests.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(spec: serde_json::Value) -> Vec<(String, String)> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        per_pod(&spec)
            .into_iter()
            .map(|(name, amount)| (name, amount.to_string()))
            .collect()
    }

    fn expect(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()))
            .collect()
    }

    #[test]
    fn containers_add_up_and_a_limit_stands_for_a_missing_request() {
        let spec = serde_json::json!({"containers": [
            {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "nvidia.com/gpu": 1}}},
            {"resources": {"requests": {"cpu": 1}}},
            {},
        ]});
        assert_eq!(
            requests(spec),
            expect(&[
                ("cpu", "1.5"),
                ("memory", "1073741824"),
                ("nvidia.com/gpu", "1")
            ])
        );
    }

    #[test]
    fn an_init_container_counts_when_it_is_larger() {
        let spec = serde_json::json!({
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "4"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "3", "memory": "1"}}}, {"resources": {"requests": {"cpu": "2"}}}],
        });
        assert_eq!(requests(spec), expect(&[("cpu", "3"), ("memory", "4")]));
    }

    #[test]
    fn a_sidecar_counts_beside_what_starts_after_it() {
        let spec = serde_json::json!({
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [
                {"resources": {"requests": {"cpu": "4"}}},
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}},
                {"resources": {"requests": {"cpu": "3"}}},
            ],
        });
        assert_eq!(requests(spec), expect(&[("cpu", "5")]));
    }

    #[test]
    fn requests_of_the_whole_pod_replace_the_sum_and_overhead_comes_on_top() {
        let spec = serde_json::json!({
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "5"}}}],
            "resources": {"requests": {"cpu": "2"}},
            "overhead": {"cpu": "250m", "memory": "1"},
        });
        assert_eq!(requests(spec), expect(&[("cpu", "2.25"), ("memory", "6")]));
    }
}
