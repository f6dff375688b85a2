//! What has happened.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::call::Resource;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerb {
    /// It is new.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeVerb {
    /// As watches say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When, to the nanosecond of the server's clock.
    pub at: Timestamp,
    /// Of which kind, in the version in which it is stored.
    pub resource: Resource,
    /// What happened.
    pub verb: ChangeVerb,
    /// The object after it; the last state of an object that is gone.
    pub object: Arc<Value>,
    /// Who did it.
    pub agent: String,
    /// The version that the change made.
    pub resource_version: u64,
    /// The object before it.
    pub previous: Option<Arc<Value>>,
    pub(crate) key: String,
}
