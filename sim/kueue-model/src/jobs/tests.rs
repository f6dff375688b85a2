//! Names, starts and conflicts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::construct::{JOB, workload_name};
use super::pod_set_info::{pod_set_infos, with_info};
use crate::kueue::KueueVersion;
use crate::kueue::objects::{ResourceFlavor, Workload, read};

#[test]
fn a_workload_is_named_after_its_job() {
    let name = workload_name(JOB, "wl", "5b8c3ba7-45c2-49f3-984f-cd9bcc0e3503", None);
    assert_eq!(name, "job-wl-b841f");
}

#[test]
fn updates_that_conflict_are_reported() {
    let update = |n: &str| json!([{"name": "main", "nodeSelector": {"n": n}}]);
    let workload: Workload = serde_json::from_value(json!({
        "metadata": {"name": "wl"},
        "status": {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main"}]},
            "admissionChecks": [
                {"name": "c1", "state": "Ready", "podSetUpdates": update("1")},
                {"name": "c2", "state": "Ready", "podSetUpdates": update("2")},
            ],
        },
    }))
    .unwrap();
    assert_eq!(
        pod_set_infos(&workload, &BTreeMap::new(), KueueVersion::V0_19).unwrap_err(),
        "in admission check \"c2\": invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=n, value1=1, value2=2"
    );
}

/// Returns an admitted Workload whose pod set `main` has the flavors `a` and `b`.
fn of_two_flavors(cluster_queue: &str) -> Workload {
    let set = json!({"name": "main", "flavors": {"cpu": "a", "memory": "b"}});
    read(&json!({
        "metadata": {"name": "wl"}, "spec": {"queueName": "lq"},
        "status": {"admission": {"clusterQueue": cluster_queue, "podSetAssignments": [set]}},
    }))
}

fn flavors(spec: impl Fn(&str) -> Value) -> BTreeMap<String, ResourceFlavor> {
    let flavor = |name: &str| (name.to_owned(), read(&json!({"spec": spec(name)})));
    ["a", "b"].map(flavor).into()
}

#[test]
fn flavors_with_the_same_label_do_not_conflict() {
    let flavors = flavors(|name| json!({"nodeLabels": {"pool": name, name: "1"}}));
    let infos = pod_set_infos(&of_two_flavors("cq"), &flavors, KueueVersion::V0_19).unwrap();
    let selector = infos[0].node_selector.iter();
    let selector: Vec<(&str, &str)> = selector.map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(selector, [("a", "1"), ("b", "1"), ("pool", "b")]);
    let template = json!({"spec": {"nodeSelector": {"pool": "a"}}});
    let conflict = with_info(&template, &infos[0]).unwrap_err().to_string();
    assert!(
        conflict.contains("key=pool, value1=a, value2=b"),
        "{conflict}"
    );
}

#[test]
fn pods_have_a_label_with_their_cluster_queue_if_its_name_is_a_dns_label() {
    let rows = [
        ("cq", Some("cq")),
        ("team.cq", None),
        (&"c".repeat(64), None),
    ];
    for (queue, expected) in rows {
        let workload = of_two_flavors(queue);
        let infos = pod_set_infos(&workload, &flavors(|_| json!({})), KueueVersion::V0_19).unwrap();
        let label = |name: &str| infos[0].labels.get(&format!("kueue.x-k8s.io/{name}"));
        let found = label("cluster-queue-name").map(String::as_str);
        assert_eq!(found, expected, "{queue}");
        assert_eq!(label("local-queue-name").map(String::as_str), Some("lq"));
    }
}

/// Each row has a toleration of a flavor, and whether a Job with the toleration below gets it, since
/// 0.18 and before.
#[test]
fn a_job_gets_the_tolerations_that_it_lacks() {
    let seconds = json!({"key": "a", "operator": "Exists", "tolerationSeconds": 1});
    let rows = [
        (
            json!({"key": "a", "value": "1", "operator": "Equal"}),
            false,
            true,
        ),
        (json!({"key": "a", "value": "1"}), false, false),
        (
            json!({"key": "a", "value": "1", "effect": "NoExecute"}),
            true,
            true,
        ),
        (json!({"key": "a", "value": "2"}), true, true),
        (seconds.clone(), false, true),
        (
            json!({"key": "a", "operator": "Exists", "tolerationSeconds": 2}),
            false,
            true,
        ),
        (json!({"key": "a", "operator": "Exists"}), false, true),
    ];
    let own = json!([{"key": "a", "value": "1"}, seconds]);
    for (toleration, since, before) in rows {
        let flavors = flavors(|name| match name {
            "a" => json!({"tolerations": [toleration]}),
            _ => json!({}),
        });
        for (version, added) in [(KueueVersion::V0_18, since), (KueueVersion::V0_17, before)] {
            let infos = pod_set_infos(&of_two_flavors("cq"), &flavors, version).unwrap();
            let template = json!({"spec": {"tolerations": own}});
            let merged = with_info(&template, &infos[0]).unwrap();
            let count = merged["spec"]["tolerations"].as_array().map(Vec::len);
            assert_eq!(count, Some(2 + usize::from(added)), "{toleration}");
        }
    }
}
