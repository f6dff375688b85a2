//! The duties of a check's controller in KEP-993, each by name.

use std::time::Duration;

use kueue_check::{AdmissionCheckController, ReleaseReason, Verdict};
use kueue_check_testenv::KueueVersion::{V0_17_8, V0_19_2};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::checks::{Releasing, Scripted, evict_at_once, waits_at_most};
use super::faults::A_WHILE;
use super::harness::{
    Fixture, condition, definitions, fixture, fixture_of, fixture_on, now, reserved_and,
    start_or_skip, unique, wait,
};

#[tokio::test]
async fn watches_all_admission_checks_to_find_its_own() {
    let Some(Fixture {
        cluster,
        check,
        running,
        ..
    }) = fixture(V0_19_2).await
    else {
        return;
    };
    // One of another controller stays as it is. One that appears later is added, with the Workloads
    // that waited for it already.
    let (not_ours, later) = (unique("not-ours"), unique("later"));
    cluster
        .admission_check(&not_ours, "example.com/somebody-else", Value::Null)
        .await;
    cluster.workload("a").await;
    cluster.reserve("a", &[&later, &not_ours]).await;
    sleep(Duration::from_millis(300)).await;
    cluster.setting(&later, "fine").await;
    cluster
        .check(&later, check.controller_name().as_str())
        .await;
    cluster.wait_state("a", &later, "Ready").await;
    assert_eq!(cluster.entry("a", &not_ours).await["state"], "Pending");
    assert_eq!(
        cluster.get("AdmissionCheck", &not_ours).await.get("status"),
        None
    );
    running.stop().await;
}

#[tokio::test]
async fn watches_all_parameter_objects() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .check
        .returns(|request| Ok(Verdict::pending(request.parameters().spec.word.clone())));
    fixture.reserved("a").await;
    fixture.wait_message("a", "fine").await;
    for word in ["one", "two", "three"] {
        fixture.cluster.setting(&fixture.name, word).await;
        fixture.wait_message("a", word).await;
    }
    fixture.running.stop().await;
}

#[tokio::test]
async fn handles_only_workloads_past_quota_reservation() {
    for version in [V0_19_2, V0_17_8] {
        let Some(fixture) = fixture(version).await else {
            return;
        };
        let pending = json!({"name": fixture.name, "state": "Pending", "message": "", "lastTransitionTime": now()});
        fixture.cluster.workload("no-status").await;
        fixture.cluster.workload("no-quota").await;
        let without = json!({"conditions": [condition("QuotaReserved", "False", "Pending")], "admissionChecks": [pending]});
        fixture.cluster.apply_status("no-quota", without).await;
        sleep(A_WHILE).await;
        assert!(fixture.check.evaluations().is_empty());
        fixture.cluster.reserve("no-quota", &[&fixture.name]).await;
        fixture.wait_state("no-quota", "Ready").await;
        fixture.running.stop().await;
    }
}

#[tokio::test]
async fn monitors_approved_workloads_and_fails_them() {
    // Three of them must be a minute apart: shown in virtual time (scenario `failing-verdict`).
    let check = Scripted::with_policy(&unique("example.com/scripted"), evict_at_once());
    let Some(fixture) = fixture_of(V0_19_2, check).await else {
        return;
    };
    let often = Duration::from_secs(1);
    fixture
        .check
        .returns(move |_| Ok(Verdict::ready("within budget").recheck_in(often)));
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.cluster.admit("a").await;
    fixture.wait_evaluations("a", 4).await;
    fixture
        .check
        .returns(move |_| Ok(Verdict::retry_now("budget spent")));
    let entry = fixture.wait_state("a", "Retry").await;
    assert_eq!(entry["message"], "budget spent");
    // It is counted when the server has responded, which is after the state can be read.
    wait("the eviction to be counted", async || {
        let evictions = fixture.metric("evictions_total", "state", "Retry").await;
        (evictions == 1, evictions)
    })
    .await;
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_check_that_never_set_a_recheck_does_not_evict_a_running_job() {
    let check = Scripted::with_policy(&unique("example.com/scripted"), evict_at_once());
    let Some(fixture) = fixture_of(V0_19_2, check).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.cluster.admit("a").await;
    fixture.check.returns(|_| Ok(Verdict::rejected("never")));
    fixture.check.trigger(kueue_check::Trigger::AllWorkloads);
    fixture.wait_evaluations("a", 2).await;
    fixture.wait_event("a", "EvictionSuppressed").await;
    assert_eq!(fixture.entry("a").await["state"], "Ready");
    fixture.running.stop().await;
}

#[tokio::test]
async fn releases_resources_when_quota_is_lost() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let workloads = ["lost", "evicted", "finished", "deactivated", "deleted"];
    for workload in workloads {
        fixture.reserved(workload).await;
        fixture.wait_state(workload, "Ready").await;
    }
    assert_eq!(fixture.check.started().len(), 5);
    fixture.cluster.take_quota("lost").await;
    fixture.cluster.evict("evicted").await;
    fixture
        .cluster
        .set_condition("finished", "Finished", "True", "Succeeded")
        .await;
    let inactive = json!({"spec": {"active": false}});
    fixture
        .cluster
        .merge("Workload", "deactivated", inactive)
        .await;
    fixture.cluster.delete("Workload", "deleted").await;
    for stopping in ["evicted", "deactivated"] {
        sleep(A_WHILE).await;
        let released = fixture.check.released_for(stopping);
        assert_eq!(released, [], "pods of {stopping} are still there");
        fixture.cluster.release_quota(stopping).await;
    }
    for (workload, why) in [
        ("lost", ReleaseReason::QuotaLost),
        ("evicted", ReleaseReason::Evicted),
        ("finished", ReleaseReason::Finished),
        ("deactivated", ReleaseReason::Deactivated),
        ("deleted", ReleaseReason::Deleted),
    ] {
        assert_eq!(fixture.wait_released(workload).await, why);
    }
    sleep(A_WHILE).await;
    assert_eq!(
        (
            fixture.check.started().len(),
            fixture.check.released().len()
        ),
        (0, 5),
        "each once"
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_release_is_retried_until_it_is_done_and_the_next_reservation_waits_for_it() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.check.releasing(Releasing::Fails);
    fixture.cluster.take_quota("a").await;
    fixture.wait_released("a").await;
    sleep(Duration::from_millis(1100)).await;
    fixture.cluster.reserve("a", &[&fixture.name]).await;
    let entry = fixture
        .wait_message(
            "a",
            "resources of an earlier reservation are not released yet",
        )
        .await;
    assert!(
        entry["message"]
            .as_str()
            .unwrap()
            .contains("the licence server does not respond")
    );
    assert_eq!(fixture.check.evaluations_of("a"), 1);
    fixture.check.releasing(Releasing::Done);
    fixture.wait_state("a", "Ready").await;
    assert_eq!(fixture.check.evaluations_of("a"), 2);
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_check_without_resources_sends_no_request_to_find_out_why_quota_was_lost() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.releasing(Releasing::Nothing);
    fixture.check.returns(|_| Ok(Verdict::pending("later")));
    for workload in ["first", "second", "third"] {
        fixture.reserved(workload).await;
        fixture.wait_message(workload, "later").await;
    }
    fixture.cluster.take_quota("first").await;
    fixture.wait_released("first").await;
    fixture.faults.clear_requests();
    fixture.cluster.take_quota("second").await;
    fixture.cluster.take_quota("third").await;
    sleep(A_WHILE).await;
    assert_eq!(
        fixture
            .faults
            .seen(|seen| seen.verb == "get" && seen.path.contains("/workloads/")),
        []
    );
    assert_eq!(fixture.check.released().len(), 1);
    fixture.running.stop().await;
}

#[tokio::test]
async fn waiting_is_bounded_by_policy() {
    let check = Scripted::with_policy(&unique("example.com/scripted"), waits_at_most("2s"));
    let Some(fixture) = fixture_of(V0_19_2, check).await else {
        return;
    };
    fixture.check.returns(|_| Ok(Verdict::pending("full")));
    fixture.reserved("a").await;
    fixture.wait_message("a", "full").await;
    let entry = fixture.wait_state("a", "Retry").await;
    assert_eq!(
        entry["message"],
        "requeued, by policy `pendingTimeout`; it waited for: full"
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn preemption_required_is_written_where_the_served_schema_has_it() {
    let Some(cluster) = start_or_skip().await else {
        return;
    };
    let client = cluster.client().unwrap();
    // KEP-993's state is added to the enum of Kueue's definition.
    let extended = definitions(|version| {
        let path = "/schema/openAPIV3Schema/properties/status/properties/admissionChecks/items/properties/state/enum";
        let states = version.pointer_mut(path).unwrap();
        states
            .as_array_mut()
            .unwrap()
            .push(json!("PreemptionRequired"));
    });
    cluster.install(&client, extended).await.unwrap();
    let fixture = fixture_on(&cluster).await;
    fixture
        .check
        .returns(|_| Ok(Verdict::preemption_required("four GPUs short")));
    fixture.reserved("a").await;
    let entry = fixture.wait_state("a", "PreemptionRequired").await;
    assert_eq!(entry["message"], "four GPUs short");
    let diagnostics = fixture.running.diagnostics().await;
    assert_eq!(
        diagnostics["preemptionRequired"],
        "written as PreemptionRequired: the served schema has the state"
    );
    fixture.check.returns(|_| Ok(Verdict::ready("ok")));
    fixture.check.trigger(kueue_check::Trigger::AllWorkloads);
    fixture.wait_state("a", "Ready").await;
    fixture.running.stop().await;
}

#[tokio::test]
async fn without_the_state_diagnostics_report_the_substitute() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let diagnostics = wait("diagnostics", async || {
        let diagnostics = fixture.running.handle.diagnostics().await;
        (diagnostics.is_some(), diagnostics)
    })
    .await;
    assert_eq!(
        serde_json::to_value(diagnostics).unwrap()["preemptionRequired"],
        "shown as Pending with the reason: the served schema has no such state"
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn kueue_loses_and_regains_quota_in_one_second_and_nothing_is_reused() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    let reset = json!({"name": fixture.name, "state": "Pending", "message": "Reset to Pending after eviction. Previously: Ready", "lastTransitionTime": now()});
    let evicted = reserved_and(&[reset], condition("Evicted", "True", "Preempted"));
    fixture.cluster.apply_status("a", evicted).await;
    fixture.cluster.reserve("a", &[&fixture.name]).await;
    fixture.wait_evaluations("a", 2).await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(fixture.wait_released("a").await, ReleaseReason::Evicted);
    fixture.running.stop().await;
}
