//! The LocalQueue.

use serde::Deserialize;

use super::{Conditions, Metadata, StopPolicy};

/// A LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct LocalQueue {
    /// Name and the like.
    pub(crate) metadata: Metadata,
    /// What is wanted.
    pub(crate) spec: LocalQueueSpec,
    /// How it is.
    pub(crate) status: LocalQueueStatus,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LocalQueueSpec {
    /// The ClusterQueue behind it.
    pub(crate) cluster_queue: String,
    /// Whether it takes Workloads.
    pub(crate) stop_policy: StopPolicy,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct LocalQueueStatus {
    /// `Active`.
    pub(crate) conditions: Conditions,
}
