//! The protocol, as pure functions: from a Workload and a verdict to what is written.
//!
//! [`phase`] says whether there is anything to decide; [`conclude`] says what follows from an
//! outcome. Neither uses a clock or a client. The rules that they keep are numbered as in
//! `ARCHITECTURE.md`.

mod conclude;
mod delay;
mod phase;

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

pub(crate) use conclude::{Conclusion, Facts, Growth, NextEvaluation, Outcome, conclude};
pub(crate) use delay::Delay;
pub(crate) use phase::{CheckPhase, check_phase, must_withdraw, reason_to_stop};

use crate::api::{AdmissionCheckState, CheckState, PodSetUpdate, short_digest};
use crate::check::{Message, PodSetUpdates, VerdictKind};

/// An entry as it is sent: exactly the fields that a check owns, each time all of them (rule 4).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryPatch {
    #[serde(serialize_with = "as_label")]
    pub(crate) state: CheckState,
    #[serde(serialize_with = "as_text")]
    pub(crate) message: Message,
    #[serde(rename = "lastTransitionTime", serialize_with = "to_the_second")]
    pub(crate) since: Timestamp,
    /// Only with Retry; 0 for none, because leaving it out would inherit an older delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requeue_after_seconds: Option<u32>,
    /// An empty list clears the present one; leaving it out would not.
    #[serde(rename = "podSetUpdates", serialize_with = "as_list")]
    pub(crate) updates: PodSetUpdates,
}

impl EntryPatch {
    /// Whether `entry` says the same.
    pub(crate) fn matches(&self, entry: &AdmissionCheckState) -> bool {
        self.state == entry.state
            && short_digest(self.message.as_str()) == entry.message_digest
            && self.updates.digest() == entry.updates_digest
    }

    /// What `entry` is once this is written: an apply changes the fields that it sends, to these
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

/// Kubernetes' `metav1.Time`.
pub(crate) fn to_the_second<S: Serializer>(
    at: &Timestamp,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Timestamp::from_second(at.as_second()).unwrap_or(*at))
}

/// What is remembered of one reservation for one check, in this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReservationState {
    /// How often the check has been asked.
    pub(crate) evaluations: u32,
    /// Whether the last Ready asked for another evaluation: the check monitors the job. `None` if
    /// that Ready was given in another process.
    pub(crate) monitored: Option<bool>,
    /// The last verdict's delay.
    pub(crate) recheck: Option<Millis>,
    /// What went wrong. Apart, because nothing does for most.
    trouble: Option<Box<FailureState>>,
}

/// A delay in milliseconds, at least one and at most 49 days: a Duration would take four times as
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

/// What went wrong with one reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FailureState {
    /// Failures in a row, and since when.
    pub(crate) failures: u32,
    pub(crate) failing_since: Option<Timestamp>,
    /// How often in a row the check has objected to the running job or to its growth, and when the
    /// last time was that counted.
    pub(crate) failing_verdicts: u32,
    pub(crate) objected_at: Option<Timestamp>,
    /// When a Retry is due whose delay is waited for here.
    pub(crate) retry_due: Option<Timestamp>,
    /// How often in a row another writer has changed what was written.
    pub(crate) overwritten: u32,
    pub(crate) overwritten_at: Option<Timestamp>,
}

impl ReservationState {
    /// Of a program that keeps an eye on the job, and remembers nothing else.
    #[cfg(feature = "cli")]
    pub(crate) fn watching() -> Self {
        Self {
            monitored: Some(true),
            ..Self::default()
        }
    }

    pub(crate) fn failure_state(&self) -> FailureState {
        self.trouble.as_deref().copied().unwrap_or_default()
    }

    pub(crate) fn update_failure_state(&mut self, change: impl FnOnce(&mut FailureState)) {
        let mut trouble = self.failure_state();
        change(&mut trouble);
        self.trouble = (trouble != FailureState::default()).then(|| Box::new(trouble));
    }

    fn no_objection(&mut self) {
        self.update_failure_state(|trouble| {
            trouble.failing_verdicts = 0;
            trouble.objected_at = None;
        });
    }

    fn decided(&mut self) {
        self.update_failure_state(|trouble| {
            trouble.failures = 0;
            trouble.failing_since = None;
        });
    }
}

/// Something to report: an event, a metric or both.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Notice {
    /// The state is another one.
    StateChanged {
        from: CheckState,
        to: CheckState,
        message: Message,
    },
    /// The check objects to a running job, or to the growth of one, and a fence holds it back.
    Suppression {
        why: Suppression,
        answer: VerdictKind,
        message: Message,
    },
    /// The check requires preemption, which this Kueue does not support.
    PreemptionNotSupported(Message),
    /// The check wants other pod set updates while it is Ready, which Kueue refuses.
    UpdatesFrozen,
    /// The policy decided in the check's place; which field of it.
    PolicyApplied(&'static str),
}

/// Why a running job is not stopped although the check objects to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suppression {
    /// `afterAdmission.onFailure` is Ignore.
    Ignored,
    /// The check did not say that it keeps an eye on the job.
    NotMonitored,
    /// It has not objected often enough in a row.
    BelowThreshold { objections: u32, needed: u32 },
    /// It has stopped too many jobs in the last hour.
    RateLimited { limit: u32 },
    /// The job runs already, and this Workload only asks for more pods for it.
    Growth,
}

impl Suppression {
    /// The word for metrics.
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
