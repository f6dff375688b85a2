//! Scenarios with other writers, crashes of replicas, and running jobs.

use kueue_check::{AfterAdmission, OnFailure, Policy, Request, Verdict};
use serde_json::json;

use super::{MINUTE, at};
use crate::apiserver::{ApiRequest, Patch, Verb};
use crate::simulation::{CHECK, Cluster, Job};

pub(super) async fn overwritten(cluster: &Cluster) {
    cluster.submit(Job::new("waits"));
    cluster.expect_message("waits", "opens at").await;
    cluster.advance(MINUTE).await;
    reset_entry(cluster, "waits");
    cluster.advance(MINUTE).await;
    cluster.expect_message("waits", "opens at").await;
    cluster.advance_to("2026-11-21T09:09:00Z").await;
    cluster.expect_admitted("waits").await;
}

/// Writes as Kueue's scheduler does from a stale copy.
fn reset_entry(cluster: &Cluster, job: &str) {
    let Some(workload) = cluster.workload(job) else {
        return;
    };
    let metadata = &workload["metadata"];
    let entries = json!([{"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": metadata["creationTimestamp"]}]);
    let body = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "status": {"admissionChecks": entries},
    });
    let resource = crate::kueue::resource("workloads");
    let call = ApiRequest::new(Verb::Patch(Patch::Apply), &resource)
        .namespace("default")
        .name(metadata["name"].as_str().unwrap_or_default())
        .subresource("status")
        .query("fieldManager", "older-copy")
        .query("force", "true")
        .agent("kueue")
        .body(body);
    cluster.server().call(&call);
}

pub(super) fn stops() -> Policy {
    Policy {
        after_admission: Some(AfterAdmission {
            on_failure: Some(OnFailure::Evict),
            ..AfterAdmission::default()
        }),
        ..Policy::default()
    }
}

pub(super) fn until_budget_is_spent(request: &Request) -> Verdict {
    let (gone, back) = (at("2026-11-21T09:05:00Z"), at("2026-11-21T09:30:00Z"));
    if (at("2026-11-21T09:02:00Z")..at("2026-11-21T09:04:00Z")).contains(&request.now()) {
        return Verdict::pending("counting").recheck_in(MINUTE);
    }
    if request.now() < gone || request.now() >= back {
        return Verdict::ready("there is money").recheck_in(MINUTE);
    }
    if request.workload().is_admitted() {
        return Verdict::retry_now("the money is gone").recheck_in(MINUTE);
    }
    Verdict::pending("no money until half past").recheck_in(MINUTE)
}

pub(super) async fn objected(cluster: &Cluster) {
    cluster.submit(Job::new("spender"));
    cluster.expect_admitted("spender").await;
    cluster.advance_to("2026-11-21T09:05:00Z").await;
    cluster.expect_without_quota("spender").await;
    cluster.expect_message("spender", "no money").await;
    cluster.advance_to("2026-11-21T09:29:00Z").await;
    cluster.expect_admitted("spender").await;
}

pub(super) async fn failed_over(cluster: &Cluster) {
    cluster.submit(Job::new("early"));
    cluster.expect_message("early", "opens at").await;
    cluster.crash(0);
    cluster.advance(MINUTE).await;
    cluster.submit(Job::new("later"));
    cluster.expect_message("later", "opens at").await;
    cluster.crash(1);
    cluster.expect_admitted("early").await;
    cluster.expect_admitted("later").await;
}
