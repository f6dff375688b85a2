//! Scenarios in which quota is lost while a check evaluates or waits.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, Request,
    Verdict,
};
use serde_json::json;

use super::{MINUTE, at, expect_quota};
use crate::simulation::{CHECK, Cluster, Job, QUEUE, Simulation};

fn class(name: &str, value: i64) -> serde_json::Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value})
}

pub(super) fn by_name(request: &Request) -> Verdict {
    Verdict::ready(format!("{} may start", request.workload().name()))
}

pub(super) fn long_for_low(request: &Request) -> Duration {
    let low = request.workload().name().contains("low");
    Duration::from_secs(if low { 25 } else { 0 })
}

/// Adds a queue of four CPUs, where the job `high` preempts others.
pub(super) fn preempting(simulation: Simulation) -> Simulation {
    let flavor = json!({"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]});
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": {
        "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
    }});
    simulation.object(&queue).object(&class("high", 1000))
}

pub(super) fn high() -> Job {
    Job::new("high")
        .pods(4)
        .label("kueue.x-k8s.io/priority-class", "high")
}

pub(super) async fn preempted(cluster: &Cluster) {
    cluster.submit(Job::new("low").pods(4));
    expect_quota(cluster, "low").await;
    cluster.advance(Duration::from_secs(5)).await;
    cluster.submit(high());
    cluster.expect_without_quota("low").await;
    cluster.expect_admitted("high").await;
    // No wait: the first evaluation must return when `low` has quota again.
    cluster.complete("high");
    cluster.expect_admitted("low").await;
}

pub(super) async fn slow_to_stop(cluster: &Cluster) {
    let container =
        json!({"name": "main", "image": "job", "resources": {"requests": {"cpu": "4"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    cluster.apply(&json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "low", "namespace": "default"},
        "spec": {"queueName": QUEUE, "podSets": [{"name": "main", "count": 1, "template": template}]},
    }));
    expect_quota(cluster, "low").await;
    cluster.advance(Duration::from_secs(5)).await;
    cluster.submit(high());
    cluster
        .expect("`low` is being evicted", |c| c.condition("low", "Evicted"))
        .await;
    cluster.advance(2 * MINUTE).await;
    cluster.expect_state("low", CheckState::Pending).await;
}

pub(super) fn until_five_past(request: &Request) -> Verdict {
    if request.reservation().since() < at("2026-11-21T09:05:00Z") {
        return Verdict::ready("before five past");
    }
    Verdict::pending("after five past")
}

pub(super) fn longer_after_five_past(request: &Request) -> Duration {
    let late = request.now() >= at("2026-11-21T09:05:00Z");
    Duration::from_secs(if late { 10 } else { 0 })
}

/// The other check: it approves reservations since 09:05.
pub(super) struct AfterFivePast;

impl AdmissionCheckController for AfterFivePast {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/after-five-past") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        if request.reservation().since() < at("2026-11-21T09:05:00Z") {
            return Ok(Verdict::pending("not before five past"));
        }
        Ok(Verdict::ready("after five past"))
    }
}

pub(super) async fn held(cluster: &Cluster) {
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": QUEUE}});
    cluster.submit(Job::new("waits"));
    cluster.expect_state("waits", CheckState::Ready).await;
    cluster.advance(MINUTE).await;
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
    cluster.expect_without_quota("waits").await;
    cluster.advance_to("2026-11-21T09:06:00Z").await;
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
    expect_quota(cluster, "waits").await;
    cluster.expect_waiting("waits", 2 * MINUTE).await;
    cluster.expect_state("waits", CheckState::Pending).await;
    cluster.expect_message("waits", "after five past").await;
}

/// Preempts `low`, which is Ready and waits for the second check. The scheduler preempts by a copy
/// without check entries, which resets nothing. `low` reserves quota again after 09:05, when the
/// check that returned Ready would no longer approve it.
pub(super) async fn kept_ready(cluster: &Cluster) {
    cluster.submit(Job::new("low").pods(4));
    cluster.expect_state("low", CheckState::Ready).await;
    cluster.advance(MINUTE).await;
    cluster.submit(high());
    cluster.expect_without_quota("low").await;
    cluster.expect_state("low", CheckState::Pending).await;
    cluster.advance_to("2026-11-21T09:06:00Z").await;
    cluster.merge_workload("high", &json!({"spec": {"active": false}}));
    expect_quota(cluster, "low").await;
    cluster.expect_waiting("low", 2 * MINUTE).await;
    cluster.expect_state("low", CheckState::Pending).await;
    cluster.expect_message("low", "after five past").await;
}

/// Adds a second check on the queue of [`preempting`].
pub(super) fn preempting_with_second(simulation: Simulation) -> Simulation {
    let mut simulation = preempting(simulation.and("second", |_| AfterFivePast));
    for object in &mut simulation.objects {
        if object["kind"] == "ClusterQueue" {
            object["spec"]["admissionChecksStrategy"] =
                json!({"admissionChecks": [{"name": CHECK}, {"name": "second"}]});
        }
    }
    simulation
}
