//! The faults of the service, at each of the first requests, and with each single fault of the
//! cluster in a sample.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::json;

use crate::service::*;

/// Three jobs for two licences.
async fn three_jobs(cluster: &Cluster) {
    for job in ["first", "second", "third"] {
        cluster.submit(Job::new(job));
    }
    let admitted = |cluster: &Cluster| {
        let all = ["first", "second", "third"].into_iter();
        all.filter(|job| cluster.is_admitted(job)).count()
    };
    cluster
        .expect("two jobs run", |cluster| admitted(cluster) == 2)
        .await;
    let runs = ["first", "second", "third"]
        .into_iter()
        .find(|job| cluster.is_admitted(job));
    cluster.complete(runs.unwrap());
    cluster
        .expect("the third runs", |cluster| admitted(cluster) == 3)
        .await;
    for job in ["first", "second", "third"] {
        if Some(job) != runs {
            cluster.complete(job);
        }
    }
    for job in ["first", "second", "third"] {
        cluster.expect_finished(job).await;
    }
    let nothing_held = |cluster: &Cluster| cluster.external::<Service>().state().held.is_empty();
    cluster
        .expect("all licences are returned", nothing_held)
        .await;
}

fn with_fault(fault: Option<(usize, ServiceFault)>) -> Simulation {
    simulation(&licences(), move || Service::new(2, fault))
        .invariant("nothing is lost", nothing_lost)
        .invariant("no job is harmed", no_harm)
}

/// The number of requests of a run without faults, and a few more.
const POINTS: usize = 14;

#[test]
fn each_fault_of_the_service_affects_one_response_only() {
    let run = with_fault(None).run(three_jobs);
    drop(run);
    for fault in FAULTS {
        for at in 0..POINTS {
            println!("{fault:?} at request {at}");
            with_fault(Some((at, fault))).run(three_jobs);
        }
    }
}

#[test]
fn a_fault_of_the_service_beside_each_single_fault_of_the_cluster() {
    let faults = std::iter::once(None).chain(FAULTS.into_iter().map(Some));
    for (number, fault) in faults.enumerate() {
        let simulation = with_fault(fault.map(|fault| (2 + number % 5, fault)))
            .points_of_a_kind(2)
            .seed(number as u64)
            .sample(12);
        println!("{fault:?}: {}", simulation.run_with_each_fault(three_jobs));
    }
}

/// A job is deleted while its activation is in flight. The release follows it, because otherwise
/// the service would hold a licence for ever.
#[test]
fn a_release_waits_for_the_activation_that_is_under_way() {
    let mut activations = 0;
    for fault in [ServiceFault::Late, ServiceFault::Slow, ServiceFault::Dies] {
        for at in 0..3 {
            let run = simulation(&licences(), move || Service::new(2, Some((at, fault))))
                .invariant("nothing is lost", nothing_lost);
            let given = Arc::new(AtomicUsize::new(0));
            run.run(async |cluster| {
                cluster.submit(Job::new("train"));
                let service: Service = cluster.external();
                let begun = |cluster: &Cluster| {
                    let has_quota = cluster.workload("train").is_some()
                        && cluster.condition("train", "QuotaReserved");
                    has_quota && service.state().requests > at
                };
                cluster.expect("the request is under way", begun).await;
                cluster.merge_workload("train", &json!({"spec": {"active": false}}));
                cluster.expect_without_quota("train").await;
                cluster.advance(Duration::from_secs(60)).await;
                let state = service.state();
                assert!(state.held.is_empty(), "{fault:?} at request {at}");
                given.fetch_add(state.given.len(), Ordering::Relaxed);
            });
            activations += given.load(Ordering::Relaxed);
        }
    }
    assert!(activations >= 2, "{activations} activations were under way");
}

/// Reservations that ended while no check ran are found in the list of held ones.
#[test]
fn what_ended_while_no_check_ran_is_released() {
    simulation(&licences(), || Service::new(2, None)).run(async |cluster| {
        let lost = "default/gone/0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4/check/1763715605";
        let of_another = lost.replace("/check/", "/another/");
        let service: Service = cluster.external();
        service
            .state()
            .held
            .extend([lost.to_owned(), of_another.clone()]);
        cluster.crash(0);
        let released = |_: &Cluster| !service.state().held.contains(lost);
        cluster.expect("it is released", released).await;
        assert!(service.state().held.contains(&of_another));
        // Also later: a call may have arrived after its caller exited.
        service.state().held.insert(lost.to_owned());
        cluster.advance(Duration::from_mins(11)).await;
        assert!(!service.state().held.contains(lost));
    });
}
