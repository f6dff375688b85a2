//! What this check offers beyond Kueue's config: annotations on the ProvisioningRequestConfig. All
//! are off by default.

use std::collections::BTreeMap;
use std::time::Duration;

use kueue_check::HumanDuration;

/// The prefix of the annotations that are options.
pub const PREFIX: &str = "provisioning.kueue-check.dev/";

/// The options of one ProvisioningRequestConfig.
///
/// | annotation (after `provisioning.kueue-check.dev/`) | values | default |
/// | --- | --- | --- |
/// | `after-failure` | `Requeue`, `ReleaseQuota`, `KeepQuota` | `Requeue` |
/// | `backoff-limit` | a number, `unlimited` | `spec.retryStrategy.backoffLimitCount` |
/// | `no-capacity-limit` | a number, `unlimited` | counted with the others |
/// | `backoff-from` | `Eviction`, `Creation` | `Eviction` |
/// | `pending-timeout` | a duration such as `3d` | none |
/// | `failed-after-admission` | `Ignore`, `Retry` | `Ignore` |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What happens to the quota between two attempts.
    pub after_failure: AfterFailure,
    /// How many attempts may follow the first, instead of `backoffLimitCount`.
    pub backoff_limit: Option<Limit>,
    /// How many attempts may follow those that failed because there is no capacity *now*; they then
    /// don't count towards the other limit.
    pub no_capacity_limit: Option<Limit>,
    /// From when the backoff is counted, where this check waits for it.
    pub backoff_from: BackoffFrom,
    /// A request that is not provisioned so long after its creation counts as failed, whatever the
    /// autoscaler says.
    pub pending_timeout: Option<Duration>,
    /// What a request that fails after the job was admitted does to it.
    pub failed_after_admission: OnFailedAfterAdmission,
}

/// What happens to the quota between two attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterFailure {
    /// As Kueue: Retry with the delay. Kueue ≥ 0.15 evicts when the delay is over, and holds the
    /// quota until then.
    #[default]
    Requeue,
    /// Retry without delay: Kueue evicts at once and others get the quota; the next request is
    /// created when the backoff is over.
    ReleaseQuota,
    /// No Retry: the check stays Pending, and the next request is created when the backoff is over
    /// (Kueue's former gate `KeepQuotaForProvReqRetry`).
    KeepQuota,
}

/// From when the backoff is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackoffFrom {
    /// From the eviction; where there was none, from the failure.
    #[default]
    Eviction,
    /// From the Workload's creation.
    Creation,
}

/// How many attempts may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many.
    AtMost(u32),
    /// Any number.
    Unlimited,
}

impl Limit {
    /// Whether one more attempt may follow failure number `failure`.
    pub fn allows(self, failure: u32) -> bool {
        match self {
            Self::AtMost(limit) => failure <= limit,
            Self::Unlimited => true,
        }
    }
}

/// What a request that fails after the job was admitted does to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailedAfterAdmission {
    /// Nothing: the pods have what they need, or wait for it.
    #[default]
    Ignore,
    /// The job is evicted, as Kueue's own check does.
    Retry,
}

impl Options {
    /// The options among `annotations`.
    ///
    /// # Errors
    /// Says which annotation is invalid, and what it may be. Unknown ones with the prefix are
    /// refused, because the administrator expects them to have an effect.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut options = Self::default();
        for (key, value) in annotations {
            let Some(name) = key.strip_prefix(PREFIX) else {
                continue;
            };
            let odd =
                |expected: &str| format!("the annotation {key} is `{value}`: expected {expected}");
            match name {
                "after-failure" => {
                    options.after_failure = match value.as_str() {
                        "Requeue" => AfterFailure::Requeue,
                        "ReleaseQuota" => AfterFailure::ReleaseQuota,
                        "KeepQuota" => AfterFailure::KeepQuota,
                        _ => return Err(odd("Requeue, ReleaseQuota or KeepQuota")),
                    };
                }
                "backoff-limit" => {
                    options.backoff_limit =
                        Some(limit(value).ok_or_else(|| odd("a number or `unlimited`"))?);
                }
                "no-capacity-limit" => {
                    options.no_capacity_limit =
                        Some(limit(value).ok_or_else(|| odd("a number or `unlimited`"))?);
                }
                "backoff-from" => {
                    options.backoff_from = match value.as_str() {
                        "Eviction" => BackoffFrom::Eviction,
                        "Creation" => BackoffFrom::Creation,
                        _ => return Err(odd("Eviction or Creation")),
                    };
                }
                "pending-timeout" => {
                    let parsed = value.parse::<HumanDuration>().map(Duration::from);
                    let timeout = parsed.ok().filter(|timeout| !timeout.is_zero());
                    options.pending_timeout =
                        Some(timeout.ok_or_else(|| odd("a duration such as `3d` or `12h`"))?);
                }
                "failed-after-admission" => {
                    options.failed_after_admission = match value.as_str() {
                        "Ignore" => OnFailedAfterAdmission::Ignore,
                        "Retry" => OnFailedAfterAdmission::Retry,
                        _ => return Err(odd("Ignore or Retry")),
                    };
                }
                _ => return Err(format!("the annotation {key} is no option of this check")),
            }
        }
        Ok(options)
    }
}

fn limit(value: &str) -> Option<Limit> {
    if value == "unlimited" {
        return Some(Limit::Unlimited);
    }
    value.parse().ok().map(Limit::AtMost)
}
