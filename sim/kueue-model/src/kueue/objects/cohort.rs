//! The Cohort.

use serde::Deserialize;

use super::{Metadata, ResourceGroup};

/// A Cohort.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Cohort {
    /// Name and the like.
    pub(crate) metadata: Metadata,
    /// What is wanted.
    pub(crate) spec: CohortSpec,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CohortSpec {
    /// The cohort above it; empty is none.
    pub(crate) parent_name: String,
    /// Quota of its own.
    pub(crate) resource_groups: Vec<ResourceGroup>,
}
