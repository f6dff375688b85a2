//! The ClusterQueue.

use serde::Deserialize;

use super::{Conditions, Metadata, Selector};

/// A ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterQueue {
    /// Name and the like.
    pub(crate) metadata: Metadata,
    /// What is wanted.
    pub(crate) spec: ClusterQueueSpec,
    /// How it is.
    pub(crate) status: ClusterQueueStatus,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterQueueSpec {
    /// Quota.
    pub(crate) resource_groups: Vec<ResourceGroup>,
    /// In which order Workloads are tried.
    pub(crate) queueing_strategy: QueueingStrategy,
    /// Who has to make room.
    pub(crate) preemption: Preemption,
    /// When the next flavor is tried.
    pub(crate) flavor_fungibility: FlavorFungibility,
    /// With whom quota is shared; empty is nobody.
    pub(crate) cohort_name: String,
    /// Of which Namespaces Workloads may come; absent is none.
    pub(crate) namespace_selector: Option<Selector>,
    /// The checks.
    pub(crate) admission_checks_strategy: Option<ChecksStrategy>,
    /// Whether it takes Workloads.
    pub(crate) stop_policy: StopPolicy,
    /// Whether Workloads have a variant for each flavor.
    pub(crate) concurrent_admission_policy: Option<ConcurrentAdmissionPolicy>,
}

/// Workloads with a variant for each flavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ConcurrentAdmissionPolicy {
    /// What becomes of the others once one is admitted.
    pub(crate) migration: Migration,
}

/// What becomes of the other variants once one is admitted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Migration {
    /// `TryPreferredFlavors`, which is the default, or `RetainFirstAdmission`.
    pub(crate) mode: String,
    /// For the former.
    pub(crate) constraints: Option<MigrationConstraints>,
}

/// How far down variants may go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MigrationConstraints {
    /// A job does not migrate to a flavor after this one.
    pub(crate) last_acceptable_flavor_name: Option<String>,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterQueueStatus {
    /// `Active`.
    pub(crate) conditions: Conditions,
}

/// Flavors of some resources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceGroup {
    /// Which resources.
    pub(crate) covered_resources: Vec<String>,
    /// In the order in which they are tried.
    pub(crate) flavors: Vec<FlavorQuota>,
}

/// The quota of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct FlavorQuota {
    /// The ResourceFlavor.
    pub(crate) name: String,
    /// How much of what.
    pub(crate) resources: Vec<ResourceQuota>,
}

/// How much of one resource.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceQuota {
    /// The resource.
    pub(crate) name: String,
    /// A quantity.
    pub(crate) nominal_quota: serde_json::Value,
    /// How much more may be taken of the cohort's.
    pub(crate) borrowing_limit: Option<serde_json::Value>,
    /// How much of its own others may take.
    pub(crate) lending_limit: Option<serde_json::Value>,
}

/// The checks of a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ChecksStrategy {
    /// One rule per check.
    pub(crate) admission_checks: Vec<CheckRule>,
}

/// One check and for which flavors it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CheckRule {
    /// The AdmissionCheck.
    pub(crate) name: String,
    /// Empty for all.
    pub(crate) on_flavors: Vec<String>,
}

/// In which order Workloads are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum QueueingStrategy {
    /// One that does not fit lets the next pass.
    #[default]
    BestEffortFIFO,
    /// One that does not fit blocks all behind it.
    StrictFIFO,
}

/// Who has to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preemption {
    /// In the same ClusterQueue.
    pub(crate) within_cluster_queue: PreemptionPolicy,
    /// In other ClusterQueues of the cohort that take more than their own.
    pub(crate) reclaim_within_cohort: PreemptionPolicy,
    /// Whether that is allowed for what would itself be borrowed.
    pub(crate) borrow_within_cohort: Option<BorrowWithinCohort>,
}

/// Preemption in other ClusterQueues for quota that is borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BorrowWithinCohort {
    /// `Never` or `LowerPriority`.
    pub(crate) policy: PreemptionPolicy,
    /// Only of Workloads up to this priority.
    pub(crate) max_priority_threshold: Option<i64>,
}

/// When the next flavor is tried.
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
    /// Whether a flavor in which others can be made to leave is taken, though the next may have
    /// room.
    pub(crate) fn stops_at_preemption(&self) -> bool {
        matches!(self.when_can_preempt.as_str(), "MayStopSearch" | "Preempt")
    }

    /// Whether a flavor that has to be borrowed is taken, though the next may be its own.
    pub(crate) fn stops_at_borrowing(&self) -> bool {
        self.when_can_borrow != "TryNextFlavor"
    }

    /// Whether preemption is better than borrowing.
    pub(crate) fn prefers_preemption(&self) -> bool {
        self.preference == "PreemptionOverBorrowing"
    }
}

/// Who has to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PreemptionPolicy {
    /// Nobody.
    #[default]
    Never,
    /// Who has less priority.
    LowerPriority,
    /// Also who has the same and came later.
    LowerOrNewerEqualPriority,
    /// Anybody.
    Any,
}

/// Whether a queue takes Workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum StopPolicy {
    /// It does.
    #[default]
    None,
    /// It takes none, and those not yet admitted lose their quota.
    Hold,
    /// As [`Hold`](Self::Hold), and admitted ones are evicted.
    HoldAndDrain,
}

impl ClusterQueue {
    /// Its check rules.
    pub(crate) fn checks(&self) -> &[CheckRule] {
        self.spec
            .admission_checks_strategy
            .as_ref()
            .map_or(&[], |s| s.admission_checks.as_slice())
    }

    /// Its flavors.
    pub(crate) fn flavors(&self) -> impl Iterator<Item = &str> {
        let groups = self.spec.resource_groups.iter();
        groups.flat_map(|g| g.flavors.iter().map(|f| f.name.as_str()))
    }

    /// Whether the first variant that is admitted stays.
    pub(crate) fn retains_first_admission(&self) -> bool {
        let policy = self.spec.concurrent_admission_policy.as_ref();
        policy.is_some_and(|policy| policy.migration.mode == "RetainFirstAdmission")
    }

    /// The flavor after which no job migrates.
    pub(crate) fn last_acceptable_flavor(&self) -> Option<&str> {
        let policy = self.spec.concurrent_admission_policy.as_ref()?;
        let constraints = policy.migration.constraints.as_ref()?;
        constraints.last_acceptable_flavor_name.as_deref()
    }

    /// The group that covers a resource.
    pub(crate) fn group_of(&self, resource: &str) -> Option<&ResourceGroup> {
        let covers = |g: &&ResourceGroup| g.covered_resources.iter().any(|r| r == resource);
        self.spec.resource_groups.iter().find(covers)
    }
}
