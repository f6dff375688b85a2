//! Kueue's own kinds, as check controllers and Kueue write them.

use serde_json::{Value, json};

use super::definitions::with;
use super::harness::{Row, Step, get, merge, post, row, ssa};

const CHECKS: &str = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks";
const WORKLOADS: &str = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads";

fn workload() -> Step {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}], "restartPolicy": "Never"}});
    post(
        201,
        WORKLOADS,
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}, "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]}}),
    )
}

fn state(name: &str, state: &str, message: &str) -> Value {
    json!({"name": name, "state": state, "message": message, "lastTransitionTime": "2025-03-01T09:00:00Z"})
}

fn checks(code: u16, manager: &str, entries: Value) -> Step {
    ssa(
        code,
        format!("{WORKLOADS}/w/status?fieldManager={manager}&force=true"),
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "status": {"admissionChecks": entries}}),
    )
}

pub(super) fn rows() -> Vec<Row> {
    let updates = json!([{"name": "main", "nodeSelector": {"a": "b"}}]);
    vec![
        row(
            "a Workload",
            [workload(), get(200, format!("{WORKLOADS}/w"))],
        ),
        row(
            "an AdmissionCheck",
            [
                post(
                    201,
                    CHECKS,
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "{ns}"}, "spec": {"controllerName": "example.com/c"}}),
                ),
                ssa(
                    200,
                    format!("{CHECKS}/{{ns}}/status?fieldManager=c&force=true"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "{ns}"}, "status": {"conditions": [{"type": "Active", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2025-03-01T09:00:00Z", "observedGeneration": 1}]}}),
                ),
            ],
        ),
        row(
            "an AdmissionCheck without a controller",
            [post(
                422,
                CHECKS,
                json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "{ns}"}, "spec": {}}),
            )],
        ),
        row(
            "a condition without its fields",
            [
                post(
                    201,
                    CHECKS,
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "{ns}"}, "spec": {"controllerName": "example.com/c"}}),
                ),
                merge(
                    422,
                    format!("{CHECKS}/{{ns}}/status"),
                    json!({"status": {"conditions": [{"type": "Active", "status": "Maybe"}]}}),
                ),
            ],
        ),
        row(
            "a check applies its state and Kueue takes it back",
            [
                workload(),
                checks(
                    200,
                    "kueue-admission",
                    json!([state("a", "Pending", ""), state("b", "Pending", "")]),
                ),
                checks(
                    200,
                    "check-a",
                    json!([with(
                        state("a", "Ready", "ok"),
                        &json!({"podSetUpdates": updates, "requeueAfterSeconds": 0})
                    )]),
                ),
                checks(
                    200,
                    "kueue-admission",
                    json!([state("a", "Pending", "reset"), state("b", "Pending", "")]),
                ),
                checks(
                    200,
                    "check-a",
                    json!([with(
                        state("a", "Retry", "later"),
                        &json!({"podSetUpdates": [], "requeueAfterSeconds": 60})
                    )]),
                ),
            ],
        ),
        row(
            "an apply without force conflicts",
            [
                workload(),
                checks(200, "kueue-admission", json!([state("a", "Pending", "")])),
                ssa(
                    409,
                    format!("{WORKLOADS}/w/status?fieldManager=check-a"),
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "status": {"admissionChecks": [state("a", "Ready", "ok")]}}),
                ),
            ],
        ),
        row(
            "an apply resurrects what was removed",
            [
                workload(),
                checks(200, "kueue-admission", json!([state("a", "Pending", "")])),
                checks(200, "check-a", json!([state("a", "Ready", "ok")])),
                merge(
                    200,
                    format!("{WORKLOADS}/w/status"),
                    json!({"status": {"admissionChecks": []}}),
                ),
                checks(200, "check-a", json!([state("a", "Ready", "ok")])),
            ],
        ),
        row(
            "one manager for two checks removes the first",
            [
                workload(),
                checks(
                    200,
                    "kueue-admission",
                    json!([state("a", "Pending", ""), state("b", "Pending", "")]),
                ),
                checks(200, "both", json!([state("a", "Ready", "ok")])),
                checks(422, "both", json!([state("b", "Ready", "ok")])),
            ],
        ),
        row(
            "a state that is none",
            [
                workload(),
                checks(422, "c", json!([state("a", "Maybe", "")]))
                    .message("supported values: \"Pending\", \"Ready\", \"Retry\", \"Rejected\""),
            ],
        ),
        row(
            "a message that is missing",
            [
                workload(),
                checks(
                    422,
                    "c",
                    json!([{"name": "a", "state": "Ready", "lastTransitionTime": "2025-03-01T09:00:00Z"}]),
                ),
            ],
        ),
        row(
            "nine checks",
            [
                workload(),
                checks(
                    422,
                    "c",
                    Value::Array(
                        (0..9)
                            .map(|n| state(&format!("c{n}"), "Pending", ""))
                            .collect(),
                    ),
                )
                .message("must have at most 8 items"),
            ],
        ),
        row(
            "a delay below nothing",
            [
                workload(),
                checks(
                    422,
                    "c",
                    json!([with(
                        state("a", "Retry", ""),
                        &json!({"requeueAfterSeconds": -1})
                    )]),
                ),
            ],
        ),
        row(
            "a Job",
            [
                post(
                    201,
                    "/apis/batch/v1/namespaces/{ns}/jobs?fieldValidation=Ignore",
                    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "managedFields": null}, "spec": {"suspend": true, "parallelism": 2, "completions": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}}}}),
                ),
                merge(
                    200,
                    "/apis/batch/v1/namespaces/{ns}/jobs/j",
                    json!({"spec": {"suspend": false}}),
                ),
            ],
        ),
        row(
            "a Job without a policy",
            [post(
                422,
                "/apis/batch/v1/namespaces/{ns}/jobs",
                json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            )],
        ),
        row(
            "a Pod",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/pods",
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}], "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}),
                ),
                merge(
                    200,
                    "/api/v1/namespaces/{ns}/pods/p",
                    json!({"metadata": {"labels": {"a": "b"}}}),
                ),
            ],
        ),
        row(
            "a Pod without containers",
            [post(
                422,
                "/api/v1/namespaces/{ns}/pods",
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}),
            )],
        ),
    ]
}
