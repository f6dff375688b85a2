//! Changed configs, and a cluster without ProvisioningRequests, while jobs wait.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::{Cluster, Job};
use kueue_check_testenv::crds_of_autoscaler;
use serde_json::{Value, json};

use crate::harness::*;

/// Sets another config on the AdmissionCheck.
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
    simulation(&retries(1))
        .object(&named("other", other))
        .run(async |cluster| {
            let request = submitted(cluster).await;
            set_condition(cluster, &request, "Accepted", "True", "");
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
            admitted(cluster, &request).await;
            // A running job keeps its request.
            point_to(cluster, "config");
            cluster.advance(Duration::from_secs(60)).await;
            assert_eq!(names(cluster), std::slice::from_ref(&request));
            assert!(cluster.is_admitted("train"));
            assert_eq!(cluster.state("train"), Some(CheckState::Ready));
            assert_eq!(created(cluster, "provisioningrequests").len(), 2);
        });
}

/// Both configs are of generation 1.
#[test]
fn what_another_config_manages_is_found_out_anew() {
    let managing = |resource: &str| config(&json!({"managedResources": [resource]}), &json!({}));
    simulation(&managing("cpu"))
        .object(&named("other", managing("nvidia.com/gpu")))
        .run(async |cluster| {
            submitted(cluster).await;
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

/// The request that was large enough before requests too little now, also for this process.
#[test]
fn a_request_for_fewer_pod_sets_than_a_changed_config_manages_is_replaced() {
    let config = config(&json!({"managedResources": ["cpu"]}), &json!({}));
    let set = |name: &str, requests: Value| {
        json!({"name": name, "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i", "resources": {"requests": requests}}]}}})
    };
    let workload = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "wl", "namespace": "default"}, "spec": {
        "queueName": "queue", "podSets": [set("ps1", json!({"cpu": "1"})), set("ps2", json!({}))],
    }});
    let requested_sets = |cluster: &Cluster| -> Vec<usize> {
        let all = requests(cluster);
        let sets = all.iter().map(|request| &request["spec"]["podSets"]);
        sets.map(|sets| sets.as_array().unwrap().len()).collect()
    };
    simulation(&config).run(async |cluster| {
        cluster.apply(&workload);
        let request = requested(cluster, "wl", 1).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert_eq!(requested_sets(cluster), [1]);
        cluster.merge(&config, &json!({"spec": {"managedResources": []}}));
        let both = |cluster: &Cluster| requested_sets(cluster) == [2];
        cluster.expect("both pod sets are requested", both).await;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(
            created(cluster, "provisioningrequests"),
            [request.clone(), request.clone()]
        );
        set_condition(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.expect_state("wl", CheckState::Ready).await;
    });
}

/// Kueue's own check deletes the request of a running job.
#[test]
fn a_running_job_keeps_its_request_when_nothing_is_managed_or_the_config_is_deleted() {
    let config = config(&json!({"managedResources": ["cpu"]}), &json!({}));
    simulation(&config).run(async |cluster| {
        let request = submitted(cluster).await;
        admitted(cluster, &request).await;
        cluster.merge(
            &config,
            &json!({"spec": {"managedResources": ["nvidia.com/gpu"]}}),
        );
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(names(cluster), std::slice::from_ref(&request));
        cluster.delete(&config);
        cluster
            .expect_inactive("check", "there is no ProvisioningRequestConfig")
            .await;
        cluster.advance(Duration::from_secs(60)).await;
        assert!(cluster.is_admitted("train"));
        assert_eq!(names(cluster), [request]);
    });
}

/// Returns the autoscaler's definition, and its versions.
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
    simulation(&retries(1))
        .object(&unserved)
        .run(async |cluster| {
            let missing = "does not serve provisioningrequests in autoscaling.x-k8s.io/v1";
            cluster.expect_inactive("check", missing).await;
            cluster.submit(Job::new("train"));
            // An inactive check makes its queue inactive: no quota is reserved or held.
            cluster.advance(Duration::from_secs(3600)).await;
            assert!(!cluster.condition("train", "QuotaReserved"));
            cluster.merge(&definition, &json!({"spec": {"versions": versions}}));
            cluster.expect_active("check").await;
            let request = requested(cluster, "train", 1).await;
            admitted(cluster, &request).await;
        });
}

/// While the definition is missing, the check deletes nothing. Its removal deleted the requests,
/// and the check creates them again once it is back.
#[test]
fn a_definition_that_comes_back_finds_the_jobs_that_wait() {
    let (definition, versions) = definition();
    simulation(&retries(1))
        .object(&definition)
        .run(async |cluster| {
            let request = submitted(cluster).await;
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
            admitted(cluster, &request).await;
        });
}

#[test]
fn each_invalid_reference_reports_the_problem() {
    let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "check"}});
    let good = json!({"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"});
    simulation(&retries(1)).run(async |cluster| {
        for (field, value, expected) in [
            (
                "apiGroup",
                "example.com",
                "refers to a ProvisioningRequestConfig (group example.com)",
            ),
            ("kind", "Other", "refers to an Other"),
            ("name", "missing", "there is no ProvisioningRequestConfig"),
        ] {
            let mut bad = good.clone();
            bad[field] = json!(value);
            cluster.merge(&check, &json!({"spec": {"parameters": bad}}));
            cluster.expect_inactive("check", expected).await;
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
    simulation(&retries(1)).object(&queue).object(&other).run(async |cluster| {
        check_status(cluster, "other", &json!({"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}]}));
        cluster.submit(Job::new("train"));
        cluster.expect_state_of("other", "train", CheckState::Pending).await;
        cluster.advance(Duration::from_secs(3600)).await;
        assert!(created(cluster, "provisioningrequests").is_empty());
        assert_eq!(cluster.requests("apply workloads/status"), 0);
    });
}

/// Returns a queue that requires the AdmissionChecks `checks`.
fn queue(checks: &[&str]) -> Value {
    let checks: Vec<Value> = checks.iter().map(|name| json!({"name": name})).collect();
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "admissionChecksStrategy": {"admissionChecks": checks},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]}],
    }})
}

/// Returns the names of existing requests and templates of the AdmissionChecks other than `check`.
fn of_others(cluster: &Cluster) -> Vec<String> {
    let templates = templates(cluster);
    let templates = templates
        .iter()
        .map(|template| template["metadata"]["name"].as_str().unwrap().to_owned());
    let mut all: Vec<String> = names(cluster).into_iter().chain(templates).collect();
    let workload = cluster.workload("train").unwrap();
    let workload = workload["metadata"]["name"].as_str().unwrap().to_owned();
    all.retain(|name| {
        let name = name.strip_prefix("ppt-").unwrap_or(name);
        let name = name.strip_suffix("-main").unwrap_or(name);
        name != format!("{workload}-check-1")
    });
    all
}

/// Names of AdmissionChecks that begin like another one's, also followed by what could be an
/// attempt number.
const ALIKE: [&str; 2] = ["check-b", "check-1"];

/// Runs a job that waits for three checks, of which `end` then ends the first.
fn one_of_three_checks_ends(end: impl Fn(&Cluster)) {
    let all = ["check", ALIKE[0], ALIKE[1]];
    let mut simulation = simulation(&retries(1))
        .object(&queue(&all))
        .object(&named("other", retries(1)));
    for name in ALIKE {
        simulation = simulation.object(&json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": {
            "controllerName": kueue_check_provisioning::CONTROLLER_NAME,
            "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "other"},
        }}));
    }
    simulation.run(async |cluster| {
        for name in ALIKE {
            cluster.expect_active(name).await;
        }
        let own = submitted(cluster).await;
        cluster
            .expect("each check has a request and a template", |cluster| {
                requests(cluster).len() == 3 && templates(cluster).len() == 3
            })
            .await;
        let before = of_others(cluster);
        assert_eq!(before.len(), 4, "{before:?}");
        end(cluster);
        let gone = |cluster: &Cluster| {
            let template = format!("ppt-{own}-main");
            let all = templates(cluster);
            !names(cluster).contains(&own)
                && !all
                    .iter()
                    .any(|one| one["metadata"]["name"] == template.as_str())
        };
        cluster
            .expect("what the first check made is gone", gone)
            .await;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(of_others(cluster), before);
        let made = created(cluster, "podtemplates").len();
        assert_eq!(made, 3, "and nothing had to be made again");
    });
}

#[test]
fn a_check_whose_config_is_deleted_leaves_the_templates_of_checks_with_similar_names() {
    one_of_three_checks_ends(|cluster| {
        cluster.delete(&retries(1));
    });
}

#[test]
fn a_check_that_the_queue_does_without_leaves_the_templates_of_checks_with_similar_names() {
    one_of_three_checks_ends(|cluster| {
        let changed = queue(&ALIKE);
        cluster.merge(&changed, &json!({"spec": changed["spec"]}));
    });
}
