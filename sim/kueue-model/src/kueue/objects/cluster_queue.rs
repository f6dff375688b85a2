//! The ClusterQueue object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{Conditions, Metadata, Selector, amount_of};
use crate::kueue::KueueVersion;

/// A ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterQueue {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: ClusterQueueSpec,
    /// The observed state.
    pub(crate) status: QueueStatus,
}

/// The spec of a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterQueueSpec {
    /// The quota.
    pub(crate) resource_groups: Vec<ResourceGroup>,
    /// The order in which Workloads are tried.
    pub(crate) queueing_strategy: QueueingStrategy,
    /// The preemption policies.
    pub(crate) preemption: Preemption,
    /// The rules for trying the next flavor.
    pub(crate) flavor_fungibility: FlavorFungibility,
    /// The cohort that shares quota; empty for none.
    pub(crate) cohort_name: String,
    /// The Namespaces whose Workloads are accepted; none if absent.
    pub(crate) namespace_selector: Option<Selector>,
    /// The admission checks.
    pub(crate) admission_checks_strategy: Option<ChecksStrategy>,
    /// The stop policy.
    pub(crate) stop_policy: StopPolicy,
    /// Its part of what a cohort shares fairly.
    pub(crate) fair_sharing: FairWeight,
    /// Concurrent admission: if set, Workloads have a variant for each flavor.
    pub(crate) concurrent_admission_policy: Option<ConcurrentAdmissionPolicy>,
}

/// A weight for fair sharing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct FairWeight {
    /// A quantity; absent: 1.
    weight: Value,
}

impl FairWeight {
    /// Returns the weight, rounded up to thousandths.
    pub(crate) fn weight(&self) -> Option<f64> {
        let thousandths = amount_of("cpu", &self.weight)?;
        #[expect(clippy::cast_precision_loss, reason = "weights are small numbers")]
        let weight = thousandths as f64 / 1000.0;
        Some(weight)
    }
}

/// The policy of concurrent admission, with a variant for each flavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ConcurrentAdmissionPolicy {
    /// The rules for the other variants once one is admitted.
    pub(crate) migration: Migration,
}

/// The rules for the other variants once one is admitted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Migration {
    /// `TryPreferredFlavors`, which is the default, or `RetainFirstAdmission`.
    pub(crate) mode: String,
    /// Constraints of `TryPreferredFlavors`.
    pub(crate) constraints: Option<MigrationConstraints>,
}

/// The limits of migration between flavors.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MigrationConstraints {
    /// A job does not migrate to a flavor after this one.
    pub(crate) last_acceptable_flavor_name: Option<String>,
}

/// The status of a ClusterQueue or LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct QueueStatus {
    /// The condition `Active`.
    pub(crate) conditions: Conditions,
    /// The quota that Workloads hold.
    #[serde(serialize_with = "null_if_empty")]
    pub(crate) flavors_reservation: Vec<FlavorUsage>,
    /// The quota that admitted Workloads hold.
    #[serde(serialize_with = "null_if_empty")]
    pub(crate) flavors_usage: Vec<FlavorUsage>,
    /// The number of Workloads that wait for quota.
    pub(crate) pending_workloads: usize,
    /// The number of Workloads that hold quota.
    pub(crate) reserving_workloads: usize,
    /// The number of admitted Workloads.
    pub(crate) admitted_workloads: usize,
    /// Its share, with the setting `fairSharing`. A merge patch removes it with null.
    pub(crate) fair_sharing: Option<FairSharingStatus>,
}

/// The share of a ClusterQueue or Cohort, as its status shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FairSharingStatus {
    /// The share in thousandths, divided by the weight and rounded up.
    pub(crate) weighted_share: i64,
}

/// Serializes an empty list as null, by which a merge patch removes it.
fn null_if_empty<S: Serializer>(list: &[FlavorUsage], serializer: S) -> Result<S::Ok, S::Error> {
    Some(list)
        .filter(|list| !list.is_empty())
        .serialize(serializer)
}

/// The usage of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FlavorUsage {
    /// The flavor.
    pub(crate) name: String,
    /// The usage of its resources, by name.
    pub(crate) resources: Vec<ResourceUsage>,
}

/// The usage of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceUsage {
    /// The resource.
    pub(crate) name: String,
    /// A quantity.
    pub(crate) total: String,
    /// The part that is more than the nominal quota; only of a ClusterQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) borrowed: Option<String>,
}

/// A group of resources and its flavors.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceGroup {
    /// The covered resources.
    pub(crate) covered_resources: Vec<String>,
    /// The flavors, in the order in which they are tried.
    pub(crate) flavors: Vec<FlavorQuota>,
}

/// The quota of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct FlavorQuota {
    /// The ResourceFlavor.
    pub(crate) name: String,
    /// The quota of each resource.
    pub(crate) resources: Vec<ResourceQuota>,
}

/// The quota of one resource.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceQuota {
    /// The resource.
    pub(crate) name: String,
    /// A quantity.
    pub(crate) nominal_quota: serde_json::Value,
    /// The maximum amount borrowed from the cohort.
    pub(crate) borrowing_limit: Option<serde_json::Value>,
    /// The maximum amount lent to the cohort.
    pub(crate) lending_limit: Option<serde_json::Value>,
}

/// The admission checks of a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ChecksStrategy {
    /// One rule per check.
    pub(crate) admission_checks: Vec<CheckRule>,
}

/// The rule of one check: the flavors to which it applies.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CheckRule {
    /// The AdmissionCheck.
    pub(crate) name: String,
    /// The flavors; empty for all.
    pub(crate) on_flavors: Vec<String>,
}

/// The order in which Workloads are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum QueueingStrategy {
    /// A Workload that does not fit does not block the next one.
    #[default]
    BestEffortFIFO,
    /// A Workload that does not fit blocks all after it.
    StrictFIFO,
}

/// The preemption policies of a ClusterQueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preemption {
    /// The policy within the same ClusterQueue.
    pub(crate) within_cluster_queue: PreemptionPolicy,
    /// The policy in other ClusterQueues of the cohort that exceed their own quota.
    pub(crate) reclaim_within_cohort: PreemptionPolicy,
    /// The policy for reclamation by a Workload that would itself borrow.
    pub(crate) borrow_within_cohort: Option<BorrowWithinCohort>,
}

/// The policy of preemption in other ClusterQueues for borrowed quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BorrowWithinCohort {
    /// `Never` or `LowerPriority`.
    pub(crate) policy: PreemptionPolicy,
    /// The maximum priority of preempted Workloads.
    pub(crate) max_priority_threshold: Option<i64>,
}

/// The rules for trying the next flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FlavorFungibility {
    /// `TryNextFlavor`, which is the default, or `MayStopSearch`, formerly `Preempt`.
    pub(crate) when_can_preempt: String,
    /// `MayStopSearch`, formerly `Borrow`, which is the default, or `TryNextFlavor`.
    pub(crate) when_can_borrow: String,
    /// `BorrowingOverPreemption`, which is the default, or `PreemptionOverBorrowing`.
    pub(crate) preference: String,
}

impl FlavorFungibility {
    /// Returns true if the search stops at a flavor that needs preemption, though the next may fit.
    pub(crate) fn stops_at_preemption(&self) -> bool {
        matches!(self.when_can_preempt.as_str(), "MayStopSearch" | "Preempt")
    }

    /// Returns true if the search stops at a flavor that needs borrowing, though the next may not.
    pub(crate) fn stops_at_borrowing(&self) -> bool {
        self.when_can_borrow != "TryNextFlavor"
    }

    /// Returns true if preemption is preferred to borrowing.
    pub(crate) fn prefers_preemption(&self, version: KueueVersion) -> bool {
        let preferred = if version.inverts_preference {
            "BorrowingOverPreemption"
        } else {
            "PreemptionOverBorrowing"
        };
        self.preference == preferred
    }
}

/// The Workloads that may be preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PreemptionPolicy {
    /// No Workloads.
    #[default]
    Never,
    /// Workloads of lower priority.
    LowerPriority,
    /// Also newer Workloads of equal priority.
    LowerOrNewerEqualPriority,
    /// All Workloads.
    Any,
}

/// The stop policy of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum StopPolicy {
    /// The queue admits Workloads.
    #[default]
    None,
    /// The queue admits no Workloads, and those not yet admitted lose their quota.
    Hold,
    /// As [`Hold`](Self::Hold), and admitted Workloads are evicted.
    HoldAndDrain,
}

impl ClusterQueue {
    /// Returns true if it takes Workloads of a Namespace with these labels.
    pub(crate) fn takes_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        let selector = self.spec.namespace_selector.as_ref();
        selector.is_some_and(|selector| selector.matches(labels))
    }

    /// Returns its check rules.
    pub(crate) fn checks(&self) -> &[CheckRule] {
        self.spec
            .admission_checks_strategy
            .as_ref()
            .map_or(&[], |s| s.admission_checks.as_slice())
    }

    /// Returns its flavors.
    pub(crate) fn flavors(&self) -> impl Iterator<Item = &str> {
        let groups = self.spec.resource_groups.iter();
        groups.flat_map(|g| g.flavors.iter().map(|f| f.name.as_str()))
    }

    /// Returns true if the first admitted variant stays.
    pub(crate) fn retains_first_admission(&self) -> bool {
        let policy = self.spec.concurrent_admission_policy.as_ref();
        policy.is_some_and(|policy| policy.migration.mode == "RetainFirstAdmission")
    }

    /// Returns the last flavor to which a job migrates.
    pub(crate) fn last_acceptable_flavor(&self) -> Option<&str> {
        let policy = self.spec.concurrent_admission_policy.as_ref()?;
        let constraints = policy.migration.constraints.as_ref()?;
        constraints.last_acceptable_flavor_name.as_deref()
    }

    /// Returns the group that covers a resource.
    pub(crate) fn group_of(&self, resource: &str) -> Option<&ResourceGroup> {
        let covers = |g: &&ResourceGroup| g.covered_resources.iter().any(|r| r == resource);
        self.spec.resource_groups.iter().find(covers)
    }
}
