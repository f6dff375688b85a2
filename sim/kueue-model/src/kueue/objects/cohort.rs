//! The Cohort object.

use serde::Deserialize;

use super::{FairSharingStatus, FairWeight, Metadata, ResourceGroup};

/// A Cohort.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Cohort {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: CohortSpec,
    /// The observed state.
    pub(crate) status: CohortStatus,
}

/// The status of a Cohort.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CohortStatus {
    /// Its share, with the setting `fairSharing`.
    pub(crate) fair_sharing: Option<FairSharingStatus>,
}

/// The spec of a Cohort.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CohortSpec {
    /// The parent cohort; empty for none.
    pub(crate) parent_name: String,
    /// Its part of what its parent shares fairly.
    pub(crate) fair_sharing: FairWeight,
    /// Its own quota.
    pub(crate) resource_groups: Vec<ResourceGroup>,
}
