//! The LocalQueue object.

use serde::{Deserialize, Serialize};

use super::{Conditions, FlavorUsage, Metadata, StopPolicy};

/// A LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct LocalQueue {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: LocalQueueSpec,
    /// The observed state.
    pub(crate) status: LocalQueueStatus,
}

/// The spec of a LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LocalQueueSpec {
    /// Its ClusterQueue.
    pub(crate) cluster_queue: String,
    /// The stop policy.
    pub(crate) stop_policy: StopPolicy,
}

/// The status of a LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LocalQueueStatus {
    /// The condition `Active`.
    pub(crate) conditions: Conditions,
    /// The quota that Workloads hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) flavors_reservation: Vec<FlavorUsage>,
    /// The quota that admitted Workloads hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) flavors_usage: Vec<FlavorUsage>,
    /// The number of Workloads that wait for quota.
    pub(crate) pending_workloads: usize,
    /// The number of Workloads that hold quota.
    pub(crate) reserving_workloads: usize,
    /// The number of admitted Workloads.
    pub(crate) admitted_workloads: usize,
}
