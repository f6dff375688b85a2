//! How long anything waits.

use std::time::Duration;

/// A delay within bounds: nothing is evaluated in a tight loop because a check returned zero, and
/// nothing waits for ever because a source asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Delay(Duration);

impl Delay {
    /// The shortest delay.
    pub(crate) const MIN: Duration = Duration::from_secs(1);
    /// The longest delay that a failing or throttling source can ask for.
    pub(crate) const MAX: Duration = Duration::from_hours(1);

    /// A recheck that the check itself wants, however late.
    pub(crate) fn recheck(delay: Duration) -> Self {
        Self(delay.max(Self::MIN))
    }

    /// A retry.
    pub(crate) fn retry(delay: Duration) -> Self {
        Self(delay.clamp(Self::MIN, Self::MAX))
    }

    /// A pause that the API server asks for. A longer one than five minutes is a mistake of
    /// something in between.
    pub(crate) fn pause(delay: Duration) -> Self {
        Self(delay.min(Duration::from_mins(5)))
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
            (Delay::pause(Duration::ZERO), Duration::ZERO),
            (Delay::pause(Duration::MAX), seconds(300)),
        ] {
            assert_eq!(delay.get(), expected);
        }
    }
}
