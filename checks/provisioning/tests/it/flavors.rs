//! Checks for some flavors only, and jobs that fall back to another flavor.

use std::time::Duration;

use kueue_check_sim::{Cluster, Job};
use serde_json::{Value, json};

use crate::harness::*;

/// Returns a queue with two flavors. A job of higher priority preempts the one that holds the
/// first.
fn queue(checks: &Value) -> Value {
    let flavor =
        |name: &str| json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": "4"}]});
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "admissionChecksStrategy": {"admissionChecks": checks},
        "preemption": {"withinClusterQueue": "LowerPriority"}, "flavorFungibility": {"whenCanPreempt": "MayStopSearch"},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor("spot"), flavor("on-demand")]}],
    }})
}

fn with_flavors(checks: &Value) -> ProvisioningSimulation {
    let kueue = "kueue.x-k8s.io/v1beta2";
    let mut simulation = simulation(&retries(1))
        .object(&queue(checks))
        .object(&json!({"apiVersion": kueue, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000}));
    for name in ["spot", "on-demand"] {
        simulation = simulation.object(&json!({"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": {"market": name}}}));
    }
    simulation
}

/// Runs a job on the first flavor, with a request for it. The job falls back to the second flavor
/// when another one preempts it.
async fn falls_back(cluster: &Cluster) -> String {
    cluster.submit(Job::new("train").cpus(4));
    let request = requested(cluster, "train", 1).await;
    set_condition(cluster, &request, "Accepted", "True", "");
    let urgent = Job::new("urgent").cpus(4);
    cluster.submit(urgent.label("kueue.x-k8s.io/priority-class", "urgent"));
    let flavor = "/status/admission/podSetAssignments/0/flavors/cpu";
    let fell_back = |cluster: &Cluster| {
        let workload = cluster.workload("train");
        workload.is_some_and(|workload| workload.pointer(flavor) == Some(&json!("on-demand")))
    };
    cluster
        .expect("`train` has the other flavor", fell_back)
        .await;
    request
}

#[test]
fn a_job_that_falls_back_to_a_flavor_without_a_check_needs_no_request() {
    let checks = json!([{"name": "check", "onFlavors": ["spot"]}]);
    with_flavors(&checks).run(async |cluster| {
        let request = falls_back(cluster).await;
        cluster.expect_admitted("train").await;
        let gone = |cluster: &Cluster| !names(cluster).contains(&request);
        cluster.expect("its request is gone", gone).await;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(
            entry(cluster, "train"),
            Value::Null,
            "Kueue does not evaluate it"
        );
        assert!(!names(cluster).contains(&request));
    });
}

#[test]
fn a_job_that_falls_back_to_a_flavor_with_another_check_gets_its_request() {
    let checks = json!([{"name": "check", "onFlavors": ["spot"]}, {"name": "second", "onFlavors": ["on-demand"]}]);
    let other = config(
        &json!({"provisioningClassName": "other.example.com"}),
        &json!({}),
    );
    let second = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "second"}, "spec": {
        "controllerName": kueue_check_provisioning::CONTROLLER_NAME, "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "other"},
    }});
    with_flavors(&checks)
        .object(&named("other", other))
        .object(&second)
        .run(async |cluster| {
            cluster.expect_active("second").await;
            let request = falls_back(cluster).await;
            let workload = cluster.workload("train").unwrap();
            let workload = workload["metadata"]["name"].as_str().unwrap();
            let own = format!("{workload}-second-1");
            let only = |cluster: &Cluster| {
                let all = names(cluster);
                all.contains(&own) && !all.contains(&request)
            };
            cluster
                .expect("the request is the other check's", only)
                .await;
            admitted(cluster, &own).await;
            let selector = |name: &str| {
                let all = templates(cluster);
                let found = all
                    .iter()
                    .find(|found| found["metadata"]["name"] == name)
                    .unwrap();
                found["template"]["spec"]["nodeSelector"]["market"].clone()
            };
            assert_eq!(selector(&format!("ppt-{own}-main")), "on-demand");
        });
}
