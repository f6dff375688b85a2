//! Several controllers on one Workload.

use kueue_check::runtime::Runtime;
use kueue_check::{AdmissionCheckController, PodSetUpdates, Trigger, Verdict};
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::{Value, json};

use super::checks::Scripted;
use super::harness::{Fixture, Running, fixture, now, reserved, test_cluster, unique};

/// Returns the entry of a third party, which no check may change.
fn foreign() -> Value {
    json!({
        "name": "foreign", "state": "Ready", "message": "not yours", "lastTransitionTime": now(), "retryCount": 3, "requeueAfterSeconds": 7,
        "podSetUpdates": [{"name": "driver", "labels": {"theirs": "1"}}],
    })
}

#[tokio::test]
async fn two_checks_of_one_binary_and_a_foreign_one_leave_each_other_alone() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let (first, second) = (
        Scripted::new(&unique("example.com/first")),
        Scripted::new(&unique("example.com/second")),
    );
    let (first_name, second_name) = (unique("first"), unique("second"));
    for (check, name) in [(&first, &first_name), (&second, &second_name)] {
        cluster.setting(name, "fine").await;
        cluster.check(name, check.controller_name().as_str()).await;
    }
    cluster
        .admission_check(&unique("foreign"), "example.com/somebody-else", Value::Null)
        .await;
    let with_label = |value: &'static str| {
        move |_: &_| {
            let updates = PodSetUpdates::builder()
                .pod_set("workers", |pods| pods.label(format!("from-{value}"), value))
                .build()?;
            Ok(Verdict::ready(value).with_updates(updates))
        }
    };
    first.returns(with_label("first"));
    second.returns(|_| Ok(Verdict::pending("not yet")));
    let running = Running::start(
        Runtime::builder(cluster.client.clone())
            .check(first.clone())
            .check(second.clone()),
    );

    let pending = |name: &str| json!({"name": name, "state": "Pending", "message": "", "lastTransitionTime": now()});
    let theirs = foreign();
    cluster.workload("a").await;
    cluster
        .apply_status(
            "a",
            reserved(&[pending(&first_name), pending(&second_name), theirs.clone()]),
        )
        .await;
    let of_first = cluster.wait_state("a", &first_name, "Ready").await;
    cluster.wait_message("a", &second_name, "not yet").await;

    // Each continues by itself.
    second.returns(with_label("second"));
    second.trigger(Trigger::AllWorkloads);
    cluster.wait_state("a", &second_name, "Ready").await;
    assert_eq!(cluster.entry("a", &first_name).await, of_first);
    first.returns(|_| Ok(Verdict::retry_now("changed my mind")));
    first.trigger(Trigger::AllWorkloads);
    cluster.wait_state("a", &first_name, "Retry").await;
    assert_eq!(
        cluster.entry("a", &second_name).await["podSetUpdates"],
        json!([{"name": "workers", "labels": {"from-second": "second"}}])
    );
    assert_eq!(cluster.entry("a", "foreign").await, theirs);
    running.stop().await;
}

#[tokio::test]
async fn two_admission_checks_of_one_controller_are_two_writers() {
    let Some(Fixture {
        cluster,
        check,
        name,
        running,
        ..
    }) = fixture(V0_19_2).await
    else {
        return;
    };
    let other = unique("other");
    cluster.setting(&other, "other").await;
    cluster
        .check(&other, check.controller_name().as_str())
        .await;
    cluster.wait_active(&other, "True", "Active").await;
    check.returns(|request| Ok(Verdict::ready(request.parameters().spec.word.clone())));
    cluster.workload("a").await;
    cluster.reserve("a", &[&name, &other]).await;
    assert_eq!(
        cluster.wait_state("a", &name, "Ready").await["message"],
        "fine"
    );
    assert_eq!(
        cluster.wait_state("a", &other, "Ready").await["message"],
        "other"
    );
    assert_eq!(
        cluster.entry("a", &name).await["message"],
        "fine",
        "the second write did not strip the first"
    );
    running.stop().await;
}

#[tokio::test]
async fn an_update_that_another_check_contradicts_is_not_written() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| {
        let updates = PodSetUpdates::builder()
            .pod_set("driver", |pods| pods.label("theirs", "2"))
            .build()?;
        Ok(Verdict::ready("ok").with_updates(updates))
    });
    let own = json!({"name": fixture.name, "state": "Pending", "message": "", "lastTransitionTime": now()});
    fixture.cluster.workload("a").await;
    fixture
        .cluster
        .apply_status("a", reserved(&[own, foreign()]))
        .await;
    let entry = fixture
        .wait_message(
            "a",
            "label `theirs` would be `2`, but the admission check \"foreign\" sets it to `1`",
        )
        .await;
    assert_eq!(entry["state"], "Pending");
    fixture.running.stop().await;
}
