//! The contract's rules, where a real API server shows them.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kueue_check::{ReleaseReason, Trigger, Verdict};
use kueue_check_testenv::KueueVersion::{self, V0_17_8, V0_19_2};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::checks::Scripted;
use super::faults::{A_WHILE, Fault, RecordedRequest};
use super::harness::{
    Fixture, condition, fixture, fixture_of, now, reserved, reserved_and, unique, wait,
};

/// Applies an entry as an older controller would. Returns the API server's response.
async fn apply_entry(
    fixture: &Fixture,
    manager: &str,
    force: bool,
    metadata: Value,
    entry: Value,
) -> Result<(), kube::core::Status> {
    let mut body = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "a"}, "status": {"admissionChecks": [entry]}});
    for (key, value) in metadata.as_object().unwrap() {
        body["metadata"][key] = value.clone();
    }
    let parameters = if force {
        PatchParams::apply(manager).force()
    } else {
        PatchParams::apply(manager)
    };
    match fixture
        .cluster
        .api("Workload")
        .patch_status("a", &parameters, &Patch::Apply(body))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(*status),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn facts_of_the_api_server_on_which_the_rules_rest() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| Ok(Verdict::pending("later")));
    fixture.reserved("a").await;
    fixture.wait_message("a", "later").await;
    fixture.running.stop().await;
    let entry = |name: &str, extra: Value| {
        let mut entry =
            json!({"name": name, "state": "Pending", "message": "x", "lastTransitionTime": now()});
        entry
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        entry
    };
    let own = &fixture.name;

    let unforced = apply_entry(&fixture, "other", false, json!({}), entry(own, json!({})))
        .await
        .unwrap_err();
    assert_eq!(
        (unforced.code, unforced.reason.as_str()),
        (409, "Conflict"),
        "rule 2: force is needed"
    );
    let stale = apply_entry(
        &fixture,
        "other",
        true,
        json!({"resourceVersion": "1"}),
        entry(own, json!({})),
    )
    .await
    .unwrap_err();
    assert_eq!(
        stale.code, 409,
        "rule 2: a version in the body is a precondition"
    );
    // The API server ignores a UID in the body of a status apply. No check of it is needed: an
    // object made anew has another version.
    let other_uid = json!({"uid": "0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4"});
    apply_entry(&fixture, "other", true, other_uid, entry(own, json!({})))
        .await
        .unwrap();
    let null = apply_entry(
        &fixture,
        "other",
        true,
        json!({}),
        entry(own, json!({"requeueAfterSeconds": null})),
    )
    .await
    .unwrap_err();
    assert!(
        matches!(null.code, 400 | 422 | 500),
        "rule 4: null is refused: {null:?}"
    );

    let first = entry(
        own,
        json!({"message": "y", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
    );
    apply_entry(&fixture, "one-for-two", true, json!({}), first)
        .await
        .unwrap();
    let stripped = apply_entry(
        &fixture,
        "one-for-two",
        true,
        json!({}),
        entry("second", json!({})),
    )
    .await
    .unwrap_err();
    assert_eq!(
        stripped.code, 422,
        "rule 3: the first is left as a bare name: {stripped:?}"
    );
}

#[tokio::test]
async fn rule_1_nothing_is_written_while_evicted() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.cluster.workload("a").await;
    let pending = json!({"name": fixture.name, "state": "Pending", "message": "", "lastTransitionTime": now()});
    let status = reserved_and(&[pending], condition("Evicted", "True", "Preempted"));
    fixture.cluster.apply_status("a", status).await;
    sleep(A_WHILE).await;
    assert_eq!(
        (
            fixture.check.evaluations().len(),
            fixture.faults.count(RecordedRequest::writes_entry)
        ),
        (0, 0)
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_1_what_is_decided_while_kueue_evicts_is_dropped() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.hold();
    fixture.reserved("a").await;
    fixture.wait_evaluations("a", 1).await;
    let cluster = &fixture.cluster;
    cluster.evict("a").await;
    sleep(A_WHILE).await;
    fixture.check.resume();
    sleep(A_WHILE).await;
    assert_eq!(fixture.check.released_for("a"), [], "its pods end");
    fixture.cluster.release_quota("a").await;
    assert_eq!(fixture.wait_released("a").await, ReleaseReason::Evicted);
    sleep(A_WHILE).await;
    assert_eq!(
        (
            fixture.entry("a").await["state"].clone(),
            fixture.faults.count(RecordedRequest::writes_entry)
        ),
        (json!("Pending"), 0)
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_2_a_verdict_on_a_stale_version_is_dropped_and_evaluated_again() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .faults
        .inject(1, Fault::Status(409, None), RecordedRequest::writes_entry);
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(
        fixture.check.evaluations_of("a"),
        2,
        "the verdict was not sent again, but found again"
    );
    assert_eq!(
        fixture.metric("writes_total", "outcome", "conflict").await,
        1
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_2_conflicts_that_no_event_explains_end_in_a_fresh_read() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .faults
        .inject(4, Fault::Status(409, None), RecordedRequest::writes_entry);
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    assert!(
        !fixture
            .faults
            .seen(|seen| seen.verb == "get" && seen.path.ends_with("/workloads/a"))
            .is_empty()
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_2_an_entry_that_kueue_has_removed_is_not_brought_back() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.hold();
    fixture.reserved("a").await;
    fixture.wait_evaluations("a", 1).await;
    fixture.cluster.apply_status("a", reserved(&[])).await;
    sleep(A_WHILE).await;
    fixture.check.resume();
    sleep(A_WHILE).await;
    assert_eq!(fixture.entry("a").await, Value::Null);
    assert_eq!(
        fixture.check.released_for("a"),
        [ReleaseReason::CheckRemoved]
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_4_what_survives_a_reset_of_kueues_is_cleared() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| {
        let updates = kueue_check::PodSetUpdates::builder()
            .pod_set("driver", |pods| pods.label("a", "b"))
            .build()?;
        Ok(Verdict::ready("ok").with_updates(updates))
    });
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    // Kueue's eviction resets the state, and omits what it does not own.
    let reset = json!({"name": fixture.name, "state": "Pending", "message": "Reset to Pending after eviction. Previously: Ready", "lastTransitionTime": now()});
    let evicted = condition("Evicted", "True", "Preempted");
    let evicted = reserved_and(std::slice::from_ref(&reset), evicted);
    fixture.check.returns(|_| Ok(Verdict::pending("full")));
    fixture.cluster.apply_status("a", evicted).await;
    // While its pods end, no check is evaluated.
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(
        fixture.entry("a").await["podSetUpdates"],
        json!([{"name": "driver", "labels": {"a": "b"}}]),
        "the fact on which the rule rests"
    );
    // Quota again.
    sleep(Duration::from_millis(1100)).await;
    let again = condition("Evicted", "False", "QuotaReserved");
    let again = reserved_and(&[reset], again);
    fixture.cluster.apply_status("a", again).await;
    let entry = fixture.wait_message("a", "full").await;
    assert_eq!(entry["podSetUpdates"], json!([]));
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_5_the_transition_time_changes_only_with_the_state() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| Ok(Verdict::pending("one")));
    fixture.reserved("a").await;
    let first = fixture.wait_message("a", "one").await;
    sleep(Duration::from_millis(1100)).await;
    fixture.check.returns(|_| Ok(Verdict::pending("two")));
    fixture.check.trigger(Trigger::AllWorkloads);
    let second = fixture.wait_message("a", "two").await;
    assert_eq!(second["lastTransitionTime"], first["lastTransitionTime"]);
    fixture.check.returns(|_| Ok(Verdict::ready("three")));
    fixture.check.trigger(Trigger::AllWorkloads);
    assert_ne!(
        fixture.wait_state("a", "Ready").await["lastTransitionTime"],
        first["lastTransitionTime"]
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_5_nothing_is_sent_when_nothing_differs() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .check
        .returns(|_| Ok(Verdict::pending("the same").recheck_in(Duration::from_millis(50))));
    fixture.reserved("a").await;
    fixture.wait_message("a", "the same").await;
    fixture.wait_evaluations("a", 10).await;
    assert_eq!(fixture.faults.count(RecordedRequest::writes_entry), 1);
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_6_after_retry_nothing_is_evaluated_until_the_reset() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| Ok(Verdict::retry_now("no")));
    fixture.reserved("a").await;
    fixture.wait_state("a", "Retry").await;
    fixture.check.returns(|_| Ok(Verdict::ready("yes")));
    fixture.check.trigger(Trigger::AllWorkloads);
    fixture.cluster.setting(&fixture.name, "changed").await;
    sleep(A_WHILE).await;
    assert_eq!(
        (
            fixture.check.evaluations_of("a"),
            fixture.faults.count(RecordedRequest::writes_entry)
        ),
        (1, 1)
    );
    // The reset, and quota again.
    let reset = json!({"name": fixture.name, "state": "Pending", "message": "Reset to Pending after eviction. Previously: Retry", "lastTransitionTime": now(), "retryCount": 1});
    fixture.cluster.apply_status("a", reserved(&[reset])).await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(
        fixture.entry("a").await["retryCount"],
        1,
        "Kueue's count is left alone"
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_7_an_older_copy_forced_over_our_entry_is_evaluated_again() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    // As Kueue's scheduler does: without a version, with the state that it read before.
    fixture.cluster.reserve_again("a", &[&fixture.name]).await;
    fixture.wait_state("a", "Ready").await;
    let metrics = fixture.running.handle.metrics().await;
    assert!(
        metrics.contains(&format!(
            "kueue_check_state_overwrites_total{{check=\"{}\"}} 1",
            fixture.name
        )),
        "{metrics}"
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_7_a_client_that_keeps_overwriting_is_not_fought_in_a_hot_loop() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    let until = tokio::time::Instant::now() + 2 * A_WHILE;
    while tokio::time::Instant::now() < until {
        let pending = json!({"admissionChecks": [{"name": fixture.name, "state": "Pending", "message": "mine", "lastTransitionTime": "2026-01-01T00:00:00Z", "podSetUpdates": []}]});
        fixture.cluster.merge_status("a", pending).await;
        sleep(Duration::from_millis(20)).await;
    }
    assert!(
        fixture.faults.count(RecordedRequest::writes_entry) <= 12,
        "{} patches in three seconds",
        fixture.faults.count(RecordedRequest::writes_entry)
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_8_a_verdict_for_an_earlier_reservation_is_dropped() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.hold();
    fixture.check.returns(|request| {
        Ok(Verdict::ready(format!(
            "for {}",
            request.reservation().since()
        )))
    });
    fixture.reserved("a").await;
    fixture.wait_evaluations("a", 1).await;
    let first = fixture.check.evaluations()[0].reservation.since();
    fixture.cluster.take_quota("a").await;
    sleep(Duration::from_millis(1100)).await;
    fixture.cluster.reserve("a", &[&fixture.name]).await;
    fixture.check.resume();
    let entry = fixture.wait_state("a", "Ready").await;
    assert_ne!(entry["message"], format!("for {first}"));
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_9_after_a_write_no_older_version_is_evaluated() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    // With the watch down, only the response to the write has the stored state.
    fixture.check.returns(|_| Ok(Verdict::pending("one")));
    fixture.reserved("a").await;
    fixture.wait_message("a", "one").await;
    fixture
        .faults
        .inject(1000, Fault::Status(500, None), |seen| {
            seen.path.ends_with("/workloads")
        });
    for round in 0..20 {
        fixture
            .check
            .returns(move |_| Ok(Verdict::pending(format!("round {round}"))));
        fixture.check.trigger(Trigger::AllWorkloads);
        fixture.wait_message("a", &format!("round {round}")).await;
        sleep(Duration::from_millis(if round == 0 { 1100 } else { 0 })).await;
    }
    let conflicts = fixture.metric("writes_total", "outcome", "conflict").await;
    assert_eq!(conflicts, 0);
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_12_active_is_applied_as_one_condition() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let object = fixture.cluster.get("AdmissionCheck", &fixture.name).await;
    let managers = super::harness::managers(&object);
    let ours = managers
        .iter()
        .find(|(manager, _)| manager.starts_with("example.com/"))
        .unwrap();
    let fields: Value = serde_json::from_str(ours.1).unwrap();
    assert_eq!(
        fields,
        json!({"f:status": {"f:conditions": {"k:{\"type\":\"Active\"}": {
            ".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {}, "f:lastTransitionTime": {}, "f:observedGeneration": {},
        }}}})
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_13_while_kueues_webhook_is_down_writes_are_retried() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .faults
        .inject(3, Fault::Status(500, None), RecordedRequest::writes_entry);
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(fixture.faults.count(RecordedRequest::writes_entry), 4);
    fixture.running.stop().await;
}

/// Quota that is lost without an eviction leaves Ready in place, and Kueue would admit with it the
/// next time.
async fn withdraws_on(version: KueueVersion) {
    let Some(fixture) = fixture(version).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.cluster.take_quota("a").await;
    let entry = fixture.wait_state("a", "Pending").await;
    assert_eq!(
        entry["message"],
        "quota was lost; evaluated again once quota is reserved"
    );
    assert_eq!(fixture.wait_released("a").await, ReleaseReason::QuotaLost);
    // The next reservation is evaluated anew.
    sleep(Duration::from_millis(1100)).await;
    fixture.cluster.reserve("a", &[&fixture.name]).await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(fixture.check.evaluations_of("a"), 2);
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_15_ready_is_withdrawn_when_the_selected_watch_reports_deleted() {
    withdraws_on(V0_19_2).await;
}

#[tokio::test]
async fn rule_15_ready_is_withdrawn_when_all_workloads_are_watched() {
    withdraws_on(V0_17_8).await;
}

#[tokio::test]
async fn rule_15_a_check_whose_verdict_outlives_the_reservation_keeps_it() {
    let Some(fixture) = fixture_of(
        V0_19_2,
        Scripted::outliving(&unique("example.com/outliving")),
    )
    .await
    else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.cluster.take_quota("a").await;
    assert_eq!(fixture.wait_released("a").await, ReleaseReason::QuotaLost);
    sleep(A_WHILE).await;
    assert_eq!(fixture.entry("a").await["state"], "Ready");
    fixture.running.stop().await;
}

#[tokio::test]
async fn rule_15_a_retry_that_kueue_never_saw_is_withdrawn_or_the_workload_is_stuck() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| Ok(Verdict::retry_now("no")));
    fixture.reserved("a").await;
    fixture.wait_state("a", "Retry").await;
    fixture.cluster.take_quota("a").await;
    fixture.wait_state("a", "Pending").await;
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_deleted_workload_is_distinguished_from_one_without_quota() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    for workload in ["deleted", "stopped"] {
        fixture.reserved(workload).await;
        fixture.wait_state(workload, "Ready").await;
    }
    fixture.cluster.delete("Workload", "deleted").await;
    fixture.cluster.take_quota("stopped").await;
    assert_eq!(
        fixture.wait_released("deleted").await,
        ReleaseReason::Deleted
    );
    assert_eq!(
        fixture.wait_released("stopped").await,
        ReleaseReason::QuotaLost
    );
    wait("no pending cleanup", async || {
        let diagnostics = fixture.running.diagnostics().await;
        (diagnostics["pendingCleanups"] == json!([]), diagnostics)
    })
    .await;
    fixture.running.stop().await;
}
