//! Rules that count the jobs that they let start: fifty jobs in one second, and five licences.

use std::collections::BTreeSet;
use std::time::Duration;

use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value as Json, json};

use crate::cel::{Sources, simulation};
use crate::service::no_harm;

const JOBS: usize = 50;
const LICENCES: usize = 5;

/// Returns a simulation whose source never reports a licence as used: jobs start and end faster
/// than it is queried. It is queried again at the moment at which a new leader begins to decide.
fn licences() -> Simulation {
    let spec = json!({
        "data": [{"name": "free", "http": {"url": "https://licences.example/free"}, "interval": "15s"}],
        "ready": "starting('2h').size() < http('free')",
        "message": "string(starting('2h').size()) + ' jobs are starting'",
    });
    let make = || {
        let sources = Sources::default();
        sources.set_response("free", json!(LICENCES));
        sources
    };
    simulation(&spec, make)
        .quota(1000)
        .expect_timeout(Duration::from_mins(10))
        .invariant("no job is harmed", no_harm)
        .invariant("no licence is taken twice", no_licence_is_taken_twice)
}

/// Returns an error if more jobs were admitted at one time than there are licences.
fn no_licence_is_taken_twice(cluster: &Cluster) -> Result<(), String> {
    let mut running: BTreeSet<String> = BTreeSet::new();
    for change in cluster.server().history() {
        if change.resource.plural != "workloads" {
            continue;
        }
        let name = change.object["metadata"]["name"].to_string();
        let is = |kind: &str| {
            let conditions = change.object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one: &Json| one["type"] == kind && one["status"] == "True")
        };
        if is("Admitted") && !is("Finished") {
            running.insert(name);
        } else {
            running.remove(&name);
        }
        if running.len() > LICENCES {
            return Err(format!("at {}: {running:?}", change.at));
        }
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("job-{number:02}")
}

fn admitted(cluster: &Cluster) -> Vec<String> {
    let names = (0..JOBS).map(name);
    names.filter(|name| cluster.is_admitted(name)).collect()
}

/// Runs fifty jobs at once, each of which ends when five run.
async fn all_run(cluster: &Cluster) {
    for number in 0..JOBS {
        cluster.submit(Job::new(name(number)));
    }
    let mut done = BTreeSet::new();
    while done.len() < JOBS {
        let runs = |cluster: &Cluster| {
            let running = admitted(cluster).into_iter();
            running.filter(|name| !done.contains(name)).count()
        };
        cluster
            .expect("five run", |cluster| runs(cluster) == LICENCES)
            .await;
        cluster.advance(Duration::from_secs(2)).await;
        for name in admitted(cluster) {
            if done.insert(name.clone()) {
                cluster.complete(&name);
                cluster.expect_finished(&name).await;
            }
        }
    }
}

#[test]
fn fifty_jobs_in_one_second_take_five_licences() {
    licences().run(async |cluster| {
        for number in 0..JOBS {
            cluster.submit(Job::new(name(number)));
        }
        cluster
            .expect_message(&name(JOBS - 1), "5 jobs are starting")
            .await;
        for _ in 0..10 {
            cluster.advance(Duration::from_secs(30)).await;
            assert_eq!(admitted(cluster).len(), LICENCES);
        }
        // The next process reads from the Workloads which jobs the previous one let start.
        cluster.crash(0);
        cluster.advance(Duration::from_mins(2)).await;
        assert_eq!(admitted(cluster).len(), LICENCES);
        // A job that ends frees its licence at once.
        let first = admitted(cluster).remove(0);
        cluster.complete(&first);
        cluster.expect_finished(&first).await;
        cluster.advance(Duration::from_secs(3)).await;
        let running = admitted(cluster).into_iter().filter(|name| *name != first);
        assert_eq!(running.count(), LICENCES);
    });
}

#[test]
fn no_single_fault_takes_a_licence_twice() {
    for (number, replicas) in [2, 1].into_iter().enumerate() {
        let simulation = licences()
            .replicas(replicas)
            .points_of_a_kind(2)
            .seed(number as u64)
            .sample(12);
        println!(
            "{replicas} replicas: {}",
            simulation.run_with_each_fault(all_run)
        );
    }
}
