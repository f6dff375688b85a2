use std::collections::BTreeMap;

use kueue_check::Family;
use kueue_check::api::{ResourceFlavor, Workload};
use serde_json::{Value, json};

use super::*;
use crate::config::MergePolicy;

fn pods(requests: &Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
}

fn workload(pod_sets: &Value, assignments: &Value) -> Value {
    json!({"spec": {"podSets": pod_sets}, "status": {"admission": {"podSetAssignments": assignments}}})
}

/// Returns the family of a job with one Workload.
fn whole() -> Family {
    let workload =
        Workload::from_json(json!({"metadata": {"namespace": "n", "name": "w", "uid": "w"}}));
    Family::of(&workload.unwrap(), [])
}

fn names(workload: &Value, managed: &[&str]) -> Result<Vec<(String, u64)>, String> {
    let managed: Vec<String> = managed.iter().map(|name| (*name).to_owned()).collect();
    let wanted = wanted(workload, &whole(), &managed).map_err(|error| error.to_string())?;
    Ok(wanted
        .iter()
        .map(|pods| (pods.name.to_owned(), pods.count))
        .collect())
}

#[test]
fn whether_capacity_is_needed() {
    let one = |count: i64, assigned: &Value| {
        let sets =
            json!([{"name": "main", "count": count, "template": pods(&json!({"cpu": "1"}))}]);
        is_needed(&workload(&sets, assigned), &whole(), &[]).map_err(|error| error.to_string())
    };
    let missing =
        Err("inconsistent podSet assignments: missing assignment for PodSet \"main\"".to_owned());
    let table = [
        (
            "positive admitted",
            one(4, &json!([{"name": "main", "count": 3}])),
            Ok(true),
        ),
        (
            "missing count falls back",
            one(4, &json!([{"name": "main"}])),
            Ok(true),
        ),
        (
            "zero admitted",
            one(4, &json!([{"name": "main", "count": 0}])),
            Ok(false),
        ),
        (
            "zero spec needs no assignment",
            one(0, &json!([])),
            Ok(false),
        ),
        ("missing assignment", one(4, &json!([])), missing.clone()),
        ("no assignments at all", one(4, &Value::Null), missing),
    ];
    for (name, needed, expected) in table {
        assert_eq!(needed, expected, "{name}");
    }
    let sets = json!([
        {"name": "first", "count": 1, "template": pods(&json!({"cpu": "1"}))},
        {"name": "second", "count": 1, "template": pods(&json!({"cpu": "1"}))},
    ]);
    let partial = workload(&sets, &json!([{"name": "first", "count": 1}]));
    assert_eq!(
        is_needed(&partial, &whole(), &[]),
        Ok(true),
        "what comes after the first is not compared"
    );
    assert_eq!(
        wanted(&partial, &whole(), &[]).unwrap_err(),
        MissingAssignment("second".to_owned())
    );
}

#[test]
fn only_pod_sets_with_a_managed_resource_are_wanted() {
    let with = |resources: Value| json!({"spec": {"containers": [{"resources": resources}]}});
    let sets = json!([
        {"name": "cpu", "count": 4, "template": with(json!({"requests": {"cpu": "1"}}))},
        {"name": "memory", "count": 3, "template": with(json!({"requests": {"memory": "1M"}}))},
        {"name": "limit", "count": 2, "template": with(json!({"limits": {"gpu": "1"}}))},
        {"name": "init", "count": 1, "template": {"spec": {"initContainers": [{"resources": {"requests": {"gpu": "1"}}}], "containers": [{}]}}},
        {"name": "whole", "count": 1, "template": {"spec": {"resources": {"requests": {"gpu": "1"}}, "containers": [{}]}}},
    ]);
    let all = ["cpu", "memory", "limit", "init", "whole"];
    let assignments: Value = all.iter().map(|name| json!({"name": name})).collect();
    let workload = workload(&sets, &assignments);
    let named = |managed: &[&str]| -> Vec<String> {
        let all = names(&workload, managed).unwrap();
        all.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(named(&[]), all);
    assert_eq!(named(&["memory"]), ["memory"]);
    assert_eq!(
        named(&["gpu"]),
        ["limit", "init"],
        "a pod's own resources do not count"
    );
    assert_eq!(named(&["gpu", "cpu"]), ["cpu", "limit", "init"]);
    assert!(named(&["disk"]).is_empty());
}

#[test]
fn counts_are_those_for_which_quota_is_reserved_and_zero_is_left_out() {
    let set = |name: &str, count: i64| json!({"name": name, "count": count, "template": pods(&json!({"cpu": "1"}))});
    let sets = json!([
        set("a", 4),
        set("b", 3),
        set("c", 0),
        set("d", 5),
        set("e", 1)
    ]);
    let assignments = json!([{"name": "a", "count": 2}, {"name": "b"}, {"name": "c", "count": 9}, {"name": "d", "count": 0}, {"name": "e", "count": 1}]);
    let expected = [("a", 2), ("b", 3), ("e", 1)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(
        names(&workload(&sets, &assignments), &[]).unwrap(),
        expected
    );
}

#[test]
fn eighteen_pod_sets_are_eighteen_and_merged_they_are_one() {
    let set = |number: usize| json!({"name": format!("ps{number}"), "count": 1, "template": pods(&json!({"cpu": "1"}))});
    let sets: Value = (0..18).map(set).collect();
    let assignments: Value = (0..18)
        .map(|number| json!({"name": format!("ps{number}")}))
        .collect();
    let workload = workload(&sets, &assignments);
    let wanted = wanted(&workload, &whole(), &[]).unwrap();
    assert_eq!(merge(wanted.clone(), None).len(), 18);
    let merged = merge(wanted, Some(MergePolicy::IdenticalPodTemplates));
    assert_eq!(
        (merged.len(), merged[0].count, merged[0].others.len()),
        (1, 18, 17)
    );
}

/// Returns names, counts and other members of the groups.
fn merged(templates: &[Value], counts: &[u64], policy: Option<MergePolicy>) -> Vec<String> {
    let assignment = json!({});
    let named: Vec<String> = (1..=templates.len())
        .map(|number| format!("ps{number}"))
        .collect();
    let wanted = templates.iter().zip(counts).zip(&named);
    let wanted = wanted.map(|((template, count), name)| RequestedPodSet {
        name,
        count: *count,
        template,
        topology_request: &Value::Null,
        assignment: &assignment,
    });
    let groups = merge(wanted.collect(), policy).into_iter();
    groups
        .map(|group| {
            format!(
                "{}({})+{}",
                group.first.name,
                group.count,
                group.others.join(",")
            )
        })
        .collect()
}

#[test]
fn pod_sets_with_equal_templates_are_requested_as_one() {
    let template = |cpu: &str| pods(&json!({"cpu": cpu}));
    let mut urgent = template("2");
    urgent["spec"]["priorityClassName"] = json!("urgent");
    let templates = [
        template("1"),
        template("1000m"),
        template("2"),
        template("2"),
        urgent,
    ];
    let policy = Some(MergePolicy::IdenticalPodTemplates);
    let groups = merged(&templates, &[1, 2, 1, 2, 1], policy);
    assert_eq!(groups, ["ps1(3)+ps2", "ps3(3)+ps4", "ps5(1)+"]);
    assert_eq!(merged(&templates, &[1, 2, 1, 2, 1], None).len(), 5);
}

#[test]
fn pod_sets_that_the_scheduler_treats_alike_are_requested_as_one() {
    let template = |cpu: &str| pods(&json!({"cpu": cpu}));
    let mut urgent = template("2");
    urgent["spec"]["priorityClassName"] = json!("urgent");
    urgent["metadata"] =
        json!({"annotations": {"kueue.x-k8s.io/podset-required-topology": "block"}});
    let mut apart = template("2");
    apart["spec"]["affinity"] = json!({"nodeAffinity": {"x": 1}});
    let templates = [template("1"), template("1"), template("2"), urgent, apart];
    let policy = Some(MergePolicy::IdenticalWorkloadSchedulingRequirements);
    let groups = merged(&templates, &[1, 2, 1, 2, 1], policy);
    assert_eq!(groups, ["ps1(3)+ps2", "ps3(3)+ps4", "ps5(1)+"]);
}

#[test]
fn zero_counts_do_not_stand_in_the_way_of_merging() {
    let set = |name: &str, count: i64| json!({"name": name, "count": count, "template": pods(&json!({"cpu": "1"}))});
    let sets = json!([set("ps0", 0), set("ps1", 2), set("ps2", 3)]);
    let assignments = json!([{"name": "ps1"}, {"name": "ps2"}]);
    let workload = workload(&sets, &assignments);
    let groups = merge(
        wanted(&workload, &whole(), &[]).unwrap(),
        Some(MergePolicy::IdenticalPodTemplates),
    );
    assert_eq!(
        (groups.len(), groups[0].first.name, groups[0].count),
        (1, "ps1", 5)
    );
}

fn flavors() -> BTreeMap<String, ResourceFlavor> {
    let flavor = |name: &str, spec: Value| {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        (name.to_owned(), ResourceFlavor::from_json(object).unwrap())
    };
    [
        flavor("spot", json!({"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]})),
        flavor("zone", json!({"nodeLabels": {"zone": "a", "pool": "other"}})),
        flavor("plain", json!({})),
    ]
    .into()
}

fn template(template: &Value, assignment: &Value) -> Result<Value, String> {
    let pods = RequestedPodSet {
        name: "main",
        count: 1,
        template,
        topology_request: &Value::Null,
        assignment,
    };
    pod_template(&pods, &flavors()).map_err(|error| error.to_string())
}

#[test]
fn a_template_has_what_the_flavors_add() {
    let assignment =
        json!({"flavors": {"cpu": "spot", "memory": "spot", "gpu": "zone", "x": "plain"}});
    let own = json!({"metadata": {"labels": {"app": "x"}}, "spec": {
        "nodeSelector": {"arch": "arm"}, "tolerations": [{"key": "own"}], "containers": [],
    }});
    let made = template(&own, &assignment).unwrap();
    assert_eq!(made["metadata"], own["metadata"]);
    let selector = json!({"arch": "arm", "pool": "spot", "zone": "a"});
    assert_eq!(
        made["spec"]["nodeSelector"], selector,
        "of two values the first flavor's counts"
    );
    let tolerations = json!([{"key": "own"}, {"key": "spot", "operator": "Exists"}]);
    assert_eq!(made["spec"]["tolerations"], tolerations);
    let plain = template(
        &json!({"spec": {"containers": []}}),
        &json!({"flavors": {"cpu": "plain"}}),
    );
    assert_eq!(
        plain.unwrap(),
        json!({"spec": {"containers": []}}),
        "nothing is added for nothing"
    );
}

#[test]
fn a_toleration_is_added_once() {
    let own = json!({"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}});
    let made = template(&own, &json!({"flavors": {"cpu": "spot"}})).unwrap();
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 1);
}

#[test]
fn missing_requests_are_the_limits() {
    let containers = json!([{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "gpu": "1"}}}, {"resources": {"limits": {"gpu": "1"}}}, {}]);
    let own = json!({"spec": {"containers": containers, "initContainers": [{"resources": {"limits": {"cpu": "1"}}}]}});
    let made = template(&own, &json!({})).unwrap();
    let requests =
        |place: &str, number: usize| made["spec"][place][number]["resources"]["requests"].clone();
    assert_eq!(requests("containers", 0), json!({"cpu": "1", "gpu": "1"}));
    assert_eq!(requests("containers", 1), json!({"gpu": "1"}));
    assert_eq!(requests("containers", 2), Value::Null);
    assert_eq!(requests("initContainers", 0), json!({"cpu": "1"}));
    let of_pod = |spec: Value| {
        let made = template(&json!({ "spec": spec }), &json!({})).unwrap();
        made["spec"].get("resources").cloned()
    };
    let both = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "8Gi"}});
    assert_eq!(
        of_pod(json!({"resources": both, "containers": []})).unwrap()["requests"],
        json!({"cpu": "1", "memory": "8Gi"}),
        "the pod's own"
    );
    let limits = json!({"limits": {"cpu": "2"}});
    assert_eq!(
        of_pod(json!({"resources": limits, "containers": []})),
        Some(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}))
    );
    assert_eq!(of_pod(json!({"containers": []})), None);
}

#[test]
fn pods_that_are_placed_by_topology_wait_for_their_place() {
    let unconstrained = json!({"kueue.x-k8s.io/podset-unconstrained-topology": "true"});
    for (topology_request, annotations) in [
        (Value::Null, Some(&unconstrained)),
        (json!({"podIndexLabel": "i"}), Some(&unconstrained)),
        (json!({"required": "rack"}), None),
        (json!({"preferred": "rack"}), None),
        (json!({"unconstrained": false}), None),
    ] {
        let sets = json!([{"name": "main", "count": 1, "template": {"spec": {"containers": []}},
            "topologyRequest": topology_request}]);
        let assignments = json!([{"name": "main", "topologyAssignment": {"levels": ["rack"]}}]);
        let workload = workload(&sets, &assignments);
        let wanted = wanted(&workload, &whole(), &[]).unwrap();
        let made = pod_template(&wanted[0], &flavors()).unwrap();
        assert_eq!(
            made["metadata"].get("annotations"),
            annotations,
            "{topology_request}"
        );
        assert_eq!(made["metadata"].get("labels"), None);
        assert_eq!(
            made["spec"]["schedulingGates"],
            json!([{"name": "kueue.x-k8s.io/topology"}])
        );
    }
}

#[test]
fn a_template_that_contradicts_its_flavor_is_rejected() {
    let own = json!({"spec": {"nodeSelector": {"pool": "demand"}}});
    let error = template(&own, &json!({"flavors": {"cpu": "spot"}})).unwrap_err();
    assert_eq!(
        error,
        "invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=pool, value1=demand, value2=spot"
    );
    let missing = template(&own, &json!({"flavors": {"cpu": "gone"}})).unwrap_err();
    assert_eq!(missing, "resourceflavors.kueue.x-k8s.io \"gone\" not found");
}

#[test]
fn a_growth_requests_what_does_not_run() {
    let slice = |name: &str, pods: u32, replaces: Option<&str>, admitted: bool| {
        let mut annotations = json!({"kueue.x-k8s.io/elastic-job": "true"});
        if let Some(replaces) = replaces {
            let key = "kueue.x-k8s.io/workload-slice-replacement-for";
            annotations[key] = format!("n/{replaces}").into();
        }
        let admitted = if admitted { "True" } else { "False" };
        Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": name, "uid": name, "annotations": annotations,
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]},
            "spec": {"podSets": [{"name": "main", "count": pods}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": admitted}],
                "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": pods}]},
            },
        }))
        .unwrap()
    };
    let requested_pods = |spec: i64, assigned: i64, runs: Option<u32>, admitted: bool| {
        let first = runs.map(|pods| slice("first", pods, None, true));
        let growth = slice("growth", 4, Some("first"), admitted);
        let family = Family::of(&growth, &first);
        let sets = json!([{"name": "main", "count": spec, "template": pods(&json!({"cpu": "1"}))}]);
        let whole = workload(&sets, &json!([{"name": "main", "count": assigned}]));
        let wanted = wanted(&whole, &family, &[]).unwrap();
        let needed = is_needed(&whole, &family, &[]).unwrap();
        assert_eq!(needed, !wanted.is_empty());
        wanted.first().map_or(0, |pods| pods.count)
    };
    assert_eq!(requested_pods(4, 4, Some(2), false), 2, "2 run");
    assert_eq!(
        requested_pods(3, 4, Some(2), false),
        1,
        "scaled back while it waits"
    );
    assert_eq!(requested_pods(2, 4, Some(2), false), 0, "to what runs");
    assert_eq!(
        requested_pods(4, 4, None, false),
        4,
        "what runs is not known"
    );
    assert_eq!(
        requested_pods(4, 4, Some(2), true),
        4,
        "it was admitted, and is the whole"
    );
}
