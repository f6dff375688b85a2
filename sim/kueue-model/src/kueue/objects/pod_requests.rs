//! The resource requests of a Pod.

use std::collections::BTreeMap;

use kueue_check::api::Quantity;
use serde_json::Value;

/// Amounts by resource, in Kueue's units: thousandths of CPU, whole units of all else.
pub(crate) type Requests = BTreeMap<String, i64>;

/// Returns the requests of one Pod: the sum of its containers, or its largest init container if
/// that is more, plus the overhead. A limit counts as the request if there is no request.
pub(crate) fn pod_requests(spec: &Value) -> Requests {
    let mut total = Requests::new();
    for container in containers(spec, "containers") {
        for (name, amount) in requests(container) {
            let sum = total.entry(name).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    for container in containers(spec, "initContainers") {
        for (name, amount) in requests(container) {
            let sum = total.entry(name).or_default();
            *sum = (*sum).max(amount);
        }
    }
    for (name, amount) in amounts(&spec["overhead"]) {
        let sum = total.entry(name).or_default();
        *sum = sum.saturating_add(amount);
    }
    total
}

fn containers<'a>(spec: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    spec[field].as_array().into_iter().flatten()
}

fn requests(container: &Value) -> Requests {
    let mut all = amounts(&container["resources"]["limits"]);
    all.append(&mut amounts(&container["resources"]["requests"]));
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
