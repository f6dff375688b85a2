//! The setting `fairSharing`.

use kueue_check_kueue_model::kueue::{FairSharing, KueueVersion};
use serde_json::{Value, json};

use super::cluster::{Cluster, KUEUE, in_virtual_time, kueue, pod_set};

/// Returns a cluster with ClusterQueues of these quotas and weights in one cohort, each with a
/// LocalQueue of its name.
fn cluster(strategies: FairSharing, queues: &[(&str, &str, &str)]) -> Cluster {
    cluster_of(KueueVersion::V0_19, strategies, queues)
}

/// As [`cluster`], with another version.
fn cluster_of(
    version: KueueVersion,
    strategies: FairSharing,
    queues: &[(&str, &str, &str)],
) -> Cluster {
    let cluster = Cluster::new(KueueVersion {
        fair_sharing: Some(strategies),
        ..version
    });
    for (name, cpus, weight) in queues {
        let spec = json!({
            "cohortName": "all", "fairSharing": {"weight": weight},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        });
        cluster.member(name, &[("default", cpus)], &spec);
    }
    cluster
}

async fn submit(cluster: &Cluster, queue: &str, name: &str, cpus: &str) {
    let metadata = json!({"labels": {"kueue.x-k8s.io/queue-name": queue}});
    let template = &pod_set("main", 1, cpus)["template"];
    cluster.job_of(name, &metadata, &json!({"template": template}));
    cluster.pass(0.2).await;
}

#[test]
fn who_borrows_less_for_its_weight_comes_first() {
    in_virtual_time(async {
        let queues = [("a", "0", "1"), ("b", "0", "3"), ("c", "4", "1")];
        let cluster = cluster(FairSharing::Both, &queues);
        submit(&cluster, "c", "c1", "4").await;
        for name in ["a1", "a2"] {
            submit(&cluster, "a", name, "1").await;
        }
        for name in ["b1", "b2", "b3", "b4"] {
            submit(&cluster, "b", name, "1").await;
        }
        assert_eq!(cluster.line(), "a1: a2: b1: b2: b3: b4: c1:RA");
        cluster.finish("c1");
        cluster.pass(2.5).await;
        // Of four CPUs that both borrow, three go to the weight of three: `b3` preempts `a2`.
        let line = "a1:RA a2:E b1:RA b2:RA b3:RA b4: c1:RAF";
        assert_eq!(cluster.line(), line);
    });
}

#[test]
fn a_smaller_share_preempts_a_larger_one_and_quota_of_ones_own_is_reclaimed() {
    in_virtual_time(async {
        let queues = [("a", "0", "1"), ("b", "0", "1"), ("c", "4", "1")];
        let cluster = cluster(FairSharing::Both, &queues);
        for name in ["a1", "a2", "a3", "a4"] {
            submit(&cluster, "a", name, "1").await;
        }
        submit(&cluster, "b", "b1", "1").await;
        let reason = |name: &str| cluster.condition(name, "Preempted")["reason"].clone();
        let preempted = ["a1", "a2", "a3", "a4"].map(reason);
        let of_reason = |why: &str| preempted.iter().filter(|reason| *reason == why).count();
        assert_eq!(of_reason("InCohortFairSharing"), 1, "{preempted:?}");
        submit(&cluster, "c", "c1", "1").await;
        let preempted = ["a1", "a2", "a3", "a4"].map(reason);
        let reclaimed = preempted
            .iter()
            .filter(|reason| *reason == "InCohortReclamation");
        assert_eq!(reclaimed.count(), 1, "{preempted:?}");
    });
}

#[test]
fn the_final_share_protects_what_the_initial_share_does_not() {
    let preempted = |strategies| {
        in_virtual_time(async {
            let queues = [("a", "0", "1"), ("b", "0", "1"), ("c", "4", "1")];
            let cluster = cluster(strategies, &queues);
            submit(&cluster, "a", "large", "4").await;
            submit(&cluster, "b", "b1", "2").await;
            cluster.condition("large", "Preempted")["reason"].clone()
        })
    };
    // Without `large`, its ClusterQueue would have nothing.
    assert_eq!(preempted(FairSharing::FinalShare), Value::Null);
    for strategies in [FairSharing::InitialShare, FairSharing::Both] {
        assert_eq!(preempted(strategies), "InCohortFairSharing");
    }
}

#[test]
fn a_weight_of_zero_borrows_only_what_no_other_queue_requests() {
    in_virtual_time(async {
        let queues = [("a", "0", "0"), ("b", "0", "1"), ("c", "2", "1")];
        let cluster = cluster(FairSharing::Both, &queues);
        for name in ["a1", "a2"] {
            submit(&cluster, "a", name, "1").await;
        }
        assert_eq!(cluster.line(), "a1:RA a2:RA");
        for name in ["b1", "b2"] {
            submit(&cluster, "b", name, "1").await;
        }
        let reason = |name: &str| cluster.condition(name, "Preempted")["reason"].clone();
        assert_eq!(["a1", "a2"].map(reason), ["InCohortFairSharing"; 2]);
    });
}

/// Each row has the quota that `a` borrows of 8 CPUs, its weight, and its share.
#[test]
fn the_status_of_queues_and_cohorts_has_their_share() {
    let rows = [
        ("0", "1", 0),
        ("2", "1", 250),
        ("1", "3", 42),
        ("2", "0", i64::MAX),
    ];
    for (cpus, weight, expected) in rows {
        in_virtual_time(async {
            let queues = [("a", "0", weight), ("c", "8", "1")];
            let cluster = cluster(FairSharing::Both, &queues);
            let cohort = |name: &str, spec: Value| {
                let metadata = json!({"name": name});
                cluster.create(&json!({"apiVersion": KUEUE, "kind": "Cohort", "metadata": metadata, "spec": spec}));
            };
            cohort("root", json!({}));
            cohort("all", json!({"parentName": "root"}));
            submit(&cluster, "a", "a1", cpus).await;
            cluster.pass(2.0).await;
            let share = |plural: &str, name: &str| {
                let found = cluster.server.get(&kueue(plural), "", name).unwrap();
                found["status"]["fairSharing"]["weightedShare"].clone()
            };
            assert_eq!(share("clusterqueues", "a"), expected, "{cpus} {weight}");
            assert_eq!(share("clusterqueues", "c"), 0);
            assert_eq!(["all", "root"].map(|name| share("cohorts", name)), [0, 0]);
        });
    }
}

#[test]
fn a_cohort_that_borrows_of_its_parent_has_a_share() {
    in_virtual_time(async {
        let cluster = cluster(FairSharing::Both, &[("a", "1", "1")]);
        let group = json!({"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]});
        for (name, spec) in [
            ("root", json!({"resourceGroups": [group]})),
            ("all", json!({"parentName": "root"})),
        ] {
            let metadata = json!({"name": name});
            cluster.create(
                &json!({"apiVersion": KUEUE, "kind": "Cohort", "metadata": metadata, "spec": spec}),
            );
        }
        submit(&cluster, "a", "a1", "2").await;
        cluster.pass(2.0).await;
        let share = |name: &str| {
            let found = cluster.server.get(&kueue("cohorts"), "", name).unwrap();
            found["status"]["fairSharing"]["weightedShare"].clone()
        };
        assert_eq!(["all", "root"].map(share), [200, 0]);
    });
}

#[test]
fn in_0_15_the_shares_also_decide_about_quota_of_ones_own() {
    let reasons = [false, true].map(|nominal_first| {
        in_virtual_time(async {
            let version = KueueVersion {
                nominal_first,
                ..KueueVersion::V0_19
            };
            let queues = [("a", "4", "1"), ("b", "0", "10")];
            let cluster = cluster_of(version, FairSharing::Both, &queues);
            submit(&cluster, "b", "b1", "4").await;
            submit(&cluster, "a", "a1", "4").await;
            cluster.condition("b1", "Preempted")["reason"].clone()
        })
    });
    assert_eq!(reasons, ["InCohortFairSharing", "InCohortReclamation"]);
}
