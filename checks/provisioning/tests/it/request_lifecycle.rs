//! The lifecycle of a request, as in Kueue's own integration tests.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_provisioning::{CONTROLLER_NAME, KUEUES_CONTROLLER_NAME};
use kueue_check_sim::apiserver::Resource;
use kueue_check_sim::{Cluster, Job};
use serde_json::json;

use crate::harness::*;

#[test]
fn a_request_is_created_followed_and_consumed() {
    simulation(&config(&json!({"parameters": {"p1": "v1"}}), &json!({}))).run(async |cluster| {
        let job = Job::new("train").pods(3).annotation("provreq.kueue.x-k8s.io/ValidUntilSeconds", "0");
        cluster.submit(job);
        let name = requested(cluster, "train", 1).await;
        cluster.advance(Duration::from_secs(2)).await;
        let request = &requests(cluster)[0];
        let template = format!("ppt-{name}-main");
        assert_eq!(
            request["spec"],
            json!({"provisioningClassName": CLASS, "parameters": {"p1": "v1", "ValidUntilSeconds": "0"},
                   "podSets": [{"count": 3, "podTemplateRef": {"name": template}}]}),
        );
        let templates = templates(cluster);
        assert_eq!((templates.len(), &templates[0]["metadata"]["name"]), (1, &json!(template)));
        assert_eq!(templates[0]["metadata"]["ownerReferences"][0]["kind"], "Workload");
        assert_eq!(request["metadata"]["ownerReferences"][0]["uid"], templates[0]["metadata"]["uid"]);
        assert_eq!(events(cluster, "ProvisioningRequestCreated"), [format!("Created ProvisioningRequest: \"{name}\"")]);

        set_condition(cluster, &name, "Accepted", "True", "accepted");
        set_condition(cluster, &name, "Provisioned", "False", "Not provisioned, ETA: 2024-02-22T10:36:40Z.");
        cluster.expect_message("train", "Not provisioned, ETA").await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        admitted(cluster, &name).await;
        let entry = entry(cluster, "train");
        let annotations = json!({"autoscaling.x-k8s.io/consume-provisioning-request": name, "autoscaling.x-k8s.io/provisioning-class-name": CLASS});
        assert_eq!(entry["podSetUpdates"], json!([{"name": "main", "annotations": annotations}]));
        let changed = "Admission check check updated state from Pending to Ready with message: Provisioned";
        assert_eq!(events(cluster, "AdmissionCheckUpdated"), [changed]);

        cluster.complete("train");
        no_requests(cluster).await;
        cluster.expect("the template went with it", |cluster| crate::harness::templates(cluster).is_empty()).await;
        assert_eq!(cluster.state("train"), Some(CheckState::Ready));
    });
}

#[test]
fn nothing_is_created_before_quota_is_reserved() {
    simulation(&retries(1)).quota(1).run(async |cluster| {
        cluster.submit(Job::new("large").cpus(2));
        cluster.advance(Duration::from_secs(60)).await;
        assert!(requests(cluster).is_empty());
    });
}

#[test]
fn a_request_is_kept_when_quota_is_lost_without_eviction_and_used_again() {
    simulation(&retries(1)).run(async |cluster| {
        let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}});
        let request = submitted(cluster).await;
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
        cluster.expect_without_quota("train").await;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(names(cluster), std::slice::from_ref(&request));
        set_condition(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
        cluster.expect_admitted("train").await;
        assert_eq!(created(cluster, "provisioningrequests"), [request]);
    });
}

/// The eviction by a Retry came before the reservation for which the request was created.
#[test]
fn a_request_that_is_used_again_after_a_retry_stays_while_its_job_runs() {
    simulation(&retries(1)).run(async |cluster| {
        let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}});
        let first = submitted(cluster).await;
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        let second = requested(cluster, "train", 2).await;
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
        cluster.expect_without_quota("train").await;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
        admitted(cluster, &second).await;
        cluster.advance(Duration::from_secs(20 * 60)).await;
        assert_eq!(names(cluster), std::slice::from_ref(&second), "leftover requests were looked for");
        cluster.crash(0);
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(names(cluster), std::slice::from_ref(&second), "and by another process");
        assert_eq!(created(cluster, "provisioningrequests"), [first, second]);
    });
}

/// The reservation that lost its quota was followed by another one, and that by an eviction.
#[test]
fn a_request_that_was_used_again_and_failed_does_not_take_the_next_one_with_it() {
    simulation(&retries(1)).run(async |cluster| {
        let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}});
        let first = submitted(cluster).await;
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
        cluster.expect_without_quota("train").await;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
        let again = |cluster: &Cluster| cluster.condition("train", "QuotaReserved");
        cluster.expect("quota is reserved again", again).await;
        cluster.advance(Duration::from_secs(5)).await;
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        let second = requested(cluster, "train", 2).await;
        admitted(cluster, &second).await;
        cluster.advance(Duration::from_secs(20 * 60)).await;
        assert_eq!(names(cluster), std::slice::from_ref(&second));
        assert_eq!(created(cluster, "provisioningrequests"), [first, second]);
    });
}

/// A process under Kueue's name finds a request that Kueue's own check created after a Retry.
#[test]
fn a_request_that_kueue_made_after_an_eviction_is_taken_over() {
    trial_as(KUEUES_CONTROLLER_NAME, &retries(1)).run(async |cluster| {
        let first = submitted(cluster).await;
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        let second = requested(cluster, "train", 2).await;
        cluster.advance(Duration::from_secs(2)).await;
        // As Kueue's own check would have created it.
        let workload = cluster.workload("train").unwrap()["metadata"].clone();
        let owner = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": workload["name"], "uid": workload["uid"], "controller": true});
        let request = requests(cluster)[0].clone();
        assert_eq!(request["metadata"]["name"], second);
        cluster.merge(&request, &json!({"metadata": {"annotations": null, "ownerReferences": [owner]}}));
        cluster.crash(0);
        cluster.advance(Duration::from_secs(60)).await;
        let all = requests(cluster);
        assert_eq!(names(cluster), std::slice::from_ref(&second));
        assert_eq!(all[0]["metadata"]["uid"], request["metadata"]["uid"]);
        assert_eq!(all[0]["metadata"].get("annotations"), None);
        admitted(cluster, &second).await;
    });
}

#[test]
fn a_kept_request_does_not_stay_when_its_workload_is_deactivated_without_quota() {
    simulation(&retries(1)).run(async |cluster| {
        let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}});
        submitted(cluster).await;
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
        cluster.expect_without_quota("train").await;
        cluster.merge_workload("train", &json!({"spec": {"active": false}}));
        cluster.advance(Duration::from_secs(20 * 60)).await;
        assert!(requests(cluster).is_empty(), "it was looked for");
    });
}

#[test]
fn requests_go_when_the_workload_is_evicted() {
    simulation(&retries(1)).run(async |cluster| {
        submitted(cluster).await;
        cluster.merge_workload("train", &json!({"spec": {"active": false}}));
        no_requests(cluster).await;
        cluster.advance(Duration::from_secs(60)).await;
        assert!(templates(cluster).is_empty());
    });
}

#[test]
fn revoked_capacity_deactivates_before_and_after_admission() {
    for is_admitted in [true, false] {
        simulation(&retries(1)).run(async |cluster| {
            let request = submitted(cluster).await;
            if is_admitted {
                admitted(cluster, &request).await;
            }
            set_condition(cluster, &request, "CapacityRevoked", "True", "gone");
            cluster.expect_deactivated("train").await;
            no_requests(cluster).await;
            let changed = events(cluster, "AdmissionCheckUpdated");
            assert!(
                changed
                    .last()
                    .unwrap()
                    .ends_with("to Rejected with message: gone"),
                "{changed:?}"
            );
        });
    }
}

#[test]
fn an_expired_booking_is_ignored_after_admission() {
    simulation(&retries(0)).run(async |cluster| {
        let request = submitted(cluster).await;
        admitted(cluster, &request).await;
        set_condition(cluster, &request, "BookingExpired", "True", "booking gone");
        cluster.advance(Duration::from_secs(60)).await;
        assert!(cluster.is_admitted("train"));
        assert_eq!(cluster.state("train"), Some(CheckState::Ready));
    });
}

#[test]
fn a_running_job_goes_on_when_its_request_is_deleted() {
    simulation(&retries(1)).run(async |cluster| {
        let request = submitted(cluster).await;
        admitted(cluster, &request).await;
        cluster.delete(&requests(cluster)[0]);
        cluster.advance(Duration::from_secs(60)).await;
        assert!(cluster.is_admitted("train") && requests(cluster).is_empty());
        assert_eq!(cluster.state("train"), Some(CheckState::Ready));
    });
}

#[test]
fn a_pending_request_that_a_user_deletes_is_created_again() {
    simulation(&retries(1)).run(async |cluster| {
        let request = submitted(cluster).await;
        cluster.delete(&requests(cluster)[0]);
        requested(cluster, "train", 1).await;
        assert_eq!(
            created(cluster, "provisioningrequests"),
            [request.clone(), request]
        );
    });
}

#[test]
fn the_check_is_ready_where_no_managed_resource_is_used() {
    let config = config(&json!({"managedResources": ["nvidia.com/gpu"]}), &json!({}));
    simulation(&config).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_admitted("train").await;
        assert_eq!(
            cluster.message("train"),
            "the provisioning request is not needed"
        );
        assert!(created(cluster, "provisioningrequests").is_empty());
    });
}

#[test]
fn a_change_of_class_or_parameters_makes_a_request_anew_under_the_same_number() {
    simulation(&config(&json!({"parameters": {"p1": "v1"}}), &json!({}))).run(async |cluster| {
        let object = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig", "metadata": {"name": "config"}});
        let request = submitted(cluster).await;
        for (spec, field, value) in [
            (json!({"provisioningClassName": "class2"}), "/spec/provisioningClassName", "class2"),
            (json!({"parameters": {"p1": "v2"}}), "/spec/parameters/p1", "v2"),
        ] {
            cluster.merge(&object, &json!({"spec": spec}));
            let changed = |cluster: &kueue_check_sim::Cluster| {
                let all = requests(cluster);
                all.len() == 1 && all[0].pointer(field) == Some(&json!(value))
            };
            cluster.expect("the request is another one", changed).await;
            assert_eq!(names(cluster), std::slice::from_ref(&request));
            let owner = requests(cluster)[0]["metadata"]["ownerReferences"][0]["uid"].clone();
            assert_eq!(owner, templates(cluster)[0]["metadata"]["uid"]);
        }
        // A field that a request does not contain causes no new request.
        cluster.merge(&object, &json!({"spec": {"retryStrategy": {"backoffLimitCount": 7}}}));
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(created(cluster, "provisioningrequests").len(), 3);
        admitted(cluster, &request).await;
        // A running job keeps its request.
        cluster.merge(&object, &json!({"spec": {"parameters": {"p1": "v3"}}}));
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(names(cluster), std::slice::from_ref(&request));
        assert_eq!(cluster.state("train"), Some(CheckState::Ready));
        cluster.complete("train");
        no_requests(cluster).await;
    });
}

#[test]
fn node_selectors_have_the_values_of_the_provider() {
    let rules = json!({"podSetUpdates": {"nodeSelector": [
        {"key": "pool", "valueFromProvisioningClassDetail": "NodePoolName"}, {"key": "rack", "valueFromProvisioningClassDetail": "Rack"},
    ]}});
    simulation(&config(&rules, &json!({}))).run(async |cluster| {
        let request = submitted(cluster).await;
        status_is(
            cluster,
            &request,
            &json!({"provisioningClassDetails": {"NodePoolName": "p-1"}}),
        );
        set_condition(cluster, &request, "Provisioned", "True", "");
        cluster.expect_admitted("train").await;
        let update = &entry(cluster, "train")["podSetUpdates"][0];
        assert_eq!(
            update["nodeSelector"],
            json!({"pool": "p-1"}),
            "a missing detail is left out"
        );
        assert_eq!(update["annotations"].as_object().unwrap().len(), 2);
    });
}

/// Kueue's own check runs in every Kueue that finds the autoscaler's definitions. It deletes
/// requests whose owner has the name of a Workload, because it treats them as its own. With a real
/// 0.19.2, each request of this check was deleted a moment after its creation, again and again.
#[test]
fn kueues_own_check_leaves_the_requests_alone() {
    simulation(&retries(1)).run(async |cluster| {
        let request = submitted(cluster).await;
        set_condition(cluster, &request, "Accepted", "True", "accepted");
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(created(cluster, "provisioningrequests"), [request]);
    });
}

/// For example Kueue's own check, which may run beside this one, or this one under another name.
#[test]
fn requests_of_other_controllers_are_left_alone() {
    simulation(&retries(1)).run(async |cluster| {
        let pods = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        cluster.apply(&json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "wl", "namespace": "default"},
            "spec": {"queueName": "elsewhere", "podSets": [{"name": "main", "count": 1, "template": pods}]}}));
        let uid = cluster.workload("wl").unwrap()["metadata"]["uid"].clone();
        let owner = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "wl", "uid": uid, "controller": true});
        let marked = json!({"provisioning.kueue-check.dev/controller-name": "example.com/other", "provisioning.kueue-check.dev/admission-check": "other",
            "provisioning.kueue-check.dev/attempt": "1"});
        for (name, annotations) in [("wl-other-1", marked), ("wl-kueues-1", json!({}))] {
            cluster.apply(&json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
                "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/managed": "true"}, "annotations": annotations, "ownerReferences": [owner]},
                "spec": {"provisioningClassName": CLASS, "podSets": [{"count": 1, "podTemplateRef": {"name": "x"}}]}}));
        }
        // A process that starts scans for leftover requests.
        cluster.crash(0);
        cluster.advance(Duration::from_secs(1200)).await;
        assert_eq!(names(cluster), ["wl-kueues-1", "wl-other-1"]);
    });
}

/// A user who may create requests in another namespace and has a Workload's UID cannot affect it.
#[test]
fn a_request_in_another_namespace_is_not_the_workloads() {
    simulation(&retries(1)).run(async |cluster| {
        let own = submitted(cluster).await;
        let workload = cluster.workload("train").unwrap();
        let marks = json!({"provisioning.kueue-check.dev/workload-uid": workload["metadata"]["uid"],
            "provisioning.kueue-check.dev/workload": workload["metadata"]["name"], "provisioning.kueue-check.dev/admission-check": "check",
            "provisioning.kueue-check.dev/controller-name": CONTROLLER_NAME, "provisioning.kueue-check.dev/attempt": "9"});
        cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}));
        let forged = json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": {"name": "forged", "namespace": "elsewhere", "labels": {"kueue.x-k8s.io/managed": "true"}, "annotations": marks},
            "spec": {"provisioningClassName": CLASS, "parameters": {}, "podSets": [{"count": 1, "podTemplateRef": {"name": "x"}}]}});
        let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x", "namespace": "elsewhere", "labels": {"kueue.x-k8s.io/managed": "true"}},
            "template": {"spec": {"containers": []}}});
        cluster.apply(&template);
        cluster.apply(&forged);
        let before = (requests(cluster)[0].clone(), templates(cluster).len());
        cluster.advance(Duration::from_secs(60)).await;
        // A new process finds what the one before has left.
        cluster.crash(0);
        cluster.advance(Duration::from_secs(120)).await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        assert_eq!(names(cluster), [own.as_str()]);
        let after = (requests(cluster)[0].clone(), templates(cluster).len());
        let kind = Resource::new("", "v1", "podtemplates");
        let other = cluster.server().object(&kind, "elsewhere", "x");
        assert!(other.is_some(), "it is not this check's");
        assert_eq!((&after.0["metadata"]["uid"], after.1), (&before.0["metadata"]["uid"], before.1));
        admitted(cluster, &own).await;
    });
}

/// Creates a request for a job with the annotations of its check, for `count` pods of a template.
fn forged(cluster: &Cluster, job: &str, (name, attempt): (&str, u32), count: u32, template: &str) {
    let workload = cluster.workload(job).unwrap();
    let marks = json!({"provisioning.kueue-check.dev/workload-uid": workload["metadata"]["uid"],
        "provisioning.kueue-check.dev/workload": workload["metadata"]["name"], "provisioning.kueue-check.dev/controller-name": CONTROLLER_NAME,
        "provisioning.kueue-check.dev/admission-check": "check", "provisioning.kueue-check.dev/attempt": attempt.to_string()});
    cluster.apply(&json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/managed": "true"}, "annotations": marks},
        "spec": {"provisioningClassName": CLASS, "parameters": {}, "podSets": [{"count": count, "podTemplateRef": {"name": template}}]}}));
}

/// A user who may create requests in the Workload's namespace creates a small one, which is
/// provisioned.
#[test]
fn an_insufficient_request_is_deleted_and_the_sufficient_one_kept() {
    simulation(&retries(1)).run(async |cluster| {
        cluster.submit(Job::new("train").pods(4));
        let own = requested(cluster, "train", 1).await;
        cluster.advance(Duration::from_secs(2)).await;
        let template = format!("ppt-{own}-main");
        for (attempt, crashes) in [(9, false), (10, true)] {
            forged(cluster, "train", ("small", attempt), 1, &template);
            set_condition(cluster, "small", "Provisioned", "True", "Provisioned");
            if crashes {
                // A new process compares the valid request too.
                cluster.crash(0);
            }
            cluster.advance(Duration::from_secs(30)).await;
            assert_eq!(cluster.state("train"), Some(CheckState::Pending));
            assert_eq!(names(cluster), [own.as_str()]);
            assert_eq!(templates(cluster).len(), 1, "its template is still there");
        }
        let note = "Deleted ProvisioningRequest \"small\", which requests less than the Workload needs: of 4 pods like those of pod set \"main\" it has 1";
        assert!(events(cluster, "InsufficientRequest").iter().all(|text| text == note));
        assert!(!events(cluster, "InsufficientRequest").is_empty());
        admitted(cluster, &own).await;
        // A later one does not count either, whatever its outcome is.
        forged(cluster, "train", ("small", 11), 1, &template);
        set_condition(cluster, "small", "CapacityRevoked", "True", "gone");
        cluster.advance(Duration::from_secs(30)).await;
        assert!(cluster.is_admitted("train"));
        assert_eq!(names(cluster), [own.as_str()]);
    });
}

/// The request exists before the check creates its own, under the same name.
#[test]
fn a_request_that_was_made_before_the_true_one_is_replaced() {
    simulation(&retries(1)).quota(4).run(async |cluster| {
        cluster.submit(Job::new("first").pods(4));
        let first = requested(cluster, "first", 1).await;
        set_condition(cluster, &first, "Provisioned", "True", "Provisioned");
        cluster.expect_admitted("first").await;
        cluster.submit(Job::new("train").pods(4));
        let waits = |cluster: &Cluster| cluster.workload("train").is_some();
        cluster.expect("the job is queued", waits).await;
        let name = request_of(cluster, "train", 1);
        let tiny = json!({"spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1m"}}}]}});
        cluster.apply(&json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "tiny", "namespace": "default"}, "template": tiny}));
        forged(cluster, "train", (&name, 1), 4, "tiny");
        set_condition(cluster, &name, "Provisioned", "True", "Provisioned");
        cluster.complete("first");
        let replaced = |cluster: &Cluster| !events(cluster, "InsufficientRequest").is_empty();
        cluster.expect("the request is found out", replaced).await;
        requested(cluster, "train", 1).await;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        assert_eq!(pods_of(cluster, &name), 4);
        let all = requests(cluster);
        assert_eq!(all[0]["spec"]["podSets"][0]["podTemplateRef"]["name"], format!("ppt-{name}-main"));
        admitted(cluster, &name).await;
    });
}
