//! The number of requests to the API server.

use std::time::Duration;

use kueue_check::Verdict;
use kueue_check_testenv::KueueVersion::V0_19_2;
use tokio::time::sleep;

use super::faults::{A_WHILE, RecordedRequest};
use super::harness::{Running, fixture, wait};

/// Returns true for a request about one Workload, and not for the watch of all of them.
fn about_workloads(seen: &RecordedRequest) -> bool {
    seen.path.contains("/workloads/")
}

/// Excludes requests that happen anyway: watches are renewed, events are sent apart from writes,
/// and a new leader reads once what no watch covers.
fn costs(seen: &RecordedRequest) -> bool {
    seen.verb != "watch" && !seen.path.contains("/events") && !seen.searches()
}

#[tokio::test]
async fn one_patch_and_no_read_for_each_verdict() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.faults.clear_requests();
    for number in 0..50 {
        fixture.reserved(&format!("w{number}")).await;
    }
    for number in 0..50 {
        fixture.wait_state(&format!("w{number}"), "Ready").await;
    }
    let seen = fixture.faults.seen(costs);
    assert_eq!(seen.len(), 50, "{seen:#?}");
    assert!(
        seen.iter()
            .all(|seen| seen.verb == "patch" && about_workloads(seen))
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn updates_cost_no_read_either() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.check.returns(|_| {
        let updates = kueue_check::PodSetUpdates::builder()
            .pod_set("driver", |pods| {
                pods.label("app2", "b").annotation("c", "d")
            })
            .build()?;
        Ok(Verdict::ready("ok").with_updates(updates))
    });
    fixture.faults.clear_requests();
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    assert_eq!(fixture.faults.count(costs), 1);
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_thousand_workloads_without_quota_cost_nothing() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.faults.clear_requests();
    for number in 0..1000 {
        fixture.cluster.workload(&format!("waits-{number}")).await;
    }
    fixture.reserved("last").await;
    fixture.wait_state("last", "Ready").await;
    let seen = fixture.faults.seen(costs);
    assert_eq!(seen.len(), 1, "{seen:#?}");
    let diagnostics = fixture.running.diagnostics().await;
    assert!(
        fixture
            .check
            .evaluations()
            .iter()
            .all(|evaluation| evaluation.workload == "last")
    );
    assert!(
        diagnostics["workloads"].as_u64().unwrap() < 1000,
        "those of other tests, at most"
    );
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_restart_evaluates_each_workload_once_and_writes_nothing() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    for number in 0..20 {
        fixture.reserved(&format!("w{number}")).await;
    }
    for number in 0..20 {
        fixture.wait_state(&format!("w{number}"), "Ready").await;
    }
    let (cluster, check, faults) = (fixture.cluster, fixture.check, fixture.faults);
    fixture.running.stop().await;
    let before = check.evaluations().len();
    faults.clear_requests();
    let running = Running::of(faults.around(&cluster.client), check.clone());
    wait("twenty questions", async || {
        (
            check.evaluations().len() >= before + 20,
            check.evaluations().len(),
        )
    })
    .await;
    sleep(A_WHILE).await;
    assert_eq!(
        (
            check.evaluations().len(),
            faults.count(|seen| seen.verb == "patch")
        ),
        (before + 20, 0)
    );
    running.stop().await;
}

#[tokio::test]
async fn rechecks_that_change_nothing_send_nothing() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .check
        .returns(|_| Ok(Verdict::ready("ok").recheck_in(Duration::from_millis(50))));
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.faults.clear_requests();
    fixture.wait_evaluations("a", 20).await;
    assert_eq!(fixture.faults.seen(costs), []);
    fixture.running.stop().await;
}
