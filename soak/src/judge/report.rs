//! The report at the end of a run.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::{Finding, Kind, Slope};

/// The figures of one program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subject {
    /// Its name.
    pub(crate) name: String,
    /// The number of deciding writes.
    pub(crate) decisions: usize,
    /// Its resident memory.
    pub(crate) memory: Slope,
    /// Its open descriptors.
    pub(crate) descriptors: Slope,
}

/// The contents of the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// The title of the run.
    pub(crate) title: String,
    /// Counts that explain the others, in order: of jobs, faults and kills.
    pub(crate) context: Vec<(&'static str, String)>,
    /// The programs.
    pub(crate) programs: Vec<Subject>,
    /// The amount by which limits were exceeded.
    pub(crate) overspend: f64,
    /// The number of decisions that evicted a running job, with a reason.
    pub(crate) reasoned: usize,
    /// The longest time for which an obligation was open without faults, in seconds.
    pub(crate) longest_wait: f64,
    /// All findings.
    pub(crate) findings: Vec<Finding>,
    /// Why the run did not complete.
    pub(crate) failure: Option<String>,
}

impl Report {
    /// Returns true if there are no findings, and the run completed.
    pub(crate) fn is_good(&self) -> bool {
        self.findings.is_empty() && self.failure.is_none()
    }

    fn count(&self, kind: Kind) -> usize {
        self.findings.iter().filter(|one| one.kind == kind).count()
    }
}

/// Returns counts as text.
pub(crate) fn words(counts: &BTreeMap<&'static str, u64>) -> String {
    let words = counts.iter().map(|(name, count)| format!("{name} {count}"));
    words.collect::<Vec<_>>().join(", ")
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &str| writeln!(f, "{name:<22} {value}");
        line("soak", &self.title)?;
        for (name, value) in &self.context {
            line(name, value)?;
        }
        let each = |value: &dyn Fn(&Subject) -> String| {
            let values = self
                .programs
                .iter()
                .map(|one| format!("{} {}", one.name, value(one)));
            values.collect::<Vec<_>>().join(", ")
        };
        line("decisions", &each(&|one| one.decisions.to_string()))?;
        let lost = self.count(Kind::Lost);
        line(
            "lost",
            &format!("{lost} (the longest wait: {:.0} s)", self.longest_wait),
        )?;
        line("double", &self.count(Kind::Double).to_string())?;
        line("out of turn", &self.count(Kind::OutOfTurn).to_string())?;
        let evictions = self.count(Kind::Eviction);
        line(
            "evictions",
            &format!("{evictions} (with a reason: {})", self.reasoned),
        )?;
        line("overspend", &format!("{:.2} USD", self.overspend))?;
        line("leftovers", &self.count(Kind::Leftover).to_string())?;
        let growth = |slope: &Slope, unit: &str| match slope.per_minute {
            None => "not measured".to_owned(),
            Some(slope) => format!("{slope:+.1} {unit}/min"),
        };
        line(
            "memory slope",
            &each(&|one| {
                let watched = one.memory.longest / 60.0;
                format!(
                    "{} (longest life {watched:.0} min)",
                    growth(&one.memory, "KiB")
                )
            }),
        )?;
        line(
            "memory at the end",
            &each(&|one| format!("{:.0} KiB (most {:.0})", one.memory.last, one.memory.most)),
        )?;
        line(
            "descriptors slope",
            &each(&|one| growth(&one.descriptors, "").replace(" /", "/")),
        )?;
        line(
            "descriptors at the end",
            &each(&|one| {
                format!(
                    "{:.0} (most {:.0})",
                    one.descriptors.last, one.descriptors.most
                )
            }),
        )?;
        for finding in &self.findings {
            writeln!(f, "{:?}: {}", finding.kind, finding.text)?;
        }
        match &self.failure {
            None => Ok(()),
            Some(why) => writeln!(f, "the run did not come to its end: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let slope = Slope {
            per_minute: Some(1.25),
            longest: 600.0,
            last: 21_000.0,
            most: 22_000.0,
        };
        Report {
            title: "seed 1".to_owned(),
            context: vec![("jobs", words(&[("admitted", 3), ("submitted", 5)].into()))],
            programs: vec![Subject {
                name: "budget-check".to_owned(),
                decisions: 7,
                memory: slope,
                descriptors: Slope {
                    per_minute: None,
                    last: 20.0,
                    most: 24.0,
                    ..slope
                },
            }],
            longest_wait: 12.4,
            reasoned: 2,
            ..Report::default()
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_figure() {
        let expected = "\
soak                   seed 1
jobs                   admitted 3, submitted 5
decisions              budget-check 7
lost                   0 (the longest wait: 12 s)
double                 0
out of turn            0
evictions              0 (with a reason: 2)
overspend              0.00 USD
leftovers              0
memory slope           budget-check +1.2 KiB/min (longest life 10 min)
memory at the end      budget-check 21000 KiB (most 22000)
descriptors slope      budget-check not measured
descriptors at the end budget-check 20 (most 24)
";
        assert_eq!(report().to_string(), expected);
        assert!(report().is_good());
    }

    #[test]
    fn every_finding_and_a_failure_are_shown_and_make_it_bad() {
        for kind in [
            Kind::Lost,
            Kind::Double,
            Kind::OutOfTurn,
            Kind::Eviction,
            Kind::Overspend,
            Kind::Leftover,
        ] {
            let finding = Finding {
                kind,
                text: "what happened".to_owned(),
            };
            let bad = Report {
                findings: vec![finding],
                ..report()
            };
            assert!(!bad.is_good());
            assert!(
                bad.to_string()
                    .contains(&format!("{kind:?}: what happened\n"))
            );
        }
        let failed = Report {
            failure: Some("no server".to_owned()),
            ..report()
        };
        assert!(!failed.is_good());
        let end = "the run did not come to its end: no server\n";
        assert!(failed.to_string().ends_with(end));
    }
}
