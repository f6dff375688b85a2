//! What a replica does when its Lease lapses, and when another one takes it.

use std::time::Duration;

use kueue_check::runtime::{LeaseConfig, LeaseTimes, RunError, Runtime};
use kueue_check::{Clock, Verdict, admission_check};
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
use serde_json::json;
use tokio::time::sleep;

#[admission_check(controller = "example.com/open")]
async fn open() -> Verdict {
    Verdict::ready("open")
}

/// What a check keeps in memory belongs to the time in which its replica led.
#[tokio::test(start_paused = true)]
async fn a_replica_whose_lease_another_one_has_taken_ends() {
    let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
    let server = ApiServer::with_definitions(clock.clone(), kueue_check_sim::definitions::kueue());
    let lease = LeaseConfig {
        namespace: "default".into(),
        name: "open".into(),
        identity: "open-0".into(),
        times: LeaseTimes::default(),
    };
    let runtime = Runtime::builder(server.client())
        .check(open)
        .clock(clock)
        .lease(lease)
        .build()
        .unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(10)).await;
    let shown = serde_json::to_value(handle.diagnostics().await).unwrap();
    assert_eq!(shown["leadership"], "leader");

    let leases = Resource::new("coordination.k8s.io", "v1", "leases");
    let taken = json!({"spec": {"holderIdentity": "open-1", "leaseTransitions": 7}});
    let call = ApiRequest::new(Verb::Patch(Patch::Merge), &leases)
        .namespace("default")
        .name("open")
        .body(taken);
    assert_eq!(server.call(&call).code, 200);
    let ended = tokio::time::timeout(Duration::from_secs(15), running).await;
    let error = ended.unwrap().unwrap().unwrap_err();
    assert!(
        matches!(&error, RunError::LeadershipLost { holder } if holder == "open-1"),
        "{error}"
    );
}
