//! The retries after a failure, as Kueue defines them.

use std::time::Duration;

use serde::Deserialize;

use super::null_is_default;

/// `spec.retryStrategy`. Absent fields have Kueue's defaults. The API server fills them in for its
/// clients; Kueue's own check relies on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryStrategy {
    /// The number of attempts after the first (3). 0: none.
    #[serde(deserialize_with = "limit")]
    pub backoff_limit_count: i32,
    /// The delay after the first failure (60 s). It doubles with each further failure.
    #[serde(deserialize_with = "base")]
    pub backoff_base_seconds: i32,
    /// The maximum delay (1800 s). 0: no maximum.
    #[serde(deserialize_with = "max")]
    pub backoff_max_seconds: i32,
}

const DEFAULT: RetryStrategy = RetryStrategy {
    backoff_limit_count: 3,
    backoff_base_seconds: 60,
    backoff_max_seconds: 1800,
};

macro_rules! or_default {
    ($($name:ident: $field:ident),*) => {$(
        fn $name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
            let value: Option<i32> = null_is_default(deserializer)?;
            Ok(value.unwrap_or(DEFAULT.$field))
        }
    )*};
}
or_default!(limit: backoff_limit_count, base: backoff_base_seconds, max: backoff_max_seconds);

impl Default for RetryStrategy {
    fn default() -> Self {
        DEFAULT
    }
}

impl RetryStrategy {
    /// Returns the delay after failure number `failure`, counted from 1.
    ///
    /// It is computed as in Kueue 0.19.2, without Kueue's jitter of at most a ten-thousandth: `base
    /// · 2^(failure − 1)`, at most the maximum. The first delay is the base even if the maximum is
    /// less, and a maximum of 0 means no maximum.
    pub fn delay(&self, failure: u32) -> Duration {
        let base = u64::try_from(self.backoff_base_seconds).unwrap_or_default();
        let max = u64::try_from(self.backoff_max_seconds).unwrap_or_default();
        let steps = failure.saturating_sub(1);
        if steps == 0 {
            return Duration::from_secs(base);
        }
        let factor = 1_u64.checked_shl(steps).unwrap_or(u64::MAX);
        let delay = base.saturating_mul(factor);
        let bound = if max == 0 {
            i32::MAX.unsigned_abs().into()
        } else {
            max
        };
        Duration::from_secs(delay.min(bound))
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        let fields = [
            ("backoffLimitCount", self.backoff_limit_count),
            ("backoffBaseSeconds", self.backoff_base_seconds),
            ("backoffMaxSeconds", self.backoff_max_seconds),
        ];
        for (field, value) in fields {
            if value < 0 {
                return Err(format!(
                    "spec.retryStrategy.{field} is {value}: it must not be negative"
                ));
            }
        }
        Ok(())
    }
}
