//! Tests of one reconcile pass.

use serde_json::{Value, json};

use super::{Outcome, ReconcileInput, Write, reconcile};
use crate::kueue::KueueVersion;
use crate::kueue::objects::{ClusterQueue, LocalQueue, State, Workload};

const NOW: &str = "2026-11-21T09:00:10Z";

fn pass(status: Value, checks: &Value) -> Outcome {
    let workload: Workload = serde_json::from_value(json!({
        "metadata": {"namespace": "t", "name": "wl"},
        "spec": {"queueName": "lq"},
        "status": status,
    }))
    .unwrap();
    let local: LocalQueue = serde_json::from_value(
        json!({"metadata": {"namespace": "t", "name": "lq"}, "spec": {"clusterQueue": "cq"}}),
    )
    .unwrap();
    let cluster: ClusterQueue = serde_json::from_value(json!({"metadata": {"name": "cq"}, "spec": {
        "admissionChecksStrategy": {"admissionChecks": checks},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default"}, {"name": "spot"}]}],
    }}))
    .unwrap();
    let situation = ReconcileInput {
        has_variants: false,
        now: NOW.parse().unwrap(),
        version: KueueVersion::V0_19,
        local_queue: Some(&local),
        cluster_queue: Some(&cluster),
        cluster_queue_active: true,
        delay_written: None,
    };
    reconcile(&workload, &situation)
}

fn reserved(entries: Value) -> Value {
    json!({
        "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}}]},
        "admissionChecks": entries,
    })
}

fn entry(state: &str, after: Option<i64>) -> Value {
    json!({"name": "c1", "state": state, "message": "m", "lastTransitionTime": "2026-11-21T09:00:09Z", "requeueAfterSeconds": after})
}

fn written(outcome: Outcome) -> Workload {
    match outcome.write {
        Some(Write::Admission(workload)) => *workload,
        other => panic!("no admission: {other:?}"),
    }
}

#[test]
fn without_quota_only_checks_for_all_flavors_are_listed() {
    let rules = json!([{"name": "c1"}, {"name": "c2", "onFlavors": ["default"]}, {"name": "c3", "onFlavors": ["default", "spot"]}]);
    let Some(Write::Checks(entries)) = pass(json!({}), &rules).write else {
        panic!("no list");
    };
    let names: Vec<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["c1", "c3"]);
}

#[test]
fn retry_evicts_and_counts() {
    let after = written(pass(
        reserved(json!([entry("Retry", None)])),
        &json!([{"name": "c1"}]),
    ));
    assert!(after.is_evicted());
    let check = after.check("c1").unwrap();
    assert_eq!((check.state, check.retry_count), (State::Pending, Some(1)));
    assert_eq!(
        check.message,
        "Reset to Pending after eviction. Previously: Retry"
    );
}

#[test]
fn a_delay_keeps_the_quota_until_it_is_over() {
    let rules = json!([{"name": "c1"}]);
    let after = written(pass(reserved(json!([entry("Retry", Some(5))])), &rules));
    assert_eq!(
        after.requeue_at().unwrap().to_string(),
        "2026-11-21T09:00:14Z"
    );
    assert!(!after.is_evicted());
    let mut status = reserved(json!([entry("Retry", Some(5))]));
    status["requeueState"] = json!({"requeueAt": "2026-11-21T09:00:14Z"});
    let again = pass(status, &rules);
    assert_eq!(again.write, None);
    assert_eq!(again.again.unwrap().to_string(), "2026-11-21T09:00:14Z");
}

#[test]
fn rejected_without_quota_changes_nothing() {
    let outcome = pass(
        json!({"admissionChecks": [entry("Rejected", None)]}),
        &json!([{"name": "c1"}]),
    );
    assert_eq!(outcome, Outcome::default());
}
