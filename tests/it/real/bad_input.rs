//! Invalid input is reported in the right place; nothing else is affected, and nothing is ever
//! evicted for it.

use std::time::Duration;

use kueue_check::handler::Params;
use kueue_check::runtime::Runtime;
use kueue_check::{
    Check, CheckError, ControllerName, Parameters, ParametersKind, PodSetUpdates, Trigger, Verdict,
};
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::checks::Setting;
use super::faults::{A_WHILE, Fault, RecordedRequest};
use super::harness::{
    Running, definitions, fixture, fixture_on, now, reserved, setting_reference, start_or_skip,
    test_cluster, unique,
};

/// Returns something invalid for one Workload. The other must get its verdict, and the state of the
/// first must stay.
async fn is_reported(
    result: impl Fn() -> Result<Verdict, CheckError> + Send + Sync + 'static,
    message: &str,
) {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(move |request| {
        if request.workload().name() == "odd" {
            result()
        } else {
            Ok(Verdict::ready("ok"))
        }
    });
    fixture.reserved("odd").await;
    let entry = fixture.wait_message("odd", message).await;
    assert_eq!(entry["state"], "Pending");
    fixture.reserved("other").await;
    fixture.wait_state("other", "Ready").await;
    assert!(fixture.running.handle.problems().is_empty());
    fixture.running.stop().await;
}

#[tokio::test]
async fn an_error_of_the_check() {
    is_reported(
        || Err(std::io::Error::other("connection refused"))?,
        "the check failed; will retry: connection refused",
    )
    .await;
}

#[tokio::test]
async fn a_panic_of_the_check() {
    is_reported(
        || panic!("index out of bounds"),
        "the check failed; will retry: the check's code panicked: index out of bounds",
    )
    .await;
}

#[tokio::test]
async fn an_update_for_an_unknown_pod_set() {
    let update = || {
        let updates = PodSetUpdates::builder()
            .pod_set("nobody", |pods| pods.label("a", "b"))
            .build()?;
        Ok(Verdict::ready("ok").with_updates(updates))
    };
    is_reported(update, "the check cannot evaluate this Workload: the Workload has no pod set `nobody`; it has [\"driver\", \"workers\"]").await;
}

#[tokio::test]
async fn an_update_that_would_finish_the_job_as_failed_to_start() {
    let update = || {
        let updates = PodSetUpdates::builder()
            .pod_set("driver", |pods| pods.label("app", "other"))
            .build()?;
        Ok(Verdict::ready("ok").with_updates(updates))
    };
    is_reported(
        update,
        "label `app` would be `other`, but the job's pod template sets it to `train`",
    )
    .await;
}

#[tokio::test]
async fn a_message_of_100_kb_with_a_password() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| {
        Ok(Verdict::pending(format!(
            "password=hunter2 {}",
            "x".repeat(100_000)
        )))
    });
    fixture.reserved("a").await;
    let entry = fixture.wait_message("a", "password=*** xxx").await;
    let message = entry["message"].as_str().unwrap();
    assert_eq!(
        (message.chars().count(), message.ends_with('…')),
        (1024, true)
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_check_that_never_returns() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let (cluster, check, name) = (fixture.cluster, fixture.check, fixture.name);
    fixture.running.stop().await;
    check.delay(Duration::from_secs(3600));
    let running = Running::start(
        Runtime::builder(cluster.client.clone())
            .check(check.clone())
            .evaluation_timeout(Duration::from_millis(300)),
    );
    cluster.workload("a").await;
    cluster.reserve("a", &[&name]).await;
    let entry = cluster
        .wait_message("a", &name, "the check returned no verdict in 300ms")
        .await;
    assert_eq!(entry["state"], "Pending");
    let timeouts = running
        .metric(&format!(
            "kueue_check_evaluations_total{{check=\"{name}\",outcome=\"timeout\"}}"
        ))
        .await;
    assert!(timeouts >= 1);
    check.delay(Duration::ZERO);
    cluster.wait_state("a", &name, "Ready").await;
    running.stop().await;
}

#[tokio::test]
async fn an_outage_of_a_check_evicts_no_running_job() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let often = Duration::from_millis(100);
    fixture
        .check
        .returns(move |_| Ok(Verdict::ready("ok").recheck_in(often)));
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.cluster.admit("a").await;
    fixture.wait_evaluations("a", 3).await;
    let before = fixture.check.evaluations_of("a");
    fixture
        .check
        .returns(|_| Err(CheckError::transient("down")));
    fixture.wait_evaluations("a", before + 2).await;
    fixture.check.returns(|_| panic!("worse"));
    fixture.wait_evaluations("a", before + 3).await;
    assert_eq!(fixture.entry("a").await["state"], "Ready");
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_workload_that_cannot_be_decoded_does_not_stop_the_watch() {
    let Some(cluster) = start_or_skip().await else {
        return;
    };
    let client = cluster.client().unwrap();
    // Definitions without any structure: they accept objects that no Kueue would store.
    let loose = definitions(|version| {
        let free = json!({"x-kubernetes-preserve-unknown-fields": true});
        version["schema"]["openAPIV3Schema"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "spec": free, "status": free,
        }});
        let version = version.as_object_mut().unwrap();
        // The selector needs a field that the structure has.
        version.remove("selectableFields");
        version.remove("additionalPrinterColumns");
    });
    cluster.install(&client, loose).await.unwrap();
    let fixture = fixture_on(&cluster).await;
    let odd = json!({"spec": {"podSets": "many", "active": 7, "priority": [], "queueName": {}, "unknown": {"deep": [1]}}});
    fixture.cluster.create("Workload", "odd", odd).await;
    let status = json!({"conditions": {"QuotaReserved": true}, "admission": "cq", "admissionChecks": [7, {"name": fixture.name, "state": {}}]});
    fixture.cluster.merge_status("odd", status).await;
    let strange = json!({"conditions": [{"type": "QuotaReserved", "status": "True"}], "admission": {"clusterQueue": "cq", "podSetAssignments": "none"},
                         "admissionChecks": [[], {"name": fixture.name, "state": "Pending", "message": 5, "podSetUpdates": {"a": 1}}]});
    fixture
        .cluster
        .create(
            "Workload",
            "half-odd",
            json!({"spec": {"podSets": [{"name": "driver", "count": "x"}, {"name": "workers"}]}}),
        )
        .await;
    fixture.cluster.merge_status("half-odd", strange).await;
    fixture.reserved("good").await;
    fixture.wait_state("good", "Ready").await;
    let odd_objects = fixture
        .running
        .metric("kueue_check_malformed_objects_total")
        .await;
    assert!(odd_objects >= 1, "{odd_objects}");
    assert!(fixture.running.handle.problems().is_empty());
    fixture.running.stop().await;
}

#[tokio::test]
async fn names_as_long_as_they_may_be() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let name = format!("{}-{}", unique("long"), "n".repeat(253));
    let name = &name[..253];
    let controller: ControllerName = format!("example.com/{}", "c".repeat(241)).parse().unwrap();
    cluster
        .admission_check(name, controller.as_str(), Value::Null)
        .await;
    let check = Check::from_fn(controller, async || Verdict::ready("ok"));
    let running = Running::of(cluster.client.clone(), check);
    cluster.wait_active(name, "True", "Active").await;
    let workload = "w".repeat(253);
    cluster.workload(&workload).await;
    cluster.reserve(&workload, &[name]).await;
    cluster.wait_state(&workload, name, "Ready").await;
    cluster
        .wait_event(&cluster.namespace, &workload, "AdmissionCheckReady")
        .await;
    running.stop().await;
}

#[tokio::test]
async fn parameters_for_a_check_that_takes_none() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let name = unique("check");
    cluster
        .admission_check(&name, "example.com/plain", setting_reference("some"))
        .await;
    let controller = ControllerName::from_static("example.com/plain");
    let plain = Check::from_fn(controller, async || Verdict::ready("ok"));
    let running = Running::of(cluster.client.clone(), plain);
    let active = cluster
        .wait_active(&name, "False", "UnexpectedParameters")
        .await;
    assert_eq!(
        active["message"],
        "spec.parameters refers to Setting `some`, but this check takes no parameters: remove the reference"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_verdict_that_the_api_server_rejects_is_reported_in_the_entry() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .faults
        .inject(1, Fault::Status(422, None), RecordedRequest::writes_entry);
    fixture.reserved("a").await;
    let entry = fixture
        .wait_message("a", "the API server rejected the state (422): injected")
        .await;
    assert_eq!(entry["state"], "Pending");
    fixture.wait_event("a", "StateWriteRejected").await;
    let refused = fixture.metric("writes_total", "outcome", "rejected").await;
    assert_eq!(refused, 1);
    fixture.running.stop().await;
}

#[tokio::test]
async fn an_entry_in_an_unknown_state() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    // Another entry may have any content.
    let own = json!({"name": fixture.name, "state": "Pending", "message": "", "lastTransitionTime": now()});
    let other =
        json!({"name": "other", "state": "Rejected", "message": "no", "lastTransitionTime": now()});
    fixture.cluster.workload("a").await;
    fixture
        .cluster
        .apply_status("a", reserved(&[own, other]))
        .await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(
        fixture.cluster.entry("a", "other").await["state"],
        "Rejected"
    );
    fixture.check.trigger(Trigger::Workload {
        namespace: "nowhere".into(),
        name: "nobody".into(),
    });
    fixture
        .check
        .trigger(Trigger::AdmissionCheck("nobody".into()));
    sleep(A_WHILE).await;
    assert_eq!(fixture.check.evaluations_of("a"), 1);
    fixture.running.stop().await;
}

/// The tests' settings, with a field that their definition does not have.
struct Demanding;

impl Parameters for Demanding {
    fn kind() -> Option<ParametersKind> {
        Some(ParametersKind::of::<Setting>())
    }

    fn decode(object: Value) -> Result<Self, String> {
        object
            .pointer("/spec/limit")
            .map(|_| Self)
            .ok_or_else(|| "missing field `limit`".to_owned())
    }
}

#[tokio::test]
async fn parameters_of_a_shape_that_the_check_does_not_understand() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let name = unique("check");
    cluster.setting(&name, "fine").await;
    cluster.check(&name, "example.com/demanding").await;
    let controller = ControllerName::from_static("example.com/demanding");
    let demanding = async |_: Params<Demanding>| Verdict::ready("ok");
    let running = Running::of(
        cluster.client.clone(),
        Check::from_fn(controller, demanding),
    );
    let active = cluster
        .wait_active(&name, "False", "ParametersInvalid")
        .await;
    assert_eq!(
        active["message"],
        format!("Setting `{name}` is invalid: missing field `limit`")
    );
    running.stop().await;
}
