//! Jobs that run, end, change and move.

use kueue_check_apiserver::Resource;
use kueue_check_kueue_model::jobs;
use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use crate::kueue::cluster::{Cluster, groups, in_virtual_time, pod_set, with};
use crate::kueue::versions::switch;

fn on_cluster(scenario: impl AsyncFnOnce(&Cluster)) {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("4", &[], &json!({}));
        scenario(&cluster).await;
    });
}

fn job(cluster: &Cluster, name: &str) -> Value {
    let jobs = Resource::new("batch", "v1", "jobs");
    cluster.server.get(&jobs, "t", name).unwrap()
}

#[test]
fn a_started_job_has_its_pods_and_a_stopped_one_none() {
    on_cluster(async |cluster| {
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        assert_eq!(job(cluster, "a")["status"]["ready"], 1);
        assert_eq!(cluster.condition("a", "PodsReady")["reason"], "Started");
        let stop = json!({"spec": {"stopPolicy": "HoldAndDrain"}});
        cluster.merge("clusterqueues", "", "cq", "", &stop);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:EW");
        assert_eq!(job(cluster, "a")["status"]["active"], 0);
        assert_eq!(job(cluster, "a")["spec"]["suspend"], true);
        assert_eq!(
            cluster.condition("a", "PodsReady")["reason"],
            "WaitForStart"
        );
    });
}

#[test]
fn a_job_ends_well_or_badly() {
    on_cluster(async |cluster| {
        for name in ["good", "bad"] {
            cluster.job(name, "1", None);
        }
        cluster.pass(1.0).await;
        assert_eq!(jobs::finish(&cluster.server, "t", "good").code, 200);
        assert_eq!(jobs::fail(&cluster.server, "t", "bad").code, 200);
        assert_eq!(jobs::finish(&cluster.server, "t", "nobody").code, 404);
        cluster.pass(1.0).await;
        assert_eq!(cluster.condition("good", "Finished")["reason"], "Succeeded");
        assert_eq!(cluster.condition("bad", "Finished")["reason"], "Failed");
        assert_eq!(cluster.line(), "bad:RAF good:RAF");
        assert_eq!(cluster.get("good")["metadata"]["finalizers"], Value::Null);
        assert_eq!(cluster.notes("FinishedWorkload").len(), 2);
    });
}

#[test]
fn a_job_that_is_evicted_before_its_start_has_as_many_pods_as_its_workload() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("4", &["c"], &json!({}));
        let annotations = json!({"kueue.x-k8s.io/job-min-parallelism": "1"});
        let spec = json!({"parallelism": 2, "completions": 2});
        cluster.job_of("a", &json!({"annotations": annotations}), &spec);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:R(c=Pending)");
        cluster.merge("jobs", "t", "a", "", &json!({"spec": {"parallelism": 4}}));
        cluster.pass(1.0).await;
        assert_eq!(job(&cluster, "a")["spec"]["parallelism"], 4);
        let name = cluster.name_of("a");
        cluster.merge(
            "workloads",
            "t",
            &name,
            "",
            &json!({"spec": {"active": false}}),
        );
        cluster.pass(1.0).await;
        assert_eq!(job(&cluster, "a")["spec"]["parallelism"], 2);
    });
}

#[test]
fn a_job_waits_for_its_priority_class() {
    on_cluster(async |cluster| {
        let class = |name: &str, value: i64, is_default: bool| {
            json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value, "globalDefault": is_default,
            })
        };
        let of_pods = |name: &str, class: &str| {
            let mut template = pod_set("main", 1, "1")["template"].clone();
            template["spec"]["priorityClassName"] = json!(class);
            cluster.job_of(name, &json!({}), &json!({"template": template}));
        };
        cluster.job("a", "1", Some("late"));
        of_pods("b", "late");
        of_pods("c", "system-cluster-critical");
        cluster.job("d", "1", None);
        cluster.pass(3.0).await;
        let spec = |name: &str| cluster.get(name)["spec"].clone();
        assert_eq!(cluster.line(), "c:RA d:RA");
        assert_eq!(spec("c")["priority"], 2_000_000_000);
        assert_eq!(spec("c")["priorityClassRef"]["kind"], "PriorityClass");
        assert_eq!(spec("d")["priority"], 0);
        assert_eq!(spec("d")["priorityClassRef"], Value::Null);
        cluster.class("late", 7);
        cluster.create(&class("late", 3, false));
        cluster.create(&class("usual", 5, true));
        cluster.job("e", "1", None);
        cluster.pass(6.0).await;
        let priority = |name: &str| spec(name)["priority"].clone();
        assert_eq!(
            ["a", "b", "d", "e"].map(priority),
            [7, 3, 0, 5].map(Value::from)
        );
        assert_eq!(
            spec("a")["priorityClassRef"]["kind"],
            "WorkloadPriorityClass"
        );
        assert_eq!(spec("e")["priorityClassRef"]["name"], "usual");
    });
}

#[test]
fn a_job_without_a_queue_is_in_the_default_queue_if_there_is_one() {
    on_cluster(async |cluster| {
        let create = |name: &str, labels: Value| {
            cluster.create(&json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": name, "namespace": "t", "labels": labels},
                "spec": {"template": pod_set("main", 1, "1")["template"]},
            }));
        };
        create("early", json!({}));
        cluster.create(&json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
            "metadata": {"name": "default", "namespace": "t"},
            "spec": {"clusterQueue": "cq", "stopPolicy": "Hold"},
        }));
        create("held", json!({}));
        let go = json!({"spec": {"stopPolicy": "None"}});
        cluster.merge("localqueues", "t", "default", "", &go);
        create("a", json!({}));
        create("b", json!({"kueue.x-k8s.io/queue-name": "lq"}));
        cluster.pass(1.0).await;
        let label =
            |object: &Value| object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"].clone();
        let queue = |name: &str| label(&job(cluster, name));
        assert_eq!(
            ["a", "b", "early", "held"].map(queue),
            [json!("default"), json!("lq"), Value::Null, Value::Null]
        );
        assert_eq!(cluster.get("a")["spec"]["queueName"], "default");
        assert_eq!(job(cluster, "early")["spec"]["suspend"], false);
        // One that Kueue may manage through its controller stays out of it, whether it does or not.
        let owned = |name: &str, version: &str, kind: &str| {
            let owner = job(cluster, "early")["metadata"]["uid"].clone();
            let owner = json!({"apiVersion": version, "kind": kind, "name": "early", "uid": owner, "controller": true});
            let metadata = json!({"name": name, "namespace": "t", "ownerReferences": [owner]});
            let template = pod_set("main", 1, "1")["template"].clone();
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": &template}});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
            [job, pod].map(|object| label(&cluster.try_create(&object).body))
        };
        let default = || json!("default");
        assert_eq!(owned("c", "batch/v1", "CronJob"), [default(), default()]);
        assert_eq!(
            owned("d", "jobset.x-k8s.io/v1alpha2", "JobSet"),
            [Value::Null, default()]
        );
        assert_eq!(owned("e", "batch/v1", "Job"), [Value::Null, default()]);
    });
}

#[test]
fn another_class_is_another_priority() {
    on_cluster(async |cluster| {
        for (name, value) in [("low", 1), ("high", 9)] {
            cluster.class(name, value);
        }
        cluster.job("holder", "4", None);
        cluster.pass(1.0).await;
        cluster.job("a", "4", Some("low"));
        cluster.job("b", "4", Some("low"));
        cluster.pass(1.0).await;
        assert_eq!(cluster.get("b")["spec"]["priority"], 1);
        let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}});
        cluster.merge("jobs", "t", "b", "", &label);
        cluster.pass(1.0).await;
        assert_eq!(cluster.get("b")["spec"]["priority"], 9);
        let note = format!(
            "Updated workload priority class: t/{}",
            cluster.name_of("b")
        );
        assert_eq!(cluster.notes("UpdatedWorkload"), [note]);
        jobs::finish(&cluster.server, "t", "holder");
        cluster.pass(2.0).await;
        assert_eq!(cluster.line(), "a: b:RA holder:RAF");
    });
}

#[test]
fn a_suspended_job_takes_its_workload_along_when_it_changes() {
    on_cluster(async |cluster| {
        let hold = json!({"spec": {"stopPolicy": "Hold"}});
        cluster.merge("clusterqueues", "", "cq", "", &hold);
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        cluster.merge(
            "jobs",
            "t",
            "a",
            "",
            &json!({"spec": {"parallelism": 3, "completions": 3}}),
        );
        cluster.pass(1.0).await;
        assert_eq!(cluster.get("a")["spec"]["podSets"][0]["count"], 3);
        let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}});
        cluster.merge("jobs", "t", "a", "", &label);
        cluster.pass(1.0).await;
        assert_eq!(cluster.get("a")["spec"]["queueName"], "other");
        assert_eq!(
            cluster.condition("a", "QuotaReserved")["message"],
            "LocalQueue other doesn't exist"
        );
    });
}

/// A Job of one Pod with `cpus`, which is scaled to two Pods and changed, gets another Workload.
async fn replaces_its_workload(cluster: &Cluster, cpus: &str, change: &Value) {
    cluster.job("a", cpus, None);
    cluster.pass(1.0).await;
    let before = cluster.get("a")["metadata"]["uid"].clone();
    let spec = json!({"parallelism": 2, "completions": 2});
    let change = json!({"spec": with(spec, change)});
    assert_eq!(cluster.merge("jobs", "t", "a", "", &change).code, 200);
    cluster.pass(1.0).await;
    let after = cluster.get("a");
    assert_ne!(after["metadata"]["uid"], before);
    assert_eq!(after["spec"]["podSets"][0]["count"], 2);
    assert_eq!(cluster.notes("DeletedWorkload").len(), 1);
}

#[test]
fn with_quota_a_workload_that_does_not_match_is_replaced() {
    on_cluster(async |cluster| {
        replaces_its_workload(cluster, "1", &json!({})).await;
        assert_eq!(cluster.line(), "a:RA");
    });
}

#[test]
fn a_finished_workload_that_does_not_match_its_job_is_replaced() {
    on_cluster(async |cluster| {
        let spec = json!({"completions": 2, "parallelism": 1});
        cluster.job_of("a", &json!({}), &spec);
        cluster.pass(1.0).await;
        cluster.finish("a");
        cluster.pass(1.0).await;
        assert_eq!(cluster.condition("a", "Finished")["reason"], "Succeeded");
        let larger = json!({"spec": {"parallelism": 2}});
        assert_eq!(cluster.merge("jobs", "t", "a", "", &larger).code, 200);
        cluster.pass(1.0).await;
        assert_eq!(cluster.notes("DeletedWorkload").len(), 1);
        assert_eq!(cluster.line(), "");
    });
}

#[test]
fn a_waiting_job_that_is_started_and_scaled_gets_another_workload() {
    on_cluster(async |cluster| {
        replaces_its_workload(cluster, "9", &json!({"suspend": false})).await;
        assert_eq!(job(cluster, "a")["spec"]["suspend"], true);
    });
}

/// While it waits for a check, a Job may have the tolerations that it gets at its start, or those
/// that it was created with.
#[test]
fn a_waiting_job_with_the_tolerations_of_its_flavor_keeps_its_workload() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        let spot = json!({"key": "spot", "operator": "Exists"});
        let tolerations = json!({"spec": {"tolerations": [&spot]}});
        cluster.merge("resourceflavors", "", "default", "", &tolerations);
        cluster.queue("4", &["c"], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:R(c=Pending)");
        for (tolerated, replaced) in [
            (json!([spot]), 0),
            (json!([]), 0),
            (json!([{"key": "other", "operator": "Exists"}]), 1),
        ] {
            let template = json!({"spec": {"template": {"spec": {"tolerations": tolerated}}}});
            assert_eq!(cluster.merge("jobs", "t", "a", "", &template).code, 200);
            cluster.pass(1.0).await;
            assert_eq!(
                cluster.notes("DeletedWorkload").len(),
                replaced,
                "{tolerated}"
            );
        }
    });
}

/// A flavor that left its ClusterQueue may be deleted while a Workload has its quota.
#[test]
fn a_job_whose_flavor_is_deleted_starts_once_it_exists_again() {
    on_cluster(async |cluster| {
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        cluster.flavor("other", &json!({}));
        let spec = json!({"spec": {"resourceGroups": groups(&[("other", "4")])}});
        let response = cluster.merge("clusterqueues", "", "cq", "", &spec);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.delete("resourceflavors", "default");
        cluster.pass(1.0).await;
        let suspend = json!({"spec": {"suspend": true}});
        cluster.merge("jobs", "t", "a", "", &suspend);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA");
        assert_eq!(job(cluster, "a")["spec"]["suspend"], true);
        cluster.flavor("default", &json!({}));
        cluster.pass(3.0).await;
        assert_eq!(cluster.line(), "a:RA");
        assert_eq!(job(cluster, "a")["spec"]["suspend"], false);
    });
}

/// Kueue applies the condition `PodsReady` alone, with the time of the write (0.19.2, `PatchStatus`
/// in `pkg/workload/patching/patching.go`). A merge patch has the known time.
#[test]
fn another_reason_of_pods_ready_has_another_time() {
    let moved = switch(|v, on| v.merge_patches = on).off_and_on(async |cluster| {
        cluster.queue("4", &[], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        let ready = |ready: i64| {
            let status = json!({"status": {"active": ready, "ready": ready}});
            cluster.merge("jobs", "t", "a", "status", &status);
        };
        ready(1);
        cluster.pass(2.0).await;
        ready(0);
        cluster.pass(2.0).await;
        let before = cluster.condition("a", "PodsReady");
        let hold = json!({"spec": {"stopPolicy": "HoldAndDrain"}});
        cluster.merge("clusterqueues", "", "cq", "", &hold);
        cluster.pass(2.0).await;
        let after = cluster.condition("a", "PodsReady");
        assert_eq!(
            [&before["reason"], &after["reason"]],
            ["WaitForRecovery", "WaitForStart"]
        );
        before["lastTransitionTime"] != after["lastTransitionTime"]
    });
    assert_eq!(moved, [true, false]);
}

/// Each row has a change of the status of an Indexed Job of six Pods, four of them at once, and the
/// number of Pods that are done, before 0.19 and since.
#[test]
fn an_indexed_job_gives_back_the_pods_of_its_completed_and_failed_indexes() {
    let rows = [
        (json!({"succeeded": 3}), [1, 0]),
        (json!({"completedIndexes": "0-2"}), [1, 1]),
        (json!({"failedIndexes": "4,5"}), [1, 3]),
    ];
    let expected = [0, 1].map(|on| rows.iter().map(|(_, done)| done[on]).collect::<Vec<i64>>());
    let found = switch(|v, on| v.counts_indexes = on).off_and_on(async |cluster| {
        cluster.queue("4", &[], &json!({}));
        let spec = json!({
            "parallelism": 4, "completions": 6,
            "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        });
        cluster.job_of("a", &json!({}), &spec);
        cluster.pass(1.0).await;
        let mut found = Vec::new();
        for (status, _) in &rows {
            let status = json!({"status": status});
            assert_eq!(cluster.merge("jobs", "t", "a", "status", &status).code, 200);
            cluster.pass(1.0).await;
            let done = &cluster.get("a")["status"]["reclaimablePods"][0]["count"];
            found.push(done.as_i64().unwrap_or_default());
        }
        found
    });
    assert_eq!(found, expected);
}

#[test]
fn a_running_job_whose_workload_is_gone_is_stopped_with_its_template_as_it_is() {
    on_cluster(async |cluster| {
        let label = json!({"spec": {"nodeLabels": {"pool": "a"}}});
        cluster.merge("resourceflavors", "", "default", "", &label);
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        let name = cluster.name_of("a");
        let free = json!({"metadata": {"finalizers": null}});
        cluster.merge("workloads", "t", &name, "", &free);
        assert_eq!(cluster.delete("workloads", &name).code, 200);
        cluster.pass(2.0).await;
        let why = "Missing Workload; unable to restore pod templates";
        assert_eq!(cluster.notes("Stopped"), [why]);
        assert_eq!(cluster.notes("CreatedWorkload").len(), 2);
        assert_eq!(cluster.line(), "a:RA");
        let template = &cluster.get("a")["spec"]["podSets"][0]["template"];
        assert_eq!(template["spec"]["nodeSelector"], json!({"pool": "a"}));
        assert_eq!(job(cluster, "a")["spec"]["suspend"], false);
    });
}

#[test]
fn before_0_18_a_workload_that_is_being_deleted_is_deleted_again() {
    let outcome = switch(|v, on| v.deletes_once = on).off_and_on(async |cluster| {
        cluster.queue("4", &[], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        let name = cluster.name_of("a");
        let kept = "kueue.x-k8s.io/resource-in-use";
        let held = json!({"metadata": {"finalizers": [kept, "example.com/keep"]}});
        assert_eq!(cluster.merge("workloads", "t", &name, "", &held).code, 200);
        let larger = json!({"spec": {"parallelism": 2, "completions": 2}});
        assert_eq!(cluster.merge("jobs", "t", "a", "", &larger).code, 200);
        cluster.pass(1.0).await;
        assert_eq!(
            cluster.get("a")["metadata"]["finalizers"],
            json!(["example.com/keep"])
        );
        let changes = cluster.server.history().into_iter();
        let reports = changes.filter(|change| change.object["reason"] == "DeletedWorkload");
        reports.count() > 1
    });
    assert_eq!(outcome, [true, false]);
}
