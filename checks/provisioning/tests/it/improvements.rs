//! Improvements over Kueue's own check, on the simulator. The tests of the pure parts are in
//! `src/decide/tests.rs`.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::apiserver::{ApiRequest, Patch, Resource, Verb};
use kueue_check_sim::{Cluster, Job};
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn an_annotation_that_overrides_a_parameter_makes_one_request() {
    simulation(&config(&json!({"parameters": {"p1": "v1"}}), &json!({}))).run(async |cluster| {
        cluster.submit(Job::new("train").annotation("provreq.kueue.x-k8s.io/p1", "mine"));
        let request = requested(cluster, "train", 1).await;
        set_condition(cluster, &request, "Accepted", "True", "");
        cluster.advance(Duration::from_secs(600)).await;
        assert_eq!(created(cluster, "provisioningrequests"), [request]);
        assert_eq!(
            requests(cluster)[0]["spec"]["parameters"],
            json!({"p1": "mine"})
        );
    });
}

#[test]
fn a_name_of_253_characters_makes_one_request() {
    let name = "w".repeat(253);
    let workload = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}}],
    }});
    simulation(&retries(1)).run(async |cluster| {
        cluster.apply(&workload);
        cluster
            .expect("there is a request", |cluster| requests(cluster).len() == 1)
            .await;
        let request = names(cluster)[0].clone();
        assert_eq!(request.len(), 253);
        set_condition(cluster, &request, "Accepted", "True", "");
        cluster.advance(Duration::from_secs(600)).await;
        assert_eq!(
            created(cluster, "provisioningrequests"),
            std::slice::from_ref(&request)
        );
        set_condition(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.expect_state(&name, CheckState::Ready).await;
        assert_eq!(
            entry(cluster, &name)["podSetUpdates"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    });
}

#[test]
fn every_member_of_a_merged_pod_set_is_updated() {
    let set = |name: &str, count: u32| {
        json!({"name": name, "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}})
    };
    let workload = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "wl", "namespace": "default"}, "spec": {
        "queueName": "queue", "podSets": [set("ps1", 1), set("ps2", 2)],
    }});
    let merging = config(
        &json!({"podSetMergePolicy": "IdenticalPodTemplates"}),
        &json!({}),
    );
    simulation(&merging).run(async |cluster| {
        cluster.apply(&workload);
        let request = requested(cluster, "wl", 1).await;
        assert_eq!(
            requests(cluster)[0]["spec"]["podSets"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        assert_eq!(requests(cluster)[0]["spec"]["podSets"][0]["count"], 3);
        set_condition(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.expect_state("wl", CheckState::Ready).await;
        let updates = entry(cluster, "wl")["podSetUpdates"].clone();
        let names: Vec<&Value> = updates
            .as_array()
            .unwrap()
            .iter()
            .map(|update| &update["name"])
            .collect();
        assert_eq!(names, ["ps1", "ps2"]);
    });
}

#[test]
fn a_failure_after_admission_does_not_stop_a_running_job() {
    simulation(&retries(1)).run(async |cluster| {
        let request = submitted(cluster).await;
        admitted(cluster, &request).await;
        set_condition(cluster, &request, "Failed", "True", "too late");
        cluster.advance(Duration::from_secs(600)).await;
        assert!(cluster.is_admitted("train"));
    });
    let evicting = config(
        &json!({"retryStrategy": {"backoffBaseSeconds": 2}}),
        &json!({"failed-after-admission": "Retry"}),
    );
    simulation(&evicting).run(async |cluster| {
        let request = submitted(cluster).await;
        admitted(cluster, &request).await;
        set_condition(cluster, &request, "Failed", "True", "too late");
        requested(cluster, "train", 2).await;
    });
}

#[test]
fn one_check_without_a_request_does_not_stop_the_other() {
    let second = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "second"}, "spec": {
        "controllerName": kueue_check_provisioning::CONTROLLER_NAME, "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "other"},
    }});
    let mut other = config(&json!({}), &json!({}));
    other["metadata"]["name"] = json!("other");
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}, {"name": "second"}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]}],
    }});
    simulation(&retries(1))
        .object(&second)
        .object(&other)
        .object(&queue)
        .run(async |cluster| {
            cluster.expect_active("second").await;
            let first = submitted(cluster).await;
            let both = |cluster: &Cluster| requests(cluster).len() == 2;
            cluster.expect("each check has a request", both).await;
            let of_second = names(cluster)
                .into_iter()
                .find(|name| *name != first)
                .unwrap();
            set_condition(cluster, &first, "Provisioned", "True", "Provisioned");
            cluster.expect_state("train", CheckState::Ready).await;
            // The first check's request is deleted; it is Ready and needs none. The second check is
            // still evaluated.
            let gone = requests(cluster)
                .into_iter()
                .find(|request| request["metadata"]["name"] == first)
                .unwrap();
            cluster.delete(&gone);
            set_condition(cluster, &of_second, "Accepted", "True", "");
            set_condition(cluster, &of_second, "Provisioned", "False", "ETA");
            cluster
                .expect("the second reports it", |cluster| {
                    cluster.message_of("second", "train") == "ETA"
                })
                .await;
        });
}

#[test]
fn a_bad_reference_is_shown_in_active() {
    simulation(&retries(1)).run(async |cluster| {
        let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "check"}});
        let request = submitted(cluster).await;
        cluster.merge(&check, &json!({"spec": {"parameters": {"kind": "Other"}}}));
        cluster.expect_inactive("check", "spec.parameters refers to an Other").await;
        // A process that never received a config also reports it for each Workload, and deletes
        // nothing.
        cluster.crash(0);
        cluster.expect_message("train", "spec.parameters refers to an Other").await;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(names(cluster), std::slice::from_ref(&request));
        cluster.merge(&check, &json!({"spec": {"parameters": {"kind": "ProvisioningRequestConfig"}}}));
        cluster.expect_active("check").await;
        admitted(cluster, &request).await;
        assert_eq!(created(cluster, "provisioningrequests"), [request]);
    });
}

#[test]
fn an_invalid_config_is_shown_in_active_and_deletes_nothing() {
    let config = retries(1);
    simulation(&config).run(async |cluster| {
        let request = submitted(cluster).await;
        cluster.merge(
            &config,
            &json!({"spec": {"retryStrategy": {"backoffBaseSeconds": -5}}}),
        );
        cluster
            .expect_inactive("check", "spec.retryStrategy.backoffBaseSeconds is -5")
            .await;
        cluster.advance(Duration::from_secs(30)).await;
        assert_eq!(names(cluster), [request]);
    });
}

#[test]
fn a_request_without_an_end_is_given_up_after_the_timeout() {
    let days = config(
        &json!({"retryStrategy": {"backoffLimitCount": 1, "backoffBaseSeconds": 2}}),
        &json!({"pending-timeout": "3d"}),
    );
    simulation(&days).run(async |cluster| {
        let request = submitted(cluster).await;
        set_condition(cluster, &request, "Accepted", "True", "");
        cluster.advance(Duration::from_secs(3 * 86_400 - 60)).await;
        assert_eq!(names(cluster), [request]);
        cluster
            .expect_message(
                "train",
                "Retrying after timeout: not provisioned in 3d: accepted, and nothing since",
            )
            .await;
        requested(cluster, "train", 2).await;
        cluster.advance(Duration::from_secs(3 * 86_400)).await;
        cluster.expect_deactivated("train").await;
    });
}

/// The request is deleted with the quota, and no record of the reason is left.
#[test]
fn timeouts_reach_the_limit_of_attempts_without_capacity() {
    let limited = config(
        &json!({"retryStrategy": {"backoffBaseSeconds": 2, "backoffLimitCount": 20}}),
        &json!({"pending-timeout": "1h", "no-capacity-limit": "1"}),
    );
    simulation(&limited).run(async |cluster| {
        cluster.submit(Job::new("train"));
        for attempt in [1, 2] {
            let request = requested(cluster, "train", attempt).await;
            set_condition(cluster, &request, "Accepted", "True", "");
            set_condition(cluster, &request, "Provisioned", "False", "no nodes");
            cluster.advance(Duration::from_secs(3600)).await;
        }
        cluster.expect_deactivated("train").await;
    });
}

#[test]
fn a_timeout_below_that_of_an_unknown_class_applies_without_a_report_of_the_autoscaler() {
    let minutes = config(&json!({}), &json!({"pending-timeout": "2m"}));
    simulation(&minutes).run(async |cluster| {
        submitted(cluster).await;
        let began = cluster.now();
        cluster
            .expect_message("train", "Retrying after timeout")
            .await;
        let passed = cluster.now().duration_since(began).as_secs();
        assert!((115..125).contains(&passed), "{passed} s");
    });
}

#[test]
fn an_unknown_class_is_shown_in_active() {
    let typo = config(
        &json!({"provisioningClassName": "check-capcity.autoscaling.x-k8s.io"}),
        &json!({}),
    );
    let right = config(&json!({}), &json!({}));
    simulation(&right).run(async |cluster| {
        cluster.apply(&typo);
        cluster.expect_inactive("check", "is unknown").await;
        cluster.apply(&right);
        cluster.expect_active("check").await;
    });
}

#[test]
fn quota_is_kept_between_attempts_if_the_option_is_set() {
    let keep = config(
        &json!({"retryStrategy": {"backoffBaseSeconds": 60}}),
        &json!({"after-failure": "KeepQuota"}),
    );
    simulation(&keep).run(async |cluster| {
        let first = submitted(cluster).await;
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        cluster
            .expect_message("train", "the next attempt begins at")
            .await;
        cluster.advance(Duration::from_secs(50)).await;
        assert!(cluster.condition("train", "QuotaReserved"));
        assert_eq!(names(cluster), std::slice::from_ref(&first));
        let second = requested(cluster, "train", 2).await;
        cluster
            .expect("the failed one is gone", |cluster| {
                !names(cluster).contains(&first)
            })
            .await;
        admitted(cluster, &second).await;
        assert!(
            !cluster
                .server()
                .history()
                .iter()
                .any(|change| change.object["status"].to_string().contains("\"Retry\""))
        );
    });
}

#[test]
fn quota_is_released_during_the_backoff_if_the_option_is_set() {
    let give = config(
        &json!({"retryStrategy": {"backoffBaseSeconds": 300}}),
        &json!({"after-failure": "ReleaseQuota"}),
    );
    simulation(&give).quota(1).run(async |cluster| {
        let first = submitted(cluster).await;
        cluster.submit(Job::new("other"));
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        // The other job reserves the quota at once; with a delayed Retry it would take 5 min.
        let other = requested(cluster, "other", 1).await;
        set_condition(cluster, &other, "Provisioned", "True", "Provisioned");
        cluster.expect_admitted("other").await;
        assert!(!cluster.condition("train", "QuotaReserved"));
        cluster.complete("other");
        cluster.expect_message("train", "attempt 2 begins at").await;
        requested(cluster, "train", 2).await;
    });
}

#[test]
fn failures_for_want_of_capacity_do_not_burn_the_limit_where_they_are_counted_apart() {
    let apart = config(
        &json!({"retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 2, "backoffMaxSeconds": 4}}),
        &json!({"no-capacity-limit": "unlimited"}),
    );
    simulation(&apart).run(async |cluster| {
        cluster.submit(Job::new("train"));
        for attempt in 1..=5 {
            let request = requested(cluster, "train", attempt).await;
            let at = "2026-11-21T09:00:00Z";
            status_is(cluster, &request, &json!({"conditions": [{"type": "Failed", "status": "True", "reason": "CapacityIsNotFound", "message": "dry", "lastTransitionTime": at}]}));
        }
        let last = requested(cluster, "train", 6).await;
        cluster.expect("only the last is left", |cluster| names(cluster) == [last.clone()]).await;
        set_condition(cluster, &last, "Failed", "True", "an error, once");
        cluster.expect_deactivated("train").await;
        no_requests(cluster).await;
    });
}

#[test]
fn a_rejected_create_is_reported_and_retried() {
    // 101 parameters exceed the limit by one.
    let many: serde_json::Map<String, Value> = (0..100)
        .map(|n| (format!("p{n}"), json!("x".repeat(255))))
        .collect();
    simulation(&config(&json!({"parameters": many}), &json!({}))).run(async |cluster| {
        cluster.submit(Job::new("fits"));
        requested(cluster, "fits", 1).await;
        cluster.submit(Job::new("train").annotation("provreq.kueue.x-k8s.io/more", "1"));
        cluster
            .expect_message("train", "Error creating ProvisioningRequest \"")
            .await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        cluster.advance(Duration::from_secs(5)).await;
        assert!(
            events(cluster, "FailedCreate")[0].starts_with("Error creating ProvisioningRequest \"")
        );
        // The user removes the invalid annotation.
        let workload = cluster.workload("train").unwrap();
        cluster.merge(
            &*workload,
            &json!({"metadata": {"annotations": {"provreq.kueue.x-k8s.io/more": null}}}),
        );
        requested(cluster, "train", 1).await;
        cluster
            .expect("the old words are over", |cluster| {
                cluster.message("train").is_empty()
            })
            .await;
    });
}

#[test]
fn a_name_of_another_owner_is_reported() {
    simulation(&retries(1)).run(async |cluster| {
        let workload = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "wl", "namespace": "default"}, "spec": {
            "queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}}],
        }});
        let squatter = json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": "wl-check-1", "namespace": "default"},
            "spec": {"provisioningClassName": "x", "podSets": [{"count": 1, "podTemplateRef": {"name": "x"}}]}});
        cluster.apply(&squatter);
        cluster.apply(&workload);
        cluster.expect_message("wl", "Error creating ProvisioningRequest \"wl-check-1\": ").await;
        cluster.delete(&squatter);
        let ours = |cluster: &Cluster| requests(cluster).iter().any(|request| request["spec"]["provisioningClassName"] == CLASS);
        cluster.expect("it is created", ours).await;
    });
}

#[test]
fn a_restart_at_any_moment_creates_nothing_twice() {
    for moment in 0..40 {
        simulation(&retries(1)).run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.advance(Duration::from_millis(moment * 25)).await;
            cluster.crash(0);
            let first = requested(cluster, "train", 1).await;
            cluster.advance(Duration::from_secs(5)).await;
            set_condition(cluster, &first, "Failed", "True", "no nodes");
            cluster.advance(Duration::from_millis(moment * 100)).await;
            cluster.crash(0);
            let second = requested(cluster, "train", 2).await;
            cluster.advance(Duration::from_secs(5)).await;
            admitted(cluster, &second).await;
            assert_eq!(created(cluster, "provisioningrequests"), [first, second]);
            cluster.complete("train");
            no_requests(cluster).await;
            cluster
                .expect("no template is left", |cluster| {
                    templates(cluster).is_empty()
                })
                .await;
        });
    }
}

/// Returns a Workload of an elastic job with `pods` pods. An existing object of the cluster stands
/// in for the job.
fn slice(cluster: &Cluster, name: &str, pods: u32, replaces: Option<&str>) -> Value {
    let queues = Resource::new("kueue.x-k8s.io", "v1beta2", "localqueues");
    let job = cluster
        .server()
        .object(&queues, "default", "queue")
        .unwrap();
    let mut annotations = json!({"kueue.x-k8s.io/elastic-job": "true"});
    if let Some(replaces) = replaces {
        let key = "kueue.x-k8s.io/workload-slice-replacement-for";
        annotations[key] = format!("default/{replaces}").into();
    }
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations,
            "ownerReferences": [{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                "name": "queue", "uid": job["metadata"]["uid"], "controller": true}]},
        "spec": {"queueName": "queue", "podSets": [{"name": "main", "count": pods, "template": {"spec": {
            "restartPolicy": "Never", "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}}]},
    })
}

/// Finishes a Workload as Kueue does: because a growth has replaced it, or because the job has
/// ended.
fn finish(cluster: &Cluster, name: &str, reason: &str) {
    let mut status = cluster.workload(name).unwrap()["status"].clone();
    let conditions = status["conditions"].as_array_mut().unwrap();
    conditions.push(
        json!({"type": "Finished", "status": "True", "reason": reason, "message": "",
        "lastTransitionTime": "2026-11-21T09:00:00Z"}),
    );
    let resource = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
    let call = ApiRequest::new(Verb::Patch(Patch::Merge), &resource)
        .namespace("default")
        .name(name)
        .subresource("status")
        .agent("kueue")
        .body(json!({"status": {"conditions": status["conditions"]}}));
    let response = cluster.server().call(&call);
    assert_eq!(response.code, 200, "{}", response.body);
}

#[test]
fn a_growth_requests_its_increase_and_keeps_the_request_of_what_runs() {
    simulation(&retries(1)).run(async |cluster| {
        cluster.apply(&slice(cluster, "el-1", 2, None));
        let first = requested(cluster, "el-1", 1).await;
        set_condition(cluster, &first, "Provisioned", "True", "");
        let admitted =
            |name: &'static str| move |cluster: &Cluster| is_true(cluster, name, "Admitted");
        cluster.expect("el-1 runs", admitted("el-1")).await;

        cluster.apply(&slice(cluster, "el-2", 5, Some("el-1")));
        finish(cluster, "el-1", "WorkloadSliceReplaced");
        let second = requested(cluster, "el-2", 1).await;
        let count = |request: &str| {
            let all = requests(cluster);
            let request = all
                .iter()
                .find(|object| object["metadata"]["name"] == request);
            request.unwrap()["spec"]["podSets"][0]["count"].clone()
        };
        assert_eq!((count(&first), count(&second)), (json!(2), json!(3)));
        set_condition(cluster, &second, "Provisioned", "True", "");
        cluster.expect("el-2 runs", admitted("el-2")).await;
        cluster.advance(Duration::from_secs(600)).await;
        assert_eq!(names(cluster), [first, second], "all pods run");

        finish(cluster, "el-2", "Succeeded");
        no_requests(cluster).await;
    });
}

fn is_true(cluster: &Cluster, name: &str, kind: &str) -> bool {
    let workload = cluster.workload(name);
    let conditions = workload.map(|workload| workload["status"]["conditions"].clone());
    let conditions = conditions.and_then(|conditions| conditions.as_array().cloned());
    conditions
        .unwrap_or_default()
        .iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}
