//! A check's verdict becomes the Workload's admission check state.

use std::time::Duration;

use kueue_check::{PodSetUpdates, Verdict};
use kueue_check_testenv::KueueVersion::{self, V0_14_8, V0_17_8, V0_19_2};
use serde_json::json;

use super::harness::{Fixture, fixture, managers};

/// Parameters appear, a Workload gets quota, the check returns Ready with updates, another returns
/// Retry: the same on each version of Kueue.
async fn decides_on(version: KueueVersion) -> Option<Fixture> {
    let fixture = fixture(version).await?;
    fixture.check.returns(|request| {
        if request.workload().name() == "refused" {
            return Ok(Verdict::retry_after(
                Duration::from_secs(90),
                "come back later",
            ));
        }
        let names = request
            .workload()
            .pod_sets()
            .iter()
            .map(|pod_set| pod_set.name().to_owned());
        let updates = PodSetUpdates::builder()
            .pod_sets(names, |pods| {
                pods.label("example.com/ticket", "t-1")
                    .node_selector("zone", "a")
            })
            .build()?;
        Ok(Verdict::ready("here is your ticket").with_updates(updates))
    });
    fixture
        .cluster
        .create("ResourceFlavor", "default", json!({"spec": {}}))
        .await;
    fixture.reserved("a").await;
    let entry = fixture.wait_state("a", "Ready").await;
    assert_eq!(entry["message"], "here is your ticket");
    let update = |name: &str| json!({"name": name, "labels": {"example.com/ticket": "t-1"}, "nodeSelector": {"zone": "a"}});
    assert_eq!(
        entry["podSetUpdates"],
        json!([update("driver"), update("workers")])
    );
    fixture.reserved("refused").await;
    Some(fixture)
}

#[tokio::test]
async fn decides_on_kueue_0_19() {
    let Some(fixture) = decides_on(V0_19_2).await else {
        return;
    };
    let entry = fixture.wait_state("refused", "Retry").await;
    assert_eq!(
        (&entry["requeueAfterSeconds"], &entry["podSetUpdates"]),
        (&json!(90), &json!([]))
    );
    let diagnostics = fixture.running.diagnostics().await;
    assert_eq!(
        diagnostics["served"],
        json!({"version": "v1beta2", "preemptionRequired": false, "selectsReserved": true, "requeueAfter": true})
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn decides_on_kueue_0_17_without_the_selectable_field() {
    let Some(fixture) = decides_on(V0_17_8).await else {
        return;
    };
    assert_eq!(
        fixture.wait_state("refused", "Retry").await["requeueAfterSeconds"],
        90
    );
    let diagnostics = fixture.running.diagnostics().await;
    assert_eq!(
        diagnostics["served"],
        json!({"version": "v1beta2", "preemptionRequired": false, "selectsReserved": false, "requeueAfter": true})
    );
    // No check is evaluated for a Workload without quota, though all Workloads are sent.
    fixture.cluster.workload("waits").await;
    fixture.reserved("last").await;
    fixture.wait_state("last", "Ready").await;
    assert_eq!(fixture.check.evaluations_of("waits"), 0);
    fixture.running.stop().await;
}

#[tokio::test]
async fn decides_on_kueue_0_14_with_v1beta1_only_and_waits_for_the_delay_itself() {
    let Some(fixture) = decides_on(V0_14_8).await else {
        return;
    };
    let entry = fixture
        .wait_message("refused", "come back later (releases the quota at ")
        .await;
    assert_eq!(
        (&entry["state"], entry.get("requeueAfterSeconds")),
        (&json!("Pending"), None)
    );
    fixture
        .check
        .returns(|_| Ok(Verdict::retry_now("not here")));
    fixture.reserved("at-once").await;
    assert_eq!(
        fixture
            .wait_state("at-once", "Retry")
            .await
            .get("requeueAfterSeconds"),
        None
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn each_verdict_becomes_its_state_and_an_event() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|request| {
        Ok(match request.workload().name() {
            "ready" => Verdict::ready("returned ready"),
            "pending" => Verdict::pending("returned pending"),
            "retry" => Verdict::retry_now("returned retry"),
            "rejected" => Verdict::rejected("returned rejected"),
            "preemption" => Verdict::preemption_required("returned preemption"),
            _ => Verdict::not_applicable("returned nothing for me"),
        })
    });
    for (workload, state, message) in [
        ("ready", "Ready", "returned ready"),
        ("pending", "Pending", "returned pending"),
        ("retry", "Retry", "returned retry"),
        ("rejected", "Rejected", "returned rejected"),
        (
            "preemption",
            "Pending",
            "preemption required, which this Kueue does not support: returned preemption",
        ),
        ("other", "Ready", "returned nothing for me"),
    ] {
        fixture.reserved(workload).await;
        let entry = fixture.wait_message(workload, message).await;
        assert_eq!(
            (&entry["state"], &entry["message"]),
            (&json!(state), &json!(message))
        );
    }
    fixture
        .wait_event("ready", "AdmissionCheckReady: Admission check")
        .await;
    fixture
        .wait_event("retry", "Pending → Retry: returned retry")
        .await;
    fixture
        .wait_event("preemption", "PreemptionNotSupported")
        .await;
    for (metric, label, value, count) in [
        ("verdicts_total", "state", "Rejected", 1),
        ("evaluations_total", "outcome", "NotApplicable", 1),
        ("writes_total", "outcome", "ok", 6),
    ] {
        let found = fixture.metric(metric, label, value).await;
        assert_eq!(found, count, "{metric}");
    }
    fixture.running.stop().await;
}

#[tokio::test]
async fn what_is_applied_is_one_entry_and_nothing_else() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    let managers = managers(&fixture.cluster.get("Workload", "a").await);
    let (ours, theirs): (Vec<_>, Vec<_>) = managers
        .iter()
        .partition(|(manager, _)| manager.starts_with("example.com/"));
    assert_eq!(ours.len(), 1, "{managers:#?}");
    let fields: serde_json::Value = serde_json::from_str(ours[0].1).unwrap();
    assert_eq!(
        fields,
        json!({"f:status": {"f:admissionChecks": {format!("k:{{\"name\":\"{}\"}}", fixture.name): {
            ".": {}, "f:name": {}, "f:state": {}, "f:message": {}, "f:lastTransitionTime": {}, "f:podSetUpdates": {},
        }}}})
    );
    assert!(!theirs.is_empty());
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_changed_verdict_is_written_before_admission_and_not_after_it() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.check.returns(|_| Ok(Verdict::pending("closed")));
    fixture.check.trigger(kueue_check::Trigger::AllWorkloads);
    fixture.wait_state("a", "Pending").await;
    fixture
        .check
        .returns(|_| Ok(Verdict::ready("open").recheck_in(Duration::from_millis(100))));
    fixture.check.trigger(kueue_check::Trigger::AllWorkloads);
    fixture.wait_state("a", "Ready").await;
    fixture.cluster.admit("a").await;
    fixture
        .check
        .returns(|_| Ok(Verdict::pending("closed again").recheck_in(Duration::from_millis(100))));
    let before = fixture.check.evaluations_of("a");
    fixture.wait_evaluations("a", before + 5).await;
    assert_eq!(fixture.entry("a").await["state"], "Ready");
    fixture.running.stop().await;
}
