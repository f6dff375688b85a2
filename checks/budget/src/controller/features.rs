//! Parts of the check that need rights of their own.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::rule;
use crate::resource::Quota;

/// A part of the check that needs rights of its own. It is off unless it is
/// [chosen](super::BudgetCheck::with), and a Budget that needs it makes its AdmissionCheck inactive
/// then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Feature {
    /// `onExhausted.quota: CloseLocalQueues`. The check may patch every LocalQueue.
    CloseLocalQueues,
    /// `onExhausted.quota: Yield`, and that variants of one job count as one. The check reads
    /// ClusterQueues.
    ClusterQueues,
}

impl Feature {
    /// What `quota` needs.
    pub(super) fn of(quota: Quota) -> Option<Self> {
        match quota {
            Quota::Hold => None,
            Quota::Yield => Some(Self::ClusterQueues),
            Quota::CloseLocalQueues => Some(Self::CloseLocalQueues),
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::CloseLocalQueues => "close-local-queues",
            Self::ClusterQueues => "cluster-queues",
        }
    }

    /// Its rights.
    pub(super) fn permission(self) -> PolicyRule {
        match self {
            Self::CloseLocalQueues => rule("kueue.x-k8s.io", &["localqueues"], &["list", "patch"]),
            Self::ClusterQueues => rule("kueue.x-k8s.io", &["clusterqueues"], &["list", "watch"]),
        }
    }
}
