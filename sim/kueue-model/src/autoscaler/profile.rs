//! Profiles: the autoscaler releases that can be simulated.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// A release of Cluster Autoscaler, or GKE's autoscaler.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use kueue_check_sim::autoscaler::{NodePool, Profile, QUEUED_PROVISIONING, Settings};
///
/// // The conditions written in a minute for a request for eight pods of one CPU.
/// let about = |profile: Profile| {
///     let settings = Settings::new(profile, [NodePool::new("pool", &[("cpu", "8")], 0, 4)]);
///     written_conditions(settings, &[("train", QUEUED_PROVISIONING, 8)], 1)
/// };
/// assert_eq!(about(Profile::GkeQueued)[0], "09:00:00 train Accepted=False NotAccepted"); // it waits in GKE's queue
/// assert!(about(Profile::Oss137).is_empty(), "a class that is not known is never touched");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// 1.30 and 1.31: retries after a constant 10 minutes, no `noRetry`, nothing is deleted, one
    /// request per scan.
    Oss131,
    /// 1.32 to 1.34: `noRetry`, exponential backoff, old requests are deleted.
    Oss133,
    /// 1.35 and 1.36: the next loop begins at once after a request was processed.
    Oss135,
    /// 1.37 and later: a booking ends once all pods are scheduled.
    Oss137,
    /// GKE's autoscaler: queued provisioning in addition to the classes of 1.37.
    GkeQueued,
}

impl Profile {
    /// Every profile, oldest first.
    pub const ALL: [Self; 5] = [
        Self::Oss131,
        Self::Oss133,
        Self::Oss135,
        Self::Oss137,
        Self::GkeQueued,
    ];

    pub(super) fn initial_backoff(self) -> Duration {
        if self == Self::Oss131 {
            10 * MINUTE
        } else {
            MINUTE
        }
    }

    pub(super) fn frequent_loops(self) -> bool {
        self >= Self::Oss135
    }

    pub(super) fn lacks_retry(self) -> bool {
        self > Self::Oss131
    }

    pub(super) fn deletes_old(self) -> bool {
        self > Self::Oss131
    }

    pub(super) fn applies_provisioned(self) -> bool {
        self > Self::Oss131
    }

    pub(super) fn supports_instances(self) -> bool {
        self > Self::Oss131
    }

    pub(super) fn detects_consumption(self) -> bool {
        self >= Self::Oss137
    }

    pub(super) fn queues(self) -> bool {
        self == Self::GkeQueued
    }
}
