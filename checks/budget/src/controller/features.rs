//! Features of the check that require permissions of their own.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::rule;
use crate::resource::Quota;

/// A feature of the check that requires permissions of its own. It is off unless it is
/// [enabled](super::BudgetCheck::with). A Budget that requires a disabled feature makes its
/// AdmissionCheck inactive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Feature {
    /// `onExhausted.quota: CloseLocalQueues`. The check may patch every LocalQueue.
    CloseLocalQueues,
    /// `onExhausted.quota: Yield`, and counting variants of one job as one. The check reads
    /// ClusterQueues.
    ClusterQueues,
}

impl Feature {
    /// Returns the feature that `quota` requires.
    pub(super) fn of(quota: Quota) -> Option<Self> {
        match quota {
            Quota::Hold => None,
            Quota::Yield => Some(Self::ClusterQueues),
            Quota::CloseLocalQueues => Some(Self::CloseLocalQueues),
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::CloseLocalQueues => "close-local-queues",
            Self::ClusterQueues => "cluster-queues",
        }
    }

    /// Returns the RBAC rule.
    pub(super) fn permission(self) -> PolicyRule {
        match self {
            Self::CloseLocalQueues => rule("kueue.x-k8s.io", &["localqueues"], &["list", "patch"]),
            Self::ClusterQueues => rule("kueue.x-k8s.io", &["clusterqueues"], &["list", "watch"]),
        }
    }
}
