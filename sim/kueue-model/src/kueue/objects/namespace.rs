//! The Namespace object.

use serde::Deserialize;

use super::Metadata;

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Namespace {
    /// The object metadata.
    pub(crate) metadata: Metadata,
}
