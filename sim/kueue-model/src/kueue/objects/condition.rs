//! Conditions, and how Kubernetes' helpers set them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::whole_seconds;

/// One `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    /// The condition type.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: String,
    /// The time of the last status change.
    #[serde(default)]
    pub(crate) last_transition_time: Timestamp,
    /// The reason, one word.
    #[serde(default)]
    pub(crate) reason: String,
    /// The message for people.
    #[serde(default)]
    pub(crate) message: String,
    /// The generation that it was set for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
}

/// The status of a new condition: `True` or `False`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct True(pub(crate) bool);

impl True {
    fn as_str(self) -> &'static str {
        if self.0 { "True" } else { "False" }
    }
}

impl Condition {
    /// Creates a condition as of `now`; that time counts only if the status changes.
    pub(crate) fn new(
        kind: &str,
        status: True,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            status: status.as_str().to_owned(),
            last_transition_time: whole_seconds(now),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
        }
    }

    /// Returns true if its status is `True`.
    pub(crate) fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Returns true if its status is `False`.
    pub(crate) fn is_false(&self) -> bool {
        self.status == "False"
    }
}

/// A list of conditions, one of each type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Conditions(pub(crate) Vec<Condition>);

impl Conditions {
    /// Returns the condition of this type.
    pub(crate) fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|c| c.kind == kind)
    }

    /// Returns true if the condition exists and its status is `True`.
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(Condition::is_true)
    }

    /// Sets a condition, keeping the transition time while the status stays. Returns true if
    /// anything changed.
    pub(crate) fn set(&mut self, new: Condition) -> bool {
        let Some(old) = self.0.iter_mut().find(|c| c.kind == new.kind) else {
            self.0.push(new);
            return true;
        };
        let before = old.clone();
        if old.status != new.status {
            old.last_transition_time = new.last_transition_time;
        }
        old.status = new.status;
        old.reason = new.reason;
        old.message = new.message;
        old.observed_generation = new.observed_generation.or(old.observed_generation);
        *old != before
    }

    /// Removes a condition. Returns true if it existed.
    pub(crate) fn remove(&mut self, kind: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|c| c.kind != kind);
        self.0.len() != before
    }
}
