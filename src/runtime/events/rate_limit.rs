//! The rate limit of events.

use std::time::Duration;

use tokio::time::Instant;

/// 10 events per second, and bursts of 20 after a rest.
const INTERVAL: Duration = Duration::from_millis(100);
const AT_ONCE: u32 = 20;

/// A token bucket: one token each [`INTERVAL`]; unused ones are kept, up to [`AT_ONCE`].
#[derive(Debug, Default)]
pub(super) struct RateLimiter {
    /// The time at which all tokens taken so far are refilled.
    next: Option<Instant>,
}

impl RateLimiter {
    /// Takes the next token. Returns the time until it is available.
    pub(super) fn wait(&mut self, now: Instant) -> Duration {
        let next = self.next.map_or(now, |next| next.max(now)) + INTERVAL;
        self.next = Some(next);
        (next - INTERVAL * AT_ONCE).saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_twenty_and_then_ten_per_second() {
        let (mut pace, now) = (RateLimiter::default(), Instant::now());
        let waits: Vec<u128> = (0..23).map(|_| pace.wait(now).as_millis()).collect();
        assert!(waits[..20].iter().all(|wait| *wait == 0), "{waits:?}");
        assert_eq!(waits[20..], [100, 200, 300]);
        // All tokens taken are refilled after 2.3 s.
        let later = now + Duration::from_millis(2300);
        assert_eq!(pace.wait(later).as_millis(), 0);
    }
}
