//! KEP-993: when Kueue preempts, and what it evaluates again before admission.

use kueue_check_kueue_model::kueue::{KueueVersion, kep993_definitions};
use serde_json::{Value, json};

use super::cluster::{Cluster, groups, in_virtual_time, on_queue};

const ANYTIME: &str = "Anytime";
const AFTER: &str = "AfterCheckPassedOrOnDemand";

/// Returns a cluster with a ClusterQueue of one CPU, whose checks have these policies. `low` runs
/// in it, and `high` is submitted.
async fn cluster(policies: &[(&str, &str)]) -> Cluster {
    let cluster = Cluster::new(KueueVersion::KEP993);
    cluster.server.install(kep993_definitions());
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    cluster.queue(
        "1",
        &names,
        &json!({"preemption": {"withinClusterQueue": "LowerPriority"}}),
    );
    for (name, policy) in policies {
        let patch = json!({"spec": {"preemptionPolicy": policy}});
        let response = cluster.merge("admissionchecks", "", name, "", &patch);
        assert_eq!(response.code, 200, "{}", response.body);
    }
    cluster.job("low", "1", None);
    cluster.pass(1.0).await;
    for name in names {
        cluster.verdict("low", name, "Ready", 0);
    }
    cluster.pass(1.0).await;
    cluster.workload("high", "1", 10);
    cluster.pass(1.0).await;
    cluster
}

/// Each row has the policies of checks `c` and `d`, the states that they write for `high`, and the
/// states of both Workloads after each write.
#[test]
fn preemption_is_issued_when_the_policies_and_the_checks_permit() {
    type Row = (
        &'static str,
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str, &'static str)],
    );
    let rows: [Row; 4] = [
        (
            ANYTIME,
            ANYTIME,
            "high:R(c=Pending,d=Pending) low:E(c=Pending,d=Pending)",
            &[
                (
                    "c",
                    "Ready",
                    "high:R(c=Ready,d=Pending) low:E(c=Pending,d=Pending)",
                ),
                (
                    "d",
                    "Ready",
                    "high:RA(c=Ready,d=Ready) low:E(c=Pending,d=Pending)",
                ),
            ],
        ),
        (
            AFTER,
            ANYTIME,
            "high:R(c=Pending,d=Pending) low:RA(c=Ready,d=Ready)",
            &[
                (
                    "d",
                    "Ready",
                    "high:R(c=Pending,d=Ready) low:RA(c=Ready,d=Ready)",
                ),
                (
                    "c",
                    "Ready",
                    "high:RA(c=Ready,d=Ready) low:E(c=Pending,d=Pending)",
                ),
            ],
        ),
        (
            AFTER,
            AFTER,
            "high:R(c=Pending,d=Pending) low:RA(c=Ready,d=Ready)",
            &[
                (
                    "c",
                    "Ready",
                    "high:R(c=Ready,d=Pending) low:RA(c=Ready,d=Ready)",
                ),
                (
                    "d",
                    "PreemptionRequired",
                    "high:R(c=Ready,d=PreemptionRequired) low:E(c=Pending,d=Pending)",
                ),
                (
                    "d",
                    "Ready",
                    "high:RA(c=Ready,d=Ready) low:E(c=Pending,d=Pending)",
                ),
            ],
        ),
        (
            ANYTIME,
            AFTER,
            "high:R(c=Pending,d=Pending) low:RA(c=Ready,d=Ready)",
            &[
                (
                    "c",
                    "PreemptionRequired",
                    "high:R(c=PreemptionRequired,d=Pending) low:E(c=Pending,d=Pending)",
                ),
                (
                    "d",
                    "Ready",
                    "high:R(c=PreemptionRequired,d=Ready) low:E(c=Pending,d=Pending)",
                ),
                (
                    "c",
                    "Ready",
                    "high:RA(c=Ready,d=Ready) low:E(c=Pending,d=Pending)",
                ),
            ],
        ),
    ];
    for (c, d, first, then) in rows {
        in_virtual_time(async {
            let cluster = cluster(&[("c", c), ("d", d)]).await;
            assert_eq!(cluster.line(), first, "{c}, {d}");
            for (check, state, line) in then {
                let response = cluster.verdict("high", check, state, 0);
                assert_eq!(response.code, 200, "{}", response.body);
                cluster.pass(1.0).await;
                assert_eq!(cluster.line(), *line, "{c}, {d}: {check} {state}");
            }
        });
    }
}

#[test]
fn a_preempted_workload_that_was_not_admitted_loses_quota_at_once_and_its_checks_are_cleared() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::KEP993);
        cluster.server.install(kep993_definitions());
        cluster.queue(
            "1",
            &["c", "d"],
            &json!({"preemption": {"withinClusterQueue": "LowerPriority"}}),
        );
        cluster.workload("low", "1", 0);
        cluster.pass(1.0).await;
        cluster.verdict("low", "c", "Ready", 0);
        cluster.workload("high", "1", 10);
        cluster.pass(1.0).await;
        assert_eq!(
            cluster.line(),
            "high:R(c=Pending,d=Pending) low:E(c=Pending,d=Pending)"
        );
        let low = cluster.get("low");
        let messages = low["status"]["admissionChecks"].as_array().unwrap().iter();
        let messages: Vec<&Value> = messages.map(|entry| &entry["message"]).collect();
        assert_eq!(messages, ["", ""]);
        assert_eq!(low["status"]["admission"], Value::Null);
    });
}

#[test]
fn the_assignment_is_computed_again_before_admission() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::KEP993);
        cluster.server.install(kep993_definitions());
        cluster.queue("2", &["c"], &json!({}));
        for name in ["a", "b"] {
            cluster.workload(name, "1", 0);
        }
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:R(c=Pending) b:R(c=Pending)");
        // The quota shrinks while the checks are Pending.
        let spec = json!({"resourceGroups": groups(&[("default", "1")])});
        cluster.merge("clusterqueues", "", "cq", "", &json!({"spec": spec}));
        cluster.pass(1.0).await;
        for name in ["a", "b"] {
            cluster.verdict(name, "c", "Ready", 0);
            cluster.pass(1.0).await;
        }
        assert_eq!(cluster.line(), "a:(c=Ready) b:RA(c=Ready)");
    });
}

#[test]
fn without_the_profile_preemption_required_is_rejected() {
    on_queue("1", &["c"], async |cluster| {
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.verdict("a", "c", "PreemptionRequired", 0).code, 422);
    });
}
