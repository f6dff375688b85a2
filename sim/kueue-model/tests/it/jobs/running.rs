//! Jobs that run, end, change and move.

use kueue_check_apiserver::Resource;
use kueue_check_kueue_model::jobs;
use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use crate::kueue::cluster::{Cluster, in_virtual_time};

fn cluster() -> Cluster {
    let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
    cluster.queue("4", &[], &json!({}));
    cluster
}

fn job(cluster: &Cluster, name: &str) -> Value {
    let jobs = Resource::new("batch", "v1", "jobs");
    cluster.server.get(&jobs, "t", name).unwrap()
}

#[test]
fn a_started_job_has_its_pods_and_a_stopped_one_none() {
    in_virtual_time(async {
        let cluster = cluster();
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        assert_eq!(job(&cluster, "a")["status"]["ready"], 1);
        assert_eq!(cluster.condition("a", "PodsReady")["reason"], "Started");
        let stop = json!({"spec": {"stopPolicy": "HoldAndDrain"}});
        cluster.merge("clusterqueues", "", "cq", "", &stop);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:EW");
        assert_eq!(job(&cluster, "a")["status"]["active"], 0);
        assert_eq!(job(&cluster, "a")["spec"]["suspend"], true);
        assert_eq!(
            cluster.condition("a", "PodsReady")["reason"],
            "WaitForStart"
        );
    });
}

#[test]
fn a_job_ends_well_or_badly() {
    in_virtual_time(async {
        let cluster = cluster();
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
fn another_class_is_another_priority() {
    in_virtual_time(async {
        let cluster = cluster();
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
    in_virtual_time(async {
        let cluster = cluster();
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

#[test]
fn with_quota_a_workload_that_does_not_match_is_replaced() {
    in_virtual_time(async {
        let cluster = cluster();
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        let before = cluster.get("a")["metadata"]["uid"].clone();
        cluster.merge(
            "jobs",
            "t",
            "a",
            "",
            &json!({"spec": {"parallelism": 2, "completions": 2}}),
        );
        cluster.pass(1.0).await;
        let after = cluster.get("a");
        assert_ne!(after["metadata"]["uid"], before);
        assert_eq!(after["spec"]["podSets"][0]["count"], 2);
        assert_eq!(cluster.notes("DeletedWorkload").len(), 1);
        assert_eq!(cluster.line(), "a:RA");
    });
}
