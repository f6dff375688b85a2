//! The basis of the contract with Kueue: owners of Workload statuses, guards in an apply, quota in
//! selectors, and the rules of Kueue's definitions.

use serde_json::{Value, json};

use super::definitions::with;
use super::harness::{Row, Step, delete, get, jsonpatch, merge, post, put, row, ssa};

const API: &str = "/apis/kueue.x-k8s.io/v1beta2";
const WORKLOADS: &str = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads";
const WHEN: &str = "2025-03-01T09:00:00Z";

fn workload(spec: Value) -> Step {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}], "restartPolicy": "Never"}});
    let usual =
        json!({"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]});
    let object = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": with(usual, &spec)});
    post(201, WORKLOADS, object)
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": WHEN, "observedGeneration": 1})
}

fn admission() -> Value {
    json!({"clusterQueue": "c", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}, "count": 1}]})
}

fn entry(name: &str, state: &str) -> Value {
    json!({"name": name, "state": state, "message": "m", "lastTransitionTime": WHEN})
}

/// Returns an apply of a status by a manager, with more metadata.
fn apply(code: u16, manager: &str, metadata: Value, status: Value) -> Step {
    let metadata = with(json!({"name": "w"}), &metadata);
    let object = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "status": status});
    ssa(
        code,
        format!("{WORKLOADS}/w/status?fieldManager={manager}"),
        object,
    )
}

fn forced(code: u16, manager: &str, status: Value) -> Step {
    let object = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "status": status});
    ssa(
        code,
        format!("{WORKLOADS}/w/status?fieldManager={manager}&force=true"),
        object,
    )
}

fn status(code: u16, status: Value) -> Step {
    merge(
        code,
        format!("{WORKLOADS}/w/status"),
        json!({"status": status}),
    )
}

fn queue(spec: Value) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "{ns}"}, "spec": spec})
}

fn cluster_queue(name: &'static str, code: u16, spec: Value) -> Row {
    row(
        name,
        [post(code, format!("{API}/clusterqueues"), queue(spec))],
    )
}

pub(super) fn rows() -> Vec<Row> {
    let w = format!("{WORKLOADS}/w");
    let reserved = || json!({"conditions": [condition("QuotaReserved", "True", "QuotaReserved")], "admission": admission()});
    let quota = |resource: Value| json!({"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [resource]}]}]});
    vec![
        row(
            "two owners of two conditions",
            [
                workload(json!({})),
                apply(200, "kueue-admission", json!({}), reserved()),
                apply(
                    200,
                    "other",
                    json!({}),
                    json!({"conditions": [condition("PodsReady", "True", "R")]}),
                ),
                apply(
                    200,
                    "kueue-admission",
                    json!({}),
                    json!({"conditions": [condition("QuotaReserved", "False", "Pending")]}),
                ),
                apply(200, "other", json!({}), json!({})),
            ],
        ),
        row(
            "two owners of one condition",
            [
                workload(json!({})),
                apply(
                    200,
                    "a",
                    json!({}),
                    json!({"conditions": [condition("Evicted", "True", "R")]}),
                ),
                apply(
                    200,
                    "b",
                    json!({}),
                    json!({"conditions": [condition("Evicted", "True", "R")]}),
                ),
                apply(
                    409,
                    "b",
                    json!({}),
                    json!({"conditions": [condition("Evicted", "False", "S")]}),
                ),
                forced(
                    200,
                    "b",
                    json!({"conditions": [condition("Evicted", "False", "S")]}),
                ),
                apply(422, "b", json!({}), json!({})),
                apply(
                    409,
                    "a",
                    json!({}),
                    json!({"conditions": [condition("Evicted", "True", "T")]}),
                ),
            ],
        ),
        row(
            "two checks own one entry each",
            [
                workload(json!({})),
                forced(
                    200,
                    "kueue-admission",
                    json!({"admissionChecks": [entry("a", "Pending"), entry("b", "Pending")]}),
                ),
                forced(
                    200,
                    "check-a",
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
                forced(
                    200,
                    "check-b",
                    json!({"admissionChecks": [entry("b", "Rejected")]}),
                ),
                forced(200, "kueue-admission", json!({"admissionChecks": []})),
                get(200, &w),
            ],
        ),
        row(
            "an entry goes when nobody applies it",
            [
                workload(json!({})),
                forced(
                    200,
                    "kueue-admission",
                    json!({"admissionChecks": [entry("a", "Pending"), entry("b", "Pending")]}),
                ),
                forced(
                    200,
                    "kueue-admission",
                    json!({"admissionChecks": [entry("b", "Pending")]}),
                ),
                forced(422, "kueue-admission", json!({})),
            ],
        ),
        row(
            "an entry that nobody else has",
            [
                workload(json!({})),
                forced(
                    200,
                    "check-a",
                    json!({"admissionChecks": [entry("new", "Ready")]}),
                ),
            ],
        ),
        row(
            "an entry without what it must have",
            [
                workload(json!({})),
                forced(
                    422,
                    "check-a",
                    json!({"admissionChecks": [{"name": "a", "state": "Ready"}]}),
                ),
            ],
        ),
        row(
            "a null delay",
            [
                workload(json!({})),
                forced(
                    422,
                    "check-a",
                    json!({"admissionChecks": [{"name": "a", "state": "Retry", "message": "m", "lastTransitionTime": WHEN, "requeueAfterSeconds": null}]}),
                ),
            ],
        ),
        row(
            "a message of 32,769 characters",
            [
                workload(json!({})),
                forced(
                    422,
                    "check-a",
                    json!({"admissionChecks": [{"name": "a", "state": "Ready", "message": "x".repeat(32_769), "lastTransitionTime": WHEN}]}),
                ),
            ],
        ),
        row(
            "a time that is none in an entry",
            [
                workload(json!({})),
                forced(
                    422,
                    "check-a",
                    json!({"admissionChecks": [{"name": "a", "state": "Ready", "message": "m", "lastTransitionTime": "soon"}]}),
                ),
            ],
        ),
        row(
            "an apply for a right version and uid",
            [
                workload(json!({})),
                apply(
                    200,
                    "a",
                    json!({"uid": "{uid}", "resourceVersion": "{rv}"}),
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
            ],
        ),
        row(
            "an apply for a stale version",
            [
                workload(json!({})),
                status(
                    200,
                    json!({"conditions": [condition("PodsReady", "True", "R")]}),
                ),
                apply(
                    409,
                    "a",
                    json!({"uid": "{uid}", "resourceVersion": "{first}"}),
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
            ],
        ),
        row(
            "an apply for another uid",
            [
                workload(json!({})),
                apply(
                    200,
                    "a",
                    json!({"uid": "11111111-1111-4111-8111-111111111111"}),
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
            ],
        ),
        row(
            "an apply for what is gone",
            [
                workload(json!({})),
                delete(200, &w),
                apply(
                    404,
                    "a",
                    json!({"uid": "{uid}", "resourceVersion": "{rv}"}),
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
            ],
        ),
        row(
            "an apply for what was made anew",
            [
                workload(json!({})),
                delete(200, &w),
                workload(json!({})),
                apply(
                    409,
                    "a",
                    json!({"resourceVersion": "{first}"}),
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
            ],
        ),
        row(
            "an apply that changes nothing",
            [
                workload(json!({})),
                forced(200, "a", json!({"admissionChecks": [entry("a", "Ready")]})),
                forced(200, "a", json!({"admissionChecks": [entry("a", "Ready")]})),
            ],
        ),
        row(
            "an update loses what another version knew",
            [
                workload(json!({})),
                forced(
                    200,
                    "check-a",
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
                put(
                    200,
                    format!("{w}/status"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w", "resourceVersion": "{rv}"}, "status": {"admissionChecks": [entry("a", "Pending")]}}),
                ),
                forced(
                    200,
                    "check-a",
                    json!({"admissionChecks": [entry("a", "Ready")]}),
                ),
            ],
        ),
        row(
            "updates of pod sets",
            [
                workload(json!({})),
                forced(
                    200,
                    "check-a",
                    json!({"admissionChecks": [{"name": "a", "state": "Ready", "message": "m", "lastTransitionTime": WHEN, "podSetUpdates": [{"name": "main", "labels": {"l": "m"}, "annotations": {"n": "o"}, "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]}]}]}),
                ),
                forced(
                    422,
                    "check-a",
                    json!({"admissionChecks": [{"name": "a", "state": "Ready", "message": "m", "lastTransitionTime": WHEN, "podSetUpdates": [{"name": "main", "tolerations": [{"operator": "Equal", "value": "v"}]}]}]}),
                ),
                forced(
                    422,
                    "check-a",
                    json!({"admissionChecks": [{"name": "a", "state": "Ready", "message": "m", "lastTransitionTime": WHEN, "podSetUpdates": [{"name": "main", "tolerations": [{"key": "k", "operator": "Exists", "value": "v", "effect": "Odd"}]}]}]}),
                ),
            ],
        ),
        row(
            "a Workload that loses its quota leaves the selection",
            [
                workload(json!({})),
                status(200, reserved()),
                status(
                    200,
                    json!({"conditions": [condition("PodsReady", "True", "R")]}),
                ),
                status(200, json!({"admission": null})),
                get(
                    200,
                    format!("{WORKLOADS}?fieldSelector=status.admission.clusterQueue!%3D"),
                ),
                get(
                    200,
                    format!(
                        "{WORKLOADS}?watch=true&timeoutSeconds=2&resourceVersion={{first}}&fieldSelector=status.admission.clusterQueue!%3D"
                    ),
                ),
            ],
        ),
        row(
            "Workloads of a ClusterQueue",
            [
                workload(json!({})),
                status(200, reserved()),
                get(
                    200,
                    format!("{WORKLOADS}?fieldSelector=status.admission.clusterQueue%3Dc"),
                ),
                get(
                    200,
                    format!("{API}/workloads?fieldSelector=status.admission.clusterQueue%3Dd"),
                ),
                get(400, format!("{WORKLOADS}?fieldSelector=spec.queueName%3Dq")),
            ],
        ),
        row(
            "a Workload without pod sets",
            [post(
                422,
                WORKLOADS,
                json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": {"queueName": "q", "podSets": []}}),
            )],
        ),
        row(
            "a Workload with a class and no priority",
            [post(
                422,
                WORKLOADS,
                json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "p"}}}),
            )],
        ),
        row(
            "a Workload with an odd class",
            [post(
                422,
                WORKLOADS,
                json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": {"priority": 1, "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "p"}}}),
            )],
        ),
        row(
            "a Workload with too large a minimum",
            [post(
                422,
                WORKLOADS,
                json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": {"podSets": [{"name": "main", "count": 1, "minCount": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}]}}),
            )],
        ),
        row(
            "an assignment for each pod set",
            [
                workload(json!({})),
                status(
                    422,
                    json!({"conditions": [condition("QuotaReserved", "True", "QuotaReserved")], "admission": {"clusterQueue": "c", "podSetAssignments": []}}),
                ),
            ],
        ),
        row(
            "a priority class is fixed while quota is held",
            [
                workload(
                    json!({"priority": 1, "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"}}),
                ),
                status(200, reserved()),
                merge(
                    422,
                    &w,
                    json!({"spec": {"priorityClassRef": {"name": "other"}}}),
                ),
                merge(422, &w, json!({"spec": {"priorityClassRef": null}})),
                merge(200, &w, json!({"spec": {"priority": 2}})),
            ],
        ),
        row(
            "a bound on the run is fixed while admitted",
            [
                workload(json!({"maximumExecutionTimeSeconds": 10})),
                status(
                    200,
                    json!({"conditions": [condition("QuotaReserved", "True", "R"), condition("Admitted", "True", "R")], "admission": admission()}),
                ),
                merge(
                    422,
                    &w,
                    json!({"spec": {"maximumExecutionTimeSeconds": 20}}),
                ),
            ],
        ),
        row(
            "a cluster is chosen once",
            [
                workload(json!({})),
                status(200, json!({"clusterName": "a"})),
                status(422, json!({"clusterName": "b"})),
            ],
        ),
        row(
            "deactivation",
            [
                workload(json!({})),
                merge(200, &w, json!({"spec": {"active": false}})),
                jsonpatch(
                    200,
                    &w,
                    json!([{"op": "replace", "path": "/spec/active", "value": true}]),
                ),
            ],
        ),
        cluster_queue(
            "a ClusterQueue",
            201,
            quota(json!({"name": "cpu", "nominalQuota": "5"})),
        ),
        cluster_queue(
            "a ClusterQueue with checks",
            201,
            json!({"queueingStrategy": "StrictFIFO", "namespaceSelector": {}, "stopPolicy": "Hold", "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b", "onFlavors": ["f"]}]}}),
        ),
        cluster_queue(
            "a ClusterQueue that borrows alone",
            422,
            quota(json!({"name": "cpu", "nominalQuota": 5, "borrowingLimit": "1"})),
        ),
        cluster_queue(
            "a ClusterQueue with too few resources",
            422,
            json!({"resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "5"}]}]}]}),
        ),
        cluster_queue(
            "a ClusterQueue with an odd quantity",
            422,
            quota(json!({"name": "cpu", "nominalQuota": "five"})),
        ),
        cluster_queue(
            "a ClusterQueue with an odd strategy",
            422,
            json!({"queueingStrategy": "Odd"}),
        ),
        cluster_queue(
            "a ClusterQueue that preempts oddly",
            422,
            json!({"preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}}),
        ),
        row(
            "a check's controller is fixed",
            [
                post(
                    201,
                    format!("{API}/admissionchecks"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "{ns}"}, "spec": {"controllerName": "example.com/c", "parameters": {"apiGroup": "example.com", "kind": "P", "name": "p"}}}),
                ),
                merge(
                    422,
                    format!("{API}/admissionchecks/{{ns}}"),
                    json!({"spec": {"controllerName": "example.com/d"}}),
                ),
                merge(
                    422,
                    format!("{API}/admissionchecks/{{ns}}"),
                    json!({"spec": {"parameters": {"name": ""}}}),
                ),
            ],
        ),
        row(
            "a LocalQueue",
            [
                post(
                    201,
                    format!("{API}/namespaces/{{ns}}/localqueues"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "c"}}),
                ),
                merge(
                    422,
                    format!("{API}/namespaces/{{ns}}/localqueues/q"),
                    json!({"spec": {"clusterQueue": "d"}}),
                ),
                merge(
                    200,
                    format!("{API}/namespaces/{{ns}}/localqueues/q"),
                    json!({"spec": {"stopPolicy": "HoldAndDrain"}}),
                ),
            ],
        ),
        row(
            "a ResourceFlavor",
            [
                post(
                    201,
                    format!("{API}/resourceflavors"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "{ns}"}, "spec": {"nodeLabels": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}}),
                ),
                post(
                    422,
                    format!("{API}/resourceflavors"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "{ns}-b"}, "spec": {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}], "nodeTaints": [{"key": "k", "effect": "Odd"}]}}),
                ),
                post(
                    422,
                    format!("{API}/resourceflavors"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "{ns}-b"}, "spec": {"topologyName": "t"}}),
                ),
            ],
        ),
        row(
            "a WorkloadPriorityClass",
            [
                post(
                    201,
                    format!("{API}/workloadpriorityclasses"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "{ns}"}, "value": 100}),
                ),
                post(
                    422,
                    format!("{API}/workloadpriorityclasses"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "{ns}-b"}}),
                ),
            ],
        ),
        row(
            "a ProvisioningRequestConfig",
            [post(
                201,
                format!("{API}/provisioningrequestconfigs"),
                json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig", "metadata": {"name": "{ns}"}, "spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "retryStrategy": {"backoffLimitCount": 2}}}),
            )],
        ),
    ]
}
