//! An admission check state: one element of a Workload's `status.admissionChecks`.

use std::fmt;

use jiff::Timestamp;

use super::{CompactTime, Fingerprint, Name};

/// The state of an admission check for one Workload (`status.admissionChecks[].state`).
///
/// ```
/// use kueue_check::api::CheckState;
///
/// assert_eq!(CheckState::new("Retry"), CheckState::Retry);
/// assert_eq!(CheckState::new(""), CheckState::Pending, "not decided yet");
/// assert_eq!(CheckState::new("Deferred").as_str(), "Deferred", "a state of a later Kueue is kept");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckState {
    /// Not decided; the Workload waits and holds its quota.
    Pending,
    /// The check has passed.
    Ready,
    /// Not now: Kueue evicts and requeues the Workload.
    Retry,
    /// Never: Kueue deactivates the Workload.
    Rejected,
    /// Would pass if other Workloads were preempted (KEP-993). No released Kueue accepts it; see
    /// [`ServedApi`](super::ServedApi).
    PreemptionRequired,
    /// A state that this SDK does not support.
    Other(Other),
}

/// A state name that this SDK does not support.
///
/// ```
/// use kueue_check::api::CheckState;
///
/// match CheckState::new("Deferred") {
///     CheckState::Other(word) => assert_eq!(CheckState::Other(word).to_string(), "Deferred"),
///     known => panic!("{known} is known"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Other(Name);

impl CheckState {
    /// Returns the name in the API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "Pending",
            Self::Ready => "Ready",
            Self::Retry => "Retry",
            Self::Rejected => "Rejected",
            Self::PreemptionRequired => "PreemptionRequired",
            Self::Other(Other(word)) => word,
        }
    }

    /// Returns the state named `word`. An empty name is Pending: no check has decided.
    pub fn new(word: &str) -> Self {
        match word {
            "" | "Pending" => Self::Pending,
            "Ready" => Self::Ready,
            "Retry" => Self::Retry,
            "Rejected" => Self::Rejected,
            "PreemptionRequired" => Self::PreemptionRequired,
            other => Self::Other(Other(other.into())),
        }
    }
}

impl fmt::Display for CheckState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of one admission check for one Workload.
///
/// The message and the pod set updates are kept as digests: enough to detect that they differ from
/// what the runtime would write.
///
/// ```
/// use kueue_check::api::{CheckState, Workload};
///
/// let workload = Workload::from_json(serde_json::json!({
///     "metadata": {"namespace": "team-a", "name": "train", "uid": "1"},
///     "status": {"admissionChecks": [
///         {"name": "budget", "state": "Ready", "message": "within budget", "lastTransitionTime": "2026-11-21T09:00:07Z"},
///         {"name": "window", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:05Z", "retryCount": 2},
///     ]},
/// }))?;
/// let waits_for: Vec<&str> = workload.checks().iter().filter(|entry| *entry.state() != CheckState::Ready).map(|entry| entry.name()).collect();
/// assert_eq!(waits_for, ["window"]);
/// assert_eq!(workload.check("window").and_then(|entry| entry.retry_count()), Some(2));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionCheckState {
    pub(crate) name: Name,
    pub(crate) state: CheckState,
    pub(crate) since: CompactTime,
    /// One more than the count; 0 for none.
    pub(crate) retries: u32,
    pub(crate) message_digest: u32,
    pub(crate) updates_digest: u32,
    /// The keys that the updates set. Boxed twice, because most entries have none.
    pub(crate) updates: Option<Box<Box<[Fingerprint]>>>,
}

impl AdmissionCheckState {
    /// Returns the AdmissionCheck's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state.
    pub fn state(&self) -> &CheckState {
        &self.state
    }

    /// Returns when the state was last changed (`lastTransitionTime`, to the second).
    pub fn since(&self) -> Option<Timestamp> {
        self.since.get()
    }

    /// Returns how often Kueue has requeued the Workload because this check returned Retry. Kueue ≥
    /// 0.15 counts this, and resets it when the Workload is evicted for another reason meanwhile.
    pub fn retry_count(&self) -> Option<u32> {
        self.retries.checked_sub(1)
    }

    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        self.updates
            .iter()
            .flat_map(|updates| updates.iter().copied())
    }
}
