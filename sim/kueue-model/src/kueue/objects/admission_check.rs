//! The AdmissionCheck object.

use serde::Deserialize;
use serde_json::Value;

use super::{Conditions, Metadata};

/// An AdmissionCheck.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct AdmissionCheck {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: AdmissionCheckSpec,
    /// The observed state.
    pub(crate) status: AdmissionCheckStatus,
}

/// The spec of an AdmissionCheck.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AdmissionCheckSpec {
    /// The admission check controller.
    pub(crate) controller_name: String,
    /// The reference to the parameters object.
    pub(crate) parameters: Option<Value>,
    /// KEP-993: when other Workloads are preempted.
    pub(crate) preemption_policy: Option<String>,
}

/// The status of an AdmissionCheck.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct AdmissionCheckStatus {
    /// The condition `Active`.
    pub(crate) conditions: Conditions,
}

impl AdmissionCheck {
    /// Returns true if its condition `Active` is `True`.
    pub(crate) fn is_active(&self) -> bool {
        self.status.conditions.is_true("Active")
    }

    /// KEP-993: returns true if preemptions wait for this check to pass.
    pub(crate) fn preempts_after_it_passed(&self) -> bool {
        self.spec.preemption_policy.as_deref() == Some("AfterCheckPassedOrOnDemand")
    }
}
