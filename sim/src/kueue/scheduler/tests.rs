//! Flavors and victims.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::suitable::Flavors;
use super::{Assignment, Candidate, Fit, Ground, Usage, victims};
use crate::kueue::objects::{ClusterQueue, ResourceFlavor, WithinClusterQueue, Workload};

fn workload(name: &str, priority: i64, cpu: &str) -> Workload {
    serde_json::from_value(json!({
        "metadata": {"namespace": "t", "name": name, "uid": name, "creationTimestamp": "2026-11-21T09:00:00Z"},
        "spec": {"priority": priority, "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        ]}}}]},
    }))
    .unwrap()
}

fn queue(flavors: Value, preemption: &str) -> ClusterQueue {
    serde_json::from_value(json!({"metadata": {"name": "cq"}, "spec": {
        "preemption": {"withinClusterQueue": preemption},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
    }}))
    .unwrap()
}

fn flavors(names: &[&str]) -> Flavors {
    names
        .iter()
        .map(|name| ((*name).to_owned(), ResourceFlavor::default()))
        .collect::<BTreeMap<_, _>>()
}

fn assign(
    workload: &Workload,
    queue: &ClusterQueue,
    taken: &Usage,
    flavors: &Flavors,
) -> Assignment {
    let ground = Ground {
        queue,
        taken,
        flavors,
        can_preempt: &|_| queue.spec.preemption.within_cluster_queue != WithinClusterQueue::Never,
    };
    super::assign(workload, &ground)
}

fn quota(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]})
}

#[test]
fn flavors_are_tried_in_order() {
    let queue = queue(
        json!([quota("spot", "1"), quota("on-demand", "4")]),
        "Never",
    );
    let all = flavors(&["spot", "on-demand"]);
    let first = assign(&workload("a", 0, "1"), &queue, &Usage::default(), &all);
    assert_eq!(
        first.admission.pod_set_assignments[0].flavors["cpu"],
        "spot"
    );
    let second: Assignment = assign(&workload("b", 0, "1"), &queue, &first.usage, &all);
    assert_eq!(second.fit, Fit::Fits);
    assert_eq!(
        second.admission.pod_set_assignments[0].flavors["cpu"],
        "on-demand"
    );
}

#[test]
fn what_is_missing_is_told() {
    let queue = queue(json!([quota("default", "1")]), "Never");
    let all = flavors(&["default"]);
    let first = assign(&workload("a", 0, "1"), &queue, &Usage::default(), &all);
    let second = assign(&workload("b", 0, "500m"), &queue, &first.usage, &all);
    assert_eq!(
        second.message,
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 500m more needed"
    );
}

#[test]
fn the_fewest_of_the_lowest_priority_make_room() {
    let queue = queue(json!([quota("default", "2")]), "LowerPriority");
    let all = flavors(&["default"]);
    let mut taken = Usage::default();
    let mut holders: Vec<Workload> = Vec::new();
    for (name, priority) in [("low", 1), ("lower", 0)] {
        let mut holder = workload(name, priority, "1");
        let assigned = assign(&holder, &queue, &taken, &all);
        taken.add_all(&assigned.usage);
        holder.status.admission = Some(assigned.admission);
        holders.push(holder);
    }
    let preemptor = workload("high", 5, "1");
    let wanted = assign(&preemptor, &queue, &taken, &all);
    assert_eq!(wanted.fit, Fit::Preempt);
    let candidates: Vec<Candidate<'_>> = holders
        .iter()
        .map(|workload| Candidate {
            workload,
            arrival: 0,
        })
        .collect();
    let chosen = victims(&preemptor, &wanted.usage, &queue, &taken, &candidates);
    let names: Vec<&str> = chosen.iter().map(|w| w.metadata.name.as_str()).collect();
    assert_eq!(names, ["lower"]);
}
