//! Memory and descriptors of processes over time.

use std::collections::BTreeMap;

use crate::meter::Seconds;

/// How long a process warms up before its samples count, in seconds.
pub(crate) const WARM_UP: f64 = 60.0;

/// A sample of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The process id.
    pub(crate) process: u32,
    /// The time.
    pub(crate) at: Seconds,
    /// Resident memory in KiB.
    pub(crate) memory: f64,
    /// Open descriptors.
    pub(crate) descriptors: f64,
}

/// The growth of a figure of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slope {
    /// The growth in a minute; `None` if no process lived long enough.
    pub(crate) per_minute: Option<f64>,
    /// How long the longest process was sampled after its warm-up, in seconds.
    pub(crate) longest: f64,
    /// The maximum of the last values of each process that ran at the end.
    pub(crate) last: f64,
    /// The maximum.
    pub(crate) most: f64,
}

/// Returns the slope of `value` over all processes of a program. A killed process is replaced by
/// one with less memory, so each has its own intercept. The slope is common to all (least squares).
/// The first minute of each does not count.
pub(crate) fn slope(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Slope {
    let mut processes: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let point = (sample.at, value(sample));
        processes.entry(sample.process).or_default().push(point);
    }
    let end = samples.iter().map(|sample| sample.at).fold(0.0, f64::max);
    let mut result = Slope::default();
    let (mut products, mut squares) = (0.0, 0.0);
    for points in processes.values() {
        let first = points.first().map_or(0.0, |(at, _)| *at);
        let (last_at, last) = points.last().copied().unwrap_or_default();
        if end - last_at < 15.0 {
            result.last = result.last.max(last);
        }
        result.most = points.iter().map(|(_, y)| *y).fold(result.most, f64::max);
        let warm: Vec<&(f64, f64)> = points
            .iter()
            .filter(|(at, _)| at - first >= WARM_UP)
            .collect();
        let Some(count) = u32::try_from(warm.len()).ok().filter(|count| *count > 1) else {
            continue;
        };
        result.longest = result.longest.max(last_at - first - WARM_UP);
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| {
            warm.iter().map(|point| of(point)).sum::<f64>() / f64::from(count)
        };
        let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
        for (at, value) in warm {
            products += (at - x) * (value - y);
            squares += (at - x).powi(2);
        }
    }
    result.per_minute = (squares > 0.0).then(|| products / squares * 60.0);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a process that is sampled every 5 s, whose memory is `memory` plus `growth` a
    /// minute. In its first minute it is larger.
    fn life(process: u32, from: u32, to: u32, memory: f64, growth: f64) -> Vec<Sample> {
        let times = (from..to).step_by(5);
        times
            .map(|at| {
                let age = f64::from(at - from);
                let warm_up = if age < WARM_UP { 5000.0 } else { 0.0 };
                Sample {
                    process,
                    at: f64::from(at),
                    memory: memory + growth * age / 60.0 + warm_up,
                    descriptors: 20.0,
                }
            })
            .collect()
    }

    #[test]
    fn the_slope_is_that_within_the_processes() {
        for growth in [0.0, 12.5, -3.0] {
            // The second process starts with less memory than the first had.
            let samples = [
                life(1, 0, 600, 20_000.0, growth),
                life(2, 610, 1200, 9_000.0, growth),
            ]
            .concat();
            let slope = slope(&samples, |sample| sample.memory);
            let found = slope.per_minute.unwrap();
            assert!((found - growth).abs() < 1e-6, "{found} for {growth}");
            assert!((slope.longest - 535.0).abs() < 1e-9, "{slope:?}");
            assert!(
                (slope.last - 9_000.0 - growth * 585.0 / 60.0).abs() < 1e-6,
                "{slope:?}"
            );
            assert!(slope.most >= 25_000.0);
        }
    }

    #[test]
    fn processes_that_lived_too_short_have_no_slope() {
        let samples = life(1, 0, 55, 20_000.0, 100.0);
        assert_eq!(slope(&samples, |sample| sample.memory).per_minute, None);
        assert_eq!(slope(&[], |sample| sample.memory), Slope::default());
    }
}
