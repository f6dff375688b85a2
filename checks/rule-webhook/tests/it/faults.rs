//! The faults of the service, at each of the first requests, and with each single fault of the
//! cluster in a sample.

use kueue_check_sim::{Cluster, Job, Simulation};

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

fn story(fault: Option<(usize, ServiceFault)>) -> Simulation {
    trial(&licences(), move || Service::new(2, fault))
        .invariant("nothing is lost", nothing_lost)
        .invariant("no job is harmed", no_harm)
}

/// How many requests a run without faults has, and a few more.
const POINTS: usize = 14;

#[test]
fn each_fault_of_the_service_costs_one_answer_and_nothing_else() {
    let run = story(None).run(three_jobs);
    drop(run);
    for fault in FAULTS {
        for at in 0..POINTS {
            println!("{fault:?} at request {at}");
            story(Some((at, fault))).run(three_jobs);
        }
    }
}

#[test]
fn a_fault_of_the_service_beside_each_single_fault_of_the_cluster() {
    let faults = std::iter::once(None).chain(FAULTS.into_iter().map(Some));
    for (number, fault) in faults.enumerate() {
        let story = story(fault.map(|fault| (2 + number % 5, fault)))
            .points_of_a_kind(2)
            .sample(12)
            .seed(number as u64);
        println!("{fault:?}: {}", story.run_with_each_fault(three_jobs));
    }
}
