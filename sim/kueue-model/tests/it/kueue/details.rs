//! What is rare: classes whose value changes, Workloads that move, Pods that are done, limits of
//! time and gates of jobs, several resource groups.

use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use super::cluster::{Cluster, KUEUE, in_virtual_time, pod_set};

fn class(name: &str, value: i64) -> Value {
    json!({"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value})
}

#[test]
fn a_new_value_of_a_class_reaches_its_workloads() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("1", &[], &json!({}));
        cluster.create(&class("low", 1));
        cluster.job("a", "1", Some("low"));
        cluster.job("b", "1", None);
        cluster.pass(1.0).await;
        let value = json!({"value": 7});
        cluster.merge("workloadpriorityclasses", "", "low", "", &value);
        cluster.pass(1.0).await;
        let priority = |name: &str| cluster.get(name)["spec"]["priority"].clone();
        assert_eq!((priority("a"), priority("b")), (json!(7), json!(0)));
    });
}

#[test]
fn a_workload_with_quota_is_given_no_class() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("1", &["c"], &json!({}));
        cluster.create(&class("high", 100));
        cluster.job("a", "1", None);
        cluster.job("b", "1", None);
        cluster.pass(1.0).await;
        let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}});
        for job in ["a", "b"] {
            assert_eq!(cluster.merge("jobs", "t", job, "", &label).code, 200);
        }
        cluster.pass(1.0).await;
        let priority = |name: &str| cluster.get(name)["spec"]["priority"].clone();
        assert_eq!((priority("a"), priority("b")), (json!(0), json!(100)));
        cluster.verdict("a", "c", "Ready", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA(c=Ready) b:(c=Pending)");
    });
}

#[test]
fn a_workload_that_moves_leaves_its_queue() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("1", &[], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA b:");
        let queue = json!({"spec": {"queueName": "elsewhere"}});
        cluster.merge("workloads", "t", "b", "", &queue);
        cluster.pass(1.0).await;
        cluster.finish("a");
        cluster.pass(3.0).await;
        assert_eq!(cluster.line(), "a:RAF b:");
        let reserved = cluster.condition("b", "QuotaReserved");
        assert_eq!(reserved["message"], "LocalQueue elsewhere doesn't exist");
    });
}

#[test]
fn pods_that_are_done_make_room_for_others() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("2", &[], &json!({}));
        cluster.create(&json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "a", "namespace": "t"}, "spec": {"queueName": "lq", "podSets": [pod_set("main", 2, "1")]}}));
        cluster.pass(1.0).await;
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA b:");
        let done = json!({"status": {"reclaimablePods": [{"name": "main", "count": 1}]}});
        cluster.merge("workloads", "t", "a", "status", &done);
        cluster.pass(2.0).await;
        assert_eq!(cluster.line(), "a:RA b:RA");
    });
}

#[test]
fn the_workload_of_a_job_has_its_limit_of_time_and_its_gates() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("1", &[], &json!({}));
        let template = pod_set("main", 1, "1")["template"].clone();
        let (limit, gate) = (
            "kueue.x-k8s.io/max-exec-time-seconds",
            "kueue.x-k8s.io/admission-gated-by",
        );
        cluster.create(&json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a", "namespace": "t", "labels": {"kueue.x-k8s.io/queue-name": "lq", limit: "5"}, "annotations": {gate: "example.com/g"}},
            "spec": {"suspend": true, "template": template},
        }));
        cluster.pass(1.0).await;
        assert_eq!(cluster.get("a")["spec"]["maximumExecutionTimeSeconds"], 5);
        assert_eq!(
            cluster.get("a")["metadata"]["annotations"][gate],
            "example.com/g"
        );
        assert_eq!(cluster.line(), "a:");
        let open = json!({"metadata": {"annotations": {gate: null}}});
        cluster.merge("jobs", "t", "a", "", &open);
        cluster.pass(2.0).await;
        assert_eq!(cluster.line(), "a:RA");
        cluster.pass(5.0).await;
        assert_eq!(cluster.line(), "a:EWI");
    });
}

#[test]
fn the_first_resource_without_room_is_told() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.create(&json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "gpus"}, "spec": {}}));
        let gpu = "example.com/gpu";
        let group = |resource: &str, flavor: &str| json!({"coveredResources": [resource], "flavors": [{"name": flavor, "resources": [{"name": resource, "nominalQuota": "1"}]}]});
        cluster.queue(
            "1",
            &[],
            &json!({"resourceGroups": [group("cpu", "default"), group(gpu, "gpus")]}),
        );
        let mut set = pod_set("main", 1, "2");
        set["template"]["spec"]["containers"][0]["resources"]["requests"][gpu] = json!("2");
        cluster.create(&json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "a", "namespace": "t"}, "spec": {"queueName": "lq", "podSets": [set]}}));
        cluster.pass(1.0).await;
        assert_eq!(
            cluster.condition("a", "QuotaReserved")["message"],
            "couldn't assign flavors to pod set main: insufficient quota for example.com/gpu in flavor gpus, previously considered podsets requests (0) + current podset request (2) > maximum capacity (1)"
        );
    });
}

#[test]
fn a_workload_without_a_flavor_has_no_checks_once_it_has_quota() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("1", &["c"], &json!({}));
        let mut set = pod_set("main", 1, "1");
        set["template"]["spec"]["containers"][0]["resources"] = json!({});
        cluster.create(&json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "a", "namespace": "t"}, "spec": {"queueName": "lq", "podSets": [set]}}));
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA");
    });
}
