//! The status of Budgets and NamespaceBudgets: written when balances change, but not for each
//! changed figure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kueue_check::BackgroundContext;
use serde_json::{Value, json};

use super::conditions::{conditions, conflicting, effective};
use super::shared::SharedState;
use crate::config::Account;
use crate::ledger::{AccountIndex, Balance, BudgetLedger, HoldReason};
use crate::resource::{
    AccountStatus, Budget, BudgetStatus, CommittedStatus, NamespaceBudget, NamespaceBudgetStatus,
    PeriodStatus,
};

/// The field manager of the status.
const MANAGER: &str = "budget-check";
/// The maximum number of accounts in the status of a Budget.
const ACCOUNTS: usize = 128;
/// The maximum number of namespaces with their spend in the status of a Budget.
const NAMESPACES: usize = 4096;
/// The seconds between status writes if a figure has moved by a hundredth of its limit.
const FIGURES: i64 = 30;
/// The seconds between status writes if figures have moved by less, or only time has passed.
const TIME: i64 = 600;

/// The statuses that were written last.
#[derive(Default)]
pub(super) struct StatusWriter {
    objects: BTreeMap<(String, String), Last>,
}

struct Last {
    status: Value,
    conditions: Value,
    at: i64,
}

impl StatusWriter {
    /// Writes the statuses that have changed.
    pub(super) async fn write_changes(
        &mut self,
        shared: &Arc<SharedState>,
        context: &BackgroundContext,
    ) {
        let now = shared.now();
        for (namespace, name, status) in due(shared, now, &self.objects) {
            let patch = |kind: &str| json!({"apiVersion": format!("{}/{}", crate::resource::GROUP, crate::resource::VERSION), "kind": kind, "metadata": {"name": name}, "status": status});
            let parameters = PatchParams::apply(MANAGER).force();
            let written = if namespace.is_empty() {
                let api: Api<Budget> = Api::all(context.client().clone());
                api.patch_status(&name, &parameters, &Patch::Apply(patch("Budget")))
                    .await
                    .map(drop)
            } else {
                let api: Api<NamespaceBudget> =
                    Api::namespaced(context.client().clone(), &namespace);
                api.patch_status(&name, &parameters, &Patch::Apply(patch("NamespaceBudget")))
                    .await
                    .map(drop)
            };
            match written {
                Ok(()) => {
                    shared.status_written();
                    let conditions = status["conditions"].clone();
                    self.objects.insert(
                        (namespace, name),
                        Last {
                            status,
                            conditions,
                            at: now.as_second(),
                        },
                    );
                }
                Err(error) => {
                    tracing::warn!(name, error = %kueue_check::Message::new(error.to_string()), "a balance could not be written; will retry");
                }
            }
        }
    }
}

/// Returns the objects to write: namespace (empty for a Budget), name, status.
fn due(
    shared: &SharedState,
    now: Timestamp,
    before: &BTreeMap<(String, String), Last>,
) -> Vec<(String, String, Value)> {
    let own = shared.own_limits();
    let ledgers = shared.ledgers();
    let mut all = Vec::new();
    for (name, ledger) in ledgers.all() {
        // Nothing is written right after the start, before the first lists.
        if let Err(HoldReason::ColdStart { problem: None, .. }) = ledger.limits_are_known() {
            continue;
        }
        let known = conditions_before(before, "", name);
        let last_result = shared.source_result(name);
        let index = ledger.index();
        let status = budget_status(ledger, &index, last_result.as_ref(), &known, now);
        for ((namespace, of), object) in &own {
            if object.spec.budget_ref == name {
                let first = (namespace.clone(), String::new());
                let there = own.range(first..);
                let there = there.take_while(|((there, _), _)| there == namespace);
                let rivals = there
                    .filter(|((_, other), rival)| other != of && rival.spec.budget_ref == name);
                let rivals: Vec<&str> = rivals.map(|((_, other), _)| other.as_str()).collect();
                let known = conditions_before(before, namespace, of);
                let about = (namespace.as_str(), object.generation);
                let status = namespace_status(ledger, &index, about, &rivals, &known, now);
                all.push((
                    namespace.clone(),
                    of.clone(),
                    serde_json::to_value(status).unwrap_or_default(),
                ));
            }
        }
        all.push((
            String::new(),
            name.to_owned(),
            serde_json::to_value(status).unwrap_or_default(),
        ));
    }
    drop(ledgers);
    all.retain(|(namespace, name, status)| {
        let last = before.get(&(namespace.clone(), name.clone()));
        is_due(status, last, !namespace.is_empty(), now.as_second())
    });
    all
}

fn conditions_before(
    before: &BTreeMap<(String, String), Last>,
    namespace: &str,
    name: &str,
) -> Vec<Condition> {
    let last = before.get(&(namespace.to_owned(), name.to_owned()));
    last.and_then(|last| serde_json::from_value(last.conditions.clone()).ok())
        .unwrap_or_default()
}

/// Returns true if `status` is to be written. If only time has passed, the status of a Budget is
/// written at intervals, and that of each of hundreds of NamespaceBudgets is not.
fn is_due(status: &Value, last: Option<&Last>, of_namespace: bool, now: i64) -> bool {
    let Some(last) = last else { return true };
    if *status == last.status {
        return false;
    }
    let without_time = |status: &Value| {
        let mut status = status.clone();
        status["asOf"] = Value::Null;
        status
    };
    let significant = |status: &Value| {
        (
            status["conditions"].clone(),
            status["period"].clone(),
            status["observedGeneration"].clone(),
        )
    };
    if significant(status) != significant(&last.status) {
        return true;
    }
    if noted(status) != noted(&last.status) {
        return now - last.at >= FIGURES;
    }
    let moved = without_time(status) != without_time(&last.status);
    (moved || !of_namespace) && now - last.at >= TIME
}

/// Returns the figures of a status that matter to a person: the accounts, their limits, the
/// percentages used, and the number of held Workloads.
fn noted(status: &Value) -> Vec<Value> {
    let of = |account: &Value| -> Value {
        let fields = ["name", "limit", "usedPercent", "held", "overspent"];
        let fields = fields.into_iter();
        fields.map(|field| account[field].clone()).collect()
    };
    let accounts = status["accounts"].as_array().into_iter().flatten();
    [status, &status["total"]]
        .into_iter()
        .chain(accounts)
        .map(of)
        .collect()
}

fn text(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

fn period_status(ledger: &BudgetLedger, now: Timestamp) -> Option<PeriodStatus> {
    let period = ledger.period(now)?;
    Some(PeriodStatus {
        start: text(period.start),
        end: text(period.end),
    })
}

/// Returns the status of an account.
pub(crate) fn account_status(
    ledger: &BudgetLedger,
    index: &AccountIndex<'_>,
    balance: &Balance,
) -> AccountStatus {
    let committed = balance.committed;
    let as_of = ledger
        .watermark(&balance.account)
        .and_then(|at| Timestamp::from_second(at).ok());
    AccountStatus {
        name: balance.account.name().to_owned(),
        pool: matches!(balance.account, Account::Pool(_)),
        limit: balance.limit,
        spent: balance.spent,
        committed: CommittedStatus {
            running: committed.running,
            reserved: committed.reserved,
            settling: committed.settling,
        },
        remaining: balance.remaining(),
        overspent: balance.overspent(),
        used_percent: balance.used_percent(),
        held: index.held(&balance.account).0,
        exhausted_at: as_of
            .and_then(|as_of| balance.exhausted_at(as_of))
            .map(text),
        unbounded_rate: Some(committed.unbounded).filter(|rate| *rate > crate::money::Amount::ZERO),
    }
}

/// Returns the known spend, for a process that will have no other data.
fn spent(ledger: &BudgetLedger, now: Timestamp) -> BTreeMap<String, crate::money::Amount> {
    let period = ledger.period(now).into_iter();
    let known = period.flat_map(|period| ledger.spend().by_namespace(period));
    let mut most: Vec<_> = known
        .filter(|(_, spent)| *spent > crate::money::Amount::ZERO)
        .collect();
    most.sort_by_key(|(_, spent)| std::cmp::Reverse(*spent));
    let most = most.into_iter().take(NAMESPACES);
    most.map(|(name, spent)| (name.to_string(), spent))
        .collect()
}

fn budget_status(
    ledger: &BudgetLedger,
    index: &AccountIndex<'_>,
    last_result: Option<&super::shared::SourceResult>,
    before: &[Condition],
    now: Timestamp,
) -> BudgetStatus {
    let period = ledger.period(now);
    let limits_are_known = ledger.limits_are_known().is_ok();
    let balances: Vec<Balance> = period
        .filter(|_| limits_are_known)
        .map(|period| {
            ledger
                .known_accounts(now)
                .iter()
                .map(|account| index.balance(account, period, now))
                .collect()
        })
        .unwrap_or_default();
    let mut accounts: Vec<AccountStatus> = balances
        .iter()
        .map(|balance| account_status(ledger, index, balance))
        .collect();
    let namespaces = accounts.iter().filter(|account| !account.pool);
    let total = namespaces.fold(
        AccountStatus {
            name: "total".to_owned(),
            ..AccountStatus::default()
        },
        |mut total, account| {
            total.limit = total.limit + account.limit;
            total.spent = total.spent + account.spent;
            total.remaining = total.remaining + account.remaining;
            total.committed.running = total.committed.running + account.committed.running;
            total.committed.reserved = total.committed.reserved + account.committed.reserved;
            total.committed.settling = total.committed.settling + account.committed.settling;
            total.held += account.held;
            total
        },
    );
    let used =
        total.spent + total.committed.running + total.committed.reserved + total.committed.settling;
    let total = AccountStatus {
        used_percent: used.percent_of(total.limit),
        ..total
    };
    accounts.retain(|account| {
        account.held > 0
            || account.used_percent > 50
            || account.committed != CommittedStatus::default()
    });
    accounts.sort_by_key(|account| {
        (
            std::cmp::Reverse(account.used_percent),
            account.name.clone(),
        )
    });
    accounts.truncate(ACCOUNTS);
    BudgetStatus {
        observed_generation: ledger.terms().generation,
        period: period_status(ledger, now),
        spent: spent(ledger, now),
        measured: Some(ledger.terms().measured.clone()),
        as_of: ledger
            .spend()
            .watermarks()
            .common
            .and_then(|at| Timestamp::from_second(at).ok())
            .map(text),
        total: limits_are_known.then_some(total),
        accounts,
        conditions: conditions(ledger, last_result, index, &balances, before, now),
    }
}

/// Returns the status of a NamespaceBudget. `rivals` are the others for the same namespace and
/// Budget.
fn namespace_status(
    ledger: &BudgetLedger,
    index: &AccountIndex<'_>,
    (namespace, generation): (&str, i64),
    rivals: &[&str],
    before: &[Condition],
    now: Timestamp,
) -> NamespaceBudgetStatus {
    let account = Account::Namespace(namespace.into());
    let counts = ledger.terms().limits_namespaces();
    let balance = ledger
        .period(now)
        .filter(|_| counts)
        .map(|period| index.balance(&account, period, now));
    NamespaceBudgetStatus {
        observed_generation: generation,
        period: period_status(ledger, now),
        as_of: ledger
            .watermark(&account)
            .filter(|at| *at > i64::MIN)
            .and_then(|at| Timestamp::from_second(at).ok())
            .map(text),
        account: balance.map(|balance| account_status(ledger, index, &balance)),
        conditions: vec![
            conflicting(rivals, generation, before, now),
            effective(ledger, generation, before, now),
        ],
    }
}
