//! Pod templates with rare fields, and objects with gates.

use serde_json::{Value, json};

use super::Draft;
use super::features::Feature;
use crate::random::Random;

/// The annotation that keeps a Workload from being tried.
pub(super) const GATED: &str = "kueue.x-k8s.io/admission-gated-by";

/// Draws the gates of a Workload, a Job, or all Pods of a group.
pub(super) fn gates(random: &mut Random, draft: &Draft) -> Option<&'static str> {
    let some = [
        "example.com/gate",
        "example.com/gate,example.com/other",
        "no-domain",
    ];
    (draft.has(Feature::Gates) && random.chance(50)).then(|| *random.of(&some))
}

/// Changes a Workload, Job or Pod as the history's features require.
pub(super) fn vary(random: &mut Random, draft: &Draft, gates: Option<&str>, object: &mut Value) {
    if draft.has(Feature::Templates) {
        let ways = match object["kind"].as_str() {
            Some("Workload") => 11,
            Some("Job") => 8,
            _ => 6,
        };
        for template in templates(object) {
            if random.chance(60) {
                vary_template(random, template, ways);
            }
        }
    }
    if let Some(gates) = gates {
        object["metadata"]["annotations"][GATED] = json!(gates);
    }
    if draft.has(Feature::Indexed) && object["kind"] == "Job" && random.chance(80) {
        let spec = &mut object["spec"];
        spec["completionMode"] = json!("Indexed");
        if random.chance(60) {
            spec["completions"] = json!(4);
        }
        if random.chance(50) {
            spec["backoffLimitPerIndex"] = json!(1);
        }
    }
}

/// Names a group in an annotation of its Pods too, or only there, and asks for fast admission.
pub(super) fn vary_group(random: &mut Random, draft: &Draft, pods: &mut [Value]) {
    const GROUP: &str = "kueue.x-k8s.io/pod-group-name";
    const FAST: &str = "kueue.x-k8s.io/pod-group-fast-admission";
    if !draft.has(Feature::Members) {
        return;
    }
    let way = random.weighted(&[60, 15, 15, 10]);
    let fast = random
        .chance(30)
        .then(|| *random.of(&["true", "true", "yes"]));
    for metadata in pods.iter_mut().map(|pod| &mut pod["metadata"]) {
        let group = metadata["labels"][GROUP].clone();
        if let Some(value) = fast {
            metadata["annotations"][FAST] = json!(value);
        }
        match way {
            1 => metadata["annotations"][GROUP] = group,
            2 => {
                metadata["annotations"][GROUP] = group;
                if let Some(labels) = metadata["labels"].as_object_mut() {
                    labels.remove(GROUP);
                }
            }
            3 => metadata["annotations"][GROUP] = json!("other@"),
            _ => {}
        }
    }
}

/// Returns the pod templates of an object; of a Pod, the object itself.
fn templates(object: &mut Value) -> Vec<&mut Value> {
    match object["kind"].as_str() {
        Some("Job") => vec![&mut object["spec"]["template"]],
        Some("Workload") => {
            let sets = object["spec"]["podSets"].as_array_mut();
            let sets = sets.into_iter().flatten();
            sets.map(|set| &mut set["template"]).collect()
        }
        _ => vec![object],
    }
}

/// Changes a template in one of the first `ways`. The simulated API server lacks some rules: it adds
/// no requests to those of a Pod itself (6 and 7), and refuses none of the last three, except in
/// Workloads.
fn vary_template(random: &mut Random, template: &mut Value, ways: usize) {
    let spec = &mut template["spec"];
    let own = spec["containers"][0]["resources"]["requests"].clone();
    match random.below(ways) {
        0 => spec["containers"][0]["resources"] = json!({"limits": own}),
        1 => {
            let second = json!({
                "name": "d", "image": "pause", "resources": {"requests": {"cpu": "500m"}},
            });
            if let Some(containers) = spec["containers"].as_array_mut() {
                containers.push(second);
            }
        }
        2 => {
            let operator = *random.of(&["In", "NotIn", "Exists"]);
            let mut rule = json!({"key": "pool", "operator": operator});
            if operator != "Exists" {
                rule["values"] = json!([random.of(&["a", "b"])]);
            }
            let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [rule]}]});
            spec["affinity"]["nodeAffinity"] =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        }
        3 | 4 => spec["tolerations"] = json!([toleration(random)]),
        5 => {
            let sidecar = json!({
                "name": "s", "image": "pause", "restartPolicy": "Always",
                "resources": {"requests": {"cpu": random.of(&["1", "500m"])}},
            });
            spec["initContainers"] = json!([sidecar]);
        }
        6 => spec["resources"] = json!({"requests": {"cpu": random.of(&["1", "2", "3"])}}),
        7 => spec["resources"] = json!({"limits": {"cpu": random.of(&["1", "2", "3"])}}),
        8 => {
            let limit = *random.of(&["2", "3", "500m"]);
            spec["containers"][0]["resources"]["limits"]["cpu"] = json!(limit);
        }
        9 => template["metadata"]["labels"] = json!({"team": random.of(&["a", "not a value"])}),
        _ => spec["containers"][0]["resources"]["requests"]["cpu"] = json!("-1"),
    }
}

/// Draws a toleration, which the updates of a check may repeat with other seconds.
pub(super) fn toleration(random: &mut Random) -> Value {
    let mut drawn = json!({"key": "k", "operator": "Exists", "effect": "NoExecute"});
    if random.chance(70) {
        drawn["tolerationSeconds"] = json!(random.of(&[60, 300]));
    }
    if random.chance(30) {
        drawn = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        if random.chance(50) {
            drawn["operator"] = json!("Equal");
        }
    }
    drawn
}
