//! Kubernetes events of a check on the Workload.

use super::Message;
use crate::api::CheckState;

/// An event about a Workload, for `kubectl describe`. It is sent apart from state writes. The
/// number and the rate of events are limited, as for the runtime's own.
///
/// ```
/// use kueue_check::{CheckEvent, NoParameters, RequestBuilder, api::Workload};
///
/// # let workload = Workload::from_json(serde_json::json!({"metadata": {"namespace": "team-a", "name": "train", "uid": "1"}}))?;
/// let request = RequestBuilder::new(workload, "licences").build(NoParameters);
/// request.record_event(CheckEvent::warning("LicenceExpires", "the licence ends on 2026-12-01: renew it"));
///
/// let events = request.recorded_events();
/// assert!(events[0].is_warning());
/// assert_eq!((events[0].reason(), events[0].note()), ("LicenceExpires", "the licence ends on 2026-12-01: renew it"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct CheckEvent {
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) action: &'static str,
    pub(crate) note: Message,
}

impl CheckEvent {
    /// Makes an event for something that is as it should be. `reason` is one word in CamelCase; the
    /// note is cut at 1,024 characters.
    pub fn normal(reason: &'static str, note: impl Into<Message>) -> Self {
        Self {
            warning: false,
            reason,
            action: "Check",
            note: note.into(),
        }
    }

    /// Makes an event for a problem that the administrator should examine.
    pub fn warning(reason: &'static str, note: impl Into<Message>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, note)
        }
    }

    /// Sets what the controller was doing, in one word in CamelCase. Default: `Check`.
    pub fn action(mut self, action: &'static str) -> Self {
        self.action = action;
        self
    }

    /// Returns true if it is a warning.
    pub fn is_warning(&self) -> bool {
        self.warning
    }

    /// Returns the reason.
    pub fn reason(&self) -> &str {
        self.reason
    }

    /// Returns the note.
    pub fn note(&self) -> &str {
        self.note.as_str()
    }
}

/// A change of an admission check state.
///
/// ```
/// use kueue_check::{CheckEvent, StateChange, api::CheckState};
///
/// /// As in `state_change_event` of a check that has names of its own for it.
/// fn state_event(change: &StateChange<'_>) -> CheckEvent {
///     match change.to {
///         CheckState::Ready => CheckEvent::normal("LicenceGranted", change.message),
///         _ => CheckEvent::normal("LicenceAwaited", change.message),
///     }
/// }
///
/// let change = StateChange::new("licences", &CheckState::Pending, &CheckState::Ready, "lic-42 is yours");
/// assert_eq!(state_event(&change).reason(), "LicenceGranted");
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StateChange<'a> {
    /// The AdmissionCheck.
    pub admission_check: &'a str,
    /// The state before.
    pub from: &'a CheckState,
    /// The state now.
    pub to: &'a CheckState,
    /// The message now.
    pub message: &'a str,
}

impl<'a> StateChange<'a> {
    /// Makes the change, as [`state_change_event`](super::Check::state_change_event) receives it.
    pub fn new(
        admission_check: &'a str,
        from: &'a CheckState,
        to: &'a CheckState,
        message: &'a str,
    ) -> Self {
        Self {
            admission_check,
            from,
            to,
            message,
        }
    }

    /// Returns the default event of a change.
    pub(crate) fn event(&self) -> CheckEvent {
        let reason = match self.to {
            CheckState::Ready => "AdmissionCheckReady",
            CheckState::Retry => "AdmissionCheckRetry",
            CheckState::Rejected => "AdmissionCheckRejected",
            CheckState::PreemptionRequired => "AdmissionCheckPreemptionRequired",
            CheckState::Pending | CheckState::Other(_) => "AdmissionCheckPending",
        };
        let Self {
            admission_check,
            from,
            to,
            message,
        } = self;
        CheckEvent::normal(
            reason,
            format!("Admission check \"{admission_check}\": {from} → {to}: {message}"),
        )
    }
}
