//! The LocalQueue object.

use serde::Deserialize;

use super::{Metadata, QueueStatus, StopPolicy};

/// A LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct LocalQueue {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: LocalQueueSpec,
    /// The observed state.
    pub(crate) status: QueueStatus,
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
