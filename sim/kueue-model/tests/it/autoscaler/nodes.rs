//! Placement of pods on nodes, and growth and shrinkage of pools.

use std::time::Duration;

use kueue_check_kueue_model::autoscaler::{
    Misbehaviour, NodePool, PodSet, Profile, Selector, Settings, Shape,
};
use serde_json::json;

use super::scenario::{ATOMIC, CHECK, MINUTE, Scenario, pool, start};

fn count(scenario: &Scenario) -> (usize, usize) {
    scenario.state.nodes().count("cpu", scenario.now)
}

#[test]
fn nodes_are_ready_after_their_delay_and_are_removed_when_unneeded() {
    let mut scenario = Scenario::of(Profile::Oss137, pool(1, 4)).request("a", ATOMIC, 12);
    scenario.scan();
    assert_eq!(count(&scenario), (3, 1));
    scenario.until(2 * MINUTE);
    assert_eq!(count(&scenario), (3, 3));
    // The booking ends after 10 minutes, the nodes 10 minutes later.
    scenario.until(20 * MINUTE);
    assert_eq!(count(&scenario), (3, 3));
    scenario.until(21 * MINUTE);
    assert_eq!(count(&scenario), (1, 1));
}

#[test]
fn nodes_may_never_come() {
    let settings = Settings::new(Profile::Oss137, [pool(0, 4)])
        .misbehave(Selector::all(), Misbehaviour::NodesNeverReady);
    let mut scenario = Scenario::new(settings).request("a", ATOMIC, 4);
    scenario.until(9 * MINUTE);
    assert_eq!(count(&scenario), (1, 0));
    assert!(scenario.log[1].ends_with("Provisioned=True CapacityIsProvisioned"));
}

#[test]
fn new_nodes_are_all_of_one_pool() {
    let pools = || {
        let big = NodePool::new("big", &[("cpu", "1"), ("gpu", "1")], 0, 1);
        [pool(0, 1), big]
    };
    let gpu = Shape {
        requests: [("gpu".to_owned(), 1000)].into(),
        ..Shape::default()
    };
    let mut scenario =
        Scenario::new(Settings::new(Profile::Oss137, pools())).request("a", ATOMIC, 4);
    scenario
        .snapshot
        .templates
        .insert(("team".to_owned(), "gpu".to_owned()), gpu);
    scenario.snapshot.requests[0].pod_sets.push(PodSet {
        template: "gpu".to_owned(),
        count: 1,
    });
    scenario.scan();
    assert_eq!(scenario.log[1], "0 a Provisioned=False CapacityIsNotFound");
}

#[test]
fn selectors_and_taints_keep_pods_away() {
    let of = |spec| Shape::of_pod_spec(&spec);
    let container = json!([{"resources": {"requests": {"cpu": "500m"}}}]);
    let table = [
        (json!({"containers": container}), false),
        (
            json!({"containers": container, "nodeSelector": {"zone": "a"}}),
            false,
        ),
        (
            json!({"containers": container, "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}),
            true,
        ),
        (
            json!({"containers": container, "nodeSelector": {"zone": "b"}, "tolerations": [{"operator": "Exists"}]}),
            false,
        ),
        (
            json!({"containers": container, "tolerations": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]}),
            true,
        ),
        (
            json!({"containers": container, "tolerations": [{"key": "gpu", "value": "false", "effect": "NoSchedule"}]}),
            false,
        ),
    ];
    for (spec, expected) in table {
        let pool = pool(1, 1)
            .label("zone", "a")
            .taint("gpu", "true", "NoSchedule");
        let mut scenario = Scenario::of(Profile::Oss137, pool).request("a", CHECK, 8);
        scenario
            .snapshot
            .templates
            .insert(("team".to_owned(), "one-cpu".to_owned()), of(spec.clone()));
        scenario.scan();
        assert_eq!(
            scenario.log[1].ends_with("True CapacityIsFound"),
            expected,
            "{spec}"
        );
    }
}

#[test]
fn init_containers_count_where_they_need_more() {
    let shape = Shape::of_pod_spec(&json!({
        "containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Ki"}}}, {"resources": {"requests": {"cpu": 1}}}],
        "initContainers": [{"resources": {"requests": {"cpu": "3", "memory": "1"}}}],
    }));
    let expected = [("cpu".to_owned(), 3000), ("memory".to_owned(), 1_024_000)];
    assert_eq!(shape.requests, expected.into());
}

#[test]
fn without_pods_a_request_may_use_its_nodes_until_it_is_deleted() {
    let settings = Settings::new(Profile::Oss137, [pool(1, 1)]).jobs_without_pods(true);
    let mut scenario = Scenario::new(settings)
        .request("a", CHECK, 4)
        .request("b", CHECK, 1);
    scenario.until(60 * MINUTE);
    assert!(
        !scenario
            .log
            .iter()
            .any(|line| line.contains(" b Provisioned=True"))
    );
    scenario.snapshot.requests.remove(0);
    scenario.now = start() + Duration::from_secs(3610);
    scenario.until(80 * MINUTE);
    assert!(
        scenario
            .log
            .iter()
            .any(|line| line.contains(" b Provisioned=True"))
    );
}
