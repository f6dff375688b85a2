//! The `WorkloadPriorityClass` object.

use serde::Deserialize;

use super::Metadata;

/// A `WorkloadPriorityClass`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct WorkloadPriorityClass {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The priority of its Workloads.
    pub(crate) value: i64,
}
