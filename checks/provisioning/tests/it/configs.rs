//! Other configs, and a cluster without ProvisioningRequests, while jobs wait.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::{Cluster, Job};
use kueue_check_testenv::crds_of_autoscaler;
use serde_json::{Value, json};

use crate::stage::*;

/// Points the AdmissionCheck to another config.
fn point_to(cluster: &Cluster, config: &str) {
    let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "check"}});
    cluster.merge(&check, &json!({"spec": {"parameters": {"name": config}}}));
}

#[test]
fn a_check_pointed_to_another_config_makes_its_requests_anew() {
    let other = config(
        &json!({"provisioningClassName": "other.example.com", "parameters": {"p1": "v2"}}),
        &json!({}),
    );
    trial(&retries(1))
        .object(&named("other", other))
        .run(async |cluster| {
            cluster.submit(Job::new("train"));
            let request = requested(cluster, "train", 1).await;
            says(cluster, &request, "Accepted", "True", "");
            point_to(cluster, "other");
            let anew = |cluster: &Cluster| {
                let all = requests(cluster);
                all.len() == 1
                    && all[0]["spec"]["provisioningClassName"] == "other.example.com"
                    && all[0]["spec"]["parameters"] == json!({"p1": "v2"})
            };
            cluster.expect("the request is another one", anew).await;
            assert_eq!(names(cluster), std::slice::from_ref(&request));
            cluster.advance(Duration::from_secs(60)).await;
            assert_eq!(
                created(cluster, "provisioningrequests"),
                [request.clone(), request.clone()]
            );
            says(cluster, &request, "Provisioned", "True", "Provisioned");
            cluster.expect_admitted("train").await;
            // While Ready, only the stale request goes.
            point_to(cluster, "config");
            no_requests(cluster).await;
            cluster.advance(Duration::from_secs(60)).await;
            assert!(cluster.is_admitted("train"));
            assert_eq!(cluster.state("train"), Some(CheckState::Ready));
            assert_eq!(created(cluster, "provisioningrequests").len(), 2);
        });
}

/// Both configs are of generation 1.
#[test]
fn what_another_config_manages_is_found_out_anew() {
    let managing = |resource: &str| config(&json!({"managedResources": [resource]}), &json!({}));
    trial(&managing("cpu"))
        .object(&named("other", managing("nvidia.com/gpu")))
        .run(async |cluster| {
            cluster.submit(Job::new("train"));
            requested(cluster, "train", 1).await;
            point_to(cluster, "other");
            cluster.expect_admitted("train").await;
            assert_eq!(
                cluster.message("train"),
                "the provisioning request is not needed"
            );
            no_requests(cluster).await;
            assert_eq!(created(cluster, "provisioningrequests").len(), 1);
        });
}

/// The autoscaler's definition, and its versions.
fn definition() -> (Value, Value) {
    let all = crds_of_autoscaler().unwrap();
    let all = all
        .iter()
        .map(|definition| serde_json::to_value(definition).unwrap());
    let mut named =
        all.filter(|definition| definition["spec"]["names"]["plural"] == "provisioningrequests");
    let definition = named.next().unwrap();
    let versions = definition["spec"]["versions"].clone();
    (definition, versions)
}

#[test]
fn a_missing_definition_is_shown_in_active_until_it_is_there() {
    let (definition, versions) = definition();
    let mut unserved = definition.clone();
    for version in unserved["spec"]["versions"].as_array_mut().unwrap() {
        version["served"] = json!(false);
    }
    trial(&retries(1)).object(&unserved).run(async |cluster| {
        let missing = "does not serve provisioningrequests in autoscaling.x-k8s.io/v1";
        cluster.expect_inactive("check", missing).await;
        cluster.submit(Job::new("train"));
        // An inactive check makes its queue inactive: no quota is reserved, and none is held for nothing.
        cluster.advance(Duration::from_secs(3600)).await;
        assert!(!cluster.condition("train", "QuotaReserved"));
        cluster.merge(&definition, &json!({"spec": {"versions": versions}}));
        cluster.expect_active("check").await;
        let request = requested(cluster, "train", 1).await;
        says(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.expect_admitted("train").await;
    });
}

/// While it is missing, what was asked for is not taken back: the definition's removal took the requests away, and they are created again with it.
#[test]
fn a_definition_that_comes_back_finds_the_jobs_that_wait() {
    let (definition, versions) = definition();
    trial(&retries(1)).object(&definition).run(async |cluster| {
        cluster.submit(Job::new("train"));
        let request = requested(cluster, "train", 1).await;
        cluster.delete(&requests(cluster)[0]);
        let mut none = versions.clone();
        for version in none.as_array_mut().unwrap() {
            version["served"] = json!(false);
        }
        cluster.merge(&definition, &json!({"spec": {"versions": none}}));
        cluster.crash(0);
        cluster
            .expect_inactive("check", "does not serve provisioningrequests")
            .await;
        assert!(cluster.condition("train", "QuotaReserved"));
        cluster.merge(&definition, &json!({"spec": {"versions": versions}}));
        cluster.expect_active("check").await;
        assert_eq!(requested(cluster, "train", 1).await, request);
        says(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.expect_admitted("train").await;
    });
}

#[test]
fn each_bad_reference_says_what_is_wrong() {
    let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "check"}});
    let good = json!({"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"});
    trial(&retries(1)).run(async |cluster| {
        for (field, value, said) in [
            (
                "apiGroup",
                "example.com",
                "refers to a ProvisioningRequestConfig (group example.com)",
            ),
            ("kind", "Other", "refers to a Other"),
            ("name", "missing", "there is no ProvisioningRequestConfig"),
        ] {
            let mut bad = good.clone();
            bad[field] = json!(value);
            cluster.merge(&check, &json!({"spec": {"parameters": bad}}));
            cluster.expect_inactive("check", said).await;
        }
        cluster.merge(&check, &json!({"spec": {"parameters": null}}));
        cluster
            .expect_inactive("check", "spec.parameters is not set")
            .await;
        cluster.merge(&check, &json!({"spec": {"parameters": good}}));
        cluster.expect_active("check").await;
    });
}

#[test]
fn a_workload_that_does_not_need_the_check_is_left_alone() {
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "admissionChecksStrategy": {"admissionChecks": [{"name": "other"}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]}],
    }});
    let other = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "other"}, "spec": {"controllerName": "example.com/nobody"}});
    trial(&retries(1)).object(&queue).object(&other).run(async |cluster| {
        check_status(cluster, "other", &json!({"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}]}));
        cluster.submit(Job::new("train"));
        cluster.expect_state_of("other", "train", CheckState::Pending).await;
        cluster.advance(Duration::from_secs(3600)).await;
        assert!(created(cluster, "provisioningrequests").is_empty());
        assert_eq!(cluster.requests("apply workloads/status"), 0);
    });
}
