//! Budgets: amounts spent beyond a limit, and namespaces with enough for all waiting jobs.

use std::collections::BTreeSet;

use super::{Finding, Kind, View};
use crate::meter::Seconds;
use crate::scene::{Account, BUDGET, PERIOD};

/// The tolerance for rounding.
const CENT: f64 = 0.01;

/// Returns by how much the accounts were overspent in the periods from `began` to `now`, and where.
pub(crate) fn overspent(
    accounts: &[Account],
    began: Seconds,
    now: Seconds,
    spent: impl Fn(&str, Seconds, Seconds) -> f64,
) -> (f64, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut sum = 0.0;
    let mut start = began;
    while start < now {
        let end = (start + PERIOD).min(now);
        for account in accounts {
            let namespaces = account.namespaces.iter();
            let in_all: f64 = namespaces.map(|name| spent(name, start, end)).sum();
            let over = in_all - account.limit;
            if over > CENT {
                sum += over;
                findings.push(Finding {
                    kind: Kind::Overspend,
                    text: format!(
                        "{}: {in_all:.2} of {:.2} were spent in the period from {start:.0}",
                        account.name, account.limit
                    ),
                });
            }
        }
        start += PERIOD;
    }
    (sum, findings)
}

/// Returns the namespaces whose budget is enough for all waiting jobs, even if each approved job
/// costs its whole estimate from now on. `spent` is what an account has spent in this period.
/// `settling` is what its ended jobs may still cost according to the source.
pub(crate) fn affordable<'a>(
    accounts: &[Account],
    views: impl Iterator<Item = &'a View> + Clone,
    spent: impl Fn(&Account) -> f64,
    settling: impl Fn(&str) -> f64,
) -> BTreeSet<&'static str> {
    let mut poor: BTreeSet<&str> = BTreeSet::new();
    let mut all: BTreeSet<&'static str> = BTreeSet::new();
    for account in accounts {
        all.extend(&account.namespaces);
        let of_account = views.clone().filter(|view| {
            let governed = view.checks.contains_key(BUDGET) && view.reservation.is_some();
            governed && !view.finished && account.namespaces.contains(&&*view.namespace)
        });
        let claims: f64 = of_account.map(|view| view.estimate).sum();
        let settling: f64 = account.namespaces.iter().map(|name| settling(name)).sum();
        if spent(account) + claims + settling > account.limit - CENT {
            poor.extend(&account.namespaces);
        }
    }
    all.retain(|name| !poor.contains(name));
    all
}

#[cfg(test)]
mod tests {
    use super::super::view::CheckState;
    use super::*;

    fn account(name: &'static str, namespaces: &[&'static str], limit: f64) -> Account {
        Account {
            name,
            namespaces: namespaces.to_vec(),
            limit,
        }
    }

    #[test]
    fn each_period_of_each_account_is_compared_with_its_limit() {
        let accounts = [
            account("a", &["a"], 100.0),
            account("b", &["b"], 100.0),
            account("pool", &["a", "b"], 150.0),
        ];
        // The rate per second in each namespace.
        for (a, b, expected) in [
            (0.2, 0.2, vec![]),
            (0.4, 0.0, vec!["a"]),
            (0.3, 0.3, vec!["pool"]),
            (0.4, 0.4, vec!["a", "b", "pool"]),
        ] {
            let spent = |name: &str, from: f64, to: f64| {
                // Nothing in the first period.
                let rate = if name == "a" { a } else { b };
                (to - from.max(PERIOD)).max(0.0) * rate
            };
            let (sum, findings) = overspent(&accounts, 0.0, 2.0 * PERIOD, spent);
            let over: Vec<_> = findings
                .iter()
                .filter_map(|one| one.text.split(':').next())
                .collect();
            assert_eq!(over, expected);
            assert_eq!(sum > 0.0, !expected.is_empty());
        }
    }

    #[test]
    fn there_is_money_if_the_worst_of_all_fits_into_each_account() {
        let accounts = [
            account("a", &["a"], 100.0),
            account("b", &["b"], 100.0),
            account("pool", &["a", "b"], 150.0),
        ];
        let view = |namespace: &str, estimate: f64| View {
            namespace: namespace.to_owned(),
            reservation: Some("r".to_owned()),
            estimate,
            checks: [(BUDGET.to_owned(), CheckState::default())].into(),
            ..View::default()
        };
        for (views, spent, settling, expected) in [
            (vec![view("a", 50.0)], 0.0, 0.0, vec!["a", "b"]),
            (vec![view("a", 101.0)], 0.0, 0.0, vec!["b"]),
            (
                vec![view("a", 60.0), view("b", 80.0)],
                0.0,
                0.0,
                vec!["a", "b"],
            ),
            (vec![view("a", 60.0), view("b", 90.0)], 0.0, 0.0, vec![]),
            (vec![view("a", 60.0)], 45.0, 0.0, vec!["b"]),
            (vec![view("a", 60.0)], 0.0, 50.0, vec![]),
            (
                vec![View {
                    reservation: None,
                    ..view("a", 200.0)
                }],
                0.0,
                0.0,
                vec!["a", "b"],
            ),
            (
                vec![View {
                    checks: [].into(),
                    ..view("a", 200.0)
                }],
                0.0,
                0.0,
                vec!["a", "b"],
            ),
        ] {
            let rich = affordable(&accounts, views.iter(), |_| spent, |_| settling);
            assert_eq!(Vec::from_iter(rich), expected, "{views:?}");
        }
    }
}
