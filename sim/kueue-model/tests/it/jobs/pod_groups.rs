//! Groups of plain Pods: one Workload with a pod set for each role.

use kueue_check_apiserver::Resource;
use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use crate::kueue::cluster::{Cluster, in_virtual_time, pod_set};
use crate::kueue::versions::switch;

const KUEUE: &str = "kueue.x-k8s.io";
/// Kueue's finalizer of a Workload.
const FINALIZER: &str = "kueue.x-k8s.io/resource-in-use";

/// Returns a Pod of the group `train` of three.
fn pod(name: &str, cpus: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "t",
            "labels": {format!("{KUEUE}/queue-name"): "lq", format!("{KUEUE}/pod-group-name"): "train"},
            "annotations": {format!("{KUEUE}/pod-group-total-count"): "3"},
        },
        "spec": pod_set("main", 1, cpus)["template"]["spec"],
    })
}

/// Runs a scenario on a cluster with a ClusterQueue with check `c`, nodes, and a group of a driver
/// and two workers.
fn on_cluster(scenario: impl AsyncFnOnce(&Cluster)) {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("8", &["c"], &json!({}));
        cluster.create(&pod("driver", "2"));
        cluster.create(&pod("worker-1", "1"));
        cluster.pass(1.0).await;
        assert_eq!(workload(&cluster), Value::Null, "one is missing");
        cluster.create(&pod("worker-2", "1"));
        cluster.pass(1.0).await;
        scenario(&cluster).await;
    });
}

fn workload(cluster: &Cluster) -> Value {
    let workloads = Resource::new(KUEUE, "v1beta2", "workloads");
    let found = cluster.server.get(&workloads, "t", "train");
    found.unwrap_or_default()
}

fn get(cluster: &Cluster, name: &str) -> Value {
    let pods = Resource::new("", "v1", "pods");
    cluster.server.get(&pods, "t", name).unwrap_or_default()
}

/// Returns the phases of the Pods by name, in parentheses for Pods that are being deleted.
fn phases(cluster: &Cluster) -> String {
    let pods = cluster
        .server
        .objects(&Resource::new("", "v1", "pods"), "t");
    let shown = pods.iter().map(|pod| {
        let metadata = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, phase) = (text(&metadata["name"]), text(&pod["status"]["phase"]));
        if metadata["deletionTimestamp"].is_null() {
            format!("{name}={phase}")
        } else {
            format!("({name}={phase})")
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn is_true(cluster: &Cluster, kind: &str) -> bool {
    let workload = workload(cluster);
    let mut conditions = workload["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions.any(|c| c["type"] == kind && c["status"] == "True")
}

fn set_verdict(cluster: &Cluster, state: &str, updates: &Value) {
    let mut fields = json!({"state": state, "podSetUpdates": updates});
    if state == "Retry" {
        fields["requeueAfterSeconds"] = json!(0);
    }
    let response = cluster.entry("train", "c", &fields);
    assert_eq!(response.code, 200, "{}", response.body);
}

/// Sets the check to Ready, with a label for each role.
async fn ready(cluster: &Cluster) {
    let updates: Vec<Value> = workload(cluster)["spec"]["podSets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| json!({"name": set["name"], "labels": {"count": set["count"].to_string()}}))
        .collect();
    set_verdict(cluster, "Ready", &json!(updates));
    cluster.pass(1.0).await;
}

fn end(cluster: &Cluster, pod: &str, phase: &str) {
    let response = cluster.merge(
        "pods",
        "t",
        pod,
        "status",
        &json!({"status": {"phase": phase}}),
    );
    assert_eq!(response.code, 200, "{}", response.body);
}

#[test]
fn a_group_has_one_workload_with_a_pod_set_for_each_role() {
    on_cluster(async |cluster| {
        let workload = workload(cluster);
        let sets = workload["spec"]["podSets"].as_array().unwrap();
        let mut counts: Vec<(i64, String)> = sets
            .iter()
            .map(|set| {
                let cpus = set.pointer("/template/spec/containers/0/resources/requests/cpu");
                (set["count"].as_i64().unwrap(), cpus.unwrap().to_string())
            })
            .collect();
        counts.sort();
        assert_eq!(counts, [(1, "\"2\"".to_owned()), (2, "\"1\"".to_owned())]);
        let owners = workload["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 3);
        assert!(owners.iter().all(|owner| owner["controller"].is_null()));
        let short = cluster.notes("ErrWorkloadCompose");
        assert_eq!(
            short[0],
            "'train' group has fewer runnable pods than expected"
        );
    });
}

#[test]
fn all_start_together_each_with_what_its_role_gets() {
    on_cluster(async |cluster| {
        assert_eq!(
            phases(cluster),
            "driver=Pending worker-1=Pending worker-2=Pending"
        );
        ready(cluster).await;
        assert_eq!(
            phases(cluster),
            "driver=Running worker-1=Running worker-2=Running"
        );
        for (name, count) in [("driver", "1"), ("worker-1", "2"), ("worker-2", "2")] {
            assert_eq!(
                get(cluster, name)["metadata"]["labels"]["count"],
                count,
                "{name}"
            );
        }
        assert!(is_true(cluster, "PodsReady"));
    });
}

#[test]
fn a_pod_that_failed_is_replaced_by_one_that_gets_the_same() {
    on_cluster(async |cluster| {
        ready(cluster).await;
        end(cluster, "worker-1", "Failed");
        cluster.pass(1.0).await;
        assert!(is_true(cluster, "WaitingForReplacementPods"));
        cluster.create(&pod("worker-3", "1"));
        cluster.pass(2.0).await;
        assert_eq!(get(cluster, "worker-3")["metadata"]["labels"]["count"], "2");
        assert!(!is_true(cluster, "WaitingForReplacementPods"));
        let failed = get(cluster, "worker-1");
        assert!(
            failed["metadata"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty)
        );
        // The group is complete, so Kueue deletes one more Pod.
        cluster.create(&pod("worker-4", "1"));
        cluster.pass(1.0).await;
        assert_eq!(get(cluster, "worker-4"), Value::Null);
        assert_eq!(cluster.notes("ExcessPodDeleted"), ["Excess pod deleted"]);
    });
}

#[test]
fn after_a_retry_the_workload_waits_for_other_pods() {
    on_cluster(async |cluster| {
        ready(cluster).await;
        set_verdict(cluster, "Retry", &json!([]));
        cluster.pass(3.0).await;
        assert_eq!(
            phases(cluster),
            "(driver=Failed) (worker-1=Failed) (worker-2=Failed)"
        );
        assert!(is_true(cluster, "WaitingForReplacementPods"));
        assert!(!is_true(cluster, "QuotaReserved"), "nobody could run");
        for (name, cpus) in [("driver-2", "2"), ("worker-3", "1"), ("worker-4", "1")] {
            cluster.create(&pod(name, cpus));
        }
        cluster.pass(2.0).await;
        assert!(is_true(cluster, "QuotaReserved"));
        assert_eq!(
            phases(cluster),
            "driver-2=Pending worker-3=Pending worker-4=Pending"
        );
        ready(cluster).await;
        assert_eq!(
            phases(cluster),
            "driver-2=Running worker-3=Running worker-4=Running"
        );
    });
}

#[test]
fn what_has_succeeded_is_given_back_and_all_of_it_is_the_end() {
    on_cluster(async |cluster| {
        ready(cluster).await;
        end(cluster, "worker-1", "Succeeded");
        cluster.pass(1.0).await;
        let done = workload(cluster)["status"]["reclaimablePods"].clone();
        assert_eq!(done[0]["count"], 1, "{done}");
        end(cluster, "worker-2", "Succeeded");
        end(cluster, "driver", "Succeeded");
        cluster.pass(1.0).await;
        let workload = workload(cluster);
        let conditions = workload["status"]["conditions"].as_array().unwrap();
        let over = conditions.iter().find(|c| c["type"] == "Finished").unwrap();
        assert_eq!(over["message"], "Pods succeeded: 3/3.");
        let held = |name: &str| get(cluster, name)["metadata"]["finalizers"].clone();
        assert!(
            ["driver", "worker-1", "worker-2"]
                .map(held)
                .iter()
                .all(|held| { held.as_array().is_none_or(Vec::is_empty) })
        );
    });
}

#[test]
fn a_workload_that_is_deleted_takes_its_pods_along() {
    on_cluster(async |cluster| {
        cluster.delete("workloads", "train");
        cluster.pass(2.0).await;
        assert_eq!(
            (phases(cluster), workload(cluster)),
            (String::new(), Value::Null)
        );
    });
}

#[test]
fn a_workload_of_another_owner_is_not_taken_over() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("8", &["c"], &json!({}));
        cluster.workload("train", "1", 0);
        for (name, cpus) in [("driver", "2"), ("worker-1", "1"), ("worker-2", "1")] {
            cluster.create(&pod(name, cpus));
        }
        cluster.pass(1.0).await;
        let notes = cluster.notes("WorkloadNameConflict");
        assert!(
            notes[0].starts_with("A Workload named \"train\" already exists"),
            "{notes:?}"
        );
        assert!(workload(&cluster)["metadata"]["ownerReferences"].is_null());
        // After its deletion Kueue creates the group's own Workload.
        cluster.delete("workloads", "train");
        cluster.pass(1.0).await;
        assert_eq!(
            workload(&cluster)["metadata"]["annotations"][format!("{KUEUE}/is-group-workload")],
            "true"
        );
    });
}

#[test]
fn before_0_19_a_group_replaces_the_workload_of_another_owner() {
    let outcome = switch(|v, on| v.refuses_other_workloads = on).off_and_on(async |cluster| {
        cluster.queue("8", &[], &json!({}));
        cluster.workload("train", "1", 0);
        cluster.pass(1.0).await;
        let before = workload(cluster)["metadata"]["uid"].clone();
        for (name, cpus) in [("driver", "2"), ("worker-1", "1"), ("worker-2", "1")] {
            cluster.create(&pod(name, cpus));
        }
        cluster.pass(1.0).await;
        let metadata = workload(cluster)["metadata"].clone();
        let is_group = metadata["annotations"][format!("{KUEUE}/is-group-workload")].clone();
        let refused = cluster.notes("WorkloadNameConflict").len();
        (metadata["uid"] == before, is_group, refused > 0)
    });
    assert_eq!(outcome[0], (false, json!("true"), false));
    assert_eq!(outcome[1], (true, Value::Null, true));
}

/// Without Pods left, Kueue spares another Workload only if a controller owns it (0.19.2,
/// `ListChildWorkloads` in `pkg/controller/jobs/pod/pod_controller.go`).
#[test]
fn a_group_that_is_gone_drops_the_finalizer_of_a_workload_without_a_controller() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("8", &[], &json!({}));
        for (controlled, remain) in [(false, Value::Null), (true, json!([FINALIZER]))] {
            let mut metadata =
                json!({"name": "train", "namespace": "t", "finalizers": [FINALIZER]});
            if controlled {
                let owner = json!({"apiVersion": "a.b/v1", "kind": "C", "name": "c", "uid": "c", "controller": true});
                metadata["ownerReferences"] = json!([owner]);
            }
            let spec = json!({"queueName": "lq", "podSets": [pod_set("main", 1, "1")]});
            cluster.create(&json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": spec}));
            cluster.create(&pod("driver", "2"));
            cluster.pass(1.0).await;
            cluster.delete("pods", "driver");
            cluster.pass(1.0).await;
            assert_eq!(get(&cluster, "driver"), Value::Null);
            let finalizers = workload(&cluster)["metadata"]["finalizers"].clone();
            assert_eq!(finalizers, remain, "{controlled}");
            cluster.delete("workloads", "train");
        }
    });
}

#[test]
fn a_group_may_have_only_so_many_roles() {
    let outcome =
        switch(|v, on| v.most_pod_sets = if on { 3 } else { 2 }).off_and_on(async |cluster| {
            cluster.queue("8", &[], &json!({}));
            for cpus in ["1", "2", "3"] {
                cluster.create(&pod(&format!("worker-{cpus}"), cpus));
            }
            cluster.pass(1.0).await;
            workload(cluster)["spec"]["podSets"]
                .as_array()
                .map(Vec::len)
        });
    assert_eq!(outcome, [None, Some(3)]);
}

#[test]
fn before_0_18_only_the_label_names_a_group() {
    let outcome = switch(|v, on| v.reads_group_annotation = on).off_and_on(async |cluster| {
        cluster.queue("8", &[], &json!({}));
        let mut pod = pod("driver", "1");
        let labels = json!({format!("{KUEUE}/queue-name"): "lq"});
        pod["metadata"]["labels"] = labels;
        pod["metadata"]["annotations"] = json!({
            format!("{KUEUE}/pod-group-name"): "train",
            format!("{KUEUE}/pod-group-total-count"): "1",
        });
        let created = cluster.try_create(&pod).code;
        cluster.pass(1.0).await;
        (created, workload(cluster)["metadata"]["name"].clone())
    });
    assert_eq!(outcome, [(403, Value::Null), (201, json!("train"))]);
}

#[test]
fn a_group_has_the_priority_of_the_first_role_that_names_a_class() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("8", &[], &json!({}));
        cluster.create(&json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "high"}, "value": 1000,
        }));
        cluster.create(&pod("driver", "2"));
        for name in ["worker-1", "worker-2"] {
            let mut worker = pod(name, "1");
            worker["spec"]["priorityClassName"] = json!("high");
            cluster.create(&worker);
        }
        cluster.pass(1.0).await;
        let spec = workload(&cluster)["spec"].clone();
        assert_eq!(spec["priority"], 1000);
        assert_eq!(spec["priorityClassRef"]["name"], "high");
    });
}

/// Returns a Pod of the group `train` with these annotations.
fn annotated(annotations: &[(&str, &str)]) -> Value {
    let mut pod = pod("driver", "1");
    for (name, value) in annotations {
        pod["metadata"]["annotations"][format!("{KUEUE}/{name}")] = json!(value);
    }
    pod
}

#[test]
fn before_0_18_a_group_is_ready_once_those_of_its_pods_are_that_exist() {
    let outcome = switch(|v, on| v.counts_ready_pods = on).off_and_on(async |cluster| {
        cluster.queue("8", &[], &json!({}));
        cluster.create(&annotated(&[("pod-group-fast-admission", "true")]));
        cluster.pass(1.0).await;
        assert!(is_true(cluster, "Admitted"));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"status": {"phase": "Running", "conditions": ready}});
        cluster.merge("pods", "t", "driver", "status", &status);
        cluster.pass(1.0).await;
        is_true(cluster, "PodsReady")
    });
    assert_eq!(outcome, [true, false]);
}

#[test]
fn before_0_18_a_serving_group_changes_its_queue() {
    let outcome = switch(|v, on| v.keeps_serving_queues = on).off_and_on(async |cluster| {
        cluster.queue("0", &[], &json!({}));
        let single = ("pod-group-total-count", "1");
        cluster.create(&annotated(&[("pod-group-serving", "true"), single]));
        cluster.pass(1.0).await;
        let label = json!({"metadata": {"labels": {format!("{KUEUE}/queue-name"): "other"}}});
        let response = cluster.merge("pods", "t", "driver", "", &label);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.pass(1.0).await;
        workload(cluster)["spec"]["queueName"].clone()
    });
    assert_eq!(outcome, ["other", "lq"]);
}
