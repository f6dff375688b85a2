//! Elastic jobs under a budget: running pods are counted within 10 s, and no refusal stops them.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::apiserver::ChangeVerb;
use kueue_check_sim::{Cluster, Job};
use serde_json::json;

use super::{simulation, try_out};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the committed amount, in hundredths; `None` while no process leads.
async fn committed(cluster: &Cluster) -> Option<u64> {
    let metrics = cluster.metrics(0).await?;
    let samples = metrics.lines().filter_map(|line| {
        let sample = line.strip_prefix("budget_committed{")?;
        sample.contains("default").then_some(sample)
    });
    let values: Vec<f64> = samples
        .filter_map(|sample| sample.rsplit(' ').next()?.parse().ok())
        .collect();
    let sum: f64 = values.iter().sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "money"
    )]
    (!values.is_empty()).then_some((sum * 100.0) as u64)
}

/// Checks that all running pods are counted. Each costs about 1, of which the first minutes take
/// little. A process that has just started shows nothing until it leads.
async fn pods_are_counted(cluster: &Cluster, jobs: &[&str]) {
    let mut uncounted = 0;
    for _ in 0..60 {
        let running: usize = jobs.iter().map(|job| cluster.running_pods(job)).sum();
        match committed(cluster).await {
            Some(committed) if committed >= 85 * running as u64 => return,
            Some(_) => uncounted += 1,
            None => {}
        }
        assert!(
            uncounted <= 10,
            "{running} pods run: {:?}",
            committed(cluster).await
        );
        cluster.advance(SECOND).await;
    }
    panic!("no process leads for a minute");
}

async fn runs(cluster: &Cluster, pods: usize) {
    let runs = |cluster: &Cluster| cluster.running_pods("train") == pods;
    cluster.expect(&format!("{pods} pods run"), runs).await;
    pods_are_counted(cluster, &["train", "other"]).await;
}

/// Checks that no refusal stopped a pod: the job was never suspended once it ran.
fn never_stopped(cluster: &Cluster) {
    let stopped = cluster.server().history().into_iter().find(|change| {
        let (kind, spec) = (&change.object["kind"], &change.object["spec"]);
        kind == "Job"
            && spec["suspend"] == true
            && change.verb == ChangeVerb::Modified
            && change.object["status"]["startTime"].is_string()
    });
    assert!(stopped.is_none(), "the job was stopped: {stopped:?}");
}

#[test]
fn a_job_that_grows_shrinks_and_grows_too_large_runs_on_and_is_counted() {
    try_out("elastic", &simulation("6"), async |cluster: &Cluster| {
        cluster.submit(Job::new("train").pods(2).elastic());
        runs(cluster, 2).await;
        cluster.scale("train", 4);
        runs(cluster, 4).await;
        cluster.scale("train", 3);
        runs(cluster, 3).await;
        // 8 would cost more than the limit.
        cluster.scale("train", 8);
        cluster
            .expect_message("train", "the job runs on with 3 pods")
            .await;
        runs(cluster, 3).await;
        cluster.submit(Job::new("other").pods(4));
        cluster.expect_state("other", CheckState::Pending).await;
        pods_are_counted(cluster, &["train", "other"]).await;
        assert!(!cluster.is_admitted("other"), "3 and 4 are more than 6");
        never_stopped(cluster);
        cluster.complete("train");
        cluster.expect_finished("train").await;
    });
}

#[test]
fn what_a_waiting_growth_adds_to_is_counted_until_an_eviction_has_stopped_it() {
    try_out(
        "elastic evicted",
        &simulation("6"),
        async |cluster: &Cluster| {
            cluster.submit(Job::new("train").pods(3).elastic());
            runs(cluster, 3).await;
            cluster.scale("train", 8);
            cluster
                .expect_message("train", "the job runs on with 3 pods")
                .await;
            runs(cluster, 3).await;
            cluster.merge_workload("train", &json!({"spec": {"active": false}}));
            cluster.expect_deactivated("train").await;
            runs(cluster, 0).await;
            // The whole limit is free again.
            cluster.submit(Job::new("other").pods(5));
            cluster.expect_admitted("other").await;
            pods_are_counted(cluster, &["train", "other"]).await;
        },
    );
}

#[test]
fn a_refusal_that_would_have_stopped_pods_is_counted() {
    simulation("6").run(async |cluster| {
        cluster.submit(Job::new("train").pods(3).elastic());
        runs(cluster, 3).await;
        let is_refusal = |line: &str| {
            line.starts_with("kueue_check_suppressed_evictions_total{")
                && line.contains("\"growth\"")
        };
        let counts = |metrics: &str| {
            let mut refusals = metrics.lines().filter(|line| is_refusal(line));
            refusals.any(|line| !line.ends_with(" 0"))
        };
        let before = cluster.metrics(0).await.unwrap();
        assert!(!counts(&before), "{before}");
        cluster.scale("train", 8);
        cluster
            .expect_message("train", "the job runs on with 3 pods")
            .await;
        let after = cluster.metrics(0).await.unwrap();
        assert!(counts(&after), "{after}");
    });
}
