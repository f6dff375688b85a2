//! Testing: virtual time and faults.

// ANCHOR: file
use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check::prelude::*;
use kueue_check_sim::kueue::KueueVersion;
use kueue_check_sim::{Job, Simulation};

// ANCHOR: check
/// Large jobs wait until the evening.
#[admission_check(controller = "example.com/evening")]
async fn evening(workload: Workload, Now(now): Now) -> Verdict {
    let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
    let evening = "2026-11-21T18:00:00Z".parse().expect("a time");
    if pods <= 10 || now >= evening {
        return Verdict::ready("may start");
    }
    Verdict::pending("large jobs start at 18:00")
        .recheck_in(now.duration_until(evening).unsigned_abs())
}
// ANCHOR_END: check

// ANCHOR: function
#[tokio::test]
async fn the_function_alone() {
    let workload = kueue_check::api::Workload::from_json(kueue_check::serde_json::json!({
        "metadata": {"namespace": "team", "name": "job-train", "uid": "1"},
        "spec": {"podSets": [{"name": "main", "count": 64, "template": {"spec": {"containers": []}}}]},
    }));
    let now = "2026-11-21T17:59:00Z".parse().unwrap();
    let verdict = evening::decide(workload.unwrap(), Now(now)).await;
    assert!(verdict.is_pending());
    assert_eq!(verdict.recheck(), Some(Duration::from_secs(60)));
}
// ANCHOR_END: function

// ANCHOR: time
#[test]
fn nine_hours_in_milliseconds() {
    let run = Simulation::new(|| evening)
        .starting_at("2026-11-21T09:00:00Z")
        .run(async |cluster| {
            cluster.submit(Job::new("small").pods(2));
            cluster.submit(Job::new("large").pods(64));
            cluster.expect_admitted("small").await;
            cluster
                .expect_waiting("large", Duration::from_secs(8 * 3600))
                .await;
            cluster.advance_to("2026-11-21T18:00:00Z").await;
            cluster.expect_admitted("large").await;
        });
    // All requests of the check to the API server in nine hours, and the timeline.
    println!("{} requests\n{}", run.requests, run.timeline().chart(100));
}
// ANCHOR_END: time

// ANCHOR: faults
#[test]
fn two_replicas_with_every_single_fault() {
    let simulation = Simulation::new(|| evening)
        .replicas(2)
        .starting_at("2026-11-21T17:55:00Z");
    let explored = simulation.run_with_each_fault(async |cluster| {
        cluster.submit(Job::new("large").pods(64));
        cluster.expect_message("large", "start at 18:00").await;
        cluster.advance_to("2026-11-21T18:00:00Z").await;
        cluster.expect_admitted("large").await;
    });
    println!("{explored}");
}
// ANCHOR_END: faults

// ANCHOR: random
#[test]
fn several_faults_at_once() {
    let simulation = Simulation::new(|| evening).seed(7);
    let explored = simulation.explore_at_random(100, async |cluster| {
        cluster.submit(Job::new("small"));
        cluster.expect_admitted("small").await;
    });
    assert!(explored.failed.is_empty(), "{}", explored.failed[0]);
}
// ANCHOR_END: random

// ANCHOR: versions
#[test]
fn the_same_on_each_kueue() {
    for version in [
        KueueVersion::V0_14,
        KueueVersion::V0_17,
        KueueVersion::V0_19,
    ] {
        Simulation::new(|| evening)
            .kueue(version)
            .run(async |cluster| {
                cluster.submit(Job::new("small"));
                cluster.expect_state("small", CheckState::Ready).await;
                cluster.expect_admitted("small").await;
            });
    }
}
// ANCHOR_END: versions

// ANCHOR: bug
/// Counts the jobs that it has approved, in memory, and never removes one: at most two ever start.
struct Forgetful(std::sync::Mutex<Vec<Reservation>>);

impl AdmissionCheckController for Forgetful {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        ControllerName::from_static("example.com/forgetful")
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let mut approved = self.0.lock().unwrap();
        if approved.len() >= 2 {
            return Ok(Verdict::pending("two jobs run already").recheck_in(Duration::from_secs(30)));
        }
        approved.push(request.reservation().clone());
        Ok(Verdict::ready("may start"))
    }
}

#[test]
fn a_check_that_counts_twice_is_detected() {
    let simulation = Simulation::new(|| Forgetful(std::sync::Mutex::default()));
    let explored = simulation.explore_until_failure(async |cluster| {
        cluster.submit(Job::new("a"));
        cluster.submit(Job::new("b"));
        cluster.expect_admitted("a").await;
        cluster.expect_admitted("b").await;
    });
    let found = explored
        .failed
        .first()
        .expect("a fault that brings it to light");
    assert_eq!(found.plan.to_string(), "check-0/request/9/409");
    println!("KUEUE_CHECK_PLAN='{}'\n{found}", found.plan);
}
// ANCHOR_END: bug
// ANCHOR_END: file
