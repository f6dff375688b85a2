//! Scenarios with deletions while the check runs.

use std::sync::Arc;
use std::time::Duration;

use kueue_check::api::CheckState;
use serde_json::{Value, json};

use super::{MINUTE, expect_quota};
use crate::scenarios::{Depot, Word};
use crate::simulation::{CHECK, Cluster, Job, QUEUE, Simulation, workloads};

pub(super) fn depot() -> Simulation {
    Simulation::with_context(|tools| tools.external(Depot::default))
        .invariant("all stopped", Depot::stops_all)
}

/// Returns a Workload without a job.
fn bare(name: &str) -> Value {
    let container =
        json!({"name": "main", "image": "job", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": QUEUE, "podSets": [{"name": "main", "count": 1, "template": template}]},
    })
}

pub(super) fn named(kind: &str, name: &str) -> Value {
    let version = match kind {
        "Job" => "batch/v1",
        "Word" => "example.com/v1",
        _ => "kueue.x-k8s.io/v1beta2",
    };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    if matches!(kind, "Job" | "Workload") {
        object["metadata"]["namespace"] = json!("default");
    }
    object
}

/// Submits the job `train` and the Workload `bare`.
fn submit_both(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    cluster.apply(&bare("bare"));
}

async fn expect_both(cluster: &Cluster, what: &str, holds: impl Fn(&Cluster, &str) -> bool) {
    cluster
        .expect(what, |c| ["train", "bare"].iter().all(|job| holds(c, job)))
        .await;
}

async fn delete_both_and_end(cluster: &Cluster) {
    cluster.delete(&named("Job", "train"));
    cluster.delete(&named("Workload", "bare"));
    let all = |c: &Cluster| -> Vec<Arc<Value>> { c.server().objects(&workloads(), "") };
    cluster
        .expect("no Workload is left", |c| all(c).is_empty())
        .await;
    ended(cluster).await;
}

/// Expects that all machines stop, and that none starts after that.
pub(super) async fn ended(cluster: &Cluster) {
    let depot: Depot = cluster.external();
    cluster
        .expect("all machines are stopped", |_| depot.running() == 0)
        .await;
    cluster.advance(5 * MINUTE).await;
    assert_eq!(depot.running(), 0, "a machine was started");
}

pub(super) async fn while_evaluated(cluster: &Cluster) {
    submit_both(cluster);
    expect_both(cluster, "both have quota", |c, job| {
        c.condition(job, "QuotaReserved")
    })
    .await;
    cluster.advance(Duration::from_secs(2)).await;
    delete_both_and_end(cluster).await;
}

pub(super) async fn while_written(cluster: &Cluster) {
    submit_both(cluster);
    expect_both(cluster, "both are Ready", |c, job| {
        c.state(job) == Some(CheckState::Ready)
    })
    .await;
    // No wait: a late reply to a write is still in transit.
    delete_both_and_end(cluster).await;
}

pub(super) async fn while_released(cluster: &Cluster) {
    submit_both(cluster);
    expect_both(cluster, "both are admitted", Cluster::is_admitted).await;
    cluster.advance(MINUTE).await;
    cluster.complete("train");
    cluster.merge_workload("bare", &json!({"spec": {"active": false}}));
    cluster.advance(Duration::from_secs(10)).await;
    delete_both_and_end(cluster).await;
}

fn set_queue_checks(cluster: &Cluster, checks: &Value) {
    let strategy = json!({"spec": {"admissionChecksStrategy": checks}});
    cluster.merge(&named("ClusterQueue", QUEUE), &strategy);
}

/// Deletes the AdmissionCheck, of which no ClusterQueue makes use any more.
async fn delete_check(cluster: &Cluster) {
    set_queue_checks(cluster, &Value::Null);
    cluster.delete(&named("AdmissionCheck", CHECK));
    let checks = crate::kueue::resource("admissionchecks");
    cluster
        .expect("the AdmissionCheck is gone", |c| {
            c.server().object(&checks, "", CHECK).is_none()
        })
        .await;
}

/// Creates the AdmissionCheck again, and expects that it decides.
async fn create_check(cluster: &Cluster) {
    let mut check = named("AdmissionCheck", CHECK);
    check["spec"] = json!({"controllerName": "example.com/depot"});
    cluster.apply(&check);
    set_queue_checks(cluster, &json!({"admissionChecks": [{"name": CHECK}]}));
    cluster.expect_active(CHECK).await;
    cluster.submit(Job::new("second"));
    cluster.expect_admitted("second").await;
    cluster.expect_state("second", CheckState::Ready).await;
}

/// Deletes the AdmissionCheck, completes the job, which starts without it, and creates it again.
async fn replace_check(cluster: &Cluster) {
    delete_check(cluster).await;
    cluster.expect_admitted("first").await;
    cluster.complete("first");
    ended(cluster).await;
    create_check(cluster).await;
}

pub(super) async fn check_while_evaluated(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    expect_quota(cluster, "first").await;
    cluster.advance(Duration::from_secs(2)).await;
    replace_check(cluster).await;
}

/// Deletes the AdmissionCheck at the moment in which a job becomes Ready: the reply to the write
/// may be in transit.
pub(super) async fn check_while_written(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    cluster.expect_state("first", CheckState::Ready).await;
    replace_check(cluster).await;
}

/// Deletes the AdmissionCheck while the machine of a completed job stops.
pub(super) async fn check_while_released(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    cluster.expect_admitted("first").await;
    cluster.complete("first");
    cluster.advance(Duration::from_secs(10)).await;
    delete_check(cluster).await;
    ended(cluster).await;
    create_check(cluster).await;
}

/// Deletes the parameters at the moment in which a job becomes Ready.
pub(super) async fn parameters_while_written(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    cluster.expect_state("first", CheckState::Ready).await;
    cluster.delete(&named("Word", "words"));
    cluster.expect_inactive(CHECK, "words").await;
    cluster.advance(MINUTE).await;
    cluster.apply(&Word::object("words", "night"));
    cluster.expect_active(CHECK).await;
    cluster.submit(Job::new("second"));
    cluster.expect_admitted("first").await;
    cluster.expect_admitted("second").await;
    cluster.expect_message("second", "by night").await;
}

/// Deletes the parameters during an evaluation; meanwhile the machine of `early` stops.
pub(super) async fn parameters_while_evaluated(cluster: &Cluster) {
    cluster.submit(Job::new("early"));
    cluster.expect_admitted("early").await;
    cluster.submit(Job::new("first"));
    expect_quota(cluster, "first").await;
    cluster.advance(Duration::from_secs(2)).await;
    cluster.complete("early");
    cluster.delete(&named("Word", "words"));
    cluster.expect_inactive(CHECK, "words").await;
    cluster.advance(MINUTE).await;
    cluster.apply(&Word::object("words", "night"));
    cluster.expect_active(CHECK).await;
    cluster.submit(Job::new("second"));
    cluster.expect_admitted("first").await;
    cluster.expect_admitted("second").await;
    cluster.expect_message("second", "by night").await;
    let depot: Depot = cluster.external();
    cluster
        .expect("the machine of `early` is stopped", |_| {
            depot.running() == 2
        })
        .await;
}
