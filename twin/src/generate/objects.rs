//! Changes of the queues, checks, flavors and cohorts that Workloads depend on.

use serde_json::{Value, json};

use super::Draft;
use crate::bodies::{cluster_path, namespaced_path};
use crate::history::Step;
use crate::random::Random;

/// Deletes a queue, a check, a flavor or a cohort.
pub(super) fn remove(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let (plural, name) = match random.weighted(&[30, 25, 25, 12, 8]) {
        0 => ("clusterqueues", random.of(&draft.queues).name.clone()),
        1 => {
            let (name, _) = random.of(&draft.local_queues).clone();
            return Some(Step::Remove {
                about: name.clone(),
                path: format!("{}/{name}", namespaced_path("localqueues")),
            });
        }
        2 if !draft.checks.is_empty() => ("admissionchecks", random.of(&draft.checks).clone()),
        3 => ("resourceflavors", random.of(&draft.flavors).clone()),
        4 if !draft.cohorts.is_empty() => ("cohorts", random.of(&draft.cohorts).clone()),
        _ => return None,
    };
    Some(Step::Remove {
        about: name.clone(),
        path: format!("{}/{name}", cluster_path(plural)),
    })
}

/// Changes the selectors or preferences of a flavor or a ClusterQueue.
pub(super) fn change(random: &mut Random, draft: &mut Draft) -> Step {
    let flavor = random.of(&draft.flavors).clone();
    let queue = random.of(&draft.queues).name.clone();
    let (plural, name, spec) = match random.below(6) {
        0 => {
            let selector = if random.chance(50) {
                json!({"matchLabels": null})
            } else {
                json!({"matchLabels": {"team": "b"}})
            };
            let spec = json!({"namespaceSelector": selector});
            ("clusterqueues", queue, spec)
        }
        1 => {
            let labels = json!({"nodeLabels": {"pool": random.of(&["a", "b"])}});
            ("resourceflavors", flavor, labels)
        }
        2 => {
            let taints = if random.chance(50) {
                Value::Null
            } else {
                json!([{"key": "spot", "value": "true", "effect": "NoSchedule"}])
            };
            ("resourceflavors", flavor, json!({"nodeTaints": taints}))
        }
        3 => {
            let within = random.of(&["Never", "LowerPriority", "LowerOrNewerEqualPriority"]);
            let spec = json!({"preemption": {"withinClusterQueue": within}});
            ("clusterqueues", queue, spec)
        }
        4 => {
            let strategy = random.of(&["StrictFIFO", "BestEffortFIFO"]);
            (
                "clusterqueues",
                queue,
                json!({"queueingStrategy": strategy}),
            )
        }
        _ => {
            let reclaim = random.of(&["Never", "LowerPriority", "Any"]);
            let spec = json!({"preemption": {"reclaimWithinCohort": reclaim}});
            ("clusterqueues", queue, spec)
        }
    };
    Step::Patch {
        about: format!("{name} changes: {spec}"),
        path: format!("{}/{name}", cluster_path(plural)),
        body: json!({"spec": spec}),
    }
}
