//! Kueue's setting `waitForPodsReady`: how long an admitted Workload may take to have all its Pods
//! ready.

use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;

/// The setting `waitForPodsReady` of Kueue's `Configuration`.
///
/// An admitted Workload whose Pods are not all ready in time is evicted with the reason
/// `PodsReadyTimeout`, and requeued after a delay that doubles with each such eviction. Since 0.19
/// this is on by default, with the values of [`DEFAULT`](Self::DEFAULT); before, it is off
/// (`SetDefaults_Configuration` in `apis/config/v1beta2/defaults.go` of 0.18.3 and 0.19.2).
///
/// It can be read from the field `waitForPodsReady` of a `Configuration`. It does not check the
/// values, and takes those of 0.19 for what is not set.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use std::time::Duration;
/// use kueue_check_sim::kueue::{KueueVersion, WaitForPodsReady};
/// use kueue_check_sim::{Job, Simulation};
///
/// let patient = WaitForPodsReady { timeout: Duration::from_mins(5), ..WaitForPodsReady::DEFAULT };
/// let version = KueueVersion { wait_for_pods_ready: Some(patient), ..KueueVersion::V0_19 };
/// Simulation::new(|| open).without_nodes().kueue(version).run(async |cluster| {
///     cluster.submit(Job::new("train")); // its Pods never run
///     cluster.expect_admitted("train").await;
///     cluster.advance(Duration::from_secs(303)).await;
///     assert!(cluster.condition("train", "Evicted"));
/// });
///
/// let read = serde_json::json!({"timeout": "5m"});
/// let read: WaitForPodsReady = serde_json::from_value(read)?;
/// assert_eq!(read, WaitForPodsReady { recovery_timeout: Some(patient.timeout), ..patient });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Configured")]
pub struct WaitForPodsReady {
    /// The longest time from the admission to the first moment at which all Pods are ready.
    pub timeout: Duration,
    /// The longest time without a Pod that was ready and failed. `None`: no limit.
    pub recovery_timeout: Option<Duration>,
    /// No Workload reserves quota while another one has quota and its Pods are not all ready. The
    /// scheduler of all queues waits.
    pub block_admission: bool,
    /// The place in the queue of a Workload that was evicted for its Pods.
    pub requeuing_timestamp: RequeuingTimestamp,
    /// The number of such evictions after which a Workload is deactivated instead. `None`: no
    /// limit.
    pub backoff_limit_count: Option<u32>,
    /// The delay after the first such eviction. Each further one doubles it.
    pub backoff_base: Duration,
    /// The longest delay.
    pub backoff_max: Duration,
}

/// The time that decides the place in the queue of a Workload whose Pods were not ready in time.
///
/// ```
/// use kueue_check_sim::kueue::{RequeuingTimestamp, WaitForPodsReady};
///
/// assert_eq!(WaitForPodsReady::DEFAULT.requeuing_timestamp, RequeuingTimestamp::Eviction);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum RequeuingTimestamp {
    /// The time of the eviction: it goes behind those that wait.
    #[default]
    Eviction,
    /// The time of its creation: it keeps its place.
    Creation,
}

impl WaitForPodsReady {
    /// The values of Kueue 0.19.2 for what is not set: 30 min, also for the recovery; no
    /// deactivation; a delay of 1 min to 1 h.
    pub const DEFAULT: Self = Self {
        timeout: Duration::from_mins(30),
        recovery_timeout: Some(Duration::from_mins(30)),
        block_admission: false,
        requeuing_timestamp: RequeuingTimestamp::Eviction,
        backoff_limit_count: None,
        backoff_base: Duration::from_mins(1),
        backoff_max: Duration::from_hours(1),
    };

    /// Returns the delay after the n-th eviction, without Kueue's jitter of up to 0.01 %.
    pub(crate) fn backoff(&self, evictions: u32) -> Duration {
        let doubled = 2_u32.checked_pow(evictions.saturating_sub(1));
        let delay = doubled.and_then(|factor| self.backoff_base.checked_mul(factor));
        delay.map_or(self.backoff_max, |delay| delay.min(self.backoff_max))
    }
}

/// The setting as Kueue's `Configuration` has it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configured {
    timeout: SignedDuration,
    recovery_timeout: Option<SignedDuration>,
    block_admission: bool,
    requeuing_strategy: Requeuing,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Requeuing {
    timestamp: RequeuingTimestamp,
    backoff_limit_count: Option<u32>,
    backoff_base_seconds: Option<u32>,
    backoff_max_seconds: Option<u32>,
}

impl From<Configured> for WaitForPodsReady {
    fn from(configured: Configured) -> Self {
        let length = |given: SignedDuration| {
            let given = Duration::try_from(given).unwrap_or_default();
            Some(given).filter(|given| !given.is_zero())
        };
        let timeout = length(configured.timeout).unwrap_or(Self::DEFAULT.timeout);
        let recovery = configured.recovery_timeout;
        let strategy = configured.requeuing_strategy;
        let seconds = |given: Option<u32>, otherwise| {
            given.map_or(otherwise, |given| Duration::from_secs(given.into()))
        };
        Self {
            timeout,
            recovery_timeout: recovery.map_or(Some(timeout), length),
            block_admission: configured.block_admission,
            requeuing_timestamp: strategy.timestamp,
            backoff_limit_count: strategy.backoff_limit_count,
            backoff_base: seconds(strategy.backoff_base_seconds, Self::DEFAULT.backoff_base),
            backoff_max: seconds(strategy.backoff_max_seconds, Self::DEFAULT.backoff_max),
        }
    }
}

impl Default for WaitForPodsReady {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_its_maximum() {
        let delays = [1, 2, 3, 6, 7, 8, 40].map(|n| WaitForPodsReady::DEFAULT.backoff(n));
        let minutes = [1, 2, 4, 32, 60, 60, 60].map(Duration::from_mins);
        assert_eq!(delays, minutes);
    }
}
