//! Requests that Kueue's webhooks refuse, as tables.

use std::fmt::Display;

use kueue_check_apiserver::{ApiRequest, ApiResponse, Verb};
use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use super::cluster::{Cluster, KUEUE, in_virtual_time, kueue, on_queue, pod_set, with};

/// Runs a scenario on a cluster with a Workload with quota, whose check `c` is Ready with a label.
fn on_cluster(scenario: impl AsyncFnOnce(&Cluster)) {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("4", &["c", "d"], &json!({}));
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        let entry = json!({"name": "c", "state": "Ready", "message": "", "lastTransitionTime": cluster.now(), "podSetUpdates": [{"name": "main", "labels": {"l": "1"}}]});
        let response = entries(&cluster, &[entry]);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.pass(1.0).await;
        scenario(&cluster).await;
    });
}

/// Sends a merge patch that sets entries and keeps the others.
fn entries(cluster: &Cluster, wanted: &[Value]) -> ApiResponse {
    let mut all = cluster.get("a")["status"]["admissionChecks"]
        .as_array()
        .unwrap()
        .clone();
    for entry in wanted {
        all.retain(|known| known["name"] != entry["name"]);
        all.push(entry.clone());
    }
    all.sort_by_key(|entry| entry["name"].as_str().unwrap().to_owned());
    patch(
        cluster,
        "status",
        &json!({"status": {"admissionChecks": all}}),
    )
}

fn patch(cluster: &Cluster, sub: &str, patch: &Value) -> ApiResponse {
    cluster.merge("workloads", "t", "a", sub, patch)
}

fn message(response: &ApiResponse) -> &str {
    response.body["message"].as_str().unwrap_or_default()
}

/// Asserts that a request is refused with a message that contains this, or accepted if this is
/// empty.
fn expect(response: &ApiResponse, expected: &str, what: impl Display) {
    let message = message(response);
    let code = if expected.is_empty() { 200 } else { 403 };
    assert_eq!(response.code, code, "{what}: {message}");
    assert!(message.contains(expected), "{what}: {message}");
}

fn update(fields: &Value) -> Value {
    let update = with(json!({"name": "main"}), fields);
    json!({"name": "d", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z", "podSetUpdates": [update]})
}

#[test]
fn pod_set_updates() {
    let ready = |label: &str| json!({"name": "c", "state": "Ready", "message": "new", "lastTransitionTime": "2026-11-21T09:00:00Z", "podSetUpdates": [{"name": "main", "labels": {"l": label}}]});
    let rows = [
        (update(&json!({"labels": {"good": "yes"}})), ""),
        (
            update(&json!({"name": "other"})),
            "status.admissionChecks[1].podSetUpdates[0].name: Unsupported value: \"other\": supported values: \"main\"",
        ),
        (
            update(&json!({"labels": {"not good": "x"}})),
            "podSetUpdates[0].labels: Invalid value: \"not good\": name part must consist of",
        ),
        (
            update(&json!({"labels": {"a": "not good"}})),
            "podSetUpdates[0].labels: Invalid value: \"not good\": a valid label must be",
        ),
        (
            update(&json!({"annotations": {"not good": "x"}})),
            "podSetUpdates[0].annotations: Invalid value: \"not good\"",
        ),
        (
            update(&json!({"annotations": {"good": "any text at all"}})),
            "",
        ),
        (
            update(&json!({"nodeSelector": {"-a": "x"}})),
            "podSetUpdates[0].nodeSelector: Invalid value: \"-a\"",
        ),
        (
            update(&json!({"tolerations": [{"key": "a b", "operator": "Exists"}]})),
            "podSetUpdates[0].tolerations[0].key: Invalid value: \"a b\"",
        ),
        (ready("1"), ""),
        (
            ready("2"),
            "admission webhook \"vworkload.kb.io\" denied the request: status.admissionChecks[0].podSetUpdates: Invalid value: [{\"name\":\"main\",\"labels\":{\"l\":\"2\"}}]: field is immutable",
        ),
    ];
    on_cluster(async |cluster| {
        for (entry, expected) in rows {
            let response = entries(cluster, std::slice::from_ref(&entry));
            expect(&response, expected, &entry);
        }
    });
}

#[test]
fn updates_of_a_ready_check_change_by_way_of_another_state() {
    on_cluster(async |cluster| {
        for (state, label) in [("Pending", "1"), ("Ready", "2")] {
            let entry = json!({"name": "c", "state": state, "message": "", "lastTransitionTime": cluster.now(), "podSetUpdates": [{"name": "main", "labels": {"l": label}}]});
            assert_eq!(entries(cluster, &[entry]).code, 200);
        }
    });
}

/// Each row has a change of a Workload with quota, in the status or outside it, and the message.
#[test]
fn workloads() {
    let set = pod_set("main", 1, "1");
    let assignment = |fields: Value| {
        let assignment = json!({"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}});
        let assignment = with(assignment, &fields);
        json!({"status": {"admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}}})
    };
    let rows = [
        (
            "status",
            json!({"status": {"admission": null}}),
            "status.admission: Required value: must be set while the QuotaReserved condition is true",
        ),
        (
            "status",
            assignment(json!({"flavors": {"cpu": "other"}})),
            "field is immutable",
        ),
        (
            "status",
            assignment(json!({"name": "other"})),
            "status.admission.podSetAssignments[0].name: Not found: \"other\"",
        ),
        (
            "status",
            assignment(json!({"count": 2, "resourceUsage": {"cpu": "1001m"}})),
            "resourceUsage[cpu]: Invalid value: \"1001m\": is not a multiple of 2",
        ),
        (
            "",
            json!({"spec": {"podSets": [pod_set("main", 2, "1")]}}),
            "spec.podSets.0: Invalid value",
        ),
        (
            "status",
            json!({"status": {"reclaimablePods": [{"name": "other", "count": 1}]}}),
            "status.reclaimablePods[other].name: Unsupported value: \"other\"",
        ),
        (
            "status",
            json!({"status": {"reclaimablePods": [{"name": "main", "count": 2}]}}),
            "status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1",
        ),
        (
            "status",
            json!({"status": {"nominatedClusterNames": ["x"], "clusterName": "y"}}),
            "status",
        ),
        (
            "",
            json!({"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/late"}}}),
            "cannot add admission gate after creation",
        ),
    ];
    on_cluster(async |cluster| {
        for (sub, change, expected) in rows {
            let response = patch(cluster, sub, &change);
            let (code, message) = (response.code, message(&response));
            assert!(matches!(code, 403 | 422), "{change}: {code} {message}");
            assert!(message.contains(expected), "{change}: {message}");
        }
        let new = |name: &str, more: Value| {
            let spec = with(json!({"queueName": "lq", "podSets": [set]}), &more);
            json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": name, "namespace": "t"}, "spec": spec})
        };
        let mut counted = pod_set("main", 1, "1");
        counted["template"]["spec"]["containers"][0]["resources"]["requests"]["pods"] = json!("1");
        let mut variable = [pod_set("one", 2, "1"), pod_set("two", 2, "1")];
        for set in &mut variable {
            set["minCount"] = json!(1);
        }
        for (object, expected) in [
            (
                new("x", json!({"podSets": [counted]})),
                "requests[pods]: Invalid value: \"pods\": the key is reserved for internal kueue use",
            ),
            (
                new("y", json!({"podSets": variable})),
                "at most one podSet can use minCount",
            ),
        ] {
            expect(&cluster.try_create(&object), expected, &object);
        }
    });
}

#[test]
fn pods_that_are_done_stay_done_while_there_is_quota() {
    on_queue("4", &[], async |cluster| {
        let sets = [pod_set("main", 3, "1"), pod_set("more", 1, "1")];
        cluster.submit("a", &json!({"queueName": "lq", "podSets": sets}));
        cluster.pass(1.0).await;
        let done =
            |count: u32| json!({"status": {"reclaimablePods": [{"name": "main", "count": count}]}});
        assert_eq!(patch(cluster, "status", &done(2)).code, 200);
        let less = "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2";
        expect(&patch(cluster, "status", &done(1)), less, "less");
        let other = json!({"status": {"reclaimablePods": [{"name": "more", "count": 1}]}});
        let removed = "status.reclaimablePods[main]: Required value: cannot be removed";
        expect(&patch(cluster, "status", &other), removed, &other);
    });
}

#[test]
fn quota_is_shared_only_in_a_cohort() {
    const ALONE: &str = "must be nil when cohort is empty";
    const LESS: &str = "must be less than or equal to the nominalQuota";
    let rows = [
        (json!({"borrowingLimit": "1"}), None, ALONE),
        (json!({"lendingLimit": "1"}), None, ALONE),
        (json!({"lendingLimit": "5"}), Some("co"), LESS),
        (
            json!({"lendingLimit": "4", "borrowingLimit": "9"}),
            Some("co"),
            "",
        ),
    ];
    on_cluster(async |cluster| {
        for (limits, cohort, expected) in rows {
            let cpu = with(json!({"name": "cpu", "nominalQuota": "4"}), &limits);
            let groups = json!([{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [cpu]}]}]);
            let spec = json!({"spec": {"cohortName": cohort, "resourceGroups": groups}});
            let response = cluster.merge("clusterqueues", "", "cq", "", &spec);
            let message = message(&response);
            let accepted = response.code == 200;
            assert_eq!(accepted, expected.is_empty(), "{spec}: {message}");
            assert!(message.contains(expected), "{spec}: {message}");
        }
    });
}

/// Each row has a field of a ClusterQueue and of a Cohort, and the message.
#[test]
fn names_selectors_and_weights_of_queues_and_cohorts() {
    let selector =
        |requirement: Value| json!({"namespaceSelector": {"matchExpressions": [requirement]}});
    let resources = json!([{"name": "my gpu", "nominalQuota": "1"}]);
    let group = json!([{"coveredResources": ["my gpu"], "flavors": [{"name": "default", "resources": resources}]}]);
    let weight = |weight: &str| json!({"fairSharing": {"weight": weight}});
    let rows = [
        (
            selector(json!({"key": "team", "operator": "In"})),
            "spec.namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            selector(json!({"key": "team", "operator": "Exists", "values": ["a"]})),
            "spec.namespaceSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            selector(json!({"key": "team", "operator": "Is", "values": ["a"]})),
            "spec.namespaceSelector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator",
        ),
        (
            selector(json!({"key": "a team", "operator": "NotIn", "values": ["a", "b c"]})),
            "[spec.namespaceSelector.matchExpressions[0].key: Invalid value: \"a team\": name part must",
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "a b"}}}),
            "spec.namespaceSelector.matchLabels: Invalid value: \"a b\": a valid label must",
        ),
        (
            json!({"resourceGroups": group}),
            "spec.resourceGroups[0].coveredResources[0]: Invalid value: \"my gpu\": name part must",
        ),
        (
            weight("-1"),
            "spec.fairSharing: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            weight("0.000000001"),
            "spec.fairSharing: Invalid value: \"1n\": When not 0, weight must be > 10e-9",
        ),
        (weight("2n"), ""),
        (weight("0"), ""),
    ];
    on_cluster(async |cluster| {
        cluster.create(
            &json!({"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": "co"}, "spec": {}}),
        );
        for (fields, expected) in rows {
            let change = json!({"spec": fields});
            let plurals = match fields["namespaceSelector"] {
                Value::Null => vec![("clusterqueues", "cq"), ("cohorts", "co")],
                _ => vec![("clusterqueues", "cq")],
            };
            for (plural, name) in plurals {
                let response = cluster.merge(plural, "", name, "", &change);
                expect(&response, expected, &change);
            }
        }
    });
}

const EQUAL: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";

/// Each row has a new object, and the message.
#[test]
fn new_objects() {
    let pod = |labels: Value, annotations: Value| {
        let spec = pod_set("main", 1, "1")["template"]["spec"].clone();
        let metadata =
            json!({"namespace": "t", "name": "p", "labels": labels, "annotations": annotations});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    };
    let grouped = |total: Value| {
        let labels =
            json!({"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "g"});
        pod(
            labels,
            json!({"kueue.x-k8s.io/pod-group-total-count": total}),
        )
    };
    let flavor = |spec: Value| json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": spec});
    let gated = |gate: &str| {
        let annotations = json!({"kueue.x-k8s.io/admission-gated-by": gate});
        let metadata = json!({"namespace": "t", "name": "g", "annotations": annotations});
        let spec = json!({"queueName": "lq", "podSets": [pod_set("main", 1, "1")]});
        json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": metadata, "spec": spec})
    };
    let taint = |value: &str| json!({"key": "a", "value": value, "effect": "NoSchedule"});
    let rows = [
        (
            pod(json!({"kueue.x-k8s.io/pod-group-name": "g"}), json!({})),
            "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: Required value: both the 'kueue.x-k8s.io/pod-group-total-count' annotation and the 'kueue.x-k8s.io/pod-group-name' label should be set",
        ),
        (
            pod(
                json!({}),
                json!({"kueue.x-k8s.io/pod-group-total-count": "2"}),
            ),
            "metadata.labels[kueue.x-k8s.io/pod-group-name]: Required value: both the",
        ),
        (
            pod(json!({}), json!({"kueue.x-k8s.io/pod-group-name": "g"})),
            "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: Required value: both the 'kueue.x-k8s.io/pod-group-total-count' annotation and the 'kueue.x-k8s.io/pod-group-name' annotation should be set",
        ),
        (
            pod(
                json!({}),
                json!({"kueue.x-k8s.io/pod-group-name": "a b", "kueue.x-k8s.io/pod-group-total-count": "2"}),
            ),
            "metadata.annotations[kueue.x-k8s.io/pod-group-name]: Invalid value: \"a b\"",
        ),
        (
            grouped(json!("0")),
            "incorrect annotation value 'kueue.x-k8s.io/pod-group-total-count=0': group total count should be greater than zero",
        ),
        (
            grouped(json!("x")),
            "Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            pod(json!({"kueue.x-k8s.io/managed": "no"}), json!({})),
            "metadata.labels[kueue.x-k8s.io/managed]: Forbidden: managed label value can only be 'true'",
        ),
        (
            pod(json!({}), json!({"kueue.x-k8s.io/elastic-job": "true"})),
            "Forbidden: elastic job is not supported for \"/v1, Kind=Pod\"",
        ),
        (
            flavor(json!({"nodeTaints": [taint("1"), taint("2")]})),
            "spec.nodeTaints[1]: Duplicate value: {\"key\":\"a\",\"value\":\"2\",\"effect\":\"NoSchedule\"}: taints must be unique by key and effect pair",
        ),
        (
            flavor(json!({"nodeLabels": {"a b": "x"}})),
            "spec.nodeLabels: Invalid value: \"a b\": name part must consist of",
        ),
        (
            gated("foo"),
            "Invalid value: \"foo\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
        (
            gated(&format!("a.b/{}", "c".repeat(64))),
            "Too long: may not be more than 63 bytes",
        ),
    ];
    on_queue("1", &[], async |cluster| {
        for (object, expected) in rows {
            expect(&cluster.try_create(&object), expected, &object);
        }
        assert_eq!(cluster.try_create(&grouped(json!("2"))).code, 201);
    });
}

/// Each row has a change of a running Pod of a group, and the message.
#[test]
fn pods() {
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {format!("kueue.x-k8s.io/{key}"): value}}});
    let rows = [
        (
            label("queue-name", json!("other")),
            "metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: \"other\": field is immutable",
        ),
        (
            label("pod-group-name", json!("h")),
            "metadata.labels[kueue.x-k8s.io/pod-group-name]: Invalid value: \"h\": field is immutable",
        ),
        (
            json!({"metadata": {"annotations": {"kueue.x-k8s.io/pod-group-name": "h"}}}),
            "metadata.annotations[kueue.x-k8s.io/pod-group-name]: Invalid value: \"h\": field is immutable",
        ),
        (
            label("max-exec-time-seconds", json!("9")),
            "Invalid value: \"9\": field is immutable",
        ),
        (
            json!({"metadata": {"annotations": {"kueue.x-k8s.io/retriable-in-group": null}}}),
            "Forbidden: unretriable pod group can't be converted to retriable",
        ),
        (json!({"metadata": {"labels": {"team": "a"}}}), ""),
    ];
    on_queue("1", &[], async |cluster| {
        let labels =
            json!({"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "g"});
        let annotations = json!({"kueue.x-k8s.io/pod-group-total-count": "1", "kueue.x-k8s.io/retriable-in-group": "false"});
        let metadata =
            json!({"namespace": "t", "name": "p", "labels": labels, "annotations": annotations});
        let spec = pod_set("main", 1, "1")["template"]["spec"].clone();
        cluster.create(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
        );
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "p:RA");
        for (change, expected) in rows {
            let response = cluster.merge("pods", "t", "p", "", &change);
            expect(&response, expected, &change);
        }
    });
}

/// Each row has a change of a waiting or running Job, and the message.
#[test]
fn jobs() {
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {format!("kueue.x-k8s.io/{key}"): value}}});
    let rows = [
        (
            "waits",
            label("max-exec-time-seconds", json!("soon")),
            "Invalid value: \"soon\": strconv.Atoi: parsing \"soon\": invalid syntax",
        ),
        (
            "waits",
            label("max-exec-time-seconds", json!("0")),
            "Invalid value: 0: should be greater than 0",
        ),
        ("waits", label("max-exec-time-seconds", json!("9")), ""),
        (
            "runs",
            label("max-exec-time-seconds", json!("9")),
            "Invalid value: \"9\": field is immutable",
        ),
        (
            "runs",
            label("priority-class", json!("high")),
            "WorkloadPriorityClass cannot be added to a non-suspended workload",
        ),
        ("waits", label("priority-class", json!("high")), ""),
        (
            "waits",
            label("priority-class", Value::Null),
            "WorkloadPriorityClass cannot be removed from a workload",
        ),
        ("waits", label("queue-name", json!("other")), ""),
        (
            "waits",
            label("queue-name", json!("My_Queue")),
            "metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: \"My_Queue\": a lowercase RFC 1123 subdomain",
        ),
        (
            "waits",
            json!({"metadata": {"annotations": {EQUAL: "maybe"}}}),
            "Invalid value: \"maybe\": strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            "waits",
            json!({"metadata": {"annotations": {EQUAL: "true"}}, "spec": {"parallelism": 3}}),
            "[metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: Invalid value: \"true\": should not be enabled for NonIndexed jobs, spec.completions: Invalid value: 1: should be equal to parallelism when kueue.x-k8s.io/job-completions-equal-parallelism annotation is true]",
        ),
    ];
    on_queue("1", &[], async |cluster| {
        for name in ["runs", "waits"] {
            cluster.job(name, "1", None);
            cluster.pass(1.0).await;
        }
        for (job, change, expected) in rows {
            let response = cluster.merge("jobs", "t", job, "", &change);
            expect(&response, expected, format!("{job} {change}"));
        }
    });
}

#[test]
fn gates_are_only_taken_away() {
    on_cluster(async |cluster| {
        let annotated = |gates: Option<&str>| json!({"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": gates}}});
        let mut object = json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "gated", "namespace": "t"}, "spec": {"queueName": "lq", "podSets": [pod_set("main", 1, "1")]}});
        object["metadata"]["annotations"] =
            annotated(Some("a.b/c,a.b/c"))["metadata"]["annotations"].clone();
        assert_eq!(cluster.try_create(&object).code, 403);
        object["metadata"]["annotations"] =
            annotated(Some("a.b/c,a.b/d"))["metadata"]["annotations"].clone();
        cluster.create(&object);
        for (gates, code) in [
            (Some("a.b/c,a.b/x"), 403),
            (Some("a.b/c"), 200),
            (Some("a.b/c,a.b/d"), 403),
            (None, 200),
        ] {
            let response = cluster.merge("workloads", "t", "gated", "", &annotated(gates));
            assert_eq!(response.code, code, "{gates:?}: {}", response.body);
        }
    });
}

#[test]
fn a_job_starts_suspended_and_stays_in_its_queue_while_it_runs() {
    on_queue("4", &[], async |cluster| {
        let template = pod_set("main", 1, "1")["template"].clone();
        cluster.create(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "eager", "namespace": "t", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}, "spec": {"template": template}}));
        assert_eq!(cluster.line(), "");
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "eager:RA");
        let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}});
        let response = cluster.merge("jobs", "t", "eager", "", &label);
        assert_eq!(response.code, 403, "{}", response.body);
    });
}

/// Each row has the fields of the metadata and of the Pods of a Job, and the refusal.
#[test]
fn what_the_model_does_not_have_is_refused() {
    let topology = json!({"kueue.x-k8s.io/podset-preferred-topology": "rack"});
    let prebuilt = json!({"kueue.x-k8s.io/prebuilt-workload-name": "mine"});
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]});
    let rows = [
        (
            json!({}),
            json!({"metadata": {"annotations": topology}}),
            "no topology-aware scheduling, which Job a uses: spec.template.metadata.annotations[kueue.x-k8s.io/podset-preferred-topology]",
        ),
        (
            json!({}),
            json!({"spec": claims}),
            "no dynamic resource allocation, which Job a uses: spec.template.spec.resourceClaims",
        ),
        (
            json!({"annotations": prebuilt}),
            json!({}),
            "no prebuilt Workloads, which Job a uses: metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]",
        ),
    ];
    let refused = |response: &ApiResponse, expected: &str| {
        let expected = format!("the simulated Kueue has {expected}");
        assert_eq!((response.code, message(response)), (501, &*expected));
    };
    on_queue("1", &[], async |cluster| {
        for (metadata, pods, expected) in rows {
            let mut template = pod_set("main", 1, "1")["template"].clone();
            for (field, value) in pods.as_object().unwrap() {
                let part = template[field].take();
                template[field] = with(if part.is_null() { json!({}) } else { part }, value);
            }
            let metadata = with(json!({"name": "a", "namespace": "t"}), &metadata);
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}});
            refused(&cluster.try_create(&job), expected);
        }
        let topology = json!({"apiVersion": KUEUE, "kind": "Topology", "metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}]}});
        let expected = "no topology-aware scheduling, which Topology racks uses: kind";
        let create = ApiRequest::new(Verb::Create, &kueue("topologies")).body(topology);
        refused(&cluster.server.call(&create), expected);
    });
}
