//! Built-in kinds that check controllers, Kueue and jobs use.

use serde_json::{Value, json};

use super::definitions::with;
use super::harness::{
    Row, Step, delete, delete_with, get, jsonpatch, merge, post, put, row, ssa, strategic,
};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/{ns}/events";
const JOBS: &str = "/apis/batch/v1/namespaces/{ns}/jobs";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";

fn lease(version: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": spec});
    if !version.is_empty() {
        object["metadata"]["resourceVersion"] = version.into();
    }
    object
}

fn event(name: &str, reason: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "{ns}"}, "eventTime": "2025-03-01T09:00:00.000000Z", "reason": reason,
        "action": "A", "note": "n", "type": "Normal", "reportingController": "example.com/c", "reportingInstance": "i",
        "regarding": {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "namespace": "{ns}", "name": "w", "uid": "1"},
    })
}

fn job(spec: Value) -> Value {
    let template = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": with(template, &spec)})
}

/// Patches the status of the Job `j`.
fn status(code: u16, status: Value) -> Step {
    merge(code, format!("{JOBS}/j/status"), json!({"status": status}))
}

fn pod(spec: Value) -> Value {
    let containers = json!({"containers": [{"name": "c", "image": "i:1"}]});
    json!({"metadata": {"name": "p"}, "spec": with(containers, &spec)})
}

/// Returns the step that creates a Pod with these fields.
fn new_pod(code: u16, spec: Value) -> Step {
    let mut body = pod(spec);
    body["metadata"] = json!({"generateName": "gen-"});
    post(code, PODS, body)
}

pub(super) fn rows() -> Vec<Row> {
    let l = format!("{LEASES}/a");
    let spec = || json!({"holderIdentity": "x", "leaseDurationSeconds": 15, "acquireTime": "2025-03-01T09:00:00.000000Z", "renewTime": "2025-03-01T09:00:00.123456Z", "leaseTransitions": 1});
    vec![
        row(
            "a Lease is renewed",
            [
                post(201, LEASES, lease("", spec())),
                put(
                    200,
                    &l,
                    lease(
                        "{rv}",
                        json!({"holderIdentity": "x", "renewTime": "2025-03-01T09:00:05.000000Z"}),
                    ),
                ),
                get(200, &l),
            ],
        ),
        row(
            "a Lease that somebody else renewed",
            [
                post(201, LEASES, lease("", spec())),
                merge(200, &l, json!({"spec": {"holderIdentity": "y"}})),
                put(409, &l, lease("{first}", spec())),
                merge(
                    409,
                    &l,
                    json!({"metadata": {"resourceVersion": "{first}"}, "spec": {"holderIdentity": "z"}}),
                ),
            ],
        ),
        row(
            "a Lease needs a version",
            [
                post(201, LEASES, lease("", spec())),
                put(422, &l, lease("", spec())),
            ],
        ),
        row(
            "a Lease is made by replacing nothing",
            [put(201, &l, lease("", spec())), get(200, &l)],
        ),
        row(
            "a Lease is applied",
            [
                ssa(201, format!("{l}?fieldManager=a"), lease("", spec())),
                ssa(
                    409,
                    format!("{l}?fieldManager=b"),
                    lease("", json!({"holderIdentity": "y"})),
                ),
                ssa(
                    200,
                    format!("{l}?fieldManager=b&force=true"),
                    lease("", json!({"holderIdentity": "y"})),
                ),
                ssa(
                    200,
                    format!("{l}?fieldManager=a"),
                    lease("", json!({"leaseDurationSeconds": 15})),
                ),
            ],
        ),
        row(
            "a Lease is taken with a JSON patch",
            [
                post(201, LEASES, lease("", spec())),
                jsonpatch(
                    200,
                    &l,
                    json!([{"op": "test", "path": "/spec/holderIdentity", "value": "x"}, {"op": "replace", "path": "/spec/holderIdentity", "value": "y"}]),
                ),
                jsonpatch(
                    422,
                    &l,
                    json!([{"op": "test", "path": "/spec/holderIdentity", "value": "x"}, {"op": "replace", "path": "/spec/holderIdentity", "value": "z"}]),
                ),
            ],
        ),
        row(
            "a Lease is released",
            [
                post(201, LEASES, lease("", spec())),
                strategic(200, &l, json!({"spec": {"holderIdentity": null}})),
                delete(200, &l),
                get(404, &l),
            ],
        ),
        row(
            "Leases in a list and a watch",
            [
                post(201, LEASES, lease("", spec())),
                merge(200, &l, json!({"spec": {"holderIdentity": "y"}})),
                get(200, LEASES),
                get(
                    200,
                    format!(
                        "{LEASES}?watch=true&timeoutSeconds=2&resourceVersion={{first}}&fieldSelector=metadata.name%3Da"
                    ),
                ),
            ],
        ),
        row(
            "a Lease without a spec",
            [post(
                201,
                LEASES,
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}),
            )],
        ),
        row(
            "an Event is made and counted up",
            [
                post(201, EVENTS, event("a", "R")),
                merge(
                    200,
                    format!("{EVENTS}/a"),
                    json!({"series": {"count": 2, "lastObservedTime": "2025-03-01T09:01:00.000000Z"}}),
                ),
                get(200, format!("{EVENTS}/a")),
                get(200, "/api/v1/namespaces/{ns}/events/a"),
            ],
        ),
        row(
            "Events by their fields",
            [
                post(201, EVENTS, event("a", "R")),
                post(201, EVENTS, event("b", "S")),
                get(200, format!("{EVENTS}?fieldSelector=reason%3DR")),
                get(
                    200,
                    format!("{EVENTS}?fieldSelector=regarding.name%3Dw,type%3DNormal&limit=1"),
                ),
                get(400, format!("{EVENTS}?fieldSelector=note%3Dn")),
            ],
        ),
        row(
            "an Event of the old sort",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/events",
                    json!({"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "namespace": "{ns}", "name": "p"}, "reason": "R", "message": "m", "type": "Warning", "source": {"component": "c"}, "count": 1, "firstTimestamp": "2025-03-01T09:00:00Z", "lastTimestamp": "2025-03-01T09:00:00Z"}),
                ),
                get(
                    200,
                    "/api/v1/namespaces/{ns}/events?fieldSelector=involvedObject.name%3Dp",
                ),
                get(200, format!("{EVENTS}/a")),
            ],
        ),
        row(
            "a suspended Job",
            [
                post(
                    201,
                    JOBS,
                    job(json!({"suspend": true, "parallelism": 2, "completions": 2})),
                ),
                merge(
                    200,
                    format!("{JOBS}/j"),
                    json!({"spec": {"suspend": false}}),
                ),
                status(200, json!({"active": 1})),
                get(200, format!("{JOBS}/j")),
            ],
        ),
        row(
            "a Job counts its Pods",
            [
                post(201, JOBS, job(json!({"parallelism": 3, "completions": 3}))),
                status(
                    200,
                    json!({"startTime": "2025-03-01T09:00:00Z", "failed": 1, "succeeded": 2, "uncountedTerminatedPods": {}}),
                ),
                status(422, json!({"succeeded": 1})),
                status(422, json!({"failed": 0, "succeeded": null})),
                status(200, json!({"succeeded": 2})),
                get(200, format!("{JOBS}?fieldSelector=status.successful%3D2")),
                get(200, format!("{JOBS}?fieldSelector=status.successful%3D0")),
            ],
        ),
        row(
            "an Indexed Job may become smaller",
            [
                post(
                    201,
                    JOBS,
                    job(json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3})),
                ),
                status(
                    200,
                    json!({"startTime": "2025-03-01T09:00:00Z", "failed": 1, "succeeded": 2, "uncountedTerminatedPods": {}}),
                ),
                status(200, json!({"succeeded": 1})),
                status(422, json!({"failed": 0})),
            ],
        ),
        row(
            "lists of indexes increase, are in range and do not overlap",
            [
                post(
                    201,
                    JOBS,
                    job(json!({
                        "completions": 5, "parallelism": 2, "completionMode": "Indexed",
                        "backoffLimitPerIndex": 1,
                    })),
                ),
                status(422, json!({"completedIndexes": "0-0"})),
                status(422, json!({"completedIndexes": "2,1"})),
                status(422, json!({"completedIndexes": "5"})),
                status(422, json!({"completedIndexes": "3-5"})),
                status(422, json!({"completedIndexes": "1-2-3"})),
                status(422, json!({"failedIndexes": "x"})),
                status(422, json!({"failedIndexes": "1-"})),
                status(
                    422,
                    json!({"completedIndexes": "0-3", "failedIndexes": "2,4"}),
                ),
                status(
                    422,
                    json!({"completedIndexes": "4-4,2", "failedIndexes": "2"}),
                ),
                status(
                    200,
                    json!({"completedIndexes": "0,2-4", "failedIndexes": "1"}),
                ),
                status(422, json!({"failedIndexes": "1-2"})),
                status(
                    200,
                    json!({"completedIndexes": null, "failedIndexes": null}),
                ),
            ],
        ),
        row(
            "lists of indexes need a Job that has them",
            [
                post(201, JOBS, job(json!({"completions": 5}))),
                status(422, json!({"completedIndexes": "0", "failedIndexes": "1"})),
                status(422, json!({"completedIndexes": "9"})),
                status(422, json!({"failedIndexes": "9"})),
            ],
        ),
        row(
            "a Job that is none",
            [post(
                422,
                JOBS,
                json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": []}}}}),
            )],
        ),
        row(
            "a Job leaves its Pods",
            [
                post(201, JOBS, job(json!({}))),
                delete(200, format!("{JOBS}/j")),
            ],
        ),
        row(
            "a Job goes with its Pods",
            [
                post(201, JOBS, job(json!({}))),
                delete_with(
                    200,
                    format!("{JOBS}/j"),
                    json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}),
                ),
                get(404, format!("{JOBS}/j")),
            ],
        ),
        row(
            "a Pod",
            [
                post(201, PODS, pod(json!({}))),
                get(
                    200,
                    format!("{PODS}?fieldSelector=status.phase%3DPending,spec.nodeName%3D"),
                ),
                get(
                    200,
                    format!("{PODS}?fieldSelector=spec.schedulerName!%3Ddefault-scheduler"),
                ),
            ],
        ),
        row(
            "a status of a Pod and of a Job with metadata",
            [
                post(201, PODS, pod(json!({}))),
                merge(
                    200,
                    format!("{PODS}/p/status"),
                    json!({"metadata": {"labels": {"a": "b"}}}),
                ),
                get(200, format!("{PODS}?labelSelector=a%3Db")),
                post(201, JOBS, job(json!({"suspend": true}))),
                merge(
                    200,
                    format!("{JOBS}/j/status"),
                    json!({"metadata": {"annotations": {"a": "b"}}}),
                ),
                get(200, format!("{JOBS}/j")),
            ],
        ),
        row(
            "the end of a Pod on a node is brought forward",
            [
                post(
                    201,
                    PODS,
                    json!({"metadata": {"name": "p", "finalizers": ["example.com/f"]}, "spec": {"nodeName": "{ns}-n", "containers": [{"name": "c", "image": "i:1"}]}}),
                ),
                delete(200, format!("{PODS}/p")),
                delete_with(
                    200,
                    format!("{PODS}/p"),
                    json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}),
                ),
                get(200, format!("{PODS}/p")),
                merge(
                    200,
                    format!("{PODS}/p"),
                    json!({"metadata": {"finalizers": null}}),
                ),
                get(404, format!("{PODS}/p")),
            ],
        ),
        row(
            "a Pod with requests",
            [post(
                201,
                PODS,
                pod(
                    json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}], "tolerations": [{"key": "k", "operator": "Exists"}], "nodeSelector": {"a": "b"}, "priority": 0}),
                ),
            )],
        ),
        row(
            "a Pod goes at once",
            [
                post(201, PODS, pod(json!({}))),
                delete(200, format!("{PODS}/p")),
                get(404, format!("{PODS}/p")),
            ],
        ),
        row(
            "a Pod's status",
            [
                post(201, PODS, pod(json!({}))),
                merge(
                    200,
                    format!("{PODS}/p/status"),
                    json!({"status": {"phase": "Running"}}),
                ),
                strategic(
                    200,
                    format!("{PODS}/p/status"),
                    json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                ),
            ],
        ),
        row(
            "a Secret of texts",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/secrets",
                    json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}, "data": {"l": "dg=="}}),
                ),
                get(
                    200,
                    "/api/v1/namespaces/{ns}/secrets?fieldSelector=type%3DOpaque",
                ),
            ],
        ),
        row(
            "a ServiceAccount",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/serviceaccounts",
                    json!({"metadata": {"name": "a"}}),
                ),
                delete(200, "/api/v1/namespaces/{ns}/serviceaccounts/a"),
            ],
        ),
        row(
            "a Role and its binding",
            [
                post(
                    201,
                    "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
                    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
                ),
                post(
                    201,
                    "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
                    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "a"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}, "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "{ns}"}]}),
                ),
                get(
                    200,
                    "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
                ),
            ],
        ),
        row(
            "a PodTemplate",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/podtemplates",
                    json!({"metadata": {"name": "a"}, "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}}}),
                ),
                delete(200, "/api/v1/namespaces/{ns}/podtemplates/a"),
            ],
        ),
        row(
            "a PriorityClass",
            [
                post(
                    201,
                    "/apis/scheduling.k8s.io/v1/priorityclasses",
                    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "{ns}-high"}, "value": 100}),
                ),
                get(200, "/apis/scheduling.k8s.io/v1/priorityclasses/{ns}-high"),
                merge(
                    200,
                    "/apis/scheduling.k8s.io/v1/priorityclasses/{ns}-high",
                    json!({"description": "d"}),
                ),
            ],
        ),
        row(
            "a Pod with a priority class",
            [
                post(
                    201,
                    CLASSES,
                    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "{ns}-low"}, "value": -7, "preemptionPolicy": "Never"}),
                ),
                get(200, format!("{CLASSES}/{{ns}}-low")),
                new_pod(201, json!({"priorityClassName": "{ns}-low"})),
                new_pod(403, json!({"priorityClassName": "{ns}-other"})),
                new_pod(403, json!({"priorityClassName": "{ns}-low", "priority": 5})),
                new_pod(403, json!({"priority": 5})),
                new_pod(
                    403,
                    json!({"priorityClassName": "{ns}-low", "preemptionPolicy": "PreemptLowerPriority"}),
                ),
                new_pod(
                    201,
                    json!({"priorityClassName": "{ns}-low", "priority": -7}),
                ),
                new_pod(201, json!({"priorityClassName": "system-node-critical"})),
                post(
                    403,
                    PODS,
                    json!({"metadata": {"name": "n", "generateName": "g-"}, "spec": {"containers": [{"name": "c", "image": "i"}], "priority": 5}}),
                ),
                post(201, PODS, pod(json!({"priorityClassName": "{ns}-low"}))),
                jsonpatch(
                    200,
                    format!("{PODS}/p"),
                    json!([{"op": "remove", "path": "/spec/priority"}, {"op": "remove", "path": "/spec/preemptionPolicy"}]),
                ),
            ],
        ),
        row(
            "the ports of a container",
            [new_pod(
                201,
                json!({"containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}]}),
            )],
        ),
        row(
            "a Node",
            [
                post(
                    201,
                    "/api/v1/nodes",
                    json!({"metadata": {"name": "{ns}-node", "labels": {"a": "b"}}}),
                ),
                strategic(
                    200,
                    "/api/v1/nodes/{ns}-node/status",
                    json!({"status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
                ),
                strategic(
                    200,
                    "/api/v1/nodes/{ns}-node",
                    json!({"spec": {"unschedulable": true}}),
                ),
                delete(200, "/api/v1/nodes/{ns}-node"),
            ],
        ),
    ]
}
