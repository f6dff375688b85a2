//! Differences between Kueue versions, with a test for each switch. The same scenario runs on both
//! settings, and the outcomes differ.

use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use super::cluster::{Cluster, KUEUE, groups, in_virtual_time, pod_set, with};

/// A switch of a version of Kueue.
pub(crate) struct Switch {
    version: KueueVersion,
    set: fn(&mut KueueVersion, bool),
}

/// Returns a switch of 0.19.
pub(crate) fn switch(set: fn(&mut KueueVersion, bool)) -> Switch {
    switch_of(KueueVersion::V0_19, set)
}

/// Returns a switch of this version.
pub(crate) fn switch_of(version: KueueVersion, set: fn(&mut KueueVersion, bool)) -> Switch {
    Switch { version, set }
}

impl Switch {
    /// Returns the outcomes of a scenario with the switch off, and with it on.
    pub(crate) fn off_and_on<T>(self, scenario: impl AsyncFn(&Cluster) -> T) -> [T; 2] {
        [false, true].map(|on| {
            let mut version = self.version;
            (self.set)(&mut version, on);
            in_virtual_time(async { scenario(&Cluster::new(version)).await })
        })
    }
}

#[test]
fn before_0_15_a_retry_with_a_delay_evicts_at_once() {
    let outcome = switch(|v, on| v.delays_retries = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        cluster.verdict("a", "c", "Retry", 30);
        cluster.pass(1.0).await;
        cluster.line()
    });
    assert_eq!(outcome, ["a:RE(c=Pending1)", "a:R(c=Retry)"]);
}

#[test]
fn before_0_16_6_some_checks_are_listed_with_quota_only() {
    let outcome = switch(|v, on| v.lists_checks_early = on).off_and_on(async |cluster| {
        cluster.check("d");
        cluster.flavor("spot", &json!({}));
        let rules = json!([{"name": "c"}, {"name": "d", "onFlavors": ["spot"]}]);
        let with_both = json!({
            "resourceGroups": groups(&[("default", "1"), ("spot", "0")]),
            "admissionChecksStrategy": {"admissionChecks": rules},
        });
        cluster.queue("1", &["c"], &with_both);
        cluster.workload("a", "1", 0);
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        cluster.line()
    });
    assert_eq!(
        outcome,
        ["b:", "b:(c=Pending)"].map(|b| format!("a:R(c=Pending) {b}"))
    );
}

#[test]
fn before_0_16_6_a_workload_without_a_flavor_has_the_checks_for_all_flavors() {
    let outcome = switch(|v, on| v.lists_checks_early = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        let mut set = pod_set("main", 1, "1");
        set["template"]["spec"]["containers"][0]["resources"] = json!({});
        cluster.workload_of("a", &set);
        cluster.pass(1.0).await;
        cluster.line()
    });
    assert_eq!(outcome, ["a:R(c=Pending)", "a:RA"]);
}

#[test]
fn the_definition_of_a_version_has_its_number_of_pod_sets() {
    for (version, most) in [
        (KueueVersion::V0_15, 8),
        (KueueVersion::V0_17, 8),
        (KueueVersion::V0_18, 10),
        (KueueVersion::V0_19, 18),
    ] {
        in_virtual_time(async {
            let cluster = Cluster::new(version);
            let codes = [most, most + 1].map(|count| {
                let sets = (0..count).map(|at| pod_set(&format!("s{at}"), 1, "1"));
                let sets: Vec<Value> = sets.collect();
                let workload = json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {
                    "name": format!("a{count}"), "namespace": "t",
                }, "spec": {"queueName": "lq", "podSets": sets}});
                cluster.try_create(&workload).code
            });
            assert_eq!(codes, [201, 422], "{most}");
        });
    }
}

#[test]
fn up_to_0_18_a_workload_with_quota_may_leave_its_queue() {
    let codes = [KueueVersion::V0_18, KueueVersion::V0_19].map(|version| {
        in_virtual_time(async {
            let cluster = Cluster::new(version);
            cluster.queue("1", &[], &json!({}));
            cluster.workload("a", "1", 0);
            cluster.pass(1.0).await;
            let queue = |name: Value| {
                let change = json!({"spec": {"queueName": name}});
                cluster.merge("workloads", "t", "a", "", &change).code
            };
            [queue(json!("other")), queue(Value::Null)]
        })
    });
    assert_eq!(codes, [[422, 200], [422, 422]]);
}

#[test]
fn in_0_15_a_local_queue_that_starts_again_queues_finished_workloads() {
    let lines = [KueueVersion::V0_15, KueueVersion::V0_17].map(|version| {
        in_virtual_time(async {
            let cluster = Cluster::new(version);
            cluster.queue("1", &[], &json!({}));
            cluster.job("a", "1", None);
            cluster.pass(1.0).await;
            cluster.finish("a");
            cluster.pass(3.0).await;
            let before = cluster.line();
            for policy in ["Hold", "None"] {
                let policy = json!({"spec": {"stopPolicy": policy}});
                cluster.merge("localqueues", "t", "lq", "", &policy);
                cluster.pass(1.0).await;
            }
            [before, cluster.line()]
        })
    });
    assert_eq!(lines[0], ["a:F", "a:RF"]);
    assert_eq!(lines[1], ["a:RAF", "a:RAF"]);
}

#[test]
fn after_0_19_rejected_counts_while_evicted() {
    let outcome = switch(|v, on| v.rejects_while_evicted = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        cluster.verdict("a", "c", "Retry", 0);
        cluster.pass(1.0).await;
        cluster.verdict("a", "c", "Rejected", 0);
        cluster.pass(1.0).await;
        cluster.line()
    });
    assert_eq!(outcome, ["a:RE(c=Rejected1)", "a:REI(c=Rejected1)"]);
}

#[test]
fn the_observability_gate_has_finer_reasons() {
    let outcome = switch(|v, on| v.observability_reasons = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        cluster.job("a", "1", None);
        cluster.workload("b", "2", 0);
        cluster.pass(1.0).await;
        let mut reasons = vec![cluster.condition("b", "QuotaReserved")["reason"].clone()];
        let reason = reasons[0].as_str().unwrap();
        assert_eq!(
            cluster.notes(reason).len(),
            1,
            "the event has the same reason"
        );
        cluster.verdict("a", "c", "Ready", 0);
        cluster.pass(1.0).await;
        let name = cluster.name_of("a");
        let inactive = json!({"spec": {"active": false}});
        cluster.merge("workloads", "t", &name, "", &inactive);
        cluster.pass(1.0).await;
        for kind in ["QuotaReserved", "Admitted"] {
            reasons.push(cluster.condition("a", kind)["reason"].clone());
        }
        reasons
    });
    assert_eq!(
        outcome[0],
        ["Pending", "Pending", "NoReservationUnsatisfiedChecks"]
    );
    assert_eq!(
        outcome[1],
        ["ExceedsMaxQuota", "PendingEvaluation", "NoReservation"]
    );
}

#[test]
fn since_0_18_what_is_like_one_that_does_not_fit_is_not_tried() {
    let outcome = switch(|v, on| v.equivalence_hashing = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        for name in ["a", "b", "c"] {
            cluster.workload(name, "2", 0);
        }
        cluster.pass(1.0).await;
        ["a", "b", "c"].map(|name| cluster.condition(name, "QuotaReserved").is_null())
    });
    assert_eq!(outcome, [[false, false, false], [false, true, true]]);
}

#[test]
fn with_merge_patches_lists_are_replaced_as_a_whole() {
    let outcome = switch(|v, on| v.merge_patches = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        // Fields that the check's manager owns survive an apply of Kueue, not a merge patch.
        let entry = json!({"state": "Rejected", "message": "no", "retryCount": 7});
        let response = cluster.entry("a", "c", &entry);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.pass(1.0).await;
        let workload = cluster.get("a");
        let entry = &workload["status"]["admissionChecks"][0];
        let managers = workload["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter();
        let applies = managers
            .filter(|m| m["manager"] == "kueue-admission")
            .count();
        (entry["state"].clone(), entry["retryCount"].clone(), applies)
    });
    assert_eq!(outcome[0], (json!("Pending"), json!(7), 1));
    assert_eq!(outcome[1], (json!("Pending"), Value::Null, 0));
}

#[test]
fn after_0_19_what_a_check_deactivated_comes_back_when_activated() {
    let outcome = switch(|v, on| v.reactivates_rejected = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        cluster.verdict("a", "c", "Rejected", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:EWI(c=Pending)");
        let active = json!({"spec": {"active": true}});
        cluster.merge("workloads", "t", &cluster.name_of("a"), "", &active);
        cluster.pass(1.0).await;
        cluster.line()
    });
    assert_eq!(outcome, ["a:EW(c=Pending)", "a:R(c=Pending)"]);
}

#[test]
fn a_scheduler_that_is_behind_forces_old_check_states() {
    let outcome = switch(|v, on| v.stale_scheduler = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        cluster.verdict("b", "c", "Ready", 0);
        cluster.pass(1.0).await;
        cluster.finish("a");
        cluster.pass(2.0).await;
        cluster.line()
    });
    let states = ["b:RA(c=Ready)", "b:R(c=Pending)"];
    assert_eq!(outcome, states.map(|b| format!("a:RF(c=Pending) {b}")));
}

#[test]
fn before_0_19_a_gate_means_nothing() {
    let outcome = switch(|v, on| v.admission_gates = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.create(&json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {
            "name": "a", "namespace": "t", "annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"},
        }, "spec": {"queueName": "lq", "podSets": [pod_set("main", 1, "1")]}}));
        cluster.pass(1.0).await;
        let admitted = cluster.line();
        let added = json!({"metadata": {"annotations": {
            "kueue.x-k8s.io/admission-gated-by": "example.com/gate,example.com/other",
        }}});
        let response = cluster.merge("workloads", "t", "a", "", &added);
        (admitted, response.code)
    });
    assert_eq!(outcome[0], ("a:RA".to_owned(), 200));
    assert_eq!(outcome[1], ("a:".to_owned(), 403));
}

#[test]
fn in_0_15_an_event_about_a_preemption_does_not_have_the_priorities() {
    let outcome = switch(|v, on| v.explains_preemptions = on).off_and_on(async |cluster| {
        let preempts = json!({"preemption": {"withinClusterQueue": "LowerPriority"}});
        cluster.queue("1", &[], &preempts);
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        cluster.workload("b", "1", 5);
        cluster.pass(1.0).await;
        let note = cluster.notes("Preempted").remove(0);
        let priorities = note.contains("; preemptor effective priority: 5 (base: 5, boost: 0)");
        (priorities, cluster.notes("PreemptedWorkload").len())
    });
    assert_eq!(outcome, [(false, 0), (true, 1)]);
}

#[test]
fn before_0_16_6_a_check_may_be_for_a_flavor_that_the_queue_does_not_have() {
    let outcome = switch(|v, on| v.validates_on_flavors = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        let checks = json!([{"name": "c", "onFlavors": ["spot"]}]);
        let change = json!({"spec": {"admissionChecksStrategy": {"admissionChecks": checks}}});
        let response = cluster.merge("clusterqueues", "", "cq", "", &change);
        (response.code, response.body["message"].to_string())
    });
    assert_eq!(outcome.each_ref().map(|(code, _)| *code), [200, 403]);
    let message = r#"onFlavors[0]: Unsupported value: \"spot\": supported values: \"default\""#;
    assert!(outcome[1].1.contains(message), "{}", outcome[1].1);
}

#[test]
fn in_0_15_the_flavors_considered_do_not_have_the_kind_of_preemption() {
    let outcome = switch(|v, on| v.explains_preemptions = on).off_and_on(async |cluster| {
        cluster.flavor("spot", &json!({}));
        let groups = groups(&[("spot", "1"), ("default", "1")]);
        cluster.queue("1", &[], &json!({"resourceGroups": groups}));
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        cluster.notes("QuotaReserved").remove(1)
    });
    let considered = |mode: &str| {
        format!(
            "Flavors considered: main: spot({mode};insufficient unused quota for cpu in flavor spot, 1 more needed)"
        )
    };
    assert!(
        outcome[0].ends_with(&considered("Preempt")),
        "{}",
        outcome[0]
    );
    let now = considered("preemptionMode=NoCandidates");
    assert!(outcome[1].ends_with(&now), "{}", outcome[1]);
}

#[test]
fn in_0_15_workloads_that_do_not_fit_are_tried_again_at_once() {
    let outcome = switch(|v, on| v.batches_retries = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        cluster.finish("a");
        cluster.pass(0.5).await;
        let soon = cluster.line();
        cluster.pass(1.0).await;
        (soon, cluster.line())
    });
    let (waits, admitted) = ("a:RAF b:".to_owned(), "a:RAF b:RA".to_owned());
    assert_eq!(outcome[0], (admitted.clone(), admitted.clone()));
    assert_eq!(outcome[1], (waits, admitted));
}

/// Returns a change of the ClusterQueue's quota.
fn quota(cpus: &str) -> Value {
    json!({"spec": {"resourceGroups": groups(&[("default", cpus)])}})
}

#[test]
fn before_0_18_an_event_with_the_same_text_is_counted_in_the_first() {
    let outcome = switch(|v, on| v.counts_messages = on).off_and_on(async |cluster| {
        cluster.queue("1", &["c"], &json!({}));
        cluster.workload("a", "2", 0);
        for cpus in ["0", "1"] {
            cluster.pass(2.0).await;
            cluster.merge("clusterqueues", "", "cq", "", &quota(cpus));
        }
        cluster.pass(2.0).await;
        cluster.notes("Pending").len()
    });
    assert_eq!(outcome, [3, 2]);
}

/// Returns the warnings about a Workload that blocks a `StrictFIFO` queue, before and after a
/// change of the quota.
async fn warnings_about_a_head(cluster: &Cluster) -> Vec<String> {
    cluster.queue("1", &["c"], &json!({"queueingStrategy": "StrictFIFO"}));
    cluster.workload("a", "2", 0);
    cluster.pass(2.0).await;
    cluster.merge("clusterqueues", "", "cq", "", &quota("0"));
    cluster.pass(2.0).await;
    cluster.notes("Pending")
}

#[test]
fn before_0_18_warnings_about_a_workload_that_is_retried_without_end_are_dropped() {
    let outcome = switch(|v, on| v.counts_messages = on).off_and_on(async |cluster| {
        let notes = warnings_about_a_head(cluster).await;
        notes
            .iter()
            .any(|note| note.contains("maximum capacity (0)"))
    });
    assert_eq!(outcome, [true, false]);
}

#[test]
fn before_0_18_warnings_are_recorded_if_the_retries_are_slow() {
    let outcome = switch_of(KueueVersion::V0_17, |v, on| v.slow_retries = on)
        .off_and_on(async |cluster| warnings_about_a_head(cluster).await.len());
    assert_eq!(outcome, [1, 2]);
}

#[test]
fn before_0_18_the_scheduler_may_put_an_inactive_head_back() {
    let outcome = switch_of(KueueVersion::V0_17, |v, on| v.requeues_inactive = on).off_and_on(
        async |cluster| {
            cluster.queue("1", &[], &json!({"queueingStrategy": "StrictFIFO"}));
            cluster.workload("a", "2", 0);
            cluster.pass(2.0).await;
            let version = |cluster: &Cluster| -> u64 {
                let object = cluster.get("a");
                let version = object["metadata"]["resourceVersion"].as_str().unwrap();
                version.parse().unwrap()
            };
            let before = version(cluster);
            cluster.merge(
                "workloads",
                "t",
                "a",
                "",
                &json!({"spec": {"active": false}}),
            );
            cluster.pass(0.5).await;
            assert_eq!(cluster.line(), "a:EI");
            version(cluster) - before
        },
    );
    // The scheduler's write, which removes the eviction, and the eviction again.
    let [without, with] = outcome;
    assert_eq!(with - without, 2);
}

#[test]
fn a_head_preempts_a_workload_that_gets_a_lower_priority() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        let strict = json!({"queueingStrategy": "StrictFIFO", "preemption": {"withinClusterQueue": "LowerPriority"}});
        cluster.queue("1", &[], &strict);
        cluster.workload("a", "1", 5);
        cluster.pass(1.0).await;
        cluster.workload("b", "1", 5);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA b:");
        let lower = json!({"spec": {"priority": 1}});
        cluster.merge("workloads", "t", "a", "", &lower);
        cluster.pass(2.0).await;
        assert_eq!(cluster.line(), "a:RAE b:");
    });
}

#[test]
fn in_0_15_a_change_of_a_job_activates_its_workload() {
    let outcome = switch(|v, on| v.keeps_inactive = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.job("a", "2", None);
        cluster.pass(1.0).await;
        let inactive = json!({"spec": {"active": false}});
        cluster.merge("workloads", "t", &cluster.name_of("a"), "", &inactive);
        cluster.pass(1.0).await;
        let limit = json!({"kueue.x-k8s.io/max-exec-time-seconds": "9"});
        let limit = json!({"metadata": {"labels": limit}});
        cluster.merge("jobs", "t", "a", "", &limit);
        cluster.pass(1.0).await;
        let spec = cluster.get("a")["spec"].take();
        assert_eq!(spec["maximumExecutionTimeSeconds"], 9);
        spec["active"] == true
    });
    assert_eq!(outcome, [true, false]);
}

#[test]
fn in_0_15_a_running_job_keeps_its_priority_class() {
    let outcome = switch(|v, on| v.adds_priority_classes = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        let class = json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}});
        let response = cluster.merge("jobs", "t", "a", "", &class);
        response.body["message"].to_string()
    });
    assert!(outcome[0].contains("field is immutable"), "{}", outcome[0]);
    let refused = "cannot be added to a non-suspended workload";
    assert!(outcome[1].contains(refused), "{}", outcome[1]);
}

/// Creates the Workload `a` of two cores and 2 GiB.
pub(super) fn large_workload(cluster: &Cluster) {
    let mut set = pod_set("main", 1, "2");
    set["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("2Gi");
    cluster.workload_of("a", &set);
}

#[test]
fn up_to_0_18_the_message_names_one_of_several_resources() {
    let message = in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_18);
        cluster.flavor("other", &json!({}));
        let groups = [("default", "cpu", "1"), ("other", "memory", "1Gi")].map(
            |(flavor, resource, quota)| {
                let resources = json!([{"name": resource, "nominalQuota": quota}]);
                json!({"coveredResources": [resource], "flavors": [{"name": flavor, "resources": resources}]})
            },
        );
        cluster.queue("1", &[], &json!({"resourceGroups": groups}));
        large_workload(&cluster);
        cluster.pass(1.0).await;
        cluster.notes("Pending").remove(0)
    });
    let named = |resource: &str| message.contains(&format!("insufficient quota for {resource}"));
    assert_eq!((named("cpu"), named("memory")), (false, true), "{message}");
}

#[test]
fn before_0_18_messages_do_not_name_the_checks() {
    let outcome = switch(|v, on| v.explains_evictions = on).off_and_on(async |cluster| {
        cluster.queue("2", &["c"], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.job("b", "1", None);
        cluster.pass(1.0).await;
        cluster.verdict("a", "c", "Retry", 0);
        cluster.verdict("b", "c", "Rejected", 0);
        cluster.pass(1.0).await;
        let message = |name| cluster.condition(name, "Evicted")["message"].clone();
        let notes = cluster.notes("AdmissionCheckRejected");
        (message("a"), message("b"), notes)
    });
    let [(retried, rejected, notes), now] = outcome;
    assert_eq!(retried, "At least one admission check is false");
    let why = "The workload is deactivated due to Admission check(s): c, were rejected";
    assert_eq!(rejected, why);
    let note = "Deactivating workload because AdmissionCheck for c was Rejected: ";
    assert!(notes[0].starts_with(note), "{notes:?}");
    for text in [now.0.as_str().unwrap(), now.1.as_str().unwrap(), &now.2[0]] {
        assert!(text.contains("AdmissionCheck in "), "{text}");
    }
}

#[test]
fn in_0_15_the_end_releases_the_quota() {
    let outcome = switch(|v, on| v.releases_at_end = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        cluster.finish("a");
        cluster.pass(1.0).await;
        let admission = cluster.get("a")["status"]["admission"].is_null();
        let of = |kind| cluster.condition("a", kind)["message"].clone();
        (
            cluster.line(),
            admission,
            of("QuotaReserved"),
            of("Admitted"),
        )
    });
    let end = || json!("Workload has finished");
    assert_eq!(outcome[1], ("a:F".to_owned(), true, end(), end()));
    assert_eq!((&*outcome[0].0, outcome[0].1), ("a:RAF", false));
}

/// Creates the elastic Job `a` of one Pod, with a priority class if given.
pub(super) fn elastic_job(cluster: &Cluster, class: Option<&str>) {
    let mut labels = json!({"kueue.x-k8s.io/queue-name": "lq"});
    if let Some(class) = class {
        labels["kueue.x-k8s.io/priority-class"] = json!(class);
    }
    let annotations = json!({"kueue.x-k8s.io/elastic-job": "true"});
    let metadata = json!({"labels": labels, "annotations": annotations});
    cluster.job_of("a", &metadata, &json!({"parallelism": 1, "completions": 4}));
}

/// Returns the Job `a`.
pub(super) fn job(cluster: &Cluster) -> Value {
    let jobs = kueue_check_apiserver::Resource::new("batch", "v1", "jobs");
    let found = cluster.server.get(&jobs, "t", "a");
    found.unwrap()
}

#[test]
fn before_0_18_no_job_is_elastic() {
    let outcome = switch(|v, on| v.elastic_jobs = on).off_and_on(async |cluster| {
        cluster.queue("4", &[], &json!({}));
        elastic_job(cluster, None);
        cluster.pass(1.0).await;
        let job = job(cluster);
        let gates = job["spec"]["template"]["spec"]["schedulingGates"].is_array();
        let slice = cluster.get("a")["metadata"]["annotations"].is_object();
        (cluster.line(), gates, slice)
    });
    assert_eq!(outcome[0], ("a:RA".to_owned(), false, false));
    assert_eq!(outcome[1], ("a:RA".to_owned(), true, true));
}

#[test]
fn in_0_15_pods_have_no_labels_of_queues() {
    let outcome = switch(|v, on| v.labels_pods = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        let job = job(cluster);
        let labels = job["spec"]["template"]["metadata"]["labels"].as_object();
        let of_kueue = |key: &&String| key.starts_with("kueue.x-k8s.io/");
        let keys = labels.unwrap().keys().filter(of_kueue);
        keys.cloned().collect::<Vec<String>>()
    });
    assert_eq!(outcome[0], ["kueue.x-k8s.io/podset"]);
    let all = ["cluster-queue-name", "local-queue-name", "podset"];
    assert_eq!(outcome[1], all.map(|key| format!("kueue.x-k8s.io/{key}")));
}

#[test]
fn before_0_18_a_selector_excludes_flavors_without_the_label() {
    let outcome = switch(|v, on| v.excludes_unlabeled = on).off_and_on(async |cluster| {
        cluster.flavor("spot", &json!({"nodeLabels": {"pool": "spot"}}));
        let groups = groups(&[("spot", "1"), ("default", "1")]);
        cluster.queue("1", &[], &json!({"resourceGroups": groups}));
        let mut set = pod_set("main", 1, "1");
        set["template"]["spec"]["nodeSelector"] = json!({"pool": "other"});
        cluster.workload_of("a", &set);
        cluster.pass(1.0).await;
        cluster.line()
    });
    assert_eq!(outcome, ["a:RA", "a:"]);
}

#[test]
fn before_0_18_an_orphan_only_loses_its_finalizer() {
    let outcome = switch(|v, on| v.finishes_orphans = on).off_and_on(async |cluster| {
        cluster.server.collect_garbage(false);
        cluster.queue("1", &[], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(1.0).await;
        cluster.delete("jobs", "a");
        cluster.pass(1.0).await;
        (
            cluster.line(),
            cluster.get("a")["metadata"]["finalizers"].is_null(),
        )
    });
    assert_eq!(outcome[0], ("a:RA".to_owned(), true));
    assert_eq!(outcome[1].0, "a:RAF");
}

/// Each row has a switch, and whether it is on in each of the named versions.
#[test]
fn the_named_kueues_are_what_their_releases_do() {
    let named = [
        KueueVersion::V0_14,
        KueueVersion::V0_17,
        KueueVersion::V0_19,
        KueueVersion::NEXT,
    ];
    let on = |switch: fn(&KueueVersion) -> bool| named.map(|version| switch(&version));
    assert_eq!(on(|v| v.delays_retries), [false, true, true, true]);
    assert_eq!(on(|v| v.lists_checks_early), [false, true, true, true]);
    assert_eq!(on(|v| v.equivalence_hashing), [false, false, true, true]);
    assert_eq!(on(|v| v.admission_gates), [false, false, true, true]);
    assert_eq!(on(|v| v.explains_evictions), [false, false, true, true]);
    assert_eq!(on(|v| v.explains_preemptions), [false, true, true, true]);
    assert_eq!(
        on(|v| v.wait_for_pods_ready.is_some()),
        [false, false, true, true]
    );
    assert_eq!(on(|v| v.elastic_jobs), [false, false, true, true]);
    assert_eq!(on(|v| v.excludes_unlabeled), [true, true, false, false]);
    assert_eq!(on(|v| v.counts_messages), [true, true, false, false]);
    assert_eq!(on(|v| v.validates_on_flavors), [false, true, true, true]);
    assert_eq!(on(|v| v.finishes_orphans), [false, false, true, true]);
    assert_eq!(on(|v| v.labels_pods), [false, true, true, true]);
    assert_eq!(on(|v| v.batches_retries), [false, true, true, true]);
    assert_eq!(on(|v| v.adds_priority_classes), [false, true, true, true]);
    assert_eq!(on(|v| v.follows_class_values), [false, true, true, true]);
    assert_eq!(on(|v| v.retries_on_deletion), [false, true, true, true]);
    assert_eq!(on(|v| v.waits_for_replacements), [false, false, true, true]);
    assert_eq!(on(|v| v.preempts_for_pods), [true, true, false, false]);
    assert_eq!(on(|v| v.skips_zero_requests), [false, true, true, true]);
    assert_eq!(on(|v| v.nominal_first), [false, true, true, true]);
    assert_eq!(on(|v| v.counts_ready_pods), [false, false, true, true]);
    assert_eq!(on(|v| v.keeps_serving_queues), [false, false, true, true]);
    assert_eq!(on(|v| v.deletes_once), [false, false, true, true]);
    assert_eq!(on(|v| v.validates_templates), [false, false, true, true]);
    assert_eq!(on(|v| v.nameless_queue), [true, true, false, false]);
    assert_eq!(on(|v| v.keeps_inactive), [false, true, true, true]);
    assert_eq!(on(|v| v.releases_at_end), [true, false, false, false]);
    assert_eq!(on(|v| v.rejects_while_evicted), [false, false, false, true]);
    assert_eq!(on(|v| v.observability_reasons), [false, false, false, true]);
    assert_eq!(on(|v| v.reactivates_rejected), [false, false, false, true]);
    assert_eq!(
        on(|v| v.merge_patches || v.stale_scheduler || v.kep993),
        [false; 4]
    );
}

#[test]
fn a_late_write_of_the_scheduler_removes_what_came_after_its_decision() {
    let outcome = switch(|v, on| v.late_scheduler = if on { u8::MAX } else { 0 }).off_and_on(
        async |cluster| {
            cluster.queue("0", &["c"], &json!({}));
            cluster.workload("a", "1", 0);
            cluster.pass(1.0).await;
            cluster.merge("clusterqueues", "", "cq", "", &quota("1"));
            cluster.pass(1.05).await;
            cluster.verdict("a", "c", "Ready", 0);
            cluster.pass(1.0).await;
            cluster.line()
        },
    );
    assert_eq!(outcome, ["a:RA(c=Ready)", "a:R(c=Pending)"]);
}

#[test]
fn in_0_15_a_new_value_of_a_class_changes_no_workload() {
    let outcome = switch(|v, on| v.follows_class_values = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.class("low", 1);
        cluster.job("a", "1", Some("low"));
        cluster.job("b", "1", None);
        cluster.pass(1.0).await;
        let value = json!({"value": 7});
        cluster.merge("workloadpriorityclasses", "", "low", "", &value);
        cluster.pass(1.0).await;
        ["a", "b"].map(|name| cluster.get(name)["spec"]["priority"].clone())
    });
    assert_eq!(outcome, [[1, 0], [7, 0]]);
}

#[test]
fn in_0_15_the_deletion_of_a_waiting_workload_triggers_no_retry() {
    let version = KueueVersion {
        retries_on_flavor_changes: false,
        ..KueueVersion::V0_19
    };
    let taints = |taints: Value| json!({"spec": {"nodeTaints": taints}});
    let outcome =
        switch_of(version, |v, on| v.retries_on_deletion = on).off_and_on(async |cluster| {
            cluster.queue("1", &[], &json!({}));
            let taint = json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]);
            cluster.merge("resourceflavors", "", "default", "", &taints(taint));
            cluster.pass(1.0).await;
            cluster.workload("a", "1", 0);
            cluster.workload("b", "1", 0);
            cluster.pass(1.0).await;
            cluster.merge("resourceflavors", "", "default", "", &taints(json!([])));
            cluster.pass(5.0).await;
            assert_eq!(cluster.line(), "a: b:");
            cluster.delete("workloads", "b");
            cluster.pass(5.0).await;
            cluster.line()
        });
    assert_eq!(outcome, ["a:", "a:RA"]);
}

#[test]
fn before_0_18_a_group_that_lacks_pods_gets_quota() {
    let outcome = switch(|v, on| v.waits_for_replacements = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        cluster.workload("a", "1", 0);
        let moves = |queue: &str| json!({"spec": {"queueName": queue}});
        cluster.merge("workloads", "t", "a", "", &moves("elsewhere"));
        let lacks = json!({
            "type": "WaitingForReplacementPods", "status": "True", "reason": "Preempted",
            "message": "", "lastTransitionTime": cluster.now(),
        });
        let status = json!({"status": {"conditions": [lacks]}});
        cluster.merge("workloads", "t", "a", "status", &status);
        cluster.pass(1.0).await;
        cluster.merge("workloads", "t", "a", "", &moves("lq"));
        cluster.pass(5.0).await;
        cluster.line()
    });
    assert_eq!(outcome, ["a:RA", "a:"]);
}

#[test]
fn before_0_18_a_preemption_frees_quota_for_pods() {
    let outcome = switch(|v, on| v.preempts_for_pods = on).off_and_on(async |cluster| {
        let resources = [("cpu", "10"), ("pods", "2")];
        let resources = resources.map(|(name, quota)| json!({"name": name, "nominalQuota": quota}));
        let flavors = json!([{"name": "default", "resources": resources}]);
        let groups = json!([{"coveredResources": ["cpu", "pods"], "flavors": flavors}]);
        let preemption = json!({"withinClusterQueue": "LowerPriority"});
        let spec = json!({"resourceGroups": groups, "preemption": preemption});
        cluster.queue("1", &[], &spec);
        cluster.workload("a", "1", 0);
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        let pod_sets = json!([pod_set("main", 2, "1")]);
        let spec = json!({"queueName": "lq", "priority": 1, "podSets": pod_sets});
        cluster.submit("c", &spec);
        cluster.pass(5.0).await;
        cluster.condition("a", "Evicted")["reason"].clone()
    });
    assert_eq!(outcome, [Value::Null, json!("Preempted")]);
}

#[test]
fn before_0_19_only_requests_of_pods_are_refused_in_a_template() {
    let outcome = switch(|v, on| v.validates_templates = on).off_and_on(async |cluster| {
        let rows = [
            json!({"metadata": {"labels": {"a": "no label!"}}}),
            json!({"spec": {"resources": {"requests": {"cpu": "-1"}}}}),
            json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"pods": "1"}}}]}}),
            json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"pods": "1"}}}]}}),
        ];
        let mut number = 0;
        rows.map(|template| {
            let mut set = pod_set("main", 1, "1");
            for (part, fields) in template.as_object().unwrap() {
                set["template"][part] = with(set["template"][part].clone(), fields);
            }
            number += 1;
            let metadata = json!({"namespace": "t", "name": format!("w{number}")});
            let spec = json!({"queueName": "lq", "podSets": [set]});
            let object = json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": metadata, "spec": spec});
            cluster.try_create(&object).code
        })
    });
    assert_eq!(outcome, [[201, 201, 201, 403], [403; 4]]);
}

#[test]
fn before_0_19_an_elastic_job_that_is_done_may_have_fewer_pods_that_are_done() {
    let outcome = switch(|v, on| v.revised_slices = on).off_and_on(async |cluster| {
        cluster.queue("9", &[], &json!({}));
        let annotations = json!({"kueue.x-k8s.io/elastic-job": "true"});
        let metadata = json!({"namespace": "t", "name": "a", "annotations": annotations});
        let spec = |pods| json!({"queueName": "lq", "podSets": [pod_set("main", pods, "1")]});
        cluster.create(&json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": metadata, "spec": spec(3)}));
        cluster.pass(1.0).await;
        let done = |count: i64| {
            let done = json!([{"name": "main", "count": count}]);
            let status = json!({"status": {"reclaimablePods": done}});
            cluster.merge("workloads", "t", "a", "status", &status).code
        };
        let codes = [done(3), done(2), done(3)];
        let smaller = json!({"spec": spec(2)});
        let smaller = cluster.merge("workloads", "t", "a", "", &smaller).code;
        (codes, smaller, done(1))
    });
    let expected = |reduced| ([200, reduced, 200], 200, 200);
    assert_eq!(outcome, [expected(200), expected(403)]);
}

#[test]
fn in_0_15_none_of_a_resource_that_the_queue_does_not_cover_does_not_fit() {
    let outcome = switch(|v, on| v.skips_zero_requests = on).off_and_on(async |cluster| {
        cluster.queue("1", &[], &json!({}));
        let mut set = pod_set("main", 1, "1");
        let resources = &mut set["template"]["spec"]["containers"][0]["resources"];
        resources["requests"]["example.com/gpu"] = json!("0");
        cluster.workload_of("a", &set);
        cluster.pass(1.0).await;
        cluster.condition("a", "QuotaReserved")["message"].to_string()
    });
    let why = "resource example.com/gpu unavailable in ClusterQueue";
    assert_eq!(outcome.map(|message| message.contains(why)), [true, false]);
}
