//! Merging of pod sets that are requested as one.

use kueue_check::api::Quantity;
use serde_json::{Map, Value};

use super::RequestedPodSet;
use crate::config::MergePolicy;

/// Pod sets that are requested as one.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The pod set whose name, template and assignment count.
    pub first: RequestedPodSet<'a>,
    /// The pods of all pod sets.
    pub count: u64,
    /// The names of the other pod sets.
    pub others: Vec<&'a str>,
}

/// Merges each pod set of `wanted` into the first group that it is equal to. The assigned flavors
/// are not compared, as in Kueue's own check.
pub fn merge(wanted: Vec<RequestedPodSet<'_>>, policy: Option<MergePolicy>) -> Vec<Group<'_>> {
    let mut groups: Vec<(Value, Group<'_>)> = Vec::new();
    for pods in wanted {
        let key = policy.map_or(Value::Null, |policy| likeness(pods.template, policy));
        let like = groups
            .iter_mut()
            .find(|(other, _)| policy.is_some() && *other == key);
        match like {
            Some((_, group)) => {
                group.count = group.count.saturating_add(pods.count);
                group.others.push(pods.name);
            }
            None => groups.push((
                key,
                Group {
                    count: pods.count,
                    others: Vec::new(),
                    first: pods,
                },
            )),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the parts of the template that must be equal.
fn likeness(template: &Value, policy: MergePolicy) -> Value {
    match policy {
        MergePolicy::IdenticalPodTemplates => normal(template),
        MergePolicy::IdenticalWorkloadSchedulingRequirements => scheduling(&template["spec"]),
    }
}

fn scheduling(spec: &Value) -> Value {
    let requests = |containers: &Value| -> Value {
        super::list(containers)
            .map(|container| normal(&container["resources"]["requests"]))
            .collect()
    };
    let mut likeness = Map::new();
    for field in ["containers", "initContainers"] {
        likeness.insert(field.to_owned(), requests(&spec[field]));
    }
    for field in [
        "resources",
        "nodeSelector",
        "tolerations",
        "affinity",
        "resourceClaims",
    ] {
        likeness.insert(field.to_owned(), normal(&spec[field]));
    }
    Value::Object(likeness)
}

/// Returns the value without empty parts, and with quantities in one notation: `1000m` is `1`.
pub(super) fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| {
                let value = match key.as_str() {
                    "requests" | "limits" => amounts(value),
                    _ => normal(value),
                };
                (key.clone(), value)
            });
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        value => value.clone(),
    }
}

fn amounts(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let fields = fields.map(|(key, amount)| {
        let text = amount
            .as_str()
            .map_or_else(|| amount.to_string(), str::to_owned);
        let amount = text
            .parse::<Quantity>()
            .map_or(text, |amount| amount.to_string());
        (key.clone(), Value::String(amount))
    });
    Value::Object(fields.collect())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
