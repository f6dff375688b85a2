//! What has happened.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::call::Resource;

/// What happened to an object.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use kueue_check_sim::{Job, Simulation};
/// use kueue_check_sim::apiserver::ChangeVerb;
///
/// let run = Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// });
/// let of_workloads = run.history().into_iter().filter(|change| change.resource.plural == "workloads");
/// let verbs: Vec<ChangeVerb> = of_workloads.map(|change| change.verb).collect();
/// // Made once, and never deleted to be made again.
/// assert_eq!(verbs[0].as_str(), "ADDED");
/// assert!(verbs[1..].iter().all(|verb| *verb == ChangeVerb::Modified));
/// ```
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
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use kueue_check_sim::{Job, Simulation};
///
/// let run = Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// });
/// let history = run.history();
/// let by_check: Vec<_> = history.iter().filter(|change| change.resource.plural == "workloads" && change.agent.starts_with("check-0")).collect();
/// assert_eq!(by_check.len(), 1, "the verdict is written once");
/// assert_eq!(by_check[0].object["status"]["admissionChecks"][0]["state"], "Ready");
/// assert_eq!(by_check[0].previous.as_ref().unwrap()["status"]["admissionChecks"][0]["state"], "Pending");
/// ```
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
