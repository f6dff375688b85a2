//! Totals that many decisions share, and the order of runs.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Balance, BudgetLedger, Run};
use crate::config::Account;
use crate::period::Period;

/// The position of a run in the order: by priority, then by the age of the reservation.
pub(super) type Place = (i32, i64, kueue_check::api::Uid);

pub(super) fn place(run: &Run) -> Place {
    (-run.priority, run.since, run.uid.clone())
}

/// A cache of totals while nothing changes: an allocation pass over thousands of held runs computes
/// each account once.
#[derive(Debug, Default)]
pub(super) struct Totals {
    balances: BTreeMap<(Account, Timestamp), Balance>,
    first: BTreeMap<Account, Option<Place>>,
}

impl Totals {
    pub(super) fn balance(
        &mut self,
        ledger: &BudgetLedger,
        account: &Account,
        period: Period,
        now: Timestamp,
    ) -> Balance {
        let key = (account.clone(), period.start);
        self.balances
            .entry(key)
            .or_insert_with(|| ledger.balance(account, period, now))
            .clone()
    }

    pub(super) fn is_preceded(
        &mut self,
        ledger: &BudgetLedger,
        run: &Run,
        account: &Account,
    ) -> bool {
        let first = self
            .first
            .entry(account.clone())
            .or_insert_with(|| ledger.first_waiting(account));
        first.as_ref().is_some_and(|first| *first < place(run))
    }
}
