//! Comparison of a request with the needs of a Workload.

use std::collections::BTreeMap;

use kueue_check::api::Quantity;
use serde_json::Value;

use super::merge::normal;
use super::{Group, list};

/// Requested pods, with their template.
#[derive(Clone, Debug)]
pub struct RequestedPods {
    /// The number of pods.
    pub count: u64,
    /// The pods' template.
    pub template: Value,
}

/// Returns what of `needed` is missing in `requested`, or `None` if nothing is.
///
/// Pods cover a pod set if each requests at least as much as a pod of the set. They must have the
/// node selector, affinity and claims of its template. The additions of the assigned flavors are
/// not compared: a request is used again when quota is lost and reserved in another flavor.
pub fn shortfall(needed: &[Group<'_>], requested: &[RequestedPods]) -> Option<String> {
    let mut left: Vec<(u64, &Value)> = requested
        .iter()
        .map(|pods| (pods.count, &pods.template))
        .collect();
    for group in needed {
        let mut missing = group.count;
        let alike = left
            .iter_mut()
            .filter(|(_, template)| is_covered(group.first.template, template));
        for (count, _) in alike {
            let taken = missing.min(*count);
            missing -= taken;
            *count -= taken;
        }
        if missing > 0 {
            return Some(format!(
                "of {} pods like those of pod set \"{}\" it has {}",
                group.count,
                group.first.name,
                group.count - missing
            ));
        }
    }
    None
}

/// Returns true if capacity for a pod of `requested` is capacity for one of `needed`.
fn is_covered(needed: &Value, requested: &Value) -> bool {
    let (needed, requested) = (&needed["spec"], &requested["spec"]);
    let own = requests(requested);
    let enough = requests(needed)
        .into_iter()
        .all(|(name, amount)| own.get(name).copied().unwrap_or_default() >= amount);
    let selects = entries(&needed["nodeSelector"])
        .all(|(key, value)| requested["nodeSelector"][key.as_str()] == *value);
    let same = ["affinity", "resourceClaims"]
        .iter()
        .all(|field| normal(&needed[*field]) == normal(&requested[*field]));
    enough && selects && same
}

/// Returns the requests of one pod, by resource: its own, else those of its containers, or of the
/// init container that requests more. A missing request equals the limit.
fn requests(spec: &Value) -> BTreeMap<&str, Quantity> {
    let mut all: BTreeMap<&str, Quantity> = BTreeMap::new();
    let stays = |container: &&Value| container["restartPolicy"] == "Always";
    let run = list(&spec["containers"]).chain(list(&spec["initContainers"]).filter(stays));
    for container in run {
        for (name, amount) in amounts(&container["resources"]) {
            let sum = all.entry(name).or_default();
            *sum = *sum + amount;
        }
    }
    for container in list(&spec["initContainers"]) {
        for (name, amount) in amounts(&container["resources"]) {
            let most = all.entry(name).or_default();
            *most = amount.max(*most);
        }
    }
    all.extend(amounts(&spec["resources"]));
    all
}

fn amounts(resources: &Value) -> BTreeMap<&str, Quantity> {
    let limits = entries(&resources["limits"]);
    let all = limits.chain(entries(&resources["requests"]));
    all.map(|(name, amount)| (name.as_str(), quantity(amount)))
        .collect()
}

fn quantity(amount: &Value) -> Quantity {
    let text = amount
        .as_str()
        .map_or_else(|| amount.to_string(), str::to_owned);
    text.parse().unwrap_or_default()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::RequestedPodSet;
    use super::*;

    /// The description, the template of three needed pods, the requested pods, and the result.
    type Case<'a> = (&'a str, &'a Value, Vec<(u64, Value)>, Option<String>);

    fn template(spec: &Value) -> Value {
        let mut whole = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}}]}});
        for (key, value) in spec.as_object().unwrap() {
            whole["spec"][key] = value.clone();
        }
        whole
    }

    fn containers(requests: &Value) -> Value {
        template(&json!({"containers": [{"name": "c", "resources": requests}]}))
    }

    #[test]
    fn an_insufficient_request_is_detected() {
        let same = template(&json!({}));
        let selective = template(&json!({"nodeSelector": {"gpu": "a100"}}));
        let near = json!({"podAffinity": {"x": 1}});
        let init =
            json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "8"}}}]});
        let prepared = template(&init);
        let claiming = template(&json!({"resourceClaims": [{"name": "gpu"}]}));
        let half = json!({"requests": {"cpu": "1", "nvidia.com/gpu": "1"}});
        let short = |name: &str, has| {
            Some(format!(
                "of 3 pods like those of pod set \"{name}\" it has {has}"
            ))
        };
        let cases: Vec<Case<'_>> = vec![
            ("the same", &same, vec![(3, same.clone())], None),
            ("more pods", &same, vec![(4, same.clone())], None),
            (
                "fewer pods",
                &same,
                vec![(1, same.clone())],
                short("main", 1),
            ),
            ("no pods", &same, vec![], short("main", 0)),
            (
                "in parts",
                &same,
                vec![(1, same.clone()), (2, same.clone())],
                None,
            ),
            (
                "smaller pods",
                &same,
                vec![(3, containers(&half))],
                short("main", 0),
            ),
            (
                "written otherwise",
                &same,
                vec![(
                    3,
                    containers(&json!({"requests": {"cpu": "2000m", "nvidia.com/gpu": 1}})),
                )],
                None,
            ),
            (
                "limits only",
                &same,
                vec![(
                    3,
                    containers(&json!({"limits": {"cpu": "2", "nvidia.com/gpu": "1"}})),
                )],
                None,
            ),
            (
                "a small pod around large containers",
                &same,
                vec![(
                    3,
                    template(&json!({"resources": {"requests": {"cpu": "1m"}}})),
                )],
                short("main", 0),
            ),
            ("with a flavor", &same, vec![(3, selective.clone())], None),
            (
                "anywhere",
                &selective,
                vec![(3, same.clone())],
                short("main", 0),
            ),
            (
                "elsewhere",
                &selective,
                vec![(3, template(&json!({"nodeSelector": {"gpu": "t4"}})))],
                short("main", 0),
            ),
            (
                "another affinity",
                &same,
                vec![(3, template(&json!({"affinity": near})))],
                short("main", 0),
            ),
            (
                "without the init container",
                &prepared,
                vec![(3, same.clone())],
                short("main", 0),
            ),
            ("with a larger one", &same, vec![(3, template(&init))], None),
            (
                "a claim less",
                &claiming,
                vec![(3, same.clone())],
                short("main", 0),
            ),
        ];
        for (what, needed, requested, expected) in cases {
            let requested: Vec<RequestedPods> = requested
                .into_iter()
                .map(|(count, template)| RequestedPods { count, template })
                .collect();
            let group = Group {
                first: RequestedPodSet {
                    name: "main",
                    count: 3,
                    template: needed,
                    topology_request: &Value::Null,
                    assignment: &Value::Null,
                },
                count: 3,
                others: Vec::new(),
            };
            assert_eq!(shortfall(&[group], &requested), expected, "{what}");
        }
    }

    #[test]
    fn pods_count_once() {
        let same = template(&json!({}));
        let group = |name| Group {
            first: RequestedPodSet {
                name,
                count: 3,
                template: &same,
                topology_request: &Value::Null,
                assignment: &Value::Null,
            },
            count: 3,
            others: Vec::new(),
        };
        let needed = [group("driver"), group("workers")];
        let requested = |count| RequestedPods {
            count,
            template: same.clone(),
        };
        assert_eq!(
            shortfall(&needed, &[requested(6)]),
            None,
            "they were merged once"
        );
        let missing = shortfall(&needed, &[requested(5)]).unwrap();
        assert_eq!(
            missing,
            "of 3 pods like those of pod set \"workers\" it has 2"
        );
    }
}
