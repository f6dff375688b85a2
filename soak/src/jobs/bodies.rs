//! Jobs as users submit them.

use serde_json::{Value, json};

use crate::plan::JobPlan;
use crate::scene::GRACE;

/// Returns the Job of `plan`: one pod.
pub(crate) fn job(plan: &JobPlan) -> Value {
    let cpus = json!({"cpu": plan.cpus.to_string()});
    let container = json!({
        "name": "main", "image": "registry.example.com/job:1",
        "resources": {"requests": cpus, "limits": cpus},
    });
    let pod = json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE,
        "containers": [container],
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "namespace": plan.namespace, "name": plan.name,
            "labels": {
                "kueue.x-k8s.io/queue-name": plan.queue.name,
                "kueue.x-k8s.io/max-exec-time-seconds": plan.longest.to_string(),
            },
        },
        "spec": {"suspend": true, "parallelism": 1, "completions": 1, "template": {"spec": pod}},
    })
}
