//! The ClusterQueue.

use serde::Deserialize;

use super::{Conditions, Metadata, Selector};

/// A ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterQueue {
    /// Name and the like.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: ClusterQueueSpec,
    /// How it is.
    pub status: ClusterQueueStatus,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQueueSpec {
    /// Quota.
    pub resource_groups: Vec<ResourceGroup>,
    /// In which order Workloads are tried.
    pub queueing_strategy: QueueingStrategy,
    /// Who has to make room.
    pub preemption: Preemption,
    /// When the next flavor is tried.
    pub flavor_fungibility: FlavorFungibility,
    /// Of which Namespaces Workloads may come; absent is none.
    pub namespace_selector: Option<Selector>,
    /// The checks.
    pub admission_checks_strategy: Option<ChecksStrategy>,
    /// Whether it takes Workloads.
    pub stop_policy: StopPolicy,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQueueStatus {
    /// `Active`.
    pub conditions: Conditions,
}

/// Flavors of some resources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceGroup {
    /// Which resources.
    pub covered_resources: Vec<String>,
    /// In the order in which they are tried.
    pub flavors: Vec<FlavorQuota>,
}

/// The quota of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FlavorQuota {
    /// The ResourceFlavor.
    pub name: String,
    /// How much of what.
    pub resources: Vec<ResourceQuota>,
}

/// How much of one resource.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuota {
    /// The resource.
    pub name: String,
    /// A quantity.
    pub nominal_quota: serde_json::Value,
}

/// The checks of a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChecksStrategy {
    /// One rule per check.
    pub admission_checks: Vec<CheckRule>,
}

/// One check and for which flavors it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckRule {
    /// The AdmissionCheck.
    pub name: String,
    /// Empty for all.
    pub on_flavors: Vec<String>,
}

/// In which order Workloads are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum QueueingStrategy {
    /// One that does not fit lets the next pass.
    #[default]
    BestEffortFIFO,
    /// One that does not fit blocks all behind it.
    StrictFIFO,
}

/// Who has to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preemption {
    /// In the same ClusterQueue.
    pub within_cluster_queue: WithinClusterQueue,
}

/// When the next flavor is tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlavorFungibility {
    /// `TryNextFlavor`, which is the default, or `MayStopSearch`, formerly `Preempt`.
    pub when_can_preempt: String,
}

impl FlavorFungibility {
    /// Whether a flavor in which others can be made to leave is taken, though the next may have room.
    pub fn stops_at_preemption(&self) -> bool {
        matches!(self.when_can_preempt.as_str(), "MayStopSearch" | "Preempt")
    }
}

/// Who has to make room in the same ClusterQueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum WithinClusterQueue {
    /// Nobody.
    #[default]
    Never,
    /// Who has less priority.
    LowerPriority,
    /// Also who has the same and came later.
    LowerOrNewerEqualPriority,
}

/// Whether a queue takes Workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum StopPolicy {
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
    pub fn checks(&self) -> &[CheckRule] {
        self.spec
            .admission_checks_strategy
            .as_ref()
            .map_or(&[], |s| s.admission_checks.as_slice())
    }

    /// Its flavors.
    pub fn flavors(&self) -> impl Iterator<Item = &str> {
        let groups = self.spec.resource_groups.iter();
        groups.flat_map(|g| g.flavors.iter().map(|f| f.name.as_str()))
    }

    /// The group that covers a resource.
    pub fn group_of(&self, resource: &str) -> Option<&ResourceGroup> {
        let covers = |g: &&ResourceGroup| g.covered_resources.iter().any(|r| r == resource);
        self.spec.resource_groups.iter().find(covers)
    }
}
