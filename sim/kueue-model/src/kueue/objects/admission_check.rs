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

/// The name of Kueue's controller of checks for other clusters.
const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";

impl AdmissionCheck {
    /// Returns the reason for which Kueue's `MultiKueue` controller cannot use its parameters, if it
    /// is a check of this controller. No `MultiKueueConfig` exists, because the model has none
    /// (Kueue 0.19.2, `pkg/controller/admissionchecks/multikueue/admissioncheck.go`,
    /// `refValidForGK` in `pkg/util/admissioncheck/admissioncheck.go`).
    pub(crate) fn missing_clusters(&self) -> Option<String> {
        if self.spec.controller_name != MULTI_KUEUE {
            return None;
        }
        let (group, kind) = ("kueue.x-k8s.io", "MultiKueueConfig");
        let Some(parameters) = &self.spec.parameters else {
            return Some("missing parameters reference".to_owned());
        };
        let text = |field: &str| parameters[field].as_str().unwrap_or_default();
        let wrong = |what: &str, found: &str, wanted: &str| {
            format!("wrong {what} {found:?}, expecting {wanted:?}: bad parameters reference")
        };
        Some(match (text("apiGroup"), text("kind")) {
            (other, _) if other != group => wrong("group", other, group),
            (_, other) if other != kind => wrong("kind", other, kind),
            _ => format!("{kind}.{group} {:?} not found", text("name")),
        })
    }

    /// Returns true if its condition `Active` is `True`.
    pub(crate) fn is_active(&self) -> bool {
        self.status.conditions.is_true("Active")
    }

    /// KEP-993: returns true if preemptions wait for this check to pass.
    pub(crate) fn preempts_after_it_passed(&self) -> bool {
        self.spec.preemption_policy.as_deref() == Some("AfterCheckPassedOrOnDemand")
    }
}
