//! The API for check authors.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check::prelude::*;
use kueue_check_sim::{Job, Simulation};

/// Jobs of more than ten pods wait until noon.
#[admission_check(controller = "example.com/noon")]
async fn noon(workload: Workload, Now(now): Now) -> Verdict {
    let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
    let noon = "2026-11-21T12:00:00Z".parse().unwrap();
    if pods <= 10 || now >= noon {
        return Verdict::ready("may start");
    }
    let wait = Duration::try_from(noon.duration_since(now)).unwrap();
    Verdict::pending("large jobs start at noon").recheck_in(wait)
}

#[test]
fn a_check_is_tried_in_ten_lines() {
    let run = Simulation::new(|| noon).run(async |cluster| {
        cluster.submit(Job::new("small"));
        cluster.submit(Job::new("large").pods(64));
        cluster.expect_admitted("small").await;
        cluster.expect_message("large", "start at noon").await;
        assert_eq!(cluster.state("large"), Some(CheckState::Pending));
        cluster.advance_to("2026-11-21T12:00:00Z").await;
        cluster.expect_admitted("large").await;
        cluster.complete("large");
        cluster.expect_finished("large").await;
    });
    assert!(run.requests > 0);
}

#[test]
fn a_job_may_fail() {
    Simulation::new(|| noon).run(async |cluster| {
        cluster.submit(Job::new("small"));
        cluster.expect_admitted("small").await;
        cluster.fail("small");
        cluster.expect_finished("small").await;
    });
}

#[test]
fn every_single_fault_is_survived() {
    let explored = Simulation::new(|| noon).run_with_each_fault(async |cluster| {
        cluster.submit(Job::new("small"));
        cluster.submit(Job::new("large").pods(64));
        cluster.expect_admitted("small").await;
        cluster.expect_message("large", "start at noon").await;
        cluster.advance_to("2026-11-21T12:00:00Z").await;
        cluster.expect_admitted("large").await;
    });
    println!("{explored}");
}
