//! The resource requests of a Pod.

use std::collections::BTreeMap;

use kueue_check::api::Quantity;
use serde_json::Value;

use crate::json::list;
use crate::kueue::KueueVersion;

/// Amounts by resource, in Kueue's units: thousandths of CPU, whole units of all else.
pub(crate) type Requests = BTreeMap<String, i64>;

/// Returns the requests of one Pod: what its containers and sidecars request together, or more if
/// its start requires more, plus the overhead. Requests of the Pod itself replace those of its
/// containers. A limit counts as the request if there is no request.
///
/// A sidecar is an init container with `restartPolicy: Always`. It runs beside the init containers
/// after it and beside the containers. Before 0.18, limits of the Pod itself are no requests (0.17.0:
/// `UseLimitsAsMissingRequestsInPod`). The other rules are those of Kueue 0.19.2: `AdjustResources` in
/// `pkg/workload/resources.go`, `PodRequests` in `resource/helpers.go` of component-helpers 0.36.2.
pub(crate) fn pod_requests(spec: &Value, version: KueueVersion) -> Requests {
    let mut total = Requests::new();
    for container in list(&spec["containers"]) {
        add(&mut total, &requests(container));
    }
    let mut sidecars = Requests::new();
    let mut at_start = Requests::new();
    for container in list(&spec["initContainers"]) {
        let own = requests(container);
        let mut together = sidecars.clone();
        add(&mut together, &own);
        raise(&mut at_start, &together);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            sidecars = together;
        }
    }
    raise(&mut total, &at_start);
    let own = if version.compares_pod_limits {
        requests(spec)
    } else {
        amounts(&spec["resources"]["requests"])
    };
    total.extend(own.into_iter().filter(|(name, _)| is_of_pod(name)));
    add(&mut total, &amounts(&spec["overhead"]));
    total
}

fn add(total: &mut Requests, more: &Requests) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(total: &mut Requests, least: &Requests) {
    for (name, amount) in least {
        let sum = total.entry(name.clone()).or_default();
        *sum = (*sum).max(*amount);
    }
}

/// Returns true for a resource that a Pod itself can request (`IsSupportedPodLevelResource`, same
/// file).
fn is_of_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Returns the requests in the field `resources` of a container or Pod, in Kueue's units.
fn requests(of: &Value) -> Requests {
    amounts(&effective_requests(of))
}

/// Returns the requests in the field `resources` of a container or Pod, with limits as missing ones
/// (Kueue 0.19.2, `UseLimitsAsMissingRequestsInPod` in `pkg/workload/resources.go`).
pub(crate) fn effective_requests(of: &Value) -> Value {
    let [mut all, requests] = ["limits", "requests"].map(|field| of["resources"][field].clone());
    match (all.as_object_mut(), requests) {
        (Some(all), Value::Object(requests)) => all.extend(requests),
        (None, requests) => return requests,
        (Some(_), _) => {}
    }
    all
}

fn amounts(list: &Value) -> Requests {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.clone(), amount_of(name, amount)?)))
        .collect()
}

/// Converts a JSON quantity, a string or a number, to Kueue's units.
pub(crate) fn amount_of(resource: &str, amount: &Value) -> Option<i64> {
    let quantity: Quantity = match amount {
        Value::String(text) => text.parse().ok()?,
        Value::Number(number) => number.to_string().parse().ok()?,
        _ => return None,
    };
    Some(if resource == "cpu" {
        quantity.millis()
    } else {
        quantity.units()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpus: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpus}}})
    }

    fn sidecar(cpus: &str) -> Value {
        json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpus}}})
    }

    /// Each row has the init containers of a Pod with two containers of one CPU, and its CPUs.
    #[test]
    fn sidecars_run_beside_all_that_start_later() {
        let rows = [
            (json!([]), 2),
            (json!([container("1")]), 2),
            (json!([container("3")]), 3),
            (json!([sidecar("1")]), 3),
            (json!([sidecar("3"), sidecar("1")]), 6),
            (json!([container("4"), sidecar("1")]), 4),
            (json!([sidecar("1"), container("4")]), 5),
            (json!([sidecar("1"), container("2"), sidecar("2")]), 5),
        ];
        for (starting, cpus) in rows {
            let spec =
                json!({"containers": [container("1"), container("1")], "initContainers": starting});
            let found = pod_requests(&spec, KueueVersion::V0_19);
            assert_eq!(found["cpu"], cpus * 1000, "{starting}");
        }
    }

    #[test]
    fn requests_of_the_pod_replace_those_of_its_containers() {
        let requests = json!({"cpu": "1", "memory": "5", "hugepages-2Mi": "2", "gpu": "1"});
        let spec = json!({
            "containers": [{"resources": {"requests": requests}}],
            "resources": {
                "requests": {"cpu": "3", "gpu": "9"},
                "limits": {"cpu": "4", "hugepages-2Mi": "8"},
            },
            "overhead": {"cpu": "500m"},
        });
        for (version, huge) in [(KueueVersion::V0_19, 8), (KueueVersion::V0_17, 2)] {
            let found = pod_requests(&spec, version);
            let found = ["cpu", "memory", "hugepages-2Mi", "gpu"].map(|name| found[name]);
            assert_eq!(found, [3500, 5, huge, 1]);
        }
    }
}
