//! The AdmissionCheck.

use serde::Deserialize;
use serde_json::Value;

use super::{Conditions, Metadata};

/// An AdmissionCheck.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AdmissionCheck {
    /// Name and the like.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: AdmissionCheckSpec,
    /// How it is.
    pub status: AdmissionCheckStatus,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionCheckSpec {
    /// Who decides.
    pub controller_name: String,
    /// What the controller is to know.
    pub parameters: Option<Value>,
    /// KEP-993: when others have to make room.
    pub preemption_policy: Option<String>,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AdmissionCheckStatus {
    /// `Active`.
    pub conditions: Conditions,
}

impl AdmissionCheck {
    /// Whether its controller says that it works.
    pub fn is_active(&self) -> bool {
        self.status.conditions.is_true("Active")
    }

    /// KEP-993: whether preemptions wait for this check to pass.
    pub fn preempts_after_it_passed(&self) -> bool {
        self.spec.preemption_policy.as_deref() == Some("AfterCheckPassedOrOnDemand")
    }
}
