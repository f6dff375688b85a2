//! The AdmissionCheck.

use serde::Deserialize;
use serde_json::Value;

use super::{Conditions, Metadata};

/// An AdmissionCheck.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct AdmissionCheck {
    /// Name and the like.
    pub(crate) metadata: Metadata,
    /// What is wanted.
    pub(crate) spec: AdmissionCheckSpec,
    /// How it is.
    pub(crate) status: AdmissionCheckStatus,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AdmissionCheckSpec {
    /// Who decides.
    pub(crate) controller_name: String,
    /// What the controller is to know.
    pub(crate) parameters: Option<Value>,
    /// KEP-993: when others have to make room.
    pub(crate) preemption_policy: Option<String>,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct AdmissionCheckStatus {
    /// `Active`.
    pub(crate) conditions: Conditions,
}

impl AdmissionCheck {
    /// Whether its controller says that it works.
    pub(crate) fn is_active(&self) -> bool {
        self.status.conditions.is_true("Active")
    }

    /// KEP-993: whether preemptions wait for this check to pass.
    pub(crate) fn preempts_after_it_passed(&self) -> bool {
        self.spec.preemption_policy.as_deref() == Some("AfterCheckPassedOrOnDemand")
    }
}
