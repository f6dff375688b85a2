//! Options of this check beyond Kueue's config: annotations on the ProvisioningRequestConfig. All
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
    /// What happens to the quota reservation between two attempts.
    pub after_failure: AfterFailure,
    /// The number of attempts that may follow the first, instead of `backoffLimitCount`.
    pub backoff_limit: Option<Limit>,
    /// The number of attempts that may follow those that failed because there is no capacity *now*.
    /// These then don't count towards the other limit.
    pub no_capacity_limit: Option<Limit>,
    /// The start of the backoff, if this check waits for it.
    pub backoff_from: BackoffFrom,
    /// A request that is not provisioned within this time after its creation counts as failed,
    /// whatever the autoscaler reports.
    pub pending_timeout: Option<Duration>,
    /// What happens to an admitted job when its request fails.
    pub failed_after_admission: OnFailedAfterAdmission,
}

/// What happens to the quota reservation between two attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterFailure {
    /// As Kueue: Retry with the delay. Kueue ≥ 0.15 evicts when the delay has passed, and holds the
    /// quota until then.
    #[default]
    Requeue,
    /// Retry without delay: Kueue evicts at once, and other Workloads can reserve the quota. The
    /// next request is created when the backoff has passed.
    ReleaseQuota,
    /// No Retry: the check stays Pending, and the next request is created when the backoff has
    /// passed (Kueue's former gate `KeepQuotaForProvReqRetry`).
    KeepQuota,
}

/// The start of the backoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackoffFrom {
    /// The eviction, or the failure if there was no eviction.
    #[default]
    Eviction,
    /// The Workload's creation.
    Creation,
}

/// A limit on the number of further attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this number.
    AtMost(u32),
    /// Any number.
    Unlimited,
}

impl Limit {
    /// Returns true if one more attempt may follow failure number `failure`.
    pub fn allows(self, failure: u32) -> bool {
        match self {
            Self::AtMost(limit) => failure <= limit,
            Self::Unlimited => true,
        }
    }
}

/// What happens to an admitted job when its request fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailedAfterAdmission {
    /// Nothing: the pods have their capacity, or wait for it.
    #[default]
    Ignore,
    /// The job is evicted, as Kueue's own check does.
    Retry,
}

impl Options {
    /// Returns the options among `annotations`.
    ///
    /// # Errors
    /// The error names the invalid annotation and its valid values. Unknown annotations with the
    /// prefix are rejected, because the administrator expects them to have an effect.
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
