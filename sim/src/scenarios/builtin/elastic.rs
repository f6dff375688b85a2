//! Elastic jobs, which grow and shrink while they run.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, FamilyRole, NoParameters,
    Request, Verdict,
};
use serde_json::json;

use super::{MINUTE, SECOND, quota};
use crate::jobs::Nodes;
use crate::scenarios::{Scripted, Seats};
use crate::simulation::{Cluster, Job, QUEUE, Simulation};

/// So long the pods of a job take to end.
const GRACE: Duration = Duration::from_secs(6);

/// Seats for one job at a time, each of at most four pods.
pub(super) fn seated() -> Simulation {
    let seats = || Seats::new(1).at_most(4).with_grace(GRACE);
    Simulation::with_context(move |tools| tools.external(seats))
        .invariant("seats", Seats::are_held)
        .actor(|server, clock| Nodes::new(server, clock).with_grace(GRACE))
}

/// The same with a second check that takes five seconds.
pub(super) fn seated_slowly() -> Simulation {
    let slow = || {
        let approve = |request: &Request| Ok(quota::by_name(request));
        Scripted::new(approve).latency(|_| 5 * SECOND)
    };
    seated().and("second", move |_| slow())
}

/// A check that keeps growths waiting.
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

/// It grows, shrinks and ends; another waits for its seat all the while.
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

/// It asks for more than is allowed: what runs goes on, and the growth waits until it is taken
/// back.
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

/// The queue is drained while a growth waits for a second check: Kueue takes the growth's quota and
/// stops nothing.
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

/// It is preempted after it has grown; its pods take some time to end, and the other starts only
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

/// Grown again before the first growth has its answer.
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
