//! The decisions of the checks: each transition of a check's state.

use std::collections::BTreeMap;

use super::{CheckState, Finding, Kind, View};
use crate::meter::Seconds;

/// The maximum delay of a decision's reason after the decision, in seconds: separate watches.
const SLACK: f64 = 5.0;

/// A state of a Workload.
type State = (&'static str, fn(&View) -> bool);

/// The states whose starts are counted.
const STATES: [State; 4] = [
    ("reserved", |view| view.reservation.is_some()),
    ("admitted", |view| view.admitted),
    ("evicted", |view| view.evicted),
    ("finished", |view| view.finished),
];

/// A deciding write: a check's state became Ready, Retry or Rejected.
#[derive(Clone, Debug, PartialEq)]
struct Decision {
    at: Seconds,
    uid: String,
    workload: String,
    check: String,
    reservation: Option<String>,
    state: String,
    /// Whether the Workload was waiting for a decision.
    awaited: bool,
    admitted: bool,
}

/// All decisions.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    last: BTreeMap<String, View>,
    all: Vec<Decision>,
    /// When a request of a Workload failed, or an older state replaced a newer one.
    reasons: BTreeMap<String, Vec<Seconds>>,
    changes: BTreeMap<&'static str, u64>,
}

impl Decisions {
    /// Records that the Workload has changed at `at`.
    pub(crate) fn observe(&mut self, view: View, at: Seconds) {
        let last = self.last.get(&view.uid);
        for (name, is) in STATES {
            if is(&view) && !last.is_some_and(is) {
                *self.changes.entry(name).or_default() += 1;
            }
        }
        for (name, check) in &view.checks {
            let before = last.and_then(|last| last.checks.get(name));
            let same = before.is_some_and(|b| b.state == check.state && b.since == check.since);
            if same {
                continue;
            }
            let is_older = |before: &CheckState| {
                before.since > check.since
                    || before.since == check.since && check.state == "Pending"
            };
            if before.is_some_and(is_older) {
                // Kueue's scheduler overwrites a newer state with the one that it has read.
                self.reasons.entry(view.uid.clone()).or_default().push(at);
                continue;
            }
            if !matches!(&*check.state, "Ready" | "Retry" | "Rejected") {
                continue;
            }
            self.all.push(Decision {
                at,
                uid: view.uid.clone(),
                workload: format!("{}/{}", view.namespace, view.name),
                check: name.clone(),
                reservation: view.reservation.clone(),
                state: check.state.clone(),
                awaited: view.is_awaited(),
                admitted: view.admitted,
            });
        }
        self.last.insert(view.uid.clone(), view);
    }

    /// Records that the Workload was removed.
    pub(crate) fn removed(&mut self, uid: &str) {
        self.last.remove(uid);
    }

    /// Records that the capacity of the Workload failed, expired or was revoked.
    pub(crate) fn failed(&mut self, uid: &str, at: Seconds) {
        self.reasons.entry(uid.to_owned()).or_default().push(at);
    }

    /// Returns how often Workloads were reserved, admitted, evicted and finished.
    pub(crate) fn changes(&self) -> &BTreeMap<&'static str, u64> {
        &self.changes
    }

    /// Returns the number of deciding writes of `check`.
    pub(crate) fn count(&self, check: &str) -> usize {
        self.all.iter().filter(|one| one.check == check).count()
    }

    /// Returns the number of those that evict a Workload, with a reason or without.
    pub(crate) fn evicting(&self) -> usize {
        let all = self.all.iter();
        all.filter(|one| one.state != "Ready" && one.admitted)
            .count()
    }

    /// Returns the violations.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut earlier: BTreeMap<(&str, &str, &str), Vec<&Decision>> = BTreeMap::new();
        for one in &self.all {
            let mut add = |kind, what: &str| {
                let text = format!(
                    "{}: {} {} at {:.1}: {what}",
                    one.workload, one.check, one.state, one.at
                );
                findings.push(Finding { kind, text });
            };
            let reservation = match &one.reservation {
                Some(reservation) if one.awaited => &**reservation,
                _ => {
                    add(
                        Kind::OutOfTurn,
                        "it holds no quota, is evicted or has finished",
                    );
                    continue;
                }
            };
            let key = (&*one.uid, &*one.check, reservation);
            let before = earlier.entry(key).or_default();
            let since = before.first().map_or(f64::MIN, |first| first.at - SLACK);
            let excused = self.has_reason(&one.uid, since, one.at + SLACK);
            if let Some(first) = before.first().filter(|_| !excused) {
                let what = format!("it was {} since {:.1} already", first.state, first.at);
                add(Kind::Double, &what);
            }
            if one.state != "Ready" && !excused {
                add(Kind::Eviction, "no capacity failed or was revoked");
            }
            before.push(one);
        }
        findings
    }

    fn has_reason(&self, uid: &str, from: Seconds, to: Seconds) -> bool {
        let reasons = self.reasons.get(uid).into_iter().flatten();
        reasons.into_iter().any(|at| (from..=to).contains(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a Workload whose check is in `state` since `since`, in the reservation of that time.
    fn view(state: &str, since: &str, reservation: &str) -> View {
        let check = CheckState {
            state: state.to_owned(),
            since: since.to_owned(),
            ..CheckState::default()
        };
        View {
            uid: "u".to_owned(),
            namespace: "n".to_owned(),
            name: "w".to_owned(),
            reservation: (!reservation.is_empty()).then(|| reservation.to_owned()),
            active: true,
            checks: [("c".to_owned(), check)].into(),
            ..View::default()
        }
    }

    fn kinds(views: &[View], failures: &[Seconds]) -> (usize, Vec<Kind>) {
        let mut decisions = Decisions::default();
        for at in failures {
            decisions.failed("u", *at);
        }
        let mut at = 0.0;
        for view in views {
            at += 10.0;
            decisions.observe(view.clone(), at);
        }
        let findings = decisions.findings();
        let kinds = findings.into_iter().map(|finding| finding.kind);
        (decisions.count("c"), kinds.collect())
    }

    /// Reads observations: each is the initial of the check's state (`E` for Retry), since when it
    /// has that, and the reservation; `+` if the Workload is admitted, `!` if it is evicted.
    fn observations(text: &str) -> Vec<View> {
        let read = |word: &str| {
            let state = match &word[..1] {
                "P" => "Pending",
                "R" => "Ready",
                _ => "Retry",
            };
            View {
                admitted: word.ends_with('+'),
                evicted: word.ends_with('!'),
                ..view(state, &word[1..2], word[2..].trim_end_matches(['+', '!']))
            }
        };
        text.split(' ').map(read).collect()
    }

    #[test]
    fn the_beginnings_of_states_are_counted() {
        let mut decisions = Decisions::default();
        for (view, at) in observations("P1r P1r P1r! P1 P1r").into_iter().zip(1_u8..) {
            decisions.observe(view, f64::from(at));
        }
        assert_eq!(
            decisions.changes(),
            &[("evicted", 1), ("reserved", 2)].into()
        );
    }

    /// A name, the observations, expected failures, decisions, and findings.
    type Case = (
        &'static str,
        &'static str,
        &'static [Seconds],
        usize,
        &'static [Kind],
    );

    #[test]
    fn each_transition_is_judged() {
        let cases: [Case; 13] = [
            ("one decision", "P1r R2r", &[], 1, &[]),
            ("seen twice", "P1r R2r R2r+", &[], 1, &[]),
            ("the same again", "P1r R2r R3r", &[], 2, &[Kind::Double]),
            (
                "taken back and given again",
                "P1r R2r P3r R4r",
                &[],
                2,
                &[Kind::Double],
            ),
            (
                "the same, and the capacity failed",
                "P1r R2r P3r R4r",
                &[30.0],
                2,
                &[],
            ),
            ("in the next reservation", "P1r R2r P3 P3s R5s", &[], 2, &[]),
            (
                "what outlived its reservation is no decision",
                "P1r R2r R2 R2s",
                &[],
                1,
                &[],
            ),
            (
                "an older state is put over it",
                "P1r R2r P1r R4r",
                &[],
                2,
                &[],
            ),
            ("without quota", "P1 R2", &[], 1, &[Kind::OutOfTurn]),
            (
                "while it is evicted",
                "P1r R2r!",
                &[],
                1,
                &[Kind::OutOfTurn],
            ),
            (
                "an eviction without a reason",
                "P1r R2r+ E3r+",
                &[],
                2,
                &[Kind::Double, Kind::Eviction],
            ),
            (
                "an eviction because capacity was revoked",
                "P1r R2r+ E3r+",
                &[29.0],
                2,
                &[],
            ),
            (
                "a failure long ago is no reason",
                "P1r R2r+ E3r+",
                &[2.0],
                2,
                &[Kind::Double, Kind::Eviction],
            ),
        ];
        for (name, views, failures, count, expected) in cases {
            let judged = kinds(&observations(views), failures);
            assert_eq!(judged, (count, expected.to_vec()), "{name}");
        }
    }
}
