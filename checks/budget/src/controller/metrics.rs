//! Metrics of Budgets and accounts. Account names reveal what tenants spend: let only the collector
//! read the endpoint.
//!
//! Only the leader shows samples. A standby queries no source, so it would show zero spend. A
//! former leader would show old figures.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::MetricsText;

use super::shared::SharedState;
use crate::config::Account;
use crate::ledger::{Balance, BudgetLedger};

/// Writes all metrics. A replica that does not lead has no samples.
pub(super) fn write(shared: &SharedState, text: &mut MetricsText) {
    let snapshot = shared
        .leads_since()
        .map(|since| MetricsSnapshot::of(shared, since))
        .unwrap_or_default();
    snapshot.of_accounts(text);
    snapshot.of_budgets(text);
}

/// The figures of one Budget.
struct OfBudget {
    name: String,
    /// Age of the watermark, and whether the source is up; `None` while there is no period, because
    /// then no source is queried.
    source: Option<(i64, bool)>,
    limits_are_known: bool,
    /// Whether the source has figures of the period's beginning; `None` while it has not responded.
    is_covered: Option<bool>,
    /// The number of namespaces whose last figures were unusable.
    unknown: usize,
    unapproved_starts: u64,
    invalid_names: u64,
}

/// The figures of one account.
struct OfAccount {
    budget: String,
    balance: Balance,
    held: u32,
    /// Whether any spend is known. Until then its metrics have no sample, because zero would be a
    /// figure.
    spend_is_known: bool,
}

/// The figures to show.
#[derive(Default)]
struct MetricsSnapshot {
    budgets: Vec<OfBudget>,
    accounts: Vec<OfAccount>,
    /// By Budget and result.
    source_requests: Vec<(String, &'static str, u64)>,
    decisions: Vec<(String, &'static str, u64)>,
}

impl MetricsSnapshot {
    /// Returns the figures of a replica that leads since `since`.
    fn of(shared: &SharedState, since: Timestamp) -> Self {
        let now = shared.now();
        let invalid = shared.invalid_names();
        let mut snapshot = Self {
            source_requests: flat(shared.source_requests()),
            decisions: flat(shared.decisions()),
            ..Self::default()
        };
        let ledgers = shared.ledgers();
        for (name, ledger) in ledgers.all() {
            let known = ledger.spend().watermarks().common;
            let limits_are_known = ledger.limits_are_known().is_ok();
            snapshot.budgets.push(OfBudget {
                name: name.to_owned(),
                source: ledger.period(now).map(|_| {
                    // While no spend is known, its age is at least the time since this replica
                    // began to lead.
                    let age = now.as_second() - known.unwrap_or(since.as_second());
                    let is_up = shared
                        .source_result(name)
                        .is_some_and(|last_result| last_result.result.is_ok());
                    (age, is_up)
                }),
                limits_are_known,
                is_covered: known.map(|_| ledger.spend().is_covered()),
                unknown: ledger.spend().watermarks().behind.len(),
                unapproved_starts: ledger.unapproved_starts(),
                invalid_names: invalid.get(name).copied().unwrap_or_default(),
            });
            if limits_are_known {
                snapshot.accounts.extend(accounts(name, ledger, now));
            }
        }
        snapshot
    }

    fn of_accounts(&self, text: &mut MetricsText) {
        let spend = |account: &OfAccount, value| account.spend_is_known.then_some(value);
        self.accounts(
            text,
            "budget_limit",
            "The limit of an account in the current period, with top-ups",
            |account| Some(account.balance.limit.as_f64()),
        );
        self.accounts(
            text,
            "budget_spent",
            "What an account has spent in the current period, as far as is known",
            |account| spend(account, account.balance.spent.as_f64()),
        );
        self.accounts(
            text,
            "budget_committed",
            "What jobs of an account may still spend",
            |account| Some(account.balance.committed.total().as_f64()),
        );
        self.accounts(text, "budget_remaining", "What is left", |account| {
            spend(account, account.balance.remaining().as_f64())
        });
        self.accounts(
            text,
            "budget_overspent",
            "By how much more than the limit has been spent",
            |account| {
                let overspent = account.balance.overspent().unwrap_or_default();
                spend(account, overspent.as_f64())
            },
        );
        self.accounts(
            text,
            "budget_pending_workloads",
            "Workloads that wait for money",
            |account| Some(account.held.into()),
        );
    }

    fn accounts(
        &self,
        text: &mut MetricsText,
        name: &str,
        help: &str,
        value: impl Fn(&OfAccount) -> Option<f64>,
    ) {
        let mut family = text.gauge(name, help);
        for account in &self.accounts {
            let Some(value) = value(account) else {
                continue;
            };
            let kind = match account.balance.account {
                Account::Pool(_) => "pool",
                Account::Namespace(_) => "namespace",
            };
            let labels = [
                ("budget", account.budget.as_str()),
                ("account", account.balance.account.name()),
                ("kind", kind),
            ];
            family.sample(&labels, value);
        }
    }

    fn of_budgets(&self, text: &mut MetricsText) {
        let mut family = text.gauge(
            "budget_watermark_age_seconds",
            "How old the newest known spending is; while nothing is known, for how long this replica has led",
        );
        let sources = || {
            let budgets = self.budgets.iter();
            budgets.filter_map(|budget| Some((budget.name.as_str(), budget.source?)))
        };
        for (name, (age, _)) in sources() {
            let age = u64::try_from(age).unwrap_or_default();
            family.count(&[("budget", name)], age);
        }
        let mut family = text.gauge(
            "budget_source_up",
            "Whether the last response of the source was usable",
        );
        for (name, (_, is_up)) in sources() {
            family.count(&[("budget", name)], is_up.into());
        }
        let mut family = text.gauge(
            "budget_limits_known",
            "Whether NamespaceBudgets and Namespaces have been listed, where the Budget needs them",
        );
        for budget in &self.budgets {
            family.count(&[("budget", &budget.name)], budget.limits_are_known.into());
        }
        let mut family = text.gauge(
            "budget_period_covered",
            "Whether the source has figures of the period's beginning",
        );
        for budget in &self.budgets {
            if let Some(is_covered) = budget.is_covered {
                family.count(&[("budget", &budget.name)], is_covered.into());
            }
        }
        let mut family = text.gauge(
            "budget_unknown_namespaces",
            "Namespaces whose last figure was unusable, lower than before, or missing while jobs run",
        );
        for budget in &self.budgets {
            let unknown = u64::try_from(budget.unknown).unwrap_or(u64::MAX);
            family.count(&[("budget", &budget.name)], unknown);
        }
        let mut family = text.counter(
            "budget_unapproved_starts",
            "Runs that were approved without an approval of this check",
        );
        for budget in &self.budgets {
            family.count(&[("budget", &budget.name)], budget.unapproved_starts);
        }
        let mut family = text.counter(
            "budget_source_invalid_names",
            "Names in responses of the source that no namespace can have, which were left out",
        );
        for budget in &self.budgets {
            family.count(&[("budget", &budget.name)], budget.invalid_names);
        }
        for (name, help, counts) in [
            (
                "budget_source_requests",
                "Queries to sources, by result",
                &self.source_requests,
            ),
            (
                "budget_decisions",
                "Decisions about Workloads that were new, by result",
                &self.decisions,
            ),
        ] {
            let mut family = text.counter(name, help);
            for (budget, result, count) in counts {
                family.count(&[("budget", budget), ("result", result)], *count);
            }
        }
    }
}

fn accounts(name: &str, ledger: &BudgetLedger, now: Timestamp) -> Vec<OfAccount> {
    let Some(period) = ledger.period(now) else {
        return Vec::new();
    };
    let index = ledger.index();
    let state = |account: Account| OfAccount {
        budget: name.to_owned(),
        balance: index.balance(&account, period, now),
        held: index.held(&account).0,
        spend_is_known: ledger.spend().watermarks().common.is_some(),
    };
    ledger.known_accounts(now).into_iter().map(state).collect()
}

fn flat(counts: BTreeMap<(String, &'static str), u64>) -> Vec<(String, &'static str, u64)> {
    counts
        .into_iter()
        .map(|((budget, result), count)| (budget, result, count))
        .collect()
}
