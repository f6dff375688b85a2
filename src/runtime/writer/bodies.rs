//! Request bodies.

use serde::Serialize;

use crate::api::Uid;
use crate::runtime::decide::EntryPatch;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadApply<'a> {
    pub(super) api_version: String,
    pub(super) kind: &'static str,
    pub(super) metadata: ApplyMeta<'a>,
    pub(super) status: WorkloadStatus<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApplyMeta<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a Uid,
    pub(super) resource_version: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadStatus<'a> {
    pub(super) admission_checks: [NamedEntry<'a>; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct NamedEntry<'a> {
    pub(super) name: &'a str,
    #[serde(flatten)]
    pub(super) entry: Entry<'a>,
}

/// An entry with the fields that the served version has (rule 14).
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) patch: &'a EntryPatch,
    pub(super) requeue_after: bool,
}

impl<'a> Entry<'a> {
    pub(super) fn new(patch: &'a EntryPatch, requeue_after: bool) -> Self {
        Self {
            patch,
            requeue_after,
        }
    }
}

impl Serialize for Entry<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.requeue_after {
            return self.patch.serialize(serializer);
        }
        EntryPatch {
            requeue_after_seconds: None,
            ..self.patch.clone()
        }
        .serialize(serializer)
    }
}
