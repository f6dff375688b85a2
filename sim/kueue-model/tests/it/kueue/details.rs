//! Rare cases: classes whose value changes, Workloads that move, completed Pods, time limits and
//! gates of jobs, several resource groups.

use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use super::cluster::{Cluster, KUEUE, groups, in_virtual_time, kueue, on_queue, pod_set, with};

#[test]
fn a_workload_with_quota_is_given_no_class() {
    on_queue("1", &["c"], async |cluster| {
        cluster.class("high", 100);
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
    on_queue("1", &[], async |cluster| {
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
fn pods_that_are_done_free_quota_for_others() {
    on_queue("2", &[], async |cluster| {
        cluster.workload_of("a", &pod_set("main", 2, "1"));
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
    on_queue("1", &[], async |cluster| {
        let (limit, gate) = (
            "kueue.x-k8s.io/max-exec-time-seconds",
            "kueue.x-k8s.io/admission-gated-by",
        );
        let labels = json!({"kueue.x-k8s.io/queue-name": "lq", limit: "5"});
        let metadata = json!({"labels": labels, "annotations": {gate: "example.com/g"}});
        cluster.job_of("a", &metadata, &json!({}));
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
fn the_first_resource_without_quota_is_reported() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.flavor("gpus", &json!({}));
        let gpu = "example.com/gpu";
        let group = |resource: &str, flavor: &str| json!({"coveredResources": [resource], "flavors": [{"name": flavor, "resources": [{"name": resource, "nominalQuota": "1"}]}]});
        cluster.queue(
            "1",
            &[],
            &json!({"resourceGroups": [group("cpu", "default"), group(gpu, "gpus")]}),
        );
        let mut set = pod_set("main", 1, "2");
        set["template"]["spec"]["containers"][0]["resources"]["requests"][gpu] = json!("2");
        cluster.workload_of("a", &set);
        cluster.pass(1.0).await;
        assert_eq!(
            cluster.condition("a", "QuotaReserved")["message"],
            "couldn't assign flavors to pod set main: insufficient quota for example.com/gpu in flavor gpus, previously considered podsets requests (0) + current podset request (2) > maximum capacity (1)"
        );
    });
}

/// Returns the message of `QuotaReserved` after a check has rejected a Workload that does not fit.
/// The verdict follows 1.5 s after the Workload. The ClusterQueue is in the lowest of `cohorts`.
fn quota_message_by_cohorts(cohorts: &[&str]) -> Value {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        let mut parent = json!({});
        for cohort in cohorts {
            cluster.create(&json!({"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": cohort}, "spec": parent}));
            parent = json!({"parentName": cohort});
        }
        let cohort = cohorts.last();
        let cohort = cohort.map_or(json!({}), |name| json!({"cohortName": name}));
        cluster.queue("1", &["c"], &cohort);
        cluster.pass(3.0).await;
        cluster.workload("a", "2", 0);
        cluster.pass(1.5).await;
        let rejected = cluster.verdict("a", "c", "Rejected", 0);
        assert_eq!(rejected.code, 200, "{}", rejected.body);
        cluster.pass(1.0).await;
        cluster.condition("a", "QuotaReserved")["message"].clone()
    })
}

/// The queue's count of pending Workloads changes 1 s after the creation of the Workload. Kueue
/// retries all Workloads of the cohort tree another second later.
#[test]
fn below_two_cohorts_a_changed_count_of_a_queue_makes_all_be_tried_again() {
    let failed = "The workload has failed admission checks";
    assert_ne!(quota_message_by_cohorts(&[]), failed);
    assert_ne!(quota_message_by_cohorts(&["root"]), failed);
    assert_eq!(quota_message_by_cohorts(&["root", "team"]), failed);
}

#[test]
fn the_status_of_both_queues_counts_workloads_and_what_they_take() {
    on_queue("2", &["c"], async |cluster| {
        for name in ["a", "b"] {
            cluster.workload(name, "2", 0);
        }
        let check = async |counts: [i64; 3], reserved: &str, used: &str| {
            cluster.pass(3.0).await;
            for (plural, namespace, name) in
                [("clusterqueues", "", "cq"), ("localqueues", "t", "lq")]
            {
                let queue = cluster.server.get(&kueue(plural), namespace, name);
                let status = queue.unwrap()["status"].clone();
                let found = [
                    "pendingWorkloads",
                    "reservingWorkloads",
                    "admittedWorkloads",
                ];
                let found = found.map(|count| status[count].as_i64().unwrap());
                assert_eq!(found, counts, "{plural}");
                let total = |of: &str| status[of][0]["resources"][0]["total"].clone();
                assert_eq!(total("flavorsReservation"), reserved, "{plural}");
                assert_eq!(total("flavorsUsage"), used, "{plural}");
            }
        };
        check([1, 1, 0], "2", "0").await;
        cluster.verdict("a", "c", "Ready", 0);
        check([1, 1, 1], "2", "2").await;
        cluster.finish("a");
        check([0, 1, 0], "2", "0").await;
    });
}

#[test]
fn an_eviction_of_a_workload_without_quota_counts() {
    on_queue("1", &[], async |cluster| {
        cluster.workload("a", "2", 0);
        cluster.pass(1.0).await;
        let inactive = json!({"spec": {"active": false}});
        cluster.merge("workloads", "t", "a", "", &inactive);
        cluster.pass(1.0).await;
        let evictions = &cluster.get("a")["status"]["schedulingStats"]["evictions"];
        let counted = json!([{"reason": "Deactivated", "underlyingCause": "", "count": 1}]);
        assert_eq!(*evictions, counted);
    });
}

/// Kueue does not update its queue for a group that lacks Pods: it is tried once more as it was.
#[test]
fn a_group_that_comes_to_lack_pods_while_it_waits_is_tried_once_more() {
    for (before, expected) in [("0", "a:"), ("9", "a:RA")] {
        on_queue("1", &[], async |cluster| {
            cluster.workload("a", "9", 0);
            cluster.pass(1.0).await;
            let lacks = json!({
                "type": "WaitingForReplacementPods", "status": "True", "reason": "PodsFailed",
                "message": "", "lastTransitionTime": cluster.now(),
            });
            let mut status = cluster.get("a")["status"].clone();
            status["conditions"].as_array_mut().unwrap().push(lacks);
            cluster.merge("workloads", "t", "a", "status", &json!({"status": status}));
            cluster.pass(1.0).await;
            // The first change decides whether the one attempt succeeds.
            for cpus in [before, "9"] {
                let spec = json!({"resourceGroups": groups(&[("default", cpus)])});
                cluster.merge("clusterqueues", "", "cq", "", &json!({"spec": spec}));
                cluster.pass(3.0).await;
            }
            assert_eq!(cluster.line(), expected, "{before}");
        });
    }
}

/// Creates `cq` with one CPU and `StrictFIFO`, and `other` with three, in the cohort `co`. `a` waits
/// for two CPUs, which `b` has.
async fn busy_head() -> Cluster {
    let cluster = Cluster::new(KueueVersion::V0_19);
    let spec = json!({"cohortName": "co", "queueingStrategy": "StrictFIFO"});
    cluster.queue("1", &[], &spec);
    sibling(&cluster, ("other", "3"), "b", "3");
    cluster.pass(1.0).await;
    cluster.workload("a", "3", 0);
    cluster.pass(3.0).await;
    assert_eq!(cluster.line(), "a: b:RA");
    cluster
}

/// The scheduler tries the head of a `StrictFIFO` queue again and again.
#[test]
fn the_head_of_a_strict_queue_sees_what_its_tree_has_lost() {
    let moves = json!({"spec": {"cohortName": null}});
    for (change, seen) in [(&moves, true), (&json!({}), false)] {
        in_virtual_time(async {
            let cluster = busy_head().await;
            let message = || cluster.condition("a", "QuotaReserved")["message"].clone();
            let before = message();
            let response = cluster.merge("clusterqueues", "", "other", "", change);
            assert_eq!(response.code, 200, "{}", response.body);
            cluster.pass(0.5).await;
            assert_eq!(message() != before, seen, "{change}: {}", message());
        });
    }
    in_virtual_time(async {
        let cluster = busy_head().await;
        let message = || cluster.condition("a", "QuotaReserved")["message"].clone();
        let before = message();
        cluster.finish("b");
        cluster.pass(1.0).await;
        cluster.delete("clusterqueues", "other");
        cluster.pass(0.5).await;
        assert_ne!(message(), before);
    });
}

/// Creates a ClusterQueue with these CPUs in the cohort `co`, a LocalQueue, and the Workload
/// `workload` of it.
fn sibling(cluster: &Cluster, (name, quota): (&str, &str), workload: &str, cpus: &str) {
    cluster.member(name, &[("default", quota)], &json!({"cohortName": "co"}));
    let sets = [pod_set("main", 1, cpus)];
    cluster.submit(workload, &json!({"queueName": name, "podSets": sets}));
}

/// `a` waits for what `v` has borrowed, and keeps the rest for itself.
#[test]
fn a_skipped_workload_is_tried_again_once_the_one_in_its_way_has_left() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        let spec = json!({"cohortName": "co", "queueingStrategy": "StrictFIFO"});
        cluster.queue("3", &[], &spec);
        cluster.pass(1.0).await;
        sibling(&cluster, ("second", "0"), "v", "2");
        cluster.pass(1.0).await;
        cluster.workload("a", "3", 0);
        cluster.pass(1.0).await;
        sibling(&cluster, ("third", "0"), "b", "1");
        cluster.pass(5.0).await;
        assert_eq!(cluster.line(), "a: b: v:RA");
        let message = cluster.condition("b", "QuotaReserved")["message"].clone();
        let skipped = "Workload no longer fits after processing another workload";
        assert_eq!(message, skipped);
        let hold = json!({"spec": {"stopPolicy": "Hold"}});
        cluster.merge("localqueues", "t", "lq", "", &hold);
        cluster.pass(0.5).await;
        assert_eq!(cluster.line(), "a: b:RA v:RA");
    });
}

/// Kueue's caches keep the spec from before the deletion.
#[test]
fn what_is_being_deleted_is_scheduled_by_as_it_was() {
    in_virtual_time(async {
        let cluster = busy_head().await;
        cluster.delete("clusterqueues", "other");
        cluster.pass(1.0).await;
        let change = json!({"spec": {"resourceGroups": groups(&[("default", "9")])}});
        let response = cluster.merge("clusterqueues", "", "other", "", &change);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.pass(5.0).await;
        assert_eq!(cluster.line(), "a: b:RA");
    });
    on_queue("1", &[], async |cluster| {
        cluster.pass(1.0).await;
        cluster.delete("resourceflavors", "default");
        let taint = json!({"key": "spot", "value": "true", "effect": "NoSchedule"});
        let change = json!({"spec": {"nodeTaints": [taint]}});
        let response = cluster.merge("resourceflavors", "", "default", "", &change);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.pass(1.0).await;
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA");
    });
}

/// Kueue retries the Workloads of the ClusterQueues that newly take a Namespace; before 0.16 without
/// a batch.
#[test]
fn new_labels_of_a_namespace_let_its_workloads_be_tried_again() {
    for (version, at_once) in [(KueueVersion::V0_19, "a:"), (KueueVersion::V0_15, "a:RA")] {
        in_virtual_time(async {
            let cluster = Cluster::new(version);
            let selector = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
            cluster.queue("1", &[], &selector);
            cluster.workload("a", "1", 0);
            cluster.pass(1.0).await;
            let label = |team: &str| {
                let labels = json!({"metadata": {"labels": {"team": team}}});
                cluster.merge("namespaces", "", "t", "", &labels)
            };
            assert_eq!(label("b").code, 200);
            cluster.pass(3.0).await;
            assert_eq!(cluster.line(), "a:");
            label("a");
            cluster.pass(0.5).await;
            assert_eq!(cluster.line(), at_once);
            cluster.pass(1.0).await;
            assert_eq!(cluster.line(), "a:RA");
        });
    }
}

#[test]
fn requests_above_their_limits_get_no_quota() {
    on_queue("9", &[], async |cluster| {
        let mut set = pod_set("main", 1, "2");
        set["template"]["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "1"});
        cluster.workload_of("a", &set);
        cluster.pass(1.0).await;
        let text = "resources validation failed: spec.podSets[0].template.spec.containers[0]: Invalid value: [\"cpu\"]: requests must not exceed its limits";
        let condition = cluster.condition("a", "QuotaReserved");
        assert_eq!(condition["reason"], "Pending");
        assert_eq!(condition["message"], text);
        assert_eq!(cluster.notes("Pending"), [text]);
    });
}

/// The status has the total of each pod set while the Workload waits. Up to 0.17 the total of one
/// that was tried includes its Pods, if there is quota for these.
#[test]
fn the_requests_of_a_waiting_workload_are_in_its_status() {
    for (version, pods) in [
        (KueueVersion::V0_19, Value::Null),
        (KueueVersion::V0_17, json!("2")),
    ] {
        in_virtual_time(async {
            let cluster = Cluster::new(version);
            let quotas = [("cpu", "2"), ("memory", "1Gi"), ("pods", "9")];
            let quotas = quotas.map(|(name, most)| json!({"name": name, "nominalQuota": most}));
            let flavors = json!([{"name": "default", "resources": quotas}]);
            let groups =
                json!([{"coveredResources": ["cpu", "memory", "pods"], "flavors": flavors}]);
            cluster.queue("2", &["c"], &json!({"resourceGroups": groups}));
            cluster.workload("a", "2", 0);
            let mut set = pod_set("main", 2, "700m");
            let requests = &mut set["template"]["spec"]["containers"][0]["resources"]["requests"];
            requests["memory"] = json!("500k");
            requests["example.com/gpu"] = json!(0);
            cluster.workload_of("b", &set);
            cluster.pass(1.0).await;
            let requests = || cluster.get("b")["status"]["resourceRequests"].clone();
            let mut total = json!({"cpu": "1400m", "memory": "1M", "example.com/gpu": "0"});
            if !pods.is_null() {
                total["pods"] = pods.clone();
            }
            assert_eq!(requests(), json!([{"name": "main", "resources": total}]));
            // They remain with entries of checks, and go with the quota.
            cluster.verdict("b", "c", "Retry", 0);
            cluster.finish("a");
            cluster.pass(0.5).await;
            assert_ne!(requests(), Value::Null);
            cluster.verdict("b", "c", "Pending", 0);
            cluster.pass(3.0).await;
            assert_eq!(requests(), Value::Null, "{}", cluster.line());
            assert_eq!(cluster.get("a")["status"]["resourceRequests"], Value::Null);
        });
    }
}

/// The reservation is of the same moment: the scheduler's event has no wait, whatever the fraction
/// of the second.
#[test]
fn the_scheduler_admits_without_a_wait() {
    on_queue("1", &[], async |cluster| {
        cluster.pass(0.4).await;
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        let text = "Admitted by ClusterQueue cq, wait time since reservation was 0s";
        assert_eq!(cluster.notes("Admitted"), [text]);
    });
}

/// Since 0.18 the text of an eviction by a check is the format of the event's note. Before, the text
/// names no check.
#[test]
fn a_percent_sign_in_a_check_s_message_changes_the_notes_of_events() {
    on_queue("1", &["c"], async |cluster| {
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        let name = cluster.name_of("a");
        let mut entry = cluster.get("a")["status"]["admissionChecks"][0].clone();
        entry["state"] = json!("Retry");
        entry["message"] = json!("80% done");
        let status = json!({"status": {"admissionChecks": [entry]}});
        let response = cluster.merge("workloads", "t", &name, "status", &status);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.pass(0.5).await;
        let message = "Evicted due to AdmissionCheck in Retry state: \"c\" (80% done)";
        let condition = cluster.condition("a", "Evicted");
        assert_eq!(condition["message"], format!("Previously: {message}"));
        let note = message.replace("% d", "%!d(MISSING)");
        assert_eq!(cluster.notes("EvictedDueToAdmissionCheck"), [note]);
    });
}

/// A Workload that has lost its job has the label of it, and no owner.
#[test]
fn a_workload_whose_job_is_gone_is_finished_since_0_18() {
    for (version, expected) in [
        (KueueVersion::V0_19, "a:RAF b:RA"),
        (KueueVersion::V0_17, "a:RA b:"),
    ] {
        in_virtual_time(async {
            let cluster = Cluster::new(version);
            cluster.queue("1", &[], &json!({}));
            cluster.workload("a", "1", 0);
            cluster.workload("b", "1", 0);
            cluster.pass(1.0).await;
            let change = json!({"metadata": {
                "labels": {"kueue.x-k8s.io/job-uid": "u"},
                "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            }});
            cluster.merge("workloads", "t", "a", "", &change);
            cluster.pass(3.0).await;
            assert_eq!(cluster.line(), expected);
            let finished = cluster.condition("a", "Finished");
            let is_finished = !finished.is_null();
            if is_finished {
                assert_eq!(finished["reason"], "OwnerNotFound");
                assert_eq!(finished["message"], "The workload's owner no longer exists");
            }
            let finalizers = &cluster.get("a")["metadata"]["finalizers"];
            assert_eq!(finalizers.is_null(), is_finished);
        });
    }
}

#[test]
fn a_local_queue_counts_what_waits_for_a_missing_cluster_queue() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        let pending = || {
            let queue = cluster.server.get(&kueue("localqueues"), "t", "lq");
            queue.unwrap()["status"]["pendingWorkloads"].clone()
        };
        for name in ["a", "b"] {
            cluster.workload(name, "1", 0);
        }
        cluster.pass(3.0).await;
        assert_eq!(pending(), 2);
        cluster.queue("1", &[], &json!({}));
        cluster.pass(3.0).await;
        assert_eq!(pending(), 1);
        cluster.finish("a");
        cluster.pass(3.0).await;
        cluster.finish("b");
        cluster.pass(3.0).await;
        cluster.workload("d", "2", 0);
        cluster.pass(1.0).await;
        cluster.delete("clusterqueues", "cq");
        cluster.pass(3.0).await;
        assert_eq!(pending(), 1);
    });
}

/// Each row has fields of the Pods of `a`, which do not fit into two CPUs, and of `b`, which do. The
/// scheduler must not take them for alike, or it tries `b` no more than `a`.
#[test]
fn the_scheduler_distinguishes_workloads_by_all_that_counts_as_requests() {
    let cpus = |field: &str, cpus: &str| json!({"resources": {field: {"cpu": cpus}}});
    let containers =
        |cpus: Value| json!({"containers": [with(json!({"name": "c", "image": "pause"}), &cpus)]});
    let starting = |policy: Value| {
        let first = with(
            json!({"name": "i", "image": "pause"}),
            &cpus("requests", "2"),
        );
        json!({"initContainers": [with(first, &policy)]})
    };
    let sidecar = json!({"restartPolicy": "Always"});
    let rows = [
        [
            containers(cpus("limits", "3")),
            containers(cpus("limits", "1")),
        ],
        [cpus("requests", "3"), cpus("requests", "1")],
        [cpus("limits", "3"), cpus("limits", "1")],
        [starting(sidecar), starting(json!({}))],
    ];
    for row in rows {
        on_queue("2", &[], async |cluster| {
            for (name, fields) in ["a", "b"].into_iter().zip(&row) {
                let mut set = pod_set("main", 1, "1");
                let spec = &mut set["template"]["spec"];
                *spec = with(spec.take(), fields);
                cluster.workload_of(name, &set);
            }
            cluster.pass(1.0).await;
            assert_eq!(cluster.line(), "a: b:RA", "{row:?}");
        });
    }
}

#[test]
fn a_queue_with_a_flavor_whose_topology_does_not_exist_is_inactive() {
    on_queue("1", &[], async |cluster| {
        cluster.pass(1.0).await;
        let racks = json!({"spec": {"topologyName": "racks", "nodeLabels": {"pool": "a"}}});
        cluster.merge("resourceflavors", "", "default", "", &racks);
        cluster.workload("a", "1", 0);
        cluster.pass(3.0).await;
        assert_eq!(cluster.line(), "a:");
        let queue = cluster.server.get(&kueue("clusterqueues"), "", "cq");
        let active = &queue.unwrap()["status"]["conditions"][0];
        assert_eq!(active["reason"], "TopologyNotFound");
        assert_eq!(
            active["message"],
            "Can't admit new workloads: there is no Topology \"racks\" for TAS flavor \"default\"."
        );
        let reserved = cluster.condition("a", "QuotaReserved");
        assert_eq!(reserved["message"], "ClusterQueue cq is inactive");
    });
}

/// Each row has the parameters of a check of `MultiKueue`, and why Kueue cannot use them.
#[test]
fn a_check_of_multikueue_is_inactive_without_its_clusters() {
    let config = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "c"});
    let own = "kueue.x-k8s.io";
    let rows = [
        (Value::Null, "missing parameters reference"),
        (
            config("example.com", "MultiKueueConfig"),
            "wrong group \"example.com\", expecting \"kueue.x-k8s.io\": bad parameters reference",
        ),
        (
            config(own, "Other"),
            "wrong kind \"Other\", expecting \"MultiKueueConfig\": bad parameters reference",
        ),
        (
            config(own, "MultiKueueConfig"),
            "MultiKueueConfig.kueue.x-k8s.io \"c\" not found",
        ),
    ];
    for (parameters, expected) in rows {
        in_virtual_time(async {
            let cluster = Cluster::new(KueueVersion::V0_19);
            let mut spec = json!({"controllerName": "kueue.x-k8s.io/multikueue"});
            if !parameters.is_null() {
                spec["parameters"] = parameters.clone();
            }
            cluster.create(&json!({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": "c"}, "spec": spec}));
            cluster.queue(
                "1",
                &[],
                &json!({"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}}),
            );
            cluster.workload("a", "1", 0);
            cluster.pass(3.0).await;
            let check = cluster.server.get(&kueue("admissionchecks"), "", "c");
            let active = &check.unwrap()["status"]["conditions"][0];
            assert_eq!(
                (&active["status"], &active["reason"]),
                (&json!("False"), &json!("BadConfig"))
            );
            let message = format!("Cannot load the AdmissionChecks parameters: {expected}");
            assert_eq!(active["message"], message);
            assert_eq!(cluster.line(), "a:(c=Pending)");
        });
    }
}

#[test]
fn the_finalizers_of_others_keep_a_cluster_queue_and_kueues_own_is_there_from_the_start() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        let own = "kueue.x-k8s.io/resource-in-use";
        for kind in ["ClusterQueue", "ResourceFlavor"] {
            let metadata = json!({"name": "kept", "finalizers": ["example.com/keep"]});
            let object =
                json!({"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": {}});
            let made = cluster.try_create(&object).body;
            let finalizers = &made["metadata"]["finalizers"];
            assert_eq!(*finalizers, json!(["example.com/keep", own]), "{kind}");
        }
        for plural in ["clusterqueues", "resourceflavors"] {
            cluster.delete(plural, "kept");
            cluster.pass(1.0).await;
            let kept = cluster.server.get(&kueue(plural), "", "kept").unwrap();
            assert_eq!(kept["metadata"]["finalizers"], json!(["example.com/keep"]));
            let free = json!({"metadata": {"finalizers": []}});
            cluster.merge(plural, "", "kept", "", &free);
            assert_eq!(cluster.server.get(&kueue(plural), "", "kept"), None);
        }
    });
}
