//! Summary of all histories, as a table.

use std::fmt::Write as _;
use std::time::Duration;

use crate::history::History;

/// The outcome of the comparison of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The model behaves as the real Kueue did.
    Agrees,
    /// The real Kueue varies from run to run, and the model has one of its outcomes.
    Races,
    /// The model has an outcome that the real Kueue had in no run.
    Differs,
}

/// The number of histories with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    agree: u64,
    race: u64,
    differ: u64,
}

impl Counts {
    fn all(self) -> u64 {
        self.agree + self.race + self.differ
    }
}

/// The outcomes of all histories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    alone: Counts,
    in_cohorts: Counts,
}

impl Summary {
    /// Counts a history with its outcome.
    pub(crate) fn count(&mut self, history: &History, outcome: Outcome) {
        let counts = if history.has_cohorts() {
            &mut self.in_cohorts
        } else {
            &mut self.alone
        };
        match outcome {
            Outcome::Agrees => counts.agree += 1,
            Outcome::Races => counts.race += 1,
            Outcome::Differs => counts.differ += 1,
        }
    }

    /// Returns the number of histories with an unexplained difference.
    pub(crate) fn unexplained(&self) -> u64 {
        self.alone.differ + self.in_cohorts.differ
    }

    /// Returns the rows of the book's table, with its title. `took` is the time to record each history
    /// once; `repeated` is whether those that differ were recorded again.
    pub(crate) fn table(&self, kueue: &str, seed: &str, repeated: bool, took: Duration) -> String {
        let sum = Counts {
            agree: self.alone.agree + self.in_cohorts.agree,
            race: self.alone.race + self.in_cohorts.race,
            differ: self.unexplained(),
        };
        let mut text = "| Kueue | seed | | histories | agree | differ, race of Kueue | differ, unexplained |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
        let mut place = format!("{kueue} | {seed}");
        let rows = [
            ("without cohorts", self.alone),
            ("with cohorts", self.in_cohorts),
            ("all", sum),
        ];
        for (name, counts) in rows {
            let Counts {
                agree,
                race,
                differ,
            } = counts;
            let all = counts.all();
            let outcomes = if repeated {
                format!("{race} | {differ}")
            } else {
                "|".to_owned()
            };
            let _ = writeln!(text, "| {place} | {name} | {all} | {agree} | {outcomes} |");
            " | ".clone_into(&mut place);
        }
        let played = u32::try_from(sum.all()).unwrap_or(u32::MAX);
        let rate = f64::from(played) / took.as_secs_f64().max(0.001);
        let _ = write!(text, "\n{rate:.2} histories a second");
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::Step;

    #[test]
    fn the_table_adds_up() {
        let history = |cohort: &str| History {
            name: "h".to_owned(),
            full: false,
            steps: vec![Step::Create(vec![json!({
                "kind": "ClusterQueue", "spec": {"cohortName": cohort},
            })])],
        };
        let alone = History {
            steps: Vec::new(),
            ..history("co")
        };
        let mut summary = Summary::default();
        summary.count(&alone, Outcome::Agrees);
        summary.count(&history("co"), Outcome::Agrees);
        summary.count(&history("co"), Outcome::Races);
        summary.count(&history("co"), Outcome::Differs);
        let table = summary.table("0.19.2", "3", true, Duration::from_secs(8));
        assert!(
            table.contains("| 0.19.2 | 3 | without cohorts | 1 | 1 | 0 | 0 |"),
            "{table}"
        );
        assert!(
            table.contains("| with cohorts | 3 | 1 | 1 | 1 |"),
            "{table}"
        );
        assert!(table.contains("| all | 4 | 2 | 1 | 1 |"), "{table}");
        assert!(table.ends_with("0.50 histories a second"), "{table}");
        assert_eq!(summary.unexplained(), 1);
    }
}
