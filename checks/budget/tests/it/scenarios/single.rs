//! Single jobs: approve, hold, release, finish, rollover, failover.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::{Cluster, Job};

use super::super::harness::budget;
use super::{approved, simulation, spec, try_out};

#[test]
fn what_fits_starts_and_what_does_not_waits_until_one_has_ended() {
    let simulation = simulation("2");
    try_out(
        "approve, hold, finish, release",
        &simulation,
        async |cluster: &Cluster| {
            cluster.submit(Job::new("a"));
            cluster.submit(Job::new("b"));
            cluster.expect_admitted("a").await;
            cluster.expect_admitted("b").await;
            cluster.submit(Job::new("c"));
            cluster.expect_message("c", "needs about 1.00 USD").await;
            assert_eq!(
                approved(cluster, &["a", "b", "c"]),
                2,
                "never more than there is money for"
            );
            cluster.complete("a");
            cluster.expect_admitted("c").await;
        },
    );
}

#[test]
fn a_raised_limit_lets_the_next_one_start() {
    let simulation = simulation("1");
    try_out("a raised limit", &simulation, async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b"));
        cluster.expect_state("b", CheckState::Pending).await;
        cluster
            .expect_message("b", "is left of namespace default")
            .await;
        cluster.apply(&budget("budget", &spec("2")));
        cluster.expect_admitted("b").await;
    });
}

#[test]
fn a_new_day_brings_new_money() {
    // The day ends at midnight; jobs that still run are carried over.
    let simulation = simulation("1").starting_at("2026-11-21T22:30:00Z");
    try_out("rollover", &simulation, async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b"));
        cluster.expect_message("b", "is left").await;
        cluster.complete("a");
        cluster.expect_admitted("b").await;
        cluster.advance(Duration::from_secs(3600)).await;
        cluster.complete("b");
        cluster.submit(Job::new("c"));
        cluster.expect_admitted("c").await;
    });
}

#[test]
fn a_second_replica_takes_over_and_gives_no_more() {
    let simulation = simulation("2").replicas(2);
    try_out("failover", &simulation, async |cluster: &Cluster| {
        for job in ["a", "b", "c"] {
            cluster.submit(Job::new(job));
        }
        cluster
            .expect("two are approved", |cluster| {
                approved(cluster, &["a", "b", "c"]) == 2
            })
            .await;
        cluster.advance(Duration::from_secs(120)).await;
        assert_eq!(approved(cluster, &["a", "b", "c"]), 2);
    });
}
