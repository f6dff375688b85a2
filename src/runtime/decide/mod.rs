//! Decisions of the protocol as pure functions: from a Workload and a verdict to a write.
//!
//! [`phase`] determines whether a decision is due; [`conclude`] derives what follows from an
//! outcome. Neither uses a clock or a client. Rules are numbered as in `ARCHITECTURE.md`.

mod conclude;
mod delay;
mod phase;

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

#[cfg(feature = "cli")]
pub(crate) use conclude::waits_since;
pub(crate) use conclude::{Conclusion, Facts, Growth, NextEvaluation, Outcome, conclude};
pub(crate) use delay::Delay;
pub(crate) use phase::{CheckPhase, check_phase, must_withdraw, reason_to_stop};

use crate::api::{AdmissionCheckState, CheckState, PodSetUpdate, short_digest};
use crate::check::{Message, PodSetUpdates, VerdictKind};

/// The patch of an entry: exactly the fields that a check owns, each time all of them (rule 4).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryPatch {
    #[serde(serialize_with = "as_label")]
    pub(crate) state: CheckState,
    #[serde(serialize_with = "as_text")]
    pub(crate) message: Message,
    #[serde(rename = "lastTransitionTime", serialize_with = "to_the_second")]
    pub(crate) since: Timestamp,
    /// Only with Retry; 0 for none, because an omitted field would inherit an older delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_after_seconds: Option<u32>,
    /// An empty list clears the current updates; an omitted field would not.
    #[serde(rename = "podSetUpdates", serialize_with = "as_list")]
    pub(crate) updates: PodSetUpdates,
}

impl EntryPatch {
    /// Returns true if `entry` has the same state, message and updates.
    pub(crate) fn matches(&self, entry: &AdmissionCheckState) -> bool {
        self.state == entry.state
            && short_digest(self.message.as_str()) == entry.message_digest
            && self.updates.digest() == entry.updates_digest
    }

    /// Returns `entry` after this write: an apply changes the fields that it sends, to these
    /// values, and no others.
    pub(crate) fn applied_to(&self, entry: &AdmissionCheckState) -> AdmissionCheckState {
        AdmissionCheckState {
            name: entry.name.clone(),
            state: self.state.clone(),
            since: Some(self.since).into(),
            retries: entry.retries,
            message_digest: short_digest(self.message.as_str()),
            updates_digest: self.updates.digest(),
            updates: self.updates.fingerprints(),
        }
    }
}

fn as_label<S: Serializer>(state: &CheckState, serializer: S) -> Result<S::Ok, S::Error> {
    state.as_str().serialize(serializer)
}

fn as_text<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
    message.as_str().serialize(serializer)
}

fn as_list<S: Serializer>(updates: &PodSetUpdates, serializer: S) -> Result<S::Ok, S::Error> {
    <[PodSetUpdate]>::serialize(updates.as_slice(), serializer)
}

/// Serializes a time as Kubernetes' `metav1.Time`, in whole seconds.
pub(crate) fn to_the_second<S: Serializer>(
    at: &Timestamp,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Timestamp::from_second(at.as_second()).unwrap_or(*at))
}

/// The state of one reservation for one check, in this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReservationState {
    /// Number of evaluations.
    pub(crate) evaluations: u32,
    /// Whether the last Ready set `recheck_in`: the check monitors the job. `None` if another
    /// process received that Ready.
    pub(crate) monitored: Option<bool>,
    /// The last verdict's `recheck_in`.
    pub(crate) recheck: Option<Millis>,
    /// The failures. Boxed, because most reservations have none.
    failure: Option<Box<FailureState>>,
}

/// A delay in milliseconds, at least 1 ms and at most 49 days. A Duration would take four times as
/// much of the memory that each Workload has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Millis(NonZeroU32);

impl Millis {
    pub(crate) fn get(self) -> Duration {
        Duration::from_millis(self.0.get().into())
    }
}

impl From<Duration> for Millis {
    fn from(delay: Duration) -> Self {
        let millis = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
        Self(NonZeroU32::new(millis).unwrap_or(NonZeroU32::MIN))
    }
}

/// The failures of one reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FailureState {
    /// Consecutive failures, and the time of the first.
    pub(crate) failures: u32,
    pub(crate) failing_since: Option<Timestamp>,
    /// Whether one of them rejected the parameters.
    pub(crate) rejected: bool,
    /// Consecutive failing verdicts about the running job or its growth, and the time of the last
    /// one that was counted.
    pub(crate) failing_verdicts: u32,
    pub(crate) objected_at: Option<Timestamp>,
    /// The due time of a Retry whose delay the runtime waits for.
    pub(crate) retry_due: Option<Timestamp>,
    /// Consecutive overwrites of the entry by another client.
    pub(crate) overwritten: u32,
    pub(crate) overwritten_at: Option<Timestamp>,
}

impl ReservationState {
    /// Returns the state for a job that the check monitors, and nothing else.
    #[cfg(feature = "cli")]
    pub(crate) fn watching() -> Self {
        Self {
            monitored: Some(true),
            ..Self::default()
        }
    }

    pub(crate) fn failure_state(&self) -> FailureState {
        self.failure.as_deref().copied().unwrap_or_default()
    }

    pub(crate) fn update_failure_state(&mut self, change: impl FnOnce(&mut FailureState)) {
        let mut failure = self.failure_state();
        change(&mut failure);
        self.failure = (failure != FailureState::default()).then(|| Box::new(failure));
    }

    fn reset_failing_verdicts(&mut self) {
        self.update_failure_state(|failure| {
            failure.failing_verdicts = 0;
            failure.objected_at = None;
        });
    }

    fn decided(&mut self) {
        self.update_failure_state(|failure| {
            failure.failures = 0;
            failure.failing_since = None;
            failure.rejected = false;
        });
    }
}

/// A notice to report: an event, a metric or both.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Notice {
    /// The state changed.
    StateChanged {
        from: CheckState,
        to: CheckState,
        message: Message,
    },
    /// A failing verdict about a running job or its growth was suppressed.
    Suppression {
        why: Suppression,
        kind: VerdictKind,
        message: Message,
    },
    /// The check requires preemption, which this Kueue does not support.
    PreemptionNotSupported(Message),
    /// A Ready check returned other pod set updates, which Kueue rejects.
    UpdatesFrozen,
    /// The policy decided instead of the check.
    PolicyApplied(AppliedPolicy),
}

/// A part of the policy that decided instead of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppliedPolicy {
    OnErrorAdmit,
    OnErrorRetry,
    PendingTimeout,
}

impl AppliedPolicy {
    /// Returns the field, with its value where that decides.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::OnErrorAdmit => "onError: Admit",
            Self::OnErrorRetry => "onError: Retry",
            Self::PendingTimeout => "pendingTimeout",
        }
    }

    /// Returns the label for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OnErrorAdmit => "on_error_admit",
            Self::OnErrorRetry => "on_error_retry",
            Self::PendingTimeout => "pending_timeout",
        }
    }
}

/// The reason why a failing verdict does not evict a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suppression {
    /// `afterAdmission.onFailure` is Ignore.
    Ignored,
    /// The check's Ready did not set `recheck_in`: it does not monitor the job.
    NotMonitored,
    /// The check returned too few consecutive failing verdicts.
    BelowThreshold { failing_verdicts: u32, needed: u32 },
    /// The check has evicted too many jobs in the last hour.
    RateLimited { limit: u32 },
    /// The job runs already, and this Workload only adds pods to it.
    Growth,
}

impl Suppression {
    /// Returns the label for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ignored => "ignored",
            Self::NotMonitored => "not_monitored",
            Self::BelowThreshold { .. } => "below_threshold",
            Self::RateLimited { .. } => "rate_limited",
            Self::Growth => "growth",
        }
    }
}
