//! Kueue's setting `fairSharing`: ClusterQueues share the quota of a cohort by their weights.

use serde::Deserialize;

/// The setting `fairSharing` of Kueue's `Configuration`: the preemption strategies. The setting is
/// off by default.
///
/// The scheduler first tries the Workload of the ClusterQueue or cohort that would have the lowest
/// dominant resource share (KEP-1714). A strategy decides which Workloads of others it may preempt
/// for it. The status of ClusterQueues and Cohorts does not show the share in this model.
///
/// ```
/// use kueue_check_sim::kueue::{FairSharing, KueueVersion};
///
/// let version = KueueVersion { fair_sharing: Some(FairSharing::default()), ..KueueVersion::V0_19 };
/// let read = serde_json::json!({"preemptionStrategies": ["LessThanInitialShare"]});
/// let read: FairSharing = serde_json::from_value(read)?;
/// assert_eq!(read, FairSharing::InitialShare);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Configured")]
pub enum FairSharing {
    /// First `FinalShare`, then, if that is not enough, `InitialShare`. This is the default.
    #[default]
    Both,
    /// `LessThanOrEqualToFinalShare`: the share of the preemptor must not exceed that which the
    /// other one has without the preempted Workload.
    FinalShare,
    /// `LessThanInitialShare`: the share of the preemptor must be lower than that which the other
    /// one has now.
    InitialShare,
}

/// The setting as Kueue's `Configuration` has it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configured {
    preemption_strategies: Vec<Strategy>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
enum Strategy {
    #[serde(rename = "LessThanOrEqualToFinalShare")]
    Final,
    #[serde(rename = "LessThanInitialShare")]
    Initial,
}

impl From<Configured> for FairSharing {
    fn from(configured: Configured) -> Self {
        match configured.preemption_strategies[..] {
            [Strategy::Final] => Self::FinalShare,
            [Strategy::Initial] => Self::InitialShare,
            _ => Self::Both,
        }
    }
}
