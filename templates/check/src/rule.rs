{%- if source == "none" -%}
//! The rule, a pure function: by day, large jobs wait for the night.

use std::time::Duration;

use kueue_check::Verdict;
use kueue_check::jiff::Timestamp;

/// Whole hours of the day, in UTC. One that ends before it begins goes on over midnight.
#[derive(Clone, Copy, Debug)]
pub struct NightWindow {
    /// The hour with which it begins, from 0 to 23.
    pub begins: u8,
    /// The hour that is day again.
    pub ends: u8,
}

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Whether a job of so many pods may start at `now`.
pub fn decide(pods: u32, most_by_day: u32, night: NightWindow, now: Timestamp) -> Verdict {
    let second = now.as_second().rem_euclid(DAY);
    let until = |hour: u8| Duration::from_secs((i64::from(hour) * HOUR - second).rem_euclid(DAY).unsigned_abs());
    if pods <= most_by_day {
        return Verdict::ready("may start");
    }
    if night.contains(second / HOUR) {
        // It may still wait for another check at the end of the night.
        return Verdict::ready("may start").recheck_until_admitted(until(night.ends));
    }
    let message = format!("{pods} pods: by day at most {most_by_day}, more from {:02}:00 UTC", night.begins);
    Verdict::pending(message).recheck_in(until(night.begins))
}

impl NightWindow {
    fn contains(self, hour: i64) -> bool {
        let (begins, ends) = (i64::from(self.begins), i64::from(self.ends));
        if begins < ends { (begins..ends).contains(&hour) } else { hour >= begins || hour < ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_jobs_wait_for_the_night() {
        let (night, siesta) = (NightWindow { begins: 22, ends: 6 }, NightWindow { begins: 13, ends: 15 });
        for (pods, night, time, wait) in [
            (10, night, "12:00:00", None),
            (11, night, "12:00:00", Some(10 * 3600)),
            (11, night, "21:59:59", Some(1)),
            (11, night, "22:00:00", None),
            (11, night, "05:59:59", None),
            (11, night, "06:00:00", Some(16 * 3600)),
            (11, siesta, "14:30:00", None),
            (11, siesta, "15:00:00", Some(22 * 3600)),
        ] {
            let now = format!("2026-11-21T{time}Z").parse().unwrap();
            let verdict = decide(pods, 10, night, now);
            assert_eq!(verdict.is_ready(), wait.is_none(), "{pods} pods at {time}");
            assert_eq!(verdict.recheck(), wait.map(Duration::from_secs), "{pods} pods at {time}");
        }
    }
}
{%- else -%}
//! The rule, as a pure function: a job starts when enough pods are free.

use std::time::Duration;

use kueue_check::Verdict;

/// The recheck interval of a job that waits.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Whether a job of `pods` pods may start while `free` pods are free.
pub fn decide(pods: u32, free: u32) -> Verdict {
    if pods <= free {
        return Verdict::ready("enough pods are free");
    }
    Verdict::pending(format!("{pods} pods requested, {free} free")).recheck_in(RECHECK_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_starts_when_enough_pods_are_free() {
        for (pods, free, message) in [
            (4, 4, "enough pods are free"),
            (0, 0, "enough pods are free"),
            (5, 4, "5 pods requested, 4 free"),
            (1, 0, "1 pods requested, 0 free"),
        ] {
            let verdict = decide(pods, free);
            assert_eq!(verdict.message(), message);
            assert_eq!(verdict.is_ready(), pods <= free);
            assert_eq!(verdict.recheck(), (pods > free).then_some(RECHECK_INTERVAL));
        }
    }
}
{%- endif %}
