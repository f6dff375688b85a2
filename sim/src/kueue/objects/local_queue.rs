//! The LocalQueue.

use serde::Deserialize;

use super::{Conditions, Metadata, StopPolicy};

/// A LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LocalQueue {
    /// Name and the like.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: LocalQueueSpec,
    /// How it is.
    pub status: LocalQueueStatus,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalQueueSpec {
    /// The ClusterQueue behind it.
    pub cluster_queue: String,
    /// Whether it takes Workloads.
    pub stop_policy: StopPolicy,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LocalQueueStatus {
    /// `Active`.
    pub conditions: Conditions,
}
