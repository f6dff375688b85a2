//! The real cost of pods, which the judge uses and the source reports.

use std::collections::BTreeMap;

/// Seconds since 1970.
pub(crate) type Seconds = f64;

/// The pods of one run of a job.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    namespace: String,
    /// The cost per second, in units.
    rate: f64,
    from: Seconds,
    until: Seconds,
}

/// All past and present runs, by job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    jobs: BTreeMap<String, Vec<Run>>,
}

impl Meter {
    /// Records that the pods of `job` start at `from`. Together they cost `rate` units a second,
    /// and complete at `until`.
    pub(crate) fn start(
        &mut self,
        job: &str,
        namespace: &str,
        rate: f64,
        (from, until): (Seconds, Seconds),
    ) {
        self.jobs.entry(job.to_owned()).or_default().push(Run {
            namespace: namespace.to_owned(),
            rate,
            from,
            until,
        });
    }

    /// Records that the pods of `job` are gone at `until`, if not before.
    pub(crate) fn stop(&mut self, job: &str, until: Seconds) {
        if let Some(run) = self.jobs.get_mut(job).and_then(|runs| runs.last_mut()) {
            run.until = run.until.min(until).max(run.from);
        }
    }

    /// Returns true if the pods of `job` run.
    pub(crate) fn runs(&self, job: &str, at: Seconds) -> bool {
        let run = self.jobs.get(job).and_then(|runs| runs.last());
        run.is_some_and(|run| run.until > at)
    }

    /// Returns how long the pods of `job` have run up to `at`, in seconds.
    pub(crate) fn worked(&self, job: &str, at: Seconds) -> f64 {
        let runs = self.jobs.get(job).into_iter().flatten();
        runs.map(|run| (run.until.min(at) - run.from).max(0.0))
            .sum()
    }

    /// Returns the cost of the pods of `namespace` from `from` to `to`.
    pub(crate) fn spent(&self, namespace: &str, from: Seconds, to: Seconds) -> f64 {
        let runs = self.jobs.values().flatten();
        let of_namespace = runs.filter(|run| run.namespace == namespace);
        of_namespace
            .map(|run| (run.until.min(to) - run.from.max(from)).max(0.0) * run.rate)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_costs_its_rate_for_the_queried_time() {
        let mut meter = Meter::default();
        meter.start("a", "x", 2.0, (10.0, 90.0));
        meter.start("b", "y", 5.0, (10.0, 100.0));
        assert!(meter.runs("a", 19.0));
        meter.stop("a", 20.0);
        meter.stop("a", 30.0);
        assert!(!meter.runs("a", 20.0));
        meter.start("a", "x", 1.0, (40.0, 60.0));
        for (namespace, from, to, expected) in [
            ("x", 0.0, 10.0, 0.0),
            ("x", 0.0, 15.0, 10.0),
            ("x", 12.0, 15.0, 6.0),
            ("x", 0.0, 30.0, 20.0),
            ("x", 0.0, 45.0, 25.0),
            ("x", 0.0, 99.0, 40.0),
            ("y", 0.0, 11.0, 5.0),
            ("z", 0.0, 99.0, 0.0),
        ] {
            let spent = meter.spent(namespace, from, to);
            assert!(
                (spent - expected).abs() < 1e-9,
                "{namespace} {from} {to}: {spent}"
            );
        }
        assert!((meter.worked("a", 45.0) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn what_stops_before_it_started_costs_nothing() {
        let mut meter = Meter::default();
        meter.start("a", "x", 2.0, (10.0, 20.0));
        meter.stop("a", 5.0);
        assert!(meter.spent("x", 0.0, 99.0).abs() < 1e-9);
    }
}
