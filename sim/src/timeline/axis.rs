//! The ticks of a time axis: their places and labels.

use std::time::Duration;

use jiff::Timestamp;

use super::Timeline;
use super::format::{duration, tick_clock};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The usual tick distances, in milliseconds.
const STEPS: [u64; 27] = [
    10,
    50,
    100,
    250,
    500,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
];

/// One tick.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// The place along the axis: 0 at its start, 1 at its end.
    pub(super) at: f64,
    /// The time since the start, such as `1h 30m`.
    pub(super) offset: String,
    /// The wall clock (UTC).
    pub(super) clock: String,
}

/// Returns the ticks of `timeline`'s axis at round offsets, at most `most` after the first.
pub(super) fn ticks(timeline: &Timeline, most: usize) -> Vec<Tick> {
    let length = timeline.length();
    let step = step(length, most);
    let mut ticks = Vec::new();
    let mut offset = Duration::ZERO;
    while offset <= length {
        let at = timeline.from.checked_add(offset).unwrap_or(timeline.until);
        ticks.push(Tick {
            at: fraction(offset, length),
            offset: duration(offset),
            clock: tick_clock(at, step),
        });
        offset += step;
    }
    ticks
}

/// Returns the smallest round distance for at most `most` steps.
fn step(length: Duration, most: usize) -> Duration {
    let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
    STEPS
        .into_iter()
        .map(Duration::from_millis)
        .find(|step| *step * most >= length)
        .unwrap_or(length / most)
}

/// Returns `part` of `whole`, between 0 and 1; 0 if `whole` is zero.
pub(super) fn fraction(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        return 0.0;
    }
    (part.as_secs_f64() / whole.as_secs_f64()).clamp(0.0, 1.0)
}

/// Returns the place of a moment along `timeline`'s axis.
pub(super) fn place(timeline: &Timeline, at: Timestamp) -> f64 {
    fraction(super::spans::between(timeline.from, at), timeline.length())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(length: Duration) -> Vec<String> {
        let from: Timestamp = "2026-11-21T09:00:00Z".parse().unwrap();
        let timeline = Timeline {
            from,
            until: from + length,
            tracks: Vec::new(),
        };
        let ticks = ticks(&timeline, 6);
        ticks.into_iter().map(|tick| tick.offset).collect()
    }

    #[test]
    fn marks_are_round_from_an_instant_to_a_month() {
        let table: [(u64, &[&str]); 8] = [
            (0, &["0s"]),
            (
                600,
                &["0s", "100ms", "200ms", "300ms", "400ms", "500ms", "600ms"],
            ),
            (7 * SECOND, &["0s", "2s", "4s", "6s"]),
            (
                90 * SECOND,
                &["0s", "15s", "30s", "45s", "1m", "1m 15s", "1m 30s"],
            ),
            (50 * MINUTE, &["0s", "10m", "20m", "30m", "40m", "50m"]),
            (5 * HOUR, &["0s", "1h", "2h", "3h", "4h", "5h"]),
            (7 * DAY, &["0s", "2d", "4d", "6d"]),
            (30 * DAY, &["0s", "7d", "14d", "21d", "28d"]),
        ];
        for (length, expected) in table {
            assert_eq!(
                labels(Duration::from_millis(length)),
                expected,
                "{length} ms"
            );
        }
    }

    #[test]
    fn a_decade_still_has_few_marks() {
        assert!(labels(Duration::from_millis(3653 * DAY)).len() <= 8);
    }
}
