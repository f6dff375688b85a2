//! Snapshots of Workloads.

use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::GROUP;
use serde_json::Value;

use super::Timeline;
use crate::apiserver::{ApiServer, Change, ChangeVerb};

/// A snapshot of a Workload: its state from one moment on.
///
/// ```
/// use kueue_check_sim::timeline::{Phase, WorkloadSnapshot, Timeline};
/// use serde_json::json;
///
/// let workload = json!({"metadata": {"namespace": "team", "name": "train", "uid": "1"}});
/// let seen = WorkloadSnapshot::new("2026-11-21T09:00:00Z".parse()?, workload.clone());
/// let gone = WorkloadSnapshot::deleted("2026-11-21T09:04:00Z".parse()?, workload);
/// let timeline = Timeline::new([gone, seen], "2026-11-21T10:00:00Z".parse()?); // in any order
/// assert_eq!(timeline.tracks[0].time_in(Phase::Waiting).as_secs(), 4 * 60);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSnapshot {
    /// The time of the change.
    pub at: Timestamp,
    /// The whole object, of any served version.
    pub workload: Arc<Value>,
    /// Whether the object was deleted at that moment; `workload` is then its last state.
    pub deleted: bool,
}

impl WorkloadSnapshot {
    /// Returns a snapshot of a Workload that was created or changed at `at`.
    pub fn new(at: Timestamp, workload: impl Into<Arc<Value>>) -> Self {
        Self {
            at,
            workload: workload.into(),
            deleted: false,
        }
    }

    /// Returns a snapshot of a Workload that was deleted at `at`.
    pub fn deleted(at: Timestamp, workload: impl Into<Arc<Value>>) -> Self {
        Self {
            deleted: true,
            ..Self::new(at, workload)
        }
    }
}

impl From<&Change> for WorkloadSnapshot {
    fn from(change: &Change) -> Self {
        Self {
            at: change.at,
            workload: Arc::clone(&change.object),
            deleted: change.verb == ChangeVerb::Deleted,
        }
    }
}

impl Timeline {
    /// Returns the timeline of an API server's Workloads, from their first change to `until`.
    pub fn of(server: &ApiServer, until: Timestamp) -> Self {
        let history = server.history();
        let workloads = history.iter().filter(|change| {
            change.resource.group == GROUP && change.resource.plural == "workloads"
        });
        Self::new(
            workloads.map(|change| WorkloadSnapshot::from(&**change)),
            until,
        )
    }
}
