//! The integration scenarios of KEP-1136, each under its name there.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::{Cluster, Job};
use serde_json::{Value, json};

use crate::harness::*;

/// Runs a job on provisioned capacity.
async fn provisioned(cluster: &Cluster) {
    cluster.submit(Job::new("train").cpus(60));
    let request = requested(cluster, "train", 1).await;
    admitted(cluster, &request).await;
}

#[test]
fn completed_successfully_and_the_workload_completes() {
    simulation(&retries(1)).run(async |cluster| {
        provisioned(cluster).await;
        cluster.complete("train");
        cluster.expect_finished("train").await;
        no_requests(cluster).await;
    });
}

#[test]
fn completed_successfully_and_the_workload_is_preempted() {
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}, "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "100"}]}]}],
    }});
    let urgent = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000});
    simulation(&retries(1))
        .object(&queue)
        .object(&urgent)
        .run(async |cluster| {
            provisioned(cluster).await;
            let first = request_of(cluster, "train", 1);
            cluster.submit(
                Job::new("urgent")
                    .cpus(60)
                    .label("kueue.x-k8s.io/priority-class", "urgent"),
            );
            cluster.expect_without_quota("train").await;
            requested(cluster, "urgent", 1).await;
            cluster
                .expect("its request is gone", |cluster| {
                    !names(cluster).contains(&first)
                })
                .await;
            assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        });
}

#[test]
fn completed_successfully_and_the_workload_is_deleted() {
    simulation(&retries(1)).run(async |cluster| {
        cluster.apply(&bare());
        let request = requested(cluster, "wl", 1).await;
        set_condition(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.expect_admitted("wl").await;
        cluster.delete(&bare());
        no_requests(cluster).await;
    });
}

/// Returns a Workload without a job, so that no job recreates it.
fn bare() -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "wl", "namespace": "default"}, "spec": {
        "queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}}],
    }})
}

#[test]
fn failed() {
    simulation(&retries(0)).run(async |cluster| {
        let request = submitted(cluster).await;
        set_condition(cluster, &request, "Failed", "True", "no nodes");
        cluster.expect_deactivated("train").await;
        no_requests(cluster).await;
    });
}

#[test]
fn the_workload_is_deleted() {
    simulation(&retries(1)).run(async |cluster| {
        cluster.apply(&bare());
        requested(cluster, "wl", 1).await;
        cluster.delete(&bare());
        no_requests(cluster).await;
        cluster
            .expect("its template too", |cluster| templates(cluster).is_empty())
            .await;
    });
}

#[test]
fn the_workload_is_suspended() {
    simulation(&retries(1)).run(async |cluster| {
        provisioned(cluster).await;
        cluster.merge_workload("train", &json!({"spec": {"active": false}}));
        cluster.expect_deactivated("train").await;
        no_requests(cluster).await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
    });
}

#[test]
fn the_queue_does_not_require_checks_any_more() {
    simulation(&retries(1)).run(async |cluster| {
        submitted(cluster).await;
        let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}});
        cluster.merge(&queue, &json!({"spec": {"admissionChecksStrategy": null}}));
        cluster.expect_admitted("train").await;
        no_requests(cluster).await;
    });
}

#[test]
fn the_config_changes() {
    simulation(&retries(1)).run(async |cluster| {
        submitted(cluster).await;
        let config = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig", "metadata": {"name": "config"}});
        cluster.merge(&config, &json!({"spec": {"provisioningClassName": "class2"}}));
        let changed = |cluster: &Cluster| {
            requests(cluster).iter().any(|request| request["spec"]["provisioningClassName"] == "class2")
        };
        cluster.expect("the request is of the new class", changed).await;
        assert_eq!(requests(cluster).len(), 1);
    });
}

#[test]
fn the_config_is_removed() {
    let config = retries(1);
    simulation(&config).run(async |cluster| {
        let request = submitted(cluster).await;
        cluster.delete(&config);
        cluster
            .expect_inactive("check", "there is no ProvisioningRequestConfig")
            .await;
        cluster
            .expect_message("train", "the check is not active")
            .await;
        no_requests(cluster).await;
        // The config exists again.
        cluster.apply(&config);
        requested(cluster, "train", 1).await;
        admitted(cluster, &request).await;
    });
}

#[test]
fn the_check_is_pointed_to_a_config_that_is_missing() {
    simulation(&retries(1)).run(async |cluster| {
        submitted(cluster).await;
        let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "check"}});
        cluster.merge(&check, &json!({"spec": {"parameters": {"name": "missing"}}}));
        cluster.expect_message("train", "the check is not active").await;
        no_requests(cluster).await;
        cluster.advance(Duration::from_secs(30)).await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
    });
}
