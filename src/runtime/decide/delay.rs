//! Delays within bounds.

use std::time::Duration;

/// A delay within bounds. A check that returns zero causes no tight loop, and a source cannot
/// request an endless wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Delay(Duration);

impl Delay {
    /// The shortest delay.
    pub(crate) const MIN: Duration = Duration::from_secs(1);
    /// The longest delay that a failing or throttling source can request.
    pub(crate) const MAX: Duration = Duration::from_hours(1);

    /// Returns the delay of a recheck that the check requested, however late.
    pub(crate) fn recheck(delay: Duration) -> Self {
        Self(delay.max(Self::MIN))
    }

    /// Returns the delay of a retry.
    pub(crate) fn retry(delay: Duration) -> Self {
        Self(delay.clamp(Self::MIN, Self::MAX))
    }

    /// Returns a pause that the API server requested, at most 5 min. A longer one, and none, are
    /// mistakes of an intermediary.
    pub(crate) fn pause(delay: Duration) -> Self {
        Self(delay.clamp(Self::MIN, Duration::from_mins(5)))
    }

    pub(crate) fn get(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_have_a_floor_and_a_ceiling() {
        let seconds = Duration::from_secs;
        for (delay, expected) in [
            (Delay::recheck(Duration::ZERO), seconds(1)),
            (Delay::recheck(Duration::from_millis(1)), seconds(1)),
            (Delay::recheck(seconds(86_400)), seconds(86_400)),
            (Delay::retry(Duration::ZERO), seconds(1)),
            (Delay::retry(Duration::MAX), seconds(3600)),
            (Delay::pause(Duration::ZERO), seconds(1)),
            (Delay::pause(Duration::MAX), seconds(300)),
        ] {
            assert_eq!(delay.get(), expected);
        }
    }
}
