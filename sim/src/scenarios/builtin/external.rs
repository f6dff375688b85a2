//! Scenarios with effects outside the cluster.

use kueue_check::api::CheckState;

use super::MINUTE;
use super::quota::high;
use crate::scenarios::LicenceVendor;
use crate::simulation::{CHECK, Cluster, Job};

pub(super) async fn two(cluster: &Cluster) {
    cluster.submit(Job::new("a"));
    cluster.submit(Job::new("b"));
    cluster
        .expect("one of two jobs is admitted", |c| {
            c.is_admitted("a") || c.is_admitted("b")
        })
        .await;
    let (first, other) = if cluster.is_admitted("a") {
        ("a", "b")
    } else {
        ("b", "a")
    };
    cluster
        .expect_state_of(CHECK, other, CheckState::Ready)
        .await;
    cluster.advance(MINUTE).await;
    cluster.complete(first);
    cluster.expect_admitted(other).await;
    cluster.complete(other);
    cluster.expect_finished(other).await;
}

pub(super) async fn licensed(cluster: &Cluster) {
    let jobs = ["a", "b", "c"];
    for job in jobs {
        cluster.submit(Job::new(job));
    }
    let admitted = |c: &Cluster| jobs.into_iter().filter(|job| c.is_admitted(job)).count();
    cluster
        .expect("two of three jobs are admitted", |c| admitted(c) == 2)
        .await;
    cluster.advance(2 * MINUTE).await;
    let running = jobs
        .into_iter()
        .find(|job| cluster.is_admitted(job))
        .unwrap_or("a");
    cluster.complete(running);
    for job in jobs {
        cluster.expect_admitted(job).await;
    }
    let vendor: LicenceVendor = cluster.external();
    cluster
        .expect("two licences are out", |_| vendor.sold() == 2)
        .await;
    assert!(
        vendor.max_sold() <= 2,
        "{} licences were out",
        vendor.max_sold()
    );
}

/// Quota passes to another job and back, and the only licence with it.
pub(super) async fn passed_on(cluster: &Cluster) {
    cluster.submit(Job::new("low").pods(4));
    cluster.expect_admitted("low").await;
    cluster.advance(MINUTE).await;
    cluster.submit(high());
    cluster.expect_without_quota("low").await;
    cluster.expect_admitted("high").await;
    cluster.advance(MINUTE).await;
    cluster.complete("high");
    cluster.expect_admitted("low").await;
    cluster.advance(MINUTE).await;
    cluster.complete("low");
    cluster.expect_finished("low").await;
}
