//! The custom resources `ApprovalCheck`, to which an AdmissionCheck refers, and `Approval`, which
//! people create.

use std::time::Duration;

use kube::CustomResource;
use kueue_check::{HumanDuration, Parameters, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::within;

/// The default validity of an approval.
const VALID_FOR: Duration = Duration::from_hours(7 * 24);

/// Who must approve a job before it starts.
#[derive(
    CustomResource, Parameters, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "kueue-check.dev",
    version = "v1alpha1",
    kind = "ApprovalCheck",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Required","type":"integer","jsonPath":".spec.required"}"#,
    printcolumn = r#"{"name":"Groups","type":"string","jsonPath":".spec.approvers.groups"}"#,
    printcolumn = r#"{"name":"Users","type":"string","jsonPath":".spec.approvers.users"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[parameters(validate = ApprovalCheckSpec::check)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalCheckSpec {
    /// Whose approvals count.
    pub approvers: Approvers,
    /// How many of them must approve, each a person of their own, from 1 to 10. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub required: Option<u32>,
    /// For how long an approval counts, from 1m to 365d. Default: 7d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for: Option<HumanDuration>,
    /// Whether an approval without a reason does not count. Default: false.
    #[serde(default)]
    pub require_reason: bool,
    #[serde(flatten)]
    policy: Policy,
}

/// Users and groups, by their names in the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "size(self.users) + size(self.groups) > 0", "message": "name a user or a group"}
]))]
pub struct Approvers {
    /// The users.
    #[serde(default)]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub users: Vec<String>,
    /// The groups.
    #[serde(default)]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub groups: Vec<String>,
}

/// A person's word that a job may start. It can't be changed: delete it to take it back.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kueue-check.dev",
    version = "v1alpha1",
    kind = "Approval",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name":"Approved by","type":"string","jsonPath":".spec.approvedBy"}"#,
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.job.kind"}"#,
    printcolumn = r#"{"name":"Job","type":"string","jsonPath":".spec.job.name"}"#,
    printcolumn = r#"{"name":"Workload","type":"string","jsonPath":".spec.workload"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".spec.reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf", "message": "an approval can't be changed: delete it and make another"},
    {"rule": "has(self.job) != has(self.workload)", "message": "name either the job or the Workload"}
]))]
pub struct ApprovalSpec {
    /// The job, in the namespace of the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobReference>,
    /// The Workload, instead of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub workload: Option<String>,
    /// The only AdmissionCheck that it is for. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub admission_check: Option<String>,
    /// Who approves: the name of the user who makes it, as `kubectl auth whoami` has it.
    #[schemars(length(min = 1, max = 256))]
    pub approved_by: String,
    /// The groups of that user that count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 256)))]
    pub groups: Vec<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub reason: Option<String>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobReference {
    /// Its kind, such as `Job`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl ApprovalCheckSpec {
    /// Validates what a schema cannot express.
    fn check(&self) -> Result<(), String> {
        if self.approvers.users.is_empty() && self.approvers.groups.is_empty() {
            return Err("`spec.approvers`: name a user or a group".to_owned());
        }
        if !(1..=10).contains(&self.required()) {
            return Err("`spec.required` must be from 1 to 10".to_owned());
        }
        let day = Duration::from_hours(24);
        within(
            "validFor",
            self.valid_for,
            Duration::from_mins(1),
            365 * day,
        )
    }

    /// Returns the required number of approvals.
    pub(super) fn required(&self) -> usize {
        usize::try_from(self.required.unwrap_or(1)).unwrap_or(usize::MAX)
    }

    /// Returns the validity of an approval.
    pub(super) fn valid_for(&self) -> Duration {
        self.valid_for.map_or(VALID_FOR, Duration::from)
    }
}
