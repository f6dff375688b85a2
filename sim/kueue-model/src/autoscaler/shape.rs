//! Pod shapes: what a pod needs of a node.

use std::collections::BTreeMap;

use kueue_check::api::Quantity;
use serde_json::Value;

use super::request::{map, text};
use crate::json::list;

/// What one pod needs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Requests by resource, in thousandths; the limit is used if there is no request.
    pub requests: BTreeMap<String, i64>,
    /// `nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated taints: keys, and values and effects where they are set.
    pub tolerations: Vec<Taint>,
}

/// A taint of a node, or a toleration of a pod. Empty fields of a toleration match any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Such as `NoSchedule`.
    pub effect: String,
}

impl Shape {
    /// Returns the needs of the pods of a pod template. Init containers run one at a time before
    /// the others, so the larger need counts.
    pub fn of_pod_spec(spec: &Value) -> Self {
        let mut requests = BTreeMap::new();
        for container in list(&spec["containers"]) {
            for (resource, amount) in container_requests(container) {
                *requests.entry(resource).or_insert(0) += amount;
            }
        }
        for container in list(&spec["initContainers"]) {
            for (resource, amount) in container_requests(container) {
                let most = requests.entry(resource).or_insert(0);
                *most = amount.max(*most);
            }
        }
        Self {
            requests,
            node_selector: map(&spec["nodeSelector"]),
            tolerations: list(&spec["tolerations"]).map(toleration).collect(),
        }
    }

    pub(super) fn tolerates(&self, taint: &Taint) -> bool {
        // `PreferNoSchedule` excludes no pod.
        taint.effect == "PreferNoSchedule"
            || self
                .tolerations
                .iter()
                .any(|toleration| toleration.covers(taint))
    }
}

impl Taint {
    fn covers(&self, taint: &Self) -> bool {
        let covers = |mine: &str, its: &str| mine.is_empty() || mine == its;
        covers(&self.key, &taint.key)
            && covers(&self.value, &taint.value)
            && covers(&self.effect, &taint.effect)
    }
}

fn toleration(value: &Value) -> Taint {
    Taint {
        key: text(&value["key"]),
        value: text(&value["value"]),
        effect: text(&value["effect"]),
    }
}

fn container_requests(container: &Value) -> BTreeMap<String, i64> {
    let mut amounts = amounts(&container["resources"]["limits"]);
    amounts.extend(self::amounts(&container["resources"]["requests"]));
    amounts
}

pub(super) fn amounts(value: &Value) -> BTreeMap<String, i64> {
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter_map(|(resource, amount)| {
            let amount = match amount {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let amount: Quantity = amount.parse().ok()?;
            Some((resource.clone(), amount.millis()))
        })
        .collect()
}
