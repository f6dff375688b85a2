//! Two replicas, of which one leads.

use std::time::Duration;

use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime};
use kueue_check::{AdmissionCheckController, ReleaseReason, Reservation, Verdict, api::Uid};
use kueue_check_testenv::KueueVersion::V0_19_2;
use tokio::time::{Instant, sleep};

use super::checks::Scripted;
use super::faults::{A_WHILE, Fault, Faults};
use super::harness::{Running, TestCluster, test_cluster, unique, wait};

/// How long an evaluation takes that hangs.
const HANGS: Duration = Duration::from_secs(600);

struct Pair {
    cluster: TestCluster,
    name: String,
    first: (Scripted, Faults, Running),
    second: (Scripted, Faults, Running),
}

/// Starts two replicas, of which the first leads.
async fn pair() -> Option<Pair> {
    pair_with(LeaseTimes::default()).await
}

async fn pair_with(times: LeaseTimes) -> Option<Pair> {
    let cluster = test_cluster(V0_19_2).await?;
    let (controller, name, lease) = (unique("example.com/pair"), unique("check"), unique("lease"));
    cluster.setting(&name, "fine").await;
    cluster.check(&name, &controller).await;
    let start = |identity: &str| {
        let (check, faults) = (Scripted::new(&controller), Faults::default());
        let (namespace, name, identity) = (
            cluster.namespace.clone(),
            lease.clone(),
            identity.to_owned(),
        );
        let config = LeaseConfig {
            namespace,
            name,
            identity,
            times,
        };
        let builder = Runtime::builder(faults.around(&cluster.client))
            .lease_client(cluster.client.clone())
            .check(check.clone())
            .lease(config);
        (check, faults, Running::start(builder))
    };
    let first = start("first");
    cluster.wait_active(&name, "True", "Active").await;
    let second = start("second");
    second.2.wait_ready().await;
    Some(Pair {
        cluster,
        name,
        first,
        second,
    })
}

impl Pair {
    async fn reserved(&self, workload: &str) {
        self.cluster.workload(workload).await;
        self.cluster.reserve(workload, &[&self.name]).await;
    }
}

#[tokio::test]
async fn the_standby_watches_and_evaluates_nothing() {
    let Some(pair) = pair().await else { return };
    pair.reserved("a").await;
    pair.cluster.wait_state("a", &pair.name, "Ready").await;
    sleep(A_WHILE).await;
    assert!(pair.second.0.evaluations().is_empty());
    assert!(
        pair.second
            .1
            .seen(|seen| seen.verb == "patch" || seen.verb == "create")
            .is_empty()
    );
    let diagnostics = pair.second.2.diagnostics().await;
    assert_eq!(
        (&diagnostics["leadership"], &diagnostics["leaseHolder"]),
        (&"standby".into(), &"first".into())
    );
    assert!(
        diagnostics["workloads"].as_u64().unwrap() >= 1,
        "its index is warm"
    );
    pair.first.2.stop().await;
    pair.second.2.stop().await;
}

#[tokio::test]
async fn when_the_leader_crashes_the_standby_takes_over() {
    let Some(pair) = pair().await else { return };
    for workload in ["approved", "waits"] {
        pair.first.0.returns(|request| {
            Ok(if request.workload().name() == "waits" {
                Verdict::pending("no capacity")
            } else {
                Verdict::ready("ok")
            })
        });
        pair.reserved(workload).await;
    }
    pair.cluster
        .wait_state("approved", &pair.name, "Ready")
        .await;
    pair.cluster
        .wait_message("waits", &pair.name, "no capacity")
        .await;
    let before = pair.cluster.entry("approved", &pair.name).await;

    let died = Instant::now();
    pair.first.2.kill();
    pair.reserved("new").await;
    pair.cluster.wait_state("new", &pair.name, "Ready").await;
    println!("the standby went on after {:?}", died.elapsed());

    pair.cluster.wait_state("waits", &pair.name, "Ready").await;
    assert_eq!(
        pair.cluster.entry("approved", &pair.name).await,
        before,
        "decided once, and not differently"
    );
    assert_eq!(pair.first.0.evaluations_of("new"), 0);
    pair.second.2.stop().await;
}

#[tokio::test]
async fn a_stopped_leader_hands_over_at_once() {
    let times = LeaseTimes {
        duration: Duration::from_secs(60),
        ..LeaseTimes::default()
    };
    let Some(pair) = pair_with(times).await else {
        return;
    };
    // An evaluation is in flight: its verdict takes half a second.
    pair.first.0.delay(Duration::from_millis(500));
    pair.reserved("busy").await;
    wait("the question", async || {
        (pair.first.0.evaluations_of("busy") == 1, ())
    })
    .await;
    let stopped = Instant::now();
    pair.first.2.stop().await;
    pair.reserved("a").await;
    pair.cluster.wait_state("a", &pair.name, "Ready").await;
    let took = stopped.elapsed();
    assert!(took < times.duration / 2, "{took:?}");
    println!("the other took over after {took:?}");
    assert_eq!(pair.first.0.evaluations_of("a"), 0);
    pair.cluster.wait_state("busy", &pair.name, "Ready").await;
    pair.second.2.stop().await;
}

#[tokio::test]
async fn what_runs_when_a_leader_is_stopped_is_finished_and_written() {
    let Some(pair) = pair().await else { return };
    pair.first.0.delay(Duration::from_secs(2));
    pair.first.0.returns(|_| Ok(Verdict::ready("by the first")));
    pair.reserved("a").await;
    wait("the question", async || {
        (pair.first.0.evaluations_of("a") == 1, ())
    })
    .await;
    pair.first.2.stop().await;
    assert_eq!(
        pair.cluster.entry("a", &pair.name).await["message"],
        "by the first"
    );
    sleep(A_WHILE * 2).await;
    assert_eq!(pair.cluster.entry("a", &pair.name).await["state"], "Ready");
    pair.second.2.stop().await;
}

#[tokio::test]
async fn an_evaluation_that_hangs_does_not_keep_the_lease_of_a_stopped_leader() {
    let Some(pair) = pair().await else { return };
    pair.first.0.delay(HANGS);
    pair.second
        .0
        .returns(|_| Ok(Verdict::ready("by the second")));
    pair.reserved("a").await;
    wait("the question", async || {
        (pair.first.0.evaluations_of("a") == 1, ())
    })
    .await;
    let began = Instant::now();
    pair.first.2.stop().await;
    let took = began.elapsed();
    assert!(took < HANGS, "{took:?}");
    pair.cluster.wait_state("a", &pair.name, "Ready").await;
    assert_eq!(
        pair.cluster.entry("a", &pair.name).await["message"],
        "by the second"
    );
    pair.second.2.stop().await;
}

#[tokio::test]
async fn a_leader_whose_other_requests_have_no_response_stays_the_leader() {
    let Some(pair) = pair().await else { return };
    pair.first.0.returns(|_| Ok(Verdict::ready("by the first")));
    pair.first.1.inject(usize::MAX, Fault::Hang, |_| true);
    for number in 0..8 {
        pair.reserved(&format!("w-{number}")).await;
    }
    // Longer than the lease, and than two attempts of a write.
    sleep(Duration::from_secs(25)).await;
    assert_eq!(pair.first.2.metric("kueue_check_leader").await, 1);
    assert_eq!(pair.second.2.metric("kueue_check_leader").await, 0);
    assert!(pair.second.0.evaluations().is_empty());

    pair.first.1.heal();
    for number in 0..8 {
        let workload = format!("w-{number}");
        let entry = pair
            .cluster
            .wait_state(&workload, &pair.name, "Ready")
            .await;
        assert_eq!(entry["message"], "by the first");
    }
    pair.first.2.stop().await;
    pair.second.2.stop().await;
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_writing_before_another_begins() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let (controller, name, lease) = (
        unique("example.com/fenced"),
        unique("check"),
        unique("lease"),
    );
    cluster.setting(&name, "fine").await;
    cluster.check(&name, &controller).await;
    let (check, lease_faults) = (Scripted::new(&controller), Faults::default());
    let config = LeaseConfig {
        namespace: cluster.namespace.clone(),
        name: lease,
        identity: "only".into(),
        times: LeaseTimes::default(),
    };
    let builder = Runtime::builder(cluster.client.clone())
        .lease_client(lease_faults.around(&cluster.client))
        .check(check.clone())
        .lease(config);
    let running = Running::start(builder);
    cluster.wait_active(&name, "True", "Active").await;

    lease_faults.inject(usize::MAX, Fault::Status(500, None), |seen| {
        seen.path.contains("/leases/")
    });
    wait("leadership to end", async || {
        let leader = running.metric("kueue_check_leader").await;
        (leader == 0, leader)
    })
    .await;
    cluster.workload("a").await;
    cluster.reserve("a", &[&name]).await;
    sleep(A_WHILE).await;
    assert_eq!(
        (
            check.evaluations().len(),
            cluster.entry("a", &name).await["state"].clone()
        ),
        (0, "Pending".into())
    );

    lease_faults.heal();
    cluster.wait_state("a", &name, "Ready").await;
    running.stop().await;
}

#[tokio::test]
async fn a_new_leader_releases_the_resources_of_a_crashed_one() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let (controller, name) = (unique("example.com/heir"), unique("check"));
    cluster.setting(&name, "fine").await;
    cluster.check(&name, &controller).await;
    let check = Scripted::new(&controller);
    // One Workload was deleted while no replica ran, another still exists.
    let gone = Reservation::new(
        &cluster.namespace,
        "gone",
        Uid::new("0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4"),
        &name,
        "2026-01-01T00:00:00Z".parse().unwrap(),
    );
    check.start(gone.clone());
    cluster.workload("here").await;
    cluster.reserve("here", &[&name]).await;
    let here = Reservation::of(
        &kueue_check::api::Workload::from_json(cluster.get("Workload", "here").await).unwrap(),
        &name,
    )
    .unwrap();
    check.start(here.clone());

    let running = Running::of(cluster.client.clone(), check.clone());
    cluster.wait_state("here", &name, "Ready").await;
    wait("the release", async || {
        (!check.released().is_empty(), check.released())
    })
    .await;
    sleep(A_WHILE).await;
    assert_eq!(check.released(), [(gone, ReleaseReason::Deleted)]);
    assert_eq!(check.started(), [here]);
    assert_eq!(check.controller_name().as_str(), controller);
    running.stop().await;
}

#[tokio::test]
async fn a_new_leader_evaluates_what_was_approved_before_anything_new() {
    let Some(cluster) = test_cluster(V0_19_2).await else {
        return;
    };
    let (controller, name) = (unique("example.com/memory"), unique("check"));
    cluster.setting(&name, "fine").await;
    cluster.check(&name, &controller).await;
    let first = Scripted::new(&controller);
    let running = Running::of(cluster.client.clone(), first);
    for workload in ["approved-1", "approved-2"] {
        cluster.workload(workload).await;
        cluster.reserve(workload, &[&name]).await;
        cluster.wait_state(workload, &name, "Ready").await;
    }
    running.stop().await;
    cluster.workload("new").await;
    cluster.reserve("new", &[&name]).await;

    // A new process has no state, and takes its time to evaluate.
    let second = Scripted::new(&controller);
    second.delay(Duration::from_millis(500));
    let running = Running::of(cluster.client.clone(), second.clone());
    let began = Instant::now();
    cluster.wait_state("new", &name, "Ready").await;
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "the new one waited for the verdicts of the others"
    );
    let evaluations: Vec<String> = second
        .evaluations()
        .into_iter()
        .map(|evaluation| evaluation.workload)
        .collect();
    assert_eq!(evaluations[2..], ["new"], "{evaluations:?}");
    running.stop().await;
}
