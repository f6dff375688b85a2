//! Workloads that wait although nothing is missing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Kind, RequestView, View};
use crate::meter::Seconds;
use crate::scene::{BUDGET, PROVISIONING};

/// The maximum time in seconds for which an obligation may be open while there are no faults. A
/// process takes over 11 s after the other one was killed. The budget check queries a source that
/// has failed again after at most 1 min.
pub(crate) const BOUND: f64 = 90.0;

/// A decision that a check has to make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Obligation {
    uid: String,
    workload: String,
    reservation: String,
    check: &'static str,
    why: &'static str,
}

/// Returns the obligations of the checks. `rich` are the namespaces whose budget is enough for all
/// waiting jobs.
pub(crate) fn obligations<'a>(
    workloads: impl Iterator<Item = &'a View>,
    requests: &[RequestView],
    rich: &BTreeSet<&str>,
) -> Vec<Obligation> {
    let mut open = Vec::new();
    for view in workloads.filter(|view| view.is_awaited() && !view.deleting) {
        let mut add = |check, why| {
            open.push(Obligation {
                uid: view.uid.clone(),
                workload: format!("{}/{}", view.namespace, view.name),
                reservation: view.reservation.clone().unwrap_or_default(),
                check,
                why,
            });
        };
        if let Some(check) = view.checks.get(BUDGET)
            && check.state == "Pending"
        {
            if check.message.is_empty() {
                add(BUDGET, "it has no message");
            } else if rich.contains(&*view.namespace) {
                add(BUDGET, "it waits, and there is money");
            }
        }
        if view.state(PROVISIONING) == "Pending" {
            let mut own = requests.iter().filter(|one| one.workload == view.uid);
            match own.next_back() {
                None => add(PROVISIONING, "no capacity is requested"),
                Some(newest) if newest.failed => add(PROVISIONING, "its request has failed"),
                Some(newest) if newest.provisioned => add(PROVISIONING, "there is capacity"),
                Some(_) => {}
            }
        }
    }
    open
}

/// Since when each obligation is open, and those that were open for too long.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    open: BTreeMap<Obligation, Seconds>,
    overdue: BTreeMap<Obligation, Seconds>,
    longest: f64,
}

impl Lost {
    /// Records the obligations `open` at `now`. `calm_since` is the end of the last faults, or
    /// `None` while there are faults.
    pub(crate) fn observe(
        &mut self,
        open: Vec<Obligation>,
        calm_since: Option<Seconds>,
        now: Seconds,
    ) {
        let Some(calm_since) = calm_since else {
            self.open.clear();
            return;
        };
        let mut last = std::mem::take(&mut self.open);
        for obligation in open {
            let since = last.remove(&obligation).unwrap_or(now).max(calm_since);
            self.longest = self.longest.max(now - since);
            if now - since > BOUND {
                self.overdue.entry(obligation.clone()).or_insert(now);
            }
            self.open.insert(obligation, since);
        }
    }

    /// Returns the longest time for which one was open.
    pub(crate) fn longest(&self) -> f64 {
        self.longest
    }

    /// Returns the obligations that were open for too long.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let overdue = self.overdue.iter();
        overdue
            .map(|(one, at)| Finding {
                kind: Kind::Lost,
                text: format!(
                    "{} reserved at {}: {} has not decided for {BOUND} s at {at:.1}: {}",
                    one.workload, one.reservation, one.check, one.why
                ),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::CheckState;
    use super::*;

    fn waiting(check: &str, state: &str, message: &str) -> View {
        let state = CheckState {
            state: state.to_owned(),
            message: message.to_owned(),
            ..CheckState::default()
        };
        View {
            uid: "u".to_owned(),
            namespace: "n".to_owned(),
            reservation: Some("r".to_owned()),
            active: true,
            checks: [(check.to_owned(), state)].into(),
            ..View::default()
        }
    }

    fn request(provisioned: bool, failed: bool) -> RequestView {
        RequestView {
            workload: "u".to_owned(),
            name: "r".to_owned(),
            provisioned,
            failed,
        }
    }

    #[test]
    fn what_is_to_be_done_is_listed() {
        let poor = BTreeSet::new();
        let rich = BTreeSet::from(["n"]);
        let evicted = View {
            evicted: true,
            ..waiting(BUDGET, "Pending", "")
        };
        for (view, requests, rich, expected) in [
            (
                waiting(BUDGET, "Pending", ""),
                vec![],
                &poor,
                Some("it has no message"),
            ),
            (waiting(BUDGET, "Pending", "needs 3"), vec![], &poor, None),
            (
                waiting(BUDGET, "Pending", "needs 3"),
                vec![],
                &rich,
                Some("it waits, and there is money"),
            ),
            (waiting(BUDGET, "Ready", "fits"), vec![], &rich, None),
            (evicted, vec![], &rich, None),
            (
                waiting(PROVISIONING, "Pending", ""),
                vec![],
                &poor,
                Some("no capacity is requested"),
            ),
            (
                waiting(PROVISIONING, "Pending", ""),
                vec![request(false, false)],
                &poor,
                None,
            ),
            (
                waiting(PROVISIONING, "Pending", ""),
                vec![request(true, false)],
                &poor,
                Some("there is capacity"),
            ),
            (
                waiting(PROVISIONING, "Pending", ""),
                vec![request(false, true)],
                &poor,
                Some("its request has failed"),
            ),
            (
                waiting(PROVISIONING, "Retry", ""),
                vec![request(false, true)],
                &poor,
                None,
            ),
        ] {
            let open = obligations([&view].into_iter(), &requests, rich);
            let why: Vec<_> = open.iter().map(|one| one.why).collect();
            assert_eq!(why, Vec::from_iter(expected), "{view:?} {requests:?}");
        }
    }

    #[test]
    fn an_obligation_is_lost_when_it_is_open_for_too_long_without_faults() {
        let view = waiting(BUDGET, "Pending", "");
        let open = obligations([&view].into_iter(), &[], &BTreeSet::new());
        let mut lost = Lost::default();
        let step = |lost: &mut Lost, open: &[Obligation], calm: Option<f64>, now: f64| {
            lost.observe(open.to_vec(), calm, now);
            lost.findings().len()
        };
        assert_eq!(step(&mut lost, &open, Some(0.0), 10.0), 0);
        // Faults; the time starts again when they stop.
        assert_eq!(step(&mut lost, &open, None, 11.0), 0);
        assert_eq!(step(&mut lost, &open, Some(100.0), 105.0), 0);
        assert_eq!(step(&mut lost, &open, Some(100.0), 105.0 + BOUND), 0);
        // The obligation is met; another time starts.
        assert_eq!(step(&mut lost, &[], Some(100.0), 196.0), 0);
        assert_eq!(step(&mut lost, &open, Some(100.0), 200.0), 0);
        assert_eq!(step(&mut lost, &open, Some(100.0), 201.0 + BOUND), 1);
        assert_eq!(
            step(&mut lost, &open, Some(100.0), 202.0 + BOUND),
            1,
            "once"
        );
        assert!((lost.longest() - 2.0 - BOUND).abs() < 1e-9);
    }
}
