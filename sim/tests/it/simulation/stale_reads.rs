//! Stale lists and watches, and the reads that stay current beside them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use kueue_check::Clock;
use kueue_check_sim::apiserver::{
    ApiRequest, ApiServer, Faults, RequestFault, RequestInfo, Resource, Verb,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

/// The same fault for each request.
struct Always(RequestFault);

impl Faults for Always {
    fn request(&self, _: &RequestInfo) -> Option<RequestFault> {
        Some(self.0.clone())
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn server(fault: RequestFault) -> ApiServer {
    let server = ApiServer::new(Clock::following_tokio(
        "2026-11-21T09:00:00Z".parse().unwrap(),
    ));
    server.set_faults(Arc::new(Always(fault)));
    server
}

fn create(server: &ApiServer, name: &str) {
    let leases = Resource::new("coordination.k8s.io", "v1", "leases");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}});
    let call = ApiRequest::new(Verb::Create, &leases).namespace("default");
    assert_eq!(server.call(&call.body(lease)).code, 201);
}

fn leases(server: &ApiServer) -> Api<Lease> {
    Api::namespaced(server.client(), "default")
}

async fn listed(leases: &Api<Lease>) -> (Vec<String>, String) {
    let list = leases.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.clone().unwrap();
    (list.iter().map(ResourceExt::name_any).collect(), version)
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_is_of_then_and_lacks_the_newest_change() {
    let server = server(RequestFault::StaleList(seconds(10)));
    let leases = leases(&server);
    for name in ["a", "b", "c"] {
        create(&server, name);
        sleep(seconds(8)).await;
    }
    // a was created 24 s ago, b 16 s, and c 8 s.
    assert_eq!(listed(&leases).await.0, ["a", "b"]);
    sleep(seconds(3600)).await;
    assert_eq!(
        listed(&leases).await.0,
        ["a", "b"],
        "the newest is never there"
    );
    assert_eq!(leases.get("c").await.unwrap().name_any(), "c");
    create(&server, "d");
    create(&server, "e");
    assert_eq!(listed(&leases).await.0, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_stale_list_misses_nothing() {
    let server = server(RequestFault::StaleList(seconds(10)));
    let leases = leases(&server);
    create(&server, "a");
    create(&server, "b");
    let (names, version) = listed(&leases).await;
    assert!(names.is_empty(), "both are of this moment");
    let watch = leases.watch(&WatchParams::default(), &version).await;
    let events = watch.unwrap().take(2).collect::<Vec<_>>().await;
    let names: Vec<String> = events
        .into_iter()
        .map(|event| match event.unwrap() {
            WatchEvent::Added(lease) => lease.name_any(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watch_is_late_and_in_order_and_the_rest_is_fresh() {
    let server = server(RequestFault::LaggingWatch(seconds(20)));
    let leases = leases(&server);
    let began = Instant::now();
    let mut watch = leases
        .watch(&WatchParams::default().timeout(200), "1")
        .await
        .unwrap()
        .boxed();
    let writer = {
        let server = server.clone();
        tokio::spawn(async move {
            create(&server, "a");
            // A bookmark is sent at 60 s; it must not overtake this event.
            sleep(seconds(59)).await;
            create(&server, "b");
        })
    };
    let reader = {
        let leases = leases.clone();
        tokio::spawn(async move {
            sleep(seconds(1)).await;
            assert_eq!(listed(&leases).await.0, ["a"], "a list is fresh");
        })
    };
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let what = match watch.next().await.unwrap().unwrap() {
            WatchEvent::Added(lease) => lease.name_any(),
            WatchEvent::Bookmark(_) => "bookmark".to_owned(),
            other => panic!("{other:?}"),
        };
        seen.push((began.elapsed().as_secs(), what));
    }
    let seen: Vec<(u64, &str)> = seen.iter().map(|(at, what)| (*at, what.as_str())).collect();
    assert_eq!(seen, [(20, "a"), (79, "b"), (80, "bookmark")]);
    writer.await.unwrap();
    reader.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watch_ends_in_time_and_what_it_did_not_bring_comes_with_the_next() {
    let server = server(RequestFault::LaggingWatch(seconds(20)));
    let leases = leases(&server);
    let short = WatchParams::default().timeout(30);
    let began = Instant::now();
    let watch = leases.watch(&short, "1").await.unwrap();
    let writer = {
        let server = server.clone();
        tokio::spawn(async move {
            sleep(seconds(25)).await;
            create(&server, "late");
        })
    };
    let events: Vec<_> = watch.collect().await;
    assert_eq!(began.elapsed().as_secs(), 30);
    assert!(events.is_empty(), "{events:?}");
    writer.await.unwrap();
    let watch = leases.watch(&short, "1").await.unwrap();
    let mut watch = watch.boxed();
    let event = watch.next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Added(_)), "{event:?}");
}
