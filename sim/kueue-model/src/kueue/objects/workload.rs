//! The Workload object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, Conditions};
use crate::kueue::KueueVersion;

/// The condition type of a Workload whose Pod group lacks Pods.
pub(crate) const LACKS_PODS: &str = "WaitingForReplacementPods";

/// The metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    /// Its name.
    pub(crate) name: String,
    /// Its Namespace; empty for cluster-scoped objects.
    pub(crate) namespace: String,
    /// Its unique ID.
    pub(crate) uid: String,
    /// The version of the API server's data that it was read at.
    pub(crate) resource_version: String,
    /// A counter of spec changes.
    pub(crate) generation: i64,
    /// The time of its creation.
    pub(crate) creation_timestamp: Timestamp,
    /// The time of its deletion request.
    pub(crate) deletion_timestamp: Option<Timestamp>,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its annotations.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Its finalizers, which block its removal.
    pub(crate) finalizers: Vec<String>,
    /// Its owners.
    pub(crate) owner_references: Vec<OwnerReference>,
}

impl Metadata {
    /// Returns `namespace/name`, or the name alone.
    pub(crate) fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    /// Returns the owner that controls it.
    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|o| o.controller)
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    /// The API group and version.
    pub(crate) api_version: String,
    /// The kind, such as `Job`.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// True if it is the managing owner.
    pub(crate) controller: bool,
    /// True if deletion of the owner waits for the object.
    pub(crate) block_owner_deletion: bool,
}

/// A Workload.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Workload {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: WorkloadSpec,
    /// The observed state.
    pub(crate) status: WorkloadStatus,
}

/// The spec of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkloadSpec {
    /// The LocalQueue.
    pub(crate) queue_name: String,
    /// False if it may not have quota; absent means true.
    pub(crate) active: Option<bool>,
    /// The priority; higher goes first.
    pub(crate) priority: i64,
    /// The source of the priority.
    pub(crate) priority_class_ref: Option<PriorityClassRef>,
    /// The maximum execution time, in seconds.
    pub(crate) maximum_execution_time_seconds: Option<i64>,
    /// The pod sets.
    pub(crate) pod_sets: Vec<PodSet>,
    /// The preemption gates. While one is closed, no other Workload is preempted for this one.
    pub(crate) preemption_gates: Vec<PreemptionGate>,
}

impl WorkloadSpec {
    /// Returns the `WorkloadPriorityClass`, if the priority is from one.
    pub(crate) fn priority_class(&self) -> Option<&str> {
        let class = self.priority_class_ref.as_ref()?;
        (class.kind == "WorkloadPriorityClass").then_some(class.name.as_str())
    }
}

/// The source of a priority.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PriorityClassRef {
    /// `WorkloadPriorityClass` or `PriorityClass`.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
}

/// A preemption gate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PreemptionGate {
    /// Its name.
    pub(crate) name: String,
}

/// The state of a preemption gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreemptionGateState {
    /// The gate.
    pub(crate) name: String,
    /// `Open` or `Closed`.
    pub(crate) position: String,
    /// The time of the last change.
    pub(crate) last_transition_time: Timestamp,
}

/// A pod set: Pods of one template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSet {
    /// Its name.
    pub(crate) name: String,
    /// The number of Pods.
    pub(crate) count: i64,
    /// The minimum number of Pods to start with, if less than `count`.
    pub(crate) min_count: Option<i64>,
    /// The Pod template.
    pub(crate) template: Value,
}

/// The status of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkloadStatus {
    /// The conditions.
    pub(crate) conditions: Conditions,
    /// Its admission checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) admission_checks: Vec<AdmissionCheckState>,
    /// Its admission: the quota assigned to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admission: Option<Admission>,
    /// The Pods that finished and will not run again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) reclaimable_pods: Vec<ReclaimablePods>,
    /// The requeue state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_state: Option<RequeueState>,
    /// The eviction counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheduling_stats: Option<Value>,
    /// The states of its gates; a gate without a state is closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) preemption_gates: Vec<PreemptionGateState>,
    /// The total requests of its pod sets when it was last tried, while it has no admission.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_requests: Vec<PodSetRequest>,
    /// The execution time before evictions, in seconds, if its time is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) accumulated_past_execution_time_seconds: Option<i64>,
}

/// The state of an admission check of a Workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// Undecided.
    #[default]
    Pending,
    /// Passed.
    Ready,
    /// Not now.
    Retry,
    /// Never.
    Rejected,
    /// KEP-993: Pending, and other Workloads have to be preempted.
    PreemptionRequired,
}

impl State {
    /// Returns the name of the state in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Ready => "Ready",
            Self::Retry => "Retry",
            Self::Rejected => "Rejected",
            Self::PreemptionRequired => "PreemptionRequired",
        }
    }
}

/// An admission check state of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AdmissionCheckState {
    /// The AdmissionCheck.
    pub(crate) name: String,
    /// The state.
    pub(crate) state: State,
    /// The time of the last change.
    pub(crate) last_transition_time: Timestamp,
    /// The message.
    pub(crate) message: String,
    /// The pod set updates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod_set_updates: Vec<Value>,
    /// The delay of a Retry, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_after_seconds: Option<i64>,
    /// The number of evictions due to Retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_count: Option<i64>,
}

/// The admission of a Workload: the quota assigned to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Admission {
    /// The ClusterQueue of the quota.
    pub(crate) cluster_queue: String,
    /// The flavors of each pod set.
    pub(crate) pod_set_assignments: Vec<PodSetAssignment>,
}

/// The quota of one pod set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSetAssignment {
    /// The pod set.
    pub(crate) name: String,
    /// The flavor of each resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) flavors: BTreeMap<String, String>,
    /// The amount of each resource, for all Pods together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) resource_usage: BTreeMap<String, String>,
    /// The number of Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<i64>,
}

/// The total requests of one pod set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PodSetRequest {
    /// The pod set.
    pub(crate) name: String,
    /// The amount of each resource, for all Pods together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) resources: BTreeMap<String, String>,
}

/// The finished Pods of one pod set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReclaimablePods {
    /// The pod set.
    pub(crate) name: String,
    /// The number of Pods.
    pub(crate) count: i64,
}

/// The requeue state: when a Workload may be scheduled again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RequeueState {
    /// The number of times its Pods were not ready in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<i64>,
    /// The earliest time of the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_at: Option<Timestamp>,
}

impl Workload {
    /// Returns the key of its LocalQueue.
    pub(crate) fn queue_key(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.spec.queue_name)
    }

    /// Returns true if the user lets it run.
    pub(crate) fn is_active(&self) -> bool {
        self.spec.active.unwrap_or(true)
    }

    /// Sets a condition as one about the current generation, and returns true if it changed: a
    /// change of the spec alone changes the condition (Kueue 0.19.2,
    /// `UnsetQuotaReservationWithCondition` in `pkg/workload/workload.go`).
    pub(crate) fn set_condition(&mut self, mut condition: Condition) -> bool {
        let generation = self.metadata.generation;
        condition.observed_generation = (generation > 0).then_some(generation);
        self.status.conditions.set(condition)
    }

    /// Returns true if it holds quota.
    pub(crate) fn has_quota(&self) -> bool {
        self.status.conditions.is_true("QuotaReserved")
    }

    /// Returns true if no other Workload may be preempted for it.
    pub(crate) fn has_closed_gate(&self) -> bool {
        let mut gates = self.spec.preemption_gates.iter();
        gates.any(|gate| self.gate_opened(&gate.name).is_none())
    }

    /// Returns the time at which a gate was opened, if it is open.
    pub(crate) fn gate_opened(&self, name: &str) -> Option<Timestamp> {
        let mut states = self.status.preemption_gates.iter();
        let open = states.find(|gate| gate.name == name && gate.position == "Open")?;
        Some(open.last_transition_time)
    }

    /// Opens one of its gates.
    pub(crate) fn open_gate(&mut self, name: &str, now: Timestamp) {
        let gates = &mut self.status.preemption_gates;
        gates.retain(|gate| gate.name != name);
        gates.push(PreemptionGateState {
            name: name.to_owned(),
            position: "Open".to_owned(),
            last_transition_time: super::whole_seconds(now),
        });
    }

    /// Closes the gates that were opened.
    pub(crate) fn close_gates(&mut self, now: Timestamp) {
        for gate in &mut self.status.preemption_gates {
            "Closed".clone_into(&mut gate.position);
            gate.last_transition_time = super::whole_seconds(now);
        }
    }

    /// Returns true if it waits for quota, and may get it.
    pub(crate) fn is_admissible(&self, version: KueueVersion) -> bool {
        self.waits_for_quota() && !self.lacks_pods(version)
    }

    /// Returns true if it is to have quota, and has none.
    pub(crate) fn waits_for_quota(&self) -> bool {
        self.is_active() && !self.is_finished() && !self.has_quota()
    }

    /// Returns true if it is finished, and a LocalQueue that starts queues it nevertheless (Kueue
    /// 0.15.0, `AddLocalQueue` in `pkg/cache/queue/manager.go`; not 0.17.0).
    pub(crate) fn is_queued_again(&self, version: KueueVersion) -> bool {
        version.releases_at_end && self.is_active() && self.is_finished() && !self.has_quota()
    }

    /// Returns true if its Pod group waits for replacements of failed Pods, and gets no quota.
    pub(crate) fn lacks_pods(&self, version: KueueVersion) -> bool {
        version.waits_for_replacements && self.status.conditions.is_true(LACKS_PODS)
    }

    /// Returns true if it is admitted.
    pub(crate) fn is_admitted(&self) -> bool {
        self.status.conditions.is_true("Admitted")
    }

    /// Returns true if it is finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.status.conditions.is_true("Finished")
    }

    /// Returns true if it is evicted.
    pub(crate) fn is_evicted(&self) -> bool {
        self.status.conditions.is_true("Evicted")
    }

    /// Returns the condition `Evicted` if it is `True`.
    pub(crate) fn eviction(&self) -> Option<&Condition> {
        self.status
            .conditions
            .get("Evicted")
            .filter(|c| c.is_true())
    }

    /// Returns the admission gates of its annotation, or `None` if it is absent or empty.
    pub(crate) fn gated_by(&self) -> Option<&str> {
        let gates = self
            .metadata
            .annotations
            .get("kueue.x-k8s.io/admission-gated-by");
        gates.map(String::as_str).filter(|gates| !gates.is_empty())
    }

    /// Returns the earliest time of the next attempt.
    pub(crate) fn requeue_at(&self) -> Option<Timestamp> {
        self.status.requeue_state.as_ref()?.requeue_at
    }

    /// Returns the admission check state of a check, by name.
    pub(crate) fn check(&self, name: &str) -> Option<&AdmissionCheckState> {
        self.status.admission_checks.iter().find(|c| c.name == name)
    }

    /// Returns the number of unfinished Pods of a pod set (Kueue 0.19.2,
    /// `podSetsCountsAfterReclaim` in `pkg/workload/workload.go`).
    pub(crate) fn count_after_reclaim(&self, set: &PodSet) -> i64 {
        let done = &self.status.reclaimable_pods;
        let done = done.iter().find(|done| done.name == set.name);
        set.count - done.map_or(0, |done| done.count.min(set.count))
    }

    /// Returns true if a pod set may start with fewer Pods than it has.
    pub(crate) fn may_be_partially_admitted(&self) -> bool {
        let mut sets = self.spec.pod_sets.iter();
        sets.any(|set| set.min_count.is_some_and(|least| set.count > least))
    }

    /// Returns the key of the slice that this one is to replace.
    pub(crate) fn replaces(&self) -> Option<&str> {
        let key = "kueue.x-k8s.io/workload-slice-replacement-for";
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// Returns true if it is a slice of an elastic job.
    pub(crate) fn is_slice(&self) -> bool {
        let annotations = &self.metadata.annotations;
        annotations
            .get("kueue.x-k8s.io/elastic-job")
            .is_some_and(|on| on == "true")
    }

    /// Returns true if it has variants.
    pub(crate) fn is_parent(&self) -> bool {
        let label = "kueue.x-k8s.io/concurrent-admission-parent";
        self.metadata
            .labels
            .get(label)
            .is_some_and(|on| on == "true")
    }

    fn parent(&self) -> Option<&OwnerReference> {
        let mut owners = self.metadata.owner_references.iter();
        owners.find(|owner| owner.kind == "Workload")
    }

    /// Returns the name of the Workload whose variant it is.
    pub(crate) fn parent_name(&self) -> Option<&str> {
        self.parent().map(|owner| owner.name.as_str())
    }

    /// Returns the UID of the Workload whose variant it is.
    pub(crate) fn parent_uid(&self) -> Option<&str> {
        self.parent().map(|owner| owner.uid.as_str())
    }

    /// Returns the only allowed flavor, or an empty text if all are allowed.
    pub(crate) fn variant_flavor(&self) -> &str {
        let key = "kueue.x-k8s.io/workload-allowed-resource-flavors";
        let flavor = self.metadata.annotations.get(key);
        flavor.map_or("", String::as_str)
    }

    /// Returns the sort key of the slices of a job, oldest first.
    pub(crate) fn age(&self) -> (Timestamp, String) {
        let metadata = &self.metadata;
        (metadata.creation_timestamp, metadata.uid.clone())
    }

    /// Returns the name of the first slice of an elastic job; its Pods carry it.
    pub(crate) fn slice_name(&self) -> &str {
        let annotations = &self.metadata.annotations;
        let name = annotations.get("kueue.x-k8s.io/workload-slice-name");
        name.unwrap_or(&self.metadata.name)
    }

    /// Returns its checks in one state.
    pub(crate) fn checks_in(&self, state: State) -> impl Iterator<Item = &AdmissionCheckState> {
        self.status
            .admission_checks
            .iter()
            .filter(move |c| c.state == state)
    }

    /// Returns true if all its entries are Ready.
    pub(crate) fn all_checks_ready(&self) -> bool {
        self.status
            .admission_checks
            .iter()
            .all(|c| c.state == State::Ready)
    }

    /// Returns the UID of the job it was made for, if any.
    pub(crate) fn job_uid(&self) -> Option<&str> {
        self.metadata
            .labels
            .get("kueue.x-k8s.io/job-uid")
            .map(String::as_str)
    }
}
