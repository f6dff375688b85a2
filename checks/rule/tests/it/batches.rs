//! Many Workloads and few requests.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::Job;
use serde_json::json;

use crate::service::*;

/// Returns the number of reviews in each minute.
fn by_minute(service: &Service) -> Vec<usize> {
    let state = service.state();
    let Some((first, _)) = state.reviews.first() else {
        return Vec::new();
    };
    let minute = |at: &jiff::Timestamp| (at.as_second() - first.as_second()) / 60;
    let last = state.reviews.iter().map(|(at, _)| minute(at)).max();
    let count = |wanted| {
        state
            .reviews
            .iter()
            .filter(|(at, _)| minute(at) == wanted)
            .count()
    };
    (0..=last.unwrap_or_default()).map(count).collect()
}

/// Held jobs are reviewed together, and at most ten requests are sent in any minute, including the
/// first one.
#[test]
fn five_thousand_held_workloads_cost_at_most_ten_requests_a_minute() {
    const JOBS: usize = 5000;
    let webhook = webhook(&json!({"batch": {"maxItems": 500}, "recheckAfter": "5m"}));
    simulation(&webhook, || Service::new(0, None))
        .quota(10_000)
        .run(async |cluster| {
            submit_many(cluster, JOBS);
            cluster.advance(Duration::from_mins(16)).await;
            let service: Service = cluster.external();
            let minutes = by_minute(&service);
            let reviewed: usize = service.state().reviews.iter().map(|(_, items)| items).sum();
            let requests: usize = minutes.iter().sum();
            println!(
                "{requests} requests about {reviewed} Workloads in 16 minutes; in each: {minutes:?}"
            );
            assert!(
                minutes.iter().all(|requests| *requests <= 10),
                "{minutes:?}"
            );
            assert!(
                reviewed >= 3 * JOBS,
                "each is reviewed each five minutes: {reviewed}"
            );
            assert_eq!(cluster.state("job-4999"), Some(CheckState::Pending));
        });
}

/// Jobs that are submitted one after another share requests later.
#[test]
fn held_workloads_that_came_at_different_times_are_reviewed_together() {
    let webhook = webhook(&json!({"batch": {"maxItems": 500}, "recheckAfter": "5m"}));
    simulation(&webhook, || Service::new(0, None)).run(async |cluster| {
        for job in 0..60 {
            cluster.submit(Job::new(format!("job-{job}")));
            cluster.advance(Duration::from_secs(4)).await;
        }
        let service: Service = cluster.external();
        let before = service.state().reviews.len();
        cluster.advance(Duration::from_mins(20)).await;
        let later = service.state().reviews.len() - before;
        assert!(later <= 10, "{later} requests in 20 minutes");
        let reviewed: usize = service.state().reviews[before..]
            .iter()
            .map(|(_, items)| items)
            .sum();
        assert!(reviewed >= 3 * 60, "{reviewed}");
        // A changed verdict of an early review takes effect.
        service.state().fixed_response = Some(json!({"state": "Ready", "message": "come in"}));
        cluster.advance(Duration::from_mins(5)).await;
        for job in 0..60 {
            assert!(cluster.is_admitted(&format!("job-{job}")), "job-{job}");
        }
    });
}

/// A failure of the service for one Workload does not affect the others.
#[test]
fn a_workload_at_which_a_service_fails_is_found_and_costs_itself() {
    let webhook = webhook(&json!({"batch": {"maxItems": 500}}));
    simulation(&webhook, || {
        let service = Service::new(1000, None);
        service.state().poison = Some("poison".to_owned());
        service
    })
    .run(async |cluster| {
        let jobs = || (0..32).map(|job| format!("job-{job}"));
        cluster.submit(Job::new("poison"));
        jobs().for_each(|job| cluster.submit(Job::new(job)));
        for job in jobs() {
            cluster.expect_admitted(&job).await;
        }
        cluster
            .expect_message("poison", "responded with 500: division by zero")
            .await;
        assert_eq!(cluster.state("poison"), Some(CheckState::Pending));
    });
}
