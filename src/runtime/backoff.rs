//! Exponential backoff.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// Delays from a smallest to a largest, doubling, with jitter from a seed so that runs can be
/// repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    largest: Duration,
    seed: u64,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, largest: Duration, seed: u64) -> Self {
        Self {
            first,
            largest,
            seed,
        }
    }

    /// Returns the delay after the `failures`-th consecutive failure (from 1), a little different
    /// for each `key`.
    pub(crate) fn delay(&self, failures: u32, key: u64) -> Duration {
        // Jitter is added on top of a step and may double it.
        let builder = ExponentialBuilder::new()
            .with_min_delay(self.first)
            .with_max_delay(self.largest)
            .with_factor(2.0)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.seed ^ key);
        let step = usize::try_from(failures.clamp(1, 64)).unwrap_or(64) - 1;
        builder
            .build()
            .nth(step)
            .unwrap_or(self.largest)
            .min(self.largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_largest_and_repeat_with_the_seed() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5), 7);
        for (failures, low, high) in [
            (0, 1, 2),
            (1, 1, 2),
            (2, 2, 4),
            (4, 8, 16),
            (20, 300, 300),
            (u32::MAX, 300, 300),
        ] {
            let delay = backoff.delay(failures, 3);
            assert!(
                delay >= Duration::from_secs(low) && delay <= Duration::from_secs(high),
                "{failures}: {delay:?}"
            );
            assert_eq!(delay, backoff.delay(failures, 3));
        }
        assert_ne!(
            backoff.delay(1, 1),
            backoff.delay(1, 2),
            "keys do not go in step"
        );
    }
}
