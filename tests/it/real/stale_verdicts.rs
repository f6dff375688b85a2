//! Stale verdicts on Workloads that lost their quota while no replica led.

use kueue_check_testenv::KueueVersion::{self, V0_14_8, V0_17_8, V0_19_2};
use serde_json::json;

use super::faults::{Fault, Faults, RecordedRequest};
use super::harness::{Running, condition, fixture, now};

/// A leader that died after a reservation ended could not withdraw its verdict (rule 15).
async fn withdraws_stale_verdicts_on(version: KueueVersion) {
    withdraws_stale_verdicts(version, |_| {}).await;
}

/// The same, with the faults of `trouble` in the new leader's requests.
async fn withdraws_stale_verdicts(version: KueueVersion, trouble: impl Fn(&Faults)) {
    let Some(fixture) = fixture(version).await else {
        return;
    };
    let (cluster, check, name) = (fixture.cluster, fixture.check, fixture.name);
    fixture.running.stop().await;
    let entry = |check: &str, state: &str| json!({"name": check, "state": state, "message": "of an earlier life", "lastTransitionTime": now()});
    // More than a page of those that wait.
    for number in 0..60 {
        cluster.workload(&format!("waits-{number}")).await;
    }
    for state in ["Ready", "Retry", "Rejected", "Pending"] {
        let job = state.to_lowercase();
        cluster.workload(&job).await;
        let status = json!({
            "conditions": [condition("QuotaReserved", "False", "Pending")],
            "admissionChecks": [entry(&name, state), entry("of-somebody-else", state)],
        });
        cluster.apply_status(&job, status).await;
    }
    let (faults, runtime) = (Faults::default(), check.clone());
    faults.inject(1, Fault::Status(503, None), RecordedRequest::searches);
    trouble(&faults);
    let running = Running::of(faults.around(&cluster.client), runtime);
    for job in ["ready", "retry", "rejected"] {
        let entry = cluster
            .wait_message(
                job,
                &name,
                "quota was lost; evaluated again once quota is reserved",
            )
            .await;
        assert_eq!(entry["state"], "Pending", "{job}");
        let other = cluster.entry(job, "of-somebody-else").await;
        assert_eq!(other["message"], "of an earlier life", "{job}");
    }
    let entry = cluster.entry("pending", &name).await;
    assert_eq!(entry["message"], "of an earlier life");
    assert_eq!(faults.count(RecordedRequest::writes_entry), 3);
    // No replica watches those that wait, and none reads them.
    assert!(check.evaluations_of("ready") == 0 && check.released_for("ready").is_empty());
    running.stop().await;
}

#[tokio::test]
async fn rule_15_stale_verdicts_of_a_dead_leader_are_withdrawn_on_kueue_0_14() {
    withdraws_stale_verdicts_on(V0_14_8).await;
}

#[tokio::test]
async fn rule_15_stale_verdicts_of_a_dead_leader_are_withdrawn() {
    withdraws_stale_verdicts_on(V0_19_2).await;
}

#[tokio::test]
async fn rule_15_stale_verdicts_of_a_dead_leader_are_withdrawn_without_the_selectable_field() {
    withdraws_stale_verdicts_on(V0_17_8).await;
}

#[tokio::test]
async fn rule_15_stale_verdicts_of_a_dead_leader_are_withdrawn_though_the_selector_is_rejected() {
    let refused = |faults: &Faults| {
        faults.inject(
            usize::MAX,
            Fault::Status(400, None),
            RecordedRequest::selects,
        );
    };
    withdraws_stale_verdicts(V0_19_2, refused).await;
}
