//! Scenarios for each verdict, and for errors.

use jiff::Timestamp;
use kueue_check::api::CheckState;
use kueue_check::{CheckError, PodSetUpdates, Request, Verdict};

use super::{MINUTE, at, wait_until};
use crate::simulation::{Cluster, Job};

pub(super) fn approve(request: &Request) -> Result<Verdict, CheckError> {
    let names = request
        .workload()
        .pod_sets()
        .iter()
        .map(kueue_check::api::PodSet::name);
    let updates = PodSetUpdates::builder()
        .pod_sets(names, |pods| pods.annotation("example.com/approved", "yes"))
        .build()?;
    Ok(Verdict::ready("approved").with_updates(updates))
}

pub(super) async fn approved(cluster: &Cluster) {
    cluster.submit(Job::new("a"));
    cluster.submit(Job::new("b").pods(3));
    cluster.expect_admitted("a").await;
    cluster.expect_admitted("b").await;
    cluster.advance(MINUTE).await;
    cluster.complete("a");
    cluster.expect_finished("a").await;
}

pub(super) fn until_ten_past(request: &Request) -> Verdict {
    until(at("2026-11-21T09:10:00Z"), request)
}

pub(super) fn until_four_past(request: &Request) -> Verdict {
    until(at("2026-11-21T09:04:00Z"), request)
}

fn until(opens: Timestamp, request: &Request) -> Verdict {
    if request.now() >= opens {
        return Verdict::ready("open");
    }
    let wait = wait_until(request.now(), opens);
    Verdict::pending(format!("opens at {opens}")).recheck_in(wait)
}

pub(super) async fn waited(cluster: &Cluster) {
    cluster.submit(Job::new("early"));
    cluster.expect_message("early", "opens at").await;
    cluster.advance_to("2026-11-21T09:05:00Z").await;
    cluster.submit(Job::new("later"));
    cluster.expect_message("later", "opens at").await;
    cluster.expect_admitted("early").await;
    cluster.expect_admitted("later").await;
}

pub(super) fn third_time(request: &Request) -> Verdict {
    if request.attempt() >= 3 {
        return Verdict::ready("third time");
    }
    Verdict::retry_after(2 * MINUTE, "not yet")
}

pub(super) async fn retried(cluster: &Cluster) {
    cluster.submit(Job::new("stubborn"));
    cluster.expect_state("stubborn", CheckState::Retry).await;
    cluster.advance(MINUTE).await;
    cluster.expect_without_quota("stubborn").await;
    cluster.expect_admitted("stubborn").await;
}

pub(super) fn no_giants(request: &Request) -> Verdict {
    if request.workload().name().contains("giant") {
        return Verdict::rejected("no giants");
    }
    Verdict::ready("small")
}

pub(super) async fn rejected(cluster: &Cluster) {
    cluster.submit(Job::new("giant").pods(50));
    cluster.submit(Job::new("dwarf"));
    cluster.expect_deactivated("giant").await;
    cluster.expect_admitted("dwarf").await;
}

pub(super) fn fails_at_first(request: &Request) -> Result<Verdict, CheckError> {
    if request.now() < at("2026-11-21T09:05:00Z") {
        return Err(CheckError::transient("the server does not respond"));
    }
    Ok(Verdict::ready("the server responds"))
}

pub(super) async fn failed(cluster: &Cluster) {
    cluster.submit(Job::new("patient"));
    cluster.expect_message("patient", "does not respond").await;
    cluster.expect_admitted("patient").await;
}
