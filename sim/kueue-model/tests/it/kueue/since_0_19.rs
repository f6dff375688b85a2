//! Differences between Kueue 0.18 and 0.19, with a test for each switch.

use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use super::cluster::{Cluster, pod_set};
use super::versions::{elastic_job, job, large_workload, switch, switch_of};

#[test]
fn up_to_0_18_a_change_of_a_flavor_makes_only_a_blocking_workload_be_tried_again() {
    let outcome = |strategy| {
        switch(|v, on| v.retries_on_flavor_changes = on).off_and_on(async |cluster| {
            cluster.queue("1", &[], &json!({"queueingStrategy": strategy}));
            let tainted = json!([{"key": "spot", "value": "true", "effect": "NoSchedule"}]);
            for taints in [tainted, Value::Null] {
                let change = json!({"spec": {"nodeTaints": taints}});
                cluster.merge("resourceflavors", "", "default", "", &change);
                if !taints.is_null() {
                    cluster.workload("a", "1", 0);
                }
                cluster.pass(3.0).await;
            }
            cluster.line()
        })
    };
    assert_eq!(outcome("BestEffortFIFO"), ["a:", "a:RA"]);
    assert_eq!(outcome("StrictFIFO"), ["a:RA", "a:RA"]);
}

#[test]
fn up_to_0_18_a_skipped_workload_starts_with_the_first_flavor() {
    let outcome = switch(|v, on| v.keeps_flavor_progress = on).off_and_on(async |cluster| {
        cluster.flavor("spot", &json!({}));
        // Both borrow the core of `default` in the same cycle, and one gets it.
        let cohort = json!({"cohortName": "all"});
        cluster.member("lender", &[("default", "1")], &cohort);
        for name in ["one", "two"] {
            let sets = [pod_set("main", 1, "1")];
            cluster.submit(name, &json!({"queueName": name, "podSets": sets}));
            cluster.member(name, &[("default", "0"), ("spot", "1")], &cohort);
        }
        cluster.pass(2.0).await;
        assert_eq!(cluster.line(), "one:RA two:RA");
        let notes = cluster.notes("QuotaReserved");
        notes.iter().any(|note| note.contains("default(NoFit"))
    });
    assert_eq!(outcome, [true, false]);
}

#[test]
fn up_to_0_18_the_status_of_a_deleted_queue_stays() {
    let outcome = switch(|v, on| v.updates_deleted_queues = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        cluster.delete("clusterqueues", "cq");
        cluster.pass(1.0).await;
        let queues = super::cluster::kueue("clusterqueues");
        let queue = cluster.server.get(&queues, "", "cq").unwrap();
        queue["status"]["conditions"][0]["reason"].clone()
    });
    assert_eq!(outcome, [json!("Ready"), json!("Terminating")]);
}

#[test]
fn up_to_0_18_a_flavor_s_message_names_one_of_several_resources() {
    let outcome =
        switch_of(KueueVersion::V0_18, |v, on| v.sorts_requests = on).off_and_on(async |cluster| {
            let resources = [("cpu", "1"), ("memory", "1Gi")];
            let quotas =
                resources.map(|(name, quota)| json!({"name": name, "nominalQuota": quota}));
            let flavors = json!([{"name": "default", "resources": quotas}]);
            let groups = json!([{"coveredResources": ["cpu", "memory"], "flavors": flavors}]);
            cluster.queue("1", &[], &json!({"resourceGroups": groups}));
            large_workload(cluster);
            cluster.pass(1.0).await;
            let note = cluster.notes("Pending").remove(0);
            note.matches("insufficient quota for").count()
        });
    assert_eq!(outcome, [1, 2]);
}

/// Gives the Job `a` a priority class.
fn set_class(cluster: &Cluster, class: &str) {
    let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": class}}});
    assert_eq!(cluster.merge("jobs", "t", "a", "", &label).code, 200);
}

#[test]
fn up_to_0_18_a_job_that_gets_a_class_too_late_never_starts() {
    let outcome = switch(|v, on| v.omits_refused_classes = on).off_and_on(async |cluster| {
        cluster.class("high", 9);
        cluster.queue("1", &["c"], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        set_class(cluster, "high");
        cluster.verdict("a", "c", "Ready", 0);
        cluster.pass(5.0).await;
        (cluster.line(), job(cluster)["spec"]["suspend"].clone())
    });
    let admitted = "a:RA(c=Ready)".to_owned();
    assert_eq!(outcome[0], (admitted.clone(), json!(true)));
    assert_eq!(outcome[1], (admitted, json!(false)));
}

#[test]
fn up_to_0_18_a_slice_keeps_its_class() {
    let outcome = switch(|v, on| v.revised_slices = on).off_and_on(async |cluster| {
        cluster.class("high", 9);
        cluster.class("low", 1);
        cluster.queue("4", &[], &json!({}));
        elastic_job(cluster, Some("low"));
        cluster.pass(1.0).await;
        set_class(cluster, "high");
        cluster.pass(1.0).await;
        cluster.get("a")["spec"]["priority"].clone()
    });
    assert_eq!(outcome, [json!(1), json!(9)]);
}

#[test]
fn up_to_0_18_the_workload_of_a_preempted_pod_is_requeued() {
    let outcome = switch(|v, on| v.requeues_pods = on).off_and_on(async |cluster| {
        cluster.class("high", 9);
        let preempts = json!({"preemption": {"withinClusterQueue": "LowerPriority"}});
        cluster.queue("1", &[], &preempts);
        let spec = pod_set("main", 1, "1")["template"]["spec"].clone();
        cluster.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "a", "namespace": "t", "labels": {"kueue.x-k8s.io/queue-name": "lq"},
        }, "spec": spec}));
        cluster.pass(1.0).await;
        let name = cluster.name_of("a");
        cluster.job("b", "1", Some("high"));
        cluster.pass(1.0).await;
        let workloads = super::cluster::kueue("workloads");
        let changes = cluster.server.history().into_iter();
        let changes =
            changes.filter(|c| c.resource == workloads && c.object["metadata"]["name"] == name);
        let mut states = changes.flat_map(|c| {
            let conditions = c.object["status"]["conditions"].as_array().cloned();
            conditions.into_iter().flatten().collect::<Vec<Value>>()
        });
        let requeued = states.find(|condition| condition["type"] == "Requeued");
        requeued.map(|condition| condition["status"].clone())
    });
    assert_eq!(outcome, [Some(json!("False")), Some(json!("True"))]);
}

#[test]
fn only_0_19_has_these_rules() {
    let rules = |v: KueueVersion| {
        [
            v.sorts_requests,
            v.retries_on_flavor_changes,
            v.keeps_flavor_progress,
            v.updates_deleted_queues,
            v.omits_refused_classes,
            v.revised_slices,
            v.ranks_candidates,
            !v.requeues_pods,
        ]
    };
    assert_eq!(rules(KueueVersion::V0_18), [false; 8]);
    assert_eq!(rules(KueueVersion::V0_19), [true; 8]);
    let inverts = [KueueVersion::V0_15, KueueVersion::V0_17].map(|v| v.inverts_preference);
    assert_eq!(inverts, [true, false]);
}
