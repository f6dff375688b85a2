//! A rate limiter for requests to one service.

use std::time::Duration;

use tokio::time::Instant;

/// A limit of requests in any minute: half of them at once, the others evenly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLimiter {
    /// When the sent requests no longer count.
    charged_until: Option<Instant>,
}

/// Returns the burst size, and the interval between the other requests.
fn burst_and_interval(per_minute: u32) -> (u32, Duration) {
    let burst = (per_minute / 2).max(1);
    let steady = per_minute.saturating_sub(burst).max(1);
    (burst, Duration::from_secs(60) / steady)
}

impl RateLimiter {
    /// Returns when the next request may be sent; not later than `now` if at once.
    pub(crate) fn next(self, per_minute: u32, now: Instant) -> Instant {
        let (burst, gap) = burst_and_interval(per_minute);
        let charged_until = self.charged_until.unwrap_or(now).max(now);
        let credit = gap * (burst - 1);
        charged_until.checked_sub(credit).unwrap_or(now)
    }

    /// Records a request at `now`.
    pub(crate) fn sent(&mut self, per_minute: u32, now: Instant) {
        let (_, gap) = burst_and_interval(per_minute);
        self.charged_until = Some(self.charged_until.unwrap_or(now).max(now) + gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times in milliseconds of requests that are sent as early as possible.
    fn sent(per_minute: u32, count: usize) -> Vec<u128> {
        let start = Instant::now();
        let (mut limiter, mut now) = (RateLimiter::default(), start);
        let mut times = Vec::new();
        for _ in 0..count {
            now = now.max(limiter.next(per_minute, now));
            limiter.sent(per_minute, now);
            times.push(now.duration_since(start).as_millis());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_exceeds_the_limit() {
        assert_eq!(
            sent(10, 8),
            [0, 0, 0, 0, 0, 12_000, 24_000, 36_000],
            "five at once, and one each twelve seconds"
        );
        for per_minute in [2, 3, 10, 60, 600] {
            let times = sent(per_minute, 2000);
            for (number, first) in times.iter().enumerate() {
                let within = times[number..]
                    .iter()
                    .take_while(|at| **at < first + 60_000);
                assert!(within.count() <= per_minute as usize, "{per_minute}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_restores_the_burst() {
        let start = Instant::now();
        let mut limiter = RateLimiter::default();
        for _ in 0..5 {
            limiter.sent(10, start);
        }
        assert!(limiter.next(10, start) > start);
        let later = start + Duration::from_secs(60);
        for _ in 0..5 {
            assert!(limiter.next(10, later) <= later);
            limiter.sent(10, later);
        }
        assert!(limiter.next(10, later) > later);
    }
}
