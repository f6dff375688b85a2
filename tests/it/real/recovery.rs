//! Outages of the API server, and how they are reported.

use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams, WatchParams};
use kueue_check::{Trigger, Verdict};
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::faults::{Fault, RecordedRequest};
use super::harness::{Running, fixture, fixture_on, install, start_or_skip, wait};

fn watches_workloads(seen: &RecordedRequest) -> bool {
    seen.verb == "watch" && seen.path.ends_with("/workloads")
}

fn lists_workloads(seen: &RecordedRequest) -> bool {
    seen.verb == "get" && seen.path.ends_with("/workloads") && !seen.searches()
}

#[tokio::test]
async fn a_restart_of_the_api_server_is_survived() {
    let Some(mut cluster) = start_or_skip().await else {
        return;
    };
    install(&cluster, V0_19_2).await;
    let fixture = fixture_on(&cluster).await;
    fixture.check.returns(|_| Ok(Verdict::pending("before")));
    fixture.reserved("a").await;
    fixture.wait_message("a", "before").await;

    cluster.stop_apiserver();
    fixture.check.returns(|_| Ok(Verdict::pending("during")));
    fixture.check.trigger(Trigger::AllWorkloads);
    wait("failures to be counted", async || {
        let failed = fixture
            .metric("writes_total", "outcome", "unavailable")
            .await;
        let watch = fixture
            .running
            .metric("kueue_check_watch_errors_total{watch=\"workloads\"}")
            .await;
        (failed >= 1 && watch >= 1, (failed, watch))
    })
    .await;
    cluster.start_apiserver().await.unwrap();
    fixture.wait_message("a", "during").await;
    fixture.reserved("b").await;
    fixture.wait_message("b", "during").await;
    fixture.running.wait_ready().await;
    fixture.running.stop().await;
}

#[tokio::test]
async fn watches_that_end_at_once_are_begun_again_without_a_storm() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    // The running watch lasts a minute; a new process begins with one that ends.
    let (cluster, check, faults, name) =
        (fixture.cluster, fixture.check, fixture.faults, fixture.name);
    fixture.running.stop().await;
    faults.inject(usize::MAX, Fault::EndAtOnce, watches_workloads);
    faults.clear_requests();
    let running = Running::of(faults.around(&cluster.client), check);
    sleep(Duration::from_secs(10)).await;
    let watches = faults.count(watches_workloads);
    assert!(
        (2..=20).contains(&watches),
        "{watches} watches in ten seconds"
    );
    faults.heal();
    cluster.workload("a").await;
    cluster.reserve("a", &[&name]).await;
    cluster.wait_state("a", &name, "Ready").await;
    running.stop().await;
}

#[tokio::test]
async fn a_410_in_response_to_a_watch_begins_from_a_new_list() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    // The running watch lasts a minute; a new session begins with one that is refused.
    let (cluster, check, faults, name) =
        (fixture.cluster, fixture.check, fixture.faults, fixture.name);
    fixture.running.stop().await;
    faults.inject(2, Fault::Status(410, None), watches_workloads);
    faults.clear_requests();
    let running = Running::of(faults.around(&cluster.client), check);
    wait("the watch to be begun a third time", async || {
        let (watches, lists) = (
            faults.count(watches_workloads),
            faults.count(lists_workloads),
        );
        (watches >= 3 && lists >= 3, (watches, lists))
    })
    .await;
    cluster.workload("a").await;
    cluster.reserve("a", &[&name]).await;
    cluster.wait_state("a", &name, "Ready").await;
    running.stop().await;
}

#[tokio::test]
async fn readiness_names_the_watch_that_fails_and_its_error() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    let (cluster, check, faults) = (fixture.cluster, fixture.check, fixture.faults);
    fixture.running.stop().await;
    faults.inject(usize::MAX, Fault::Status(500, None), lists_workloads);
    let running = Running::of(faults.around(&cluster.client), check);
    wait("the reason", async || {
        let problems = running.handle.problems();
        let named = problems.iter().any(|problem| {
            problem.starts_with("the watch of workloads has not been synced for")
                && problem.ends_with("last error: list: 500 injected")
        });
        (named, problems)
    })
    .await;
    faults.heal();
    running.wait_ready().await;
    running.stop().await;
}

#[tokio::test]
async fn a_pause_that_the_server_requests_is_kept_by_every_client() {
    const PAUSE: u64 = 10;
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.faults.inject(
        1,
        Fault::Status(429, Some(PAUSE)),
        RecordedRequest::writes_entry,
    );
    let began = Instant::now();
    fixture.reserved("a").await;
    wait("the refusal", async || {
        let writes = fixture.faults.count(RecordedRequest::writes_entry);
        (writes == 1, writes)
    })
    .await;
    fixture.reserved("b").await;
    fixture.wait_state("a", "Ready").await;
    fixture.wait_state("b", "Ready").await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(PAUSE), "{took:?}");
    assert_eq!(
        fixture.faults.count(RecordedRequest::writes_entry),
        3,
        "one refused, two written"
    );
    let paused = fixture.metric("writes_total", "outcome", "paused").await;
    assert_eq!(paused, 1);
    fixture.running.stop().await;
}

#[tokio::test]
async fn errors_of_the_server_are_retried_with_exponential_backoff() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .faults
        .inject(2, Fault::Status(500, None), |seen| seen.verb == "patch");
    fixture
        .faults
        .inject(1, Fault::Status(503, None), |seen| seen.verb == "patch");
    fixture.faults.clear_requests();
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    let writes = fixture
        .faults
        .seen(|seen| seen.verb == "patch" && seen.path.ends_with("/workloads/a/status"));
    let delays = writes.windows(2).map(|pair| pair[1].at - pair[0].at);
    let delays: Vec<Duration> = delays.collect();
    let least = [1, 2, 4].map(Duration::from_secs);
    assert_eq!(delays.len(), least.len(), "{delays:?}");
    for (delay, least) in delays.iter().zip(least) {
        assert!(*delay >= least.mul_f32(0.95), "{delays:?}");
    }
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_request_that_hangs_is_abandoned_and_delays_no_other() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture.faults.inject(1, Fault::Hang, |seen| {
        seen.verb == "patch" && seen.path.ends_with("/workloads/hangs/status")
    });
    fixture.reserved("hangs").await;
    fixture.wait_evaluations("hangs", 1).await;
    fixture.reserved("other").await;
    fixture.wait_state("other", "Ready").await;
    fixture.wait_state("hangs", "Ready").await;
    let writes = |workload: &str| {
        let path = format!("/workloads/{workload}/status");
        let seen = fixture
            .faults
            .seen(|seen| seen.verb == "patch" && seen.path.ends_with(&path));
        seen.iter().map(|seen| seen.at).collect::<Vec<_>>()
    };
    let (other, hangs) = (writes("other"), writes("hangs"));
    assert!(other[0] < hangs[1], "it waited for the write that hung");
    fixture.running.stop().await;
}

#[tokio::test]
async fn a_write_whose_response_is_lost_is_not_repeated() {
    let Some(fixture) = fixture(V0_19_2).await else {
        return;
    };
    fixture
        .faults
        .inject(1, Fault::LoseResponse, RecordedRequest::writes_entry);
    fixture.reserved("a").await;
    fixture.wait_state("a", "Ready").await;
    fixture.wait_evaluations("a", 2).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(fixture.faults.count(RecordedRequest::writes_entry), 1);
    fixture.running.stop().await;
}

/// A restored etcd has older versions, and a watch from a newer one receives nothing of it: no
/// error and no event. A client that only watches never detects it.
#[tokio::test]
async fn a_watch_from_before_a_restore_of_etcd_shows_nothing() {
    let Some(mut cluster) = start_or_skip().await else {
        return;
    };
    install(&cluster, V0_19_2).await;
    let client = cluster.client().unwrap();
    let flavor = |name: &str| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}});
    let resource = ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        api_version: "kueue.x-k8s.io/v1beta2".to_owned(),
        kind: "ResourceFlavor".to_owned(),
        plural: "resourceflavors".to_owned(),
    };
    let flavors: Api<DynamicObject> = Api::all_with(client, &resource);
    let create = async |name: &str| {
        let flavor = serde_json::from_value(flavor(name)).unwrap();
        flavors
            .create(&PostParams::default(), &flavor)
            .await
            .unwrap()
    };
    // A server that has just started refuses for a moment with 429: "storage is (re)initializing".
    let version = async || {
        let listed = wait("the storage", async || {
            let listed = flavors.list(&ListParams::default()).await;
            (listed.is_ok(), listed)
        });
        let version = listed.await.unwrap().metadata.resource_version.unwrap();
        version.parse::<u64>().unwrap()
    };
    create("kept").await;
    cluster.backup().await.unwrap();
    version().await;
    for number in 0..50 {
        create(&format!("lost-{number}")).await;
    }
    let before = version().await;
    cluster.restore().await.unwrap();
    let after = version().await;
    assert!(after < before, "{after} is not before {before}");

    let parameters = WatchParams::default().timeout(5);
    let watch = flavors.watch(&parameters, &before.to_string()).await;
    create("made-afterwards").await;
    let shown: Vec<_> = watch.unwrap().collect().await;
    assert!(shown.is_empty(), "{shown:?}");
    let watch = flavors.watch(&parameters, &after.to_string()).await;
    let shown: Vec<_> = watch.unwrap().collect().await;
    assert_eq!(shown.len(), 1, "{shown:?}");
}
