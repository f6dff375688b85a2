//! Elastic jobs, which grow and shrink while they run.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, FamilyRole, NoParameters,
    Request, Verdict,
};
use serde_json::json;

use super::{MINUTE, SECOND, quota};
use crate::scenarios::{Scripted, Seats};
use crate::simulation::{Cluster, Job, QUEUE, Simulation};

/// The time that the pods of a job take to end.
const GRACE: Duration = Duration::from_secs(6);

/// Returns seats for one job at a time, each of at most four pods.
pub(super) fn seated() -> Simulation {
    let seats = || Seats::new(1).at_most(4).with_grace(GRACE);
    Simulation::with_context(move |tools| tools.external(seats))
        .invariant("seats", Seats::are_held)
        .termination_grace(GRACE)
}

/// Returns the same with a second check that takes 5 s.
pub(super) fn seated_slowly() -> Simulation {
    let slow = || {
        let approve = |request: &Request| Ok(quota::by_name(request));
        Scripted::new(approve).latency(|_| 5 * SECOND)
    };
    seated().and("second", move |_| slow())
}

/// A check that keeps growths pending.
pub(super) struct NoGrowth;

impl AdmissionCheckController for NoGrowth {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/no-growth") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        if *request.family().role() == FamilyRole::Growth {
            return Ok(Verdict::pending("no growth today"));
        }
        Ok(Verdict::ready("may start"))
    }
}

async fn expect_pods(cluster: &Cluster, job: &str, pods: usize) {
    let what = format!("{pods} pods of `{job}` run");
    let runs = |cluster: &Cluster| cluster.running_pods(job) == pods;
    cluster.expect(&what, runs).await;
}

async fn started(cluster: &Cluster) {
    cluster.submit(Job::new("train").pods(2).elastic());
    expect_pods(cluster, "train", 2).await;
    cluster.submit(Job::new("next").elastic());
    cluster.expect_message("next", "all seats are taken").await;
}

/// A job grows, shrinks and ends, while another waits for its seat.
pub(super) async fn grown(cluster: &Cluster) {
    started(cluster).await;
    cluster.scale("train", 4);
    expect_pods(cluster, "train", 4).await;
    cluster.expect_waiting("next", MINUTE).await;
    cluster.scale("train", 1);
    expect_pods(cluster, "train", 1).await;
    cluster.scale("train", 3);
    expect_pods(cluster, "train", 3).await;
    cluster.complete("train");
    expect_pods(cluster, "next", 1).await;
}

/// A job requests more than is allowed. The running pods continue, and the growth waits until it is
/// withdrawn.
pub(super) async fn refused(cluster: &Cluster) {
    started(cluster).await;
    cluster.scale("train", 8);
    cluster
        .expect_message("train", "8 pods are more than 4")
        .await;
    cluster.expect_waiting("train", 2 * MINUTE).await;
    assert_runs(cluster, 2);
    cluster.scale("train", 2);
    cluster.expect_state("train", CheckState::Ready).await;
    cluster.advance(MINUTE).await;
    assert_runs(cluster, 2);
}

fn assert_runs(cluster: &Cluster, pods: usize) {
    let there = cluster.running_pods("train");
    assert_eq!(there, pods, "pods of `train` ended");
}

/// The queue is drained while a growth waits for a second check. Kueue releases the growth's quota
/// and evicts nothing.
pub(super) async fn drained(cluster: &Cluster) {
    started(cluster).await;
    cluster.scale("train", 4);
    cluster.advance(10 * SECOND).await;
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": QUEUE}});
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "HoldAndDrain"}}));
    cluster.advance(MINUTE).await;
    assert_runs(cluster, 2);
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
    cluster.advance(MINUTE).await;
    assert_runs(cluster, 2);
    cluster.scale("train", 2);
    cluster.expect_admitted("train").await;
    cluster.complete("train");
    cluster.expect_finished("train").await;
}

/// A job is preempted after it has grown. Its pods take time to end, and the other job starts only
/// then.
pub(super) async fn preempted(cluster: &Cluster) {
    cluster.submit(Job::new("train").pods(2).elastic());
    expect_pods(cluster, "train", 2).await;
    cluster.scale("train", 4);
    expect_pods(cluster, "train", 4).await;
    cluster.submit(quota::high().elastic());
    cluster.expect_without_quota("train").await;
    expect_pods(cluster, "high", 4).await;
    cluster.complete("high");
    expect_pods(cluster, "train", 4).await;
}

/// A job grows again before the first growth has a verdict.
pub(super) async fn grown_twice(cluster: &Cluster) {
    cluster.submit(Job::new("train").pods(1).elastic());
    expect_pods(cluster, "train", 1).await;
    cluster.scale("train", 2);
    cluster.advance(SECOND).await;
    cluster.scale("train", 4);
    expect_pods(cluster, "train", 4).await;
    cluster.complete("train");
    cluster.expect_finished("train").await;
}
