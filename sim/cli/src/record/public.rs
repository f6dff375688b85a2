//! Texts that a trace keeps because Kubernetes or Kueue defines them.

use serde_json::Value;

/// Keys of labels, annotations, taints and gates that Kubernetes and Kueue define, and domains
/// (with a slash at the end) of which they define all keys.
const KEYS: [&str; 30] = [
    "kueue.x-k8s.io/",
    "provreq.kueue.x-k8s.io/",
    "autoscaling.x-k8s.io/",
    "cluster-autoscaler.kubernetes.io/",
    "batch.kubernetes.io/",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "kubernetes.io/hostname",
    "kubernetes.io/metadata.name",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    // Labels of the Pods of a Job.
    "controller-uid",
    "job-name",
];

/// Returns true if Kubernetes or Kueue defines the key.
pub(super) fn is_public(key: &str) -> bool {
    let domain = key.find('/').map_or("", |slash| &key[..=slash]);
    KEYS.contains(&key) || !domain.is_empty() && KEYS.contains(&domain)
}

/// The conditions that Kueue reads or writes (0.14 to 0.19: `apis/kueue/v1beta2`), and those of the
/// Job controller.
const CONDITIONS: [&str; 16] = [
    "Active",
    "Admitted",
    "BlockedOnPreemptionGates",
    "DeactivationTarget",
    "Evicted",
    "Finished",
    "PodsReady",
    "Preempted",
    "QuotaReserved",
    "Requeued",
    "WaitingForReplacementPods",
    "Complete",
    "Failed",
    "FailureTarget",
    "SuccessCriteriaMet",
    "Suspended",
];

/// Returns the conditions of a status without those that neither Kueue nor the Job controller
/// defines, on which nothing depends.
pub(super) fn conditions(status: &Value) -> Value {
    let mut all = status["conditions"].clone();
    if let Some(all) = all.as_array_mut() {
        let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| CONDITIONS.contains(&kind));
        all.retain(|condition| is_known(&condition["type"]));
    }
    all
}

/// Reasons of others' conditions that Kueue or Kubernetes defines (the latter's
/// `pkg/controller/job/job_controller.go`).
const REASONS: [&str; 14] = [
    "",
    "Active",
    "Succeeded",
    "Failed",
    "JobFinished",
    "BackoffLimitExceeded",
    "CompletionsReached",
    "DeadlineExceeded",
    "FailedIndexes",
    "JobResumed",
    "JobSuspended",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
    "SuccessPolicy",
];

/// Returns true if Kubernetes or Kueue defines the reason.
pub(super) fn is_known_reason(reason: &str) -> bool {
    REASONS.contains(&reason)
}
