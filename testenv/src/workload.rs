//! A Workload of a typical size.

use serde_json::{Value, json};

/// Returns a Workload of about 6 KB of JSON, as Kueue 0.19 creates it. It is for a training job
/// with a driver and `workers`. It holds quota, and two checks (`budget` and `provisioning`) are
/// Pending. It has the fields that the server adds, such as managed fields.
pub fn workload(number: usize, workers: usize) -> Value {
    let uid = format!("0b6f1d2e-93a4-4c55-8d6e-{number:012x}");
    let environment: Vec<Value> = (0..12)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": "x".repeat(24)}))
        .collect();
    let container = json!({
        "name": "main", "image": "registry.example.com/research/trainer:2026-11-01", "command": ["python", "-m", "trainer", "--epochs", "90"],
        "env": environment, "resources": {"requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "scratch", "mountPath": "/scratch"}],
    });
    let pod_set = |name: &str, count: usize| {
        json!({"name": name, "count": count, "template": {
            "metadata": {"labels": {"app": "trainer", "team": "research", "role": name}, "annotations": {"example.com/owner": "research@example.com"}},
            "spec": {"containers": [container], "nodeSelector": {"pool": "gpu"}, "restartPolicy": "Never", "serviceAccountName": "trainer",
                     "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "scratch", "emptyDir": {}}],
                     "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
        }})
    };
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": kind, "message": "Quota reserved in ClusterQueue research-gpu", "observedGeneration": 1,
            "lastTransitionTime": "2026-11-21T09:00:00Z",
        })
    };
    let assignment = |name: &str, count: usize| {
        json!({
            "name": name, "count": count, "flavors": {"cpu": "a100", "memory": "a100", "nvidia.com/gpu": "a100"},
            "resourceUsage": {"cpu": (8 * count).to_string(), "memory": format!("{}Gi", 64 * count), "nvidia.com/gpu": count.to_string()},
        })
    };
    let fields = json!({"f:status": {"f:admission": {".": {}, "f:clusterQueue": {}, "f:podSetAssignments": {}}, "f:conditions": {".": {}, "k:{\"type\":\"QuotaReserved\"}": {".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {}}}}});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {
            "namespace": "research", "name": format!("job-train-{number}-{:05x}", number * 7919 % 1_048_576), "uid": uid, "resourceVersion": (1000 + number).to_string(),
            "generation": 1, "creationTimestamp": "2026-11-21T08:59:00Z", "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "labels": {"kueue.x-k8s.io/job-uid": uid, "team": "research", "project": "speech"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": format!("train-{number}"), "uid": uid, "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [
                {"manager": "kueue", "operation": "Update", "apiVersion": "kueue.x-k8s.io/v1beta2", "time": "2026-11-21T08:59:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields},
                {"manager": "kueue-admission", "operation": "Apply", "apiVersion": "kueue.x-k8s.io/v1beta2", "time": "2026-11-21T09:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields, "subresource": "status"},
            ],
        },
        "spec": {"active": true, "queueName": "research", "priority": 100, "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
                 "podSets": [pod_set("driver", 1), pod_set("workers", workers)]},
        "status": {
            "conditions": [condition("QuotaReserved", "True"), condition("PodsReady", "False"), condition("Evicted", "False")],
            "admission": {"clusterQueue": "research-gpu", "podSetAssignments": [assignment("driver", 1), assignment("workers", workers)]},
            "admissionChecks": [
                {"name": "budget", "state": "Pending", "message": "team research has spent its budget", "lastTransitionTime": "2026-11-21T09:00:01Z"},
                {"name": "provisioning", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"},
            ],
        },
    })
}
