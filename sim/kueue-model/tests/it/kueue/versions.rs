//! What differs between Kueues, a test for each switch: the same happens to both, and what comes of
//! it differs.

use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use super::cluster::{Cluster, KUEUE, in_virtual_time, pod_set};

/// What comes of a scenario with the switch off, and with it on.
fn off_and_on<T>(
    on: KueueVersion,
    switch: impl Fn(&mut KueueVersion, bool),
    scenario: impl AsyncFn(&Cluster) -> T,
) -> (T, T) {
    let run = |value| {
        let mut version = on;
        switch(&mut version, value);
        in_virtual_time(async {
            let cluster = Cluster::new(version);
            scenario(&cluster).await
        })
    };
    (run(false), run(true))
}

#[test]
fn before_0_15_a_retry_with_a_delay_evicts_at_once() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.delays_retries = on,
        async |cluster| {
            cluster.queue("1", &["c"], &json!({}));
            cluster.workload("a", "1", 0);
            cluster.pass(1.0).await;
            cluster.verdict("a", "c", "Retry", 30);
            cluster.pass(1.0).await;
            cluster.line()
        },
    );
    assert_eq!(
        outcome,
        ("a:RE(c=Pending1)".to_owned(), "a:R(c=Retry)".to_owned())
    );
}

#[test]
fn before_0_17_some_checks_are_listed_with_quota_only() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.lists_checks_early = on,
        async |cluster| {
            cluster.check("d");
            cluster.create(&json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "spot"}, "spec": {}}));
            let flavors = [("default", "1"), ("spot", "0")].map(|(name, cpus)| {
                json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": cpus}]})
            });
            let rules = json!([{"name": "c"}, {"name": "d", "onFlavors": ["spot"]}]);
            let with_both = json!({
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
                "admissionChecksStrategy": {"admissionChecks": rules},
            });
            cluster.queue("1", &["c"], &with_both);
            cluster.workload("a", "1", 0);
            cluster.workload("b", "1", 0);
            cluster.pass(1.0).await;
            cluster.line()
        },
    );
    assert_eq!(
        outcome,
        (
            "a:R(c=Pending) b:".to_owned(),
            "a:R(c=Pending) b:(c=Pending)".to_owned()
        )
    );
}

#[test]
fn after_0_19_rejected_counts_while_evicted() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.rejects_while_evicted = on,
        async |cluster| {
            cluster.queue("1", &["c"], &json!({}));
            cluster.workload("a", "1", 0);
            cluster.pass(1.0).await;
            cluster.verdict("a", "c", "Retry", 0);
            cluster.pass(1.0).await;
            cluster.verdict("a", "c", "Rejected", 0);
            cluster.pass(1.0).await;
            cluster.line()
        },
    );
    assert_eq!(
        outcome,
        (
            "a:RE(c=Rejected1)".to_owned(),
            "a:REI(c=Rejected1)".to_owned()
        )
    );
}

#[test]
fn the_observability_gate_has_finer_reasons() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.observability_reasons = on,
        async |cluster| {
            cluster.queue("1", &["c"], &json!({}));
            cluster.job("a", "1", None);
            cluster.workload("b", "2", 0);
            cluster.pass(1.0).await;
            let mut reasons = vec![cluster.condition("b", "QuotaReserved")["reason"].clone()];
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
        },
    );
    let texts = |list: [&str; 3]| list.map(Value::from).to_vec();
    assert_eq!(
        outcome.0,
        texts(["Pending", "Pending", "NoReservationUnsatisfiedChecks"])
    );
    assert_eq!(
        outcome.1,
        texts(["ExceedsMaxQuota", "PendingEvaluation", "NoReservation"])
    );
}

#[test]
fn since_0_18_what_is_like_one_that_does_not_fit_is_not_tried() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.equivalence_hashing = on,
        async |cluster| {
            cluster.queue("1", &[], &json!({}));
            for name in ["a", "b", "c"] {
                cluster.workload(name, "2", 0);
            }
            cluster.pass(1.0).await;
            ["a", "b", "c"].map(|name| cluster.condition(name, "QuotaReserved").is_null())
        },
    );
    assert_eq!(outcome, ([false, false, false], [false, true, true]));
}

#[test]
fn with_merge_patches_lists_are_replaced_as_a_whole() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.merge_patches = on,
        async |cluster| {
            cluster.queue("1", &["c"], &json!({}));
            cluster.workload("a", "1", 0);
            cluster.pass(1.0).await;
            // Fields that the check's manager owns survive an apply of Kueue, not a merge patch.
            let entry = json!({"name": "c", "state": "Rejected", "message": "no", "lastTransitionTime": cluster.now(), "retryCount": 7});
            apply_entry(cluster, &entry);
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
        },
    );
    assert_eq!(outcome.0, (json!("Pending"), json!(7), 1));
    assert_eq!(outcome.1, (json!("Pending"), Value::Null, 0));
}

fn apply_entry(cluster: &Cluster, entry: &Value) {
    use kueue_check_apiserver::{ApiRequest, Patch, Verb};
    let body = json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "a", "namespace": "t"}, "status": {"admissionChecks": [entry]}});
    let call = ApiRequest::new(
        Verb::Patch(Patch::Apply),
        &super::cluster::kueue("workloads"),
    );
    let call = call.namespace("t").name("a").subresource("status");
    let call = call.query("fieldManager", "check-c").query("force", "true");
    let answer = cluster.server.call(&call.body(body));
    assert_eq!(answer.code, 200, "{}", answer.body);
}

#[test]
fn after_0_19_what_a_check_deactivated_comes_back_when_activated() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.reactivates_rejected = on,
        async |cluster| {
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
        },
    );
    assert_eq!(
        outcome,
        ("a:EW(c=Pending)".to_owned(), "a:R(c=Pending)".to_owned())
    );
}

#[test]
fn a_scheduler_that_is_behind_forces_old_check_states() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.stale_scheduler = on,
        async |cluster| {
            cluster.queue("1", &["c"], &json!({}));
            cluster.workload("a", "1", 0);
            cluster.workload("b", "1", 0);
            cluster.pass(1.0).await;
            cluster.verdict("b", "c", "Ready", 0);
            cluster.pass(1.0).await;
            cluster.finish("a");
            cluster.pass(2.0).await;
            cluster.line()
        },
    );
    assert_eq!(
        outcome,
        (
            "a:RF(c=Pending) b:RA(c=Ready)".to_owned(),
            "a:RF(c=Pending) b:R(c=Pending)".to_owned()
        )
    );
}

#[test]
fn before_0_19_a_gate_means_nothing() {
    let outcome = off_and_on(
        KueueVersion::V0_19,
        |v, on| v.admission_gates = on,
        async |cluster| {
            cluster.queue("1", &[], &json!({}));
            cluster.create(&json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {
            "name": "a", "namespace": "t", "annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"},
        }, "spec": {"queueName": "lq", "podSets": [pod_set("main", 1, "1")]}}));
            cluster.pass(1.0).await;
            cluster.line()
        },
    );
    assert_eq!(outcome, ("a:RA".to_owned(), "a:".to_owned()));
}

/// Switch, and in which of the named Kueues it is on.
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
    assert_eq!(on(|v| v.rejects_while_evicted), [false, false, false, true]);
    assert_eq!(on(|v| v.observability_reasons), [false, false, false, true]);
    assert_eq!(on(|v| v.reactivates_rejected), [false, false, false, true]);
    assert_eq!(
        on(|v| v.merge_patches || v.stale_scheduler || v.kep993),
        [false; 4]
    );
}
