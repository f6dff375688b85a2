//! The Workload.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, Conditions};

/// The condition of a Workload whose group lacks Pods.
pub(crate) const LACKS_PODS: &str = "WaitingForReplacementPods";

/// What every object says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    /// Its name.
    pub(crate) name: String,
    /// Empty for objects without one.
    pub(crate) namespace: String,
    /// Unlike any other's.
    pub(crate) uid: String,
    /// The version of the server's data that it is from.
    pub(crate) resource_version: String,
    /// Counts changes of the spec.
    pub(crate) generation: i64,
    /// When it was made.
    pub(crate) creation_timestamp: Timestamp,
    /// When it was asked to go.
    pub(crate) deletion_timestamp: Option<Timestamp>,
    /// Labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(crate) annotations: BTreeMap<String, String>,
    /// What has to be done before it may go.
    pub(crate) finalizers: Vec<String>,
    /// Whose it is.
    pub(crate) owner_references: Vec<OwnerReference>,
}

impl Metadata {
    /// `namespace/name`, or the name alone.
    pub(crate) fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    /// The owner that controls it.
    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|o| o.controller)
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    /// Group and version.
    pub(crate) api_version: String,
    /// Such as `Job`.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// Whether it is the one that manages the object.
    pub(crate) controller: bool,
    /// Whether it waits for the object to go.
    pub(crate) block_owner_deletion: bool,
}

/// A Workload.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Workload {
    /// Name and the like.
    pub(crate) metadata: Metadata,
    /// What is wanted.
    pub(crate) spec: WorkloadSpec,
    /// How it is.
    pub(crate) status: WorkloadStatus,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkloadSpec {
    /// The LocalQueue.
    pub(crate) queue_name: String,
    /// Whether it may have quota; absent is yes.
    pub(crate) active: Option<bool>,
    /// Higher goes first.
    pub(crate) priority: i64,
    /// Where the priority is from.
    pub(crate) priority_class_ref: Option<PriorityClassRef>,
    /// How long it may run.
    pub(crate) maximum_execution_time_seconds: Option<i64>,
    /// The groups of Pods.
    pub(crate) pod_sets: Vec<PodSet>,
    /// While one is closed, no other Workload is preempted for this one.
    pub(crate) preemption_gates: Vec<PreemptionGate>,
}

impl WorkloadSpec {
    /// The `WorkloadPriorityClass`, if the priority is from one.
    pub(crate) fn priority_class(&self) -> Option<&str> {
        let class = self.priority_class_ref.as_ref()?;
        (class.kind == "WorkloadPriorityClass").then_some(class.name.as_str())
    }
}

/// Where a priority is from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PriorityClassRef {
    /// `WorkloadPriorityClass` or `PriorityClass`.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
}

/// A gate before preemption.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PreemptionGate {
    /// Its name.
    pub(crate) name: String,
}

/// Whether a gate is open, and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreemptionGateState {
    /// The gate.
    pub(crate) name: String,
    /// `Open` or `Closed`.
    pub(crate) position: String,
    /// Since when.
    pub(crate) last_transition_time: Timestamp,
}

/// A group of Pods that are alike.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSet {
    /// Its name.
    pub(crate) name: String,
    /// How many.
    pub(crate) count: i64,
    /// With how few it may start, if that is less.
    pub(crate) min_count: Option<i64>,
    /// The Pod template.
    pub(crate) template: Value,
}

/// How a Workload is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkloadStatus {
    /// Where it is in its life.
    pub(crate) conditions: Conditions,
    /// Its admission checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) admission_checks: Vec<CheckEntry>,
    /// Its quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admission: Option<Admission>,
    /// Pods that are done and will not run again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) reclaimable_pods: Vec<ReclaimablePods>,
    /// When it may be tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_state: Option<RequeueState>,
    /// Counted evictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheduling_stats: Option<Value>,
    /// What is known of its gates; others are closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) preemption_gates: Vec<PreemptionGateState>,
    /// How long it ran before it was evicted, if its time is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) accumulated_past_execution_time_seconds: Option<i64>,
}

/// The state of one check of a Workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// Not decided.
    #[default]
    Pending,
    /// Passed.
    Ready,
    /// Not now.
    Retry,
    /// Never.
    Rejected,
    /// KEP-993: Pending, and others have to make room.
    PreemptionRequired,
}

impl State {
    /// As the API writes it.
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

/// One check of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CheckEntry {
    /// The AdmissionCheck.
    pub(crate) name: String,
    /// How it stands.
    pub(crate) state: State,
    /// Since when.
    pub(crate) last_transition_time: Timestamp,
    /// Why.
    pub(crate) message: String,
    /// What is to be changed in the Pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod_set_updates: Vec<Value>,
    /// The delay of a Retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_after_seconds: Option<i64>,
    /// How often Retry was answered with an eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_count: Option<i64>,
}

/// The quota of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Admission {
    /// Whose quota.
    pub(crate) cluster_queue: String,
    /// For each pod set, which flavors.
    pub(crate) pod_set_assignments: Vec<PodSetAssignment>,
}

/// The quota of one pod set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSetAssignment {
    /// The pod set.
    pub(crate) name: String,
    /// Resource to flavor.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) flavors: BTreeMap<String, String>,
    /// Resource to amount, for all Pods together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) resource_usage: BTreeMap<String, String>,
    /// How many Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<i64>,
}

/// The Pods of one pod set that are done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReclaimablePods {
    /// The pod set.
    pub(crate) name: String,
    /// How many.
    pub(crate) count: i64,
}

/// When a Workload may be tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RequeueState {
    /// How often its Pods were not ready in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<i64>,
    /// Not before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_at: Option<Timestamp>,
}

impl Workload {
    /// Whether the user lets it run.
    pub(crate) fn is_active(&self) -> bool {
        self.spec.active.unwrap_or(true)
    }

    /// Whether it has quota.
    pub(crate) fn has_quota(&self) -> bool {
        self.status.conditions.is_true("QuotaReserved")
    }

    /// Whether no other Workload may be preempted for it.
    pub(crate) fn has_closed_gate(&self) -> bool {
        let mut gates = self.spec.preemption_gates.iter();
        gates.any(|gate| self.gate_opened(&gate.name).is_none())
    }

    /// Since when a gate is open.
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

    /// Whether it waits for quota.
    pub(crate) fn is_admissible(&self) -> bool {
        self.is_active() && !self.is_finished() && !self.has_quota() && !self.lacks_pods()
    }

    /// Whether its group of Pods waits for others in the place of some that failed.
    pub(crate) fn lacks_pods(&self) -> bool {
        self.status.conditions.is_true(LACKS_PODS)
    }

    /// Whether it may run.
    pub(crate) fn is_admitted(&self) -> bool {
        self.status.conditions.is_true("Admitted")
    }

    /// Whether it is done.
    pub(crate) fn is_finished(&self) -> bool {
        self.status.conditions.is_true("Finished")
    }

    /// Whether it is being stopped.
    pub(crate) fn is_evicted(&self) -> bool {
        self.status.conditions.is_true("Evicted")
    }

    /// Why it is being stopped, if it is.
    pub(crate) fn eviction(&self) -> Option<&Condition> {
        self.status
            .conditions
            .get("Evicted")
            .filter(|c| c.is_true())
    }

    /// What it is not to be tried before, as its annotation says; empty is nothing.
    pub(crate) fn gated_by(&self) -> Option<&str> {
        let gates = self
            .metadata
            .annotations
            .get("kueue.x-k8s.io/admission-gated-by");
        gates.map(String::as_str).filter(|gates| !gates.is_empty())
    }

    /// Before when it is not to be tried.
    pub(crate) fn requeue_at(&self) -> Option<Timestamp> {
        self.status.requeue_state.as_ref()?.requeue_at
    }

    /// The entry of a check.
    pub(crate) fn check(&self, name: &str) -> Option<&CheckEntry> {
        self.status.admission_checks.iter().find(|c| c.name == name)
    }

    /// How many Pods of a pod set are still to run (Kueue 0.19.2, `podSetsCountsAfterReclaim` in
    /// `pkg/workload/workload.go`).
    pub(crate) fn count_after_reclaim(&self, set: &PodSet) -> i64 {
        let done = &self.status.reclaimable_pods;
        let done = done.iter().find(|done| done.name == set.name);
        set.count - done.map_or(0, |done| done.count.min(set.count))
    }

    /// Whether a pod set may start with fewer Pods than it has.
    pub(crate) fn may_be_partially_admitted(&self) -> bool {
        let mut sets = self.spec.pod_sets.iter();
        sets.any(|set| set.min_count.is_some_and(|least| set.count > least))
    }

    /// The key of the slice that this one is to replace.
    pub(crate) fn replaces(&self) -> Option<&str> {
        let key = "kueue.x-k8s.io/workload-slice-replacement-for";
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// Whether it is a slice of an elastic job.
    pub(crate) fn is_slice(&self) -> bool {
        let annotations = &self.metadata.annotations;
        annotations
            .get("kueue.x-k8s.io/elastic-job")
            .is_some_and(|on| on == "true")
    }

    /// Whether it has variants.
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

    /// The name of the Workload whose variant it is.
    pub(crate) fn parent_name(&self) -> Option<&str> {
        self.parent().map(|owner| owner.name.as_str())
    }

    /// The UID of the Workload whose variant it is.
    pub(crate) fn parent_uid(&self) -> Option<&str> {
        self.parent().map(|owner| owner.uid.as_str())
    }

    /// The only flavor that it may have; empty if it may have any.
    pub(crate) fn variant_flavor(&self) -> &str {
        let key = "kueue.x-k8s.io/workload-allowed-resource-flavors";
        let flavor = self.metadata.annotations.get(key);
        flavor.map_or("", String::as_str)
    }

    /// What slices of a job are sorted by, the oldest first.
    pub(crate) fn age(&self) -> (Timestamp, String) {
        let metadata = &self.metadata;
        (metadata.creation_timestamp, metadata.uid.clone())
    }

    /// The name of the first slice of an elastic job; its Pods carry it.
    pub(crate) fn slice_name(&self) -> &str {
        let annotations = &self.metadata.annotations;
        let name = annotations.get("kueue.x-k8s.io/workload-slice-name");
        name.unwrap_or(&self.metadata.name)
    }

    /// Its checks in one state.
    pub(crate) fn checks_in(&self, state: State) -> impl Iterator<Item = &CheckEntry> {
        self.status
            .admission_checks
            .iter()
            .filter(move |c| c.state == state)
    }

    /// Whether nothing is left to check among its entries.
    pub(crate) fn all_checks_ready(&self) -> bool {
        self.status
            .admission_checks
            .iter()
            .all(|c| c.state == State::Ready)
    }

    /// The UID of the job it was made for, if any.
    pub(crate) fn job_uid(&self) -> Option<&str> {
        self.metadata
            .labels
            .get("kueue.x-k8s.io/job-uid")
            .map(String::as_str)
    }
}
