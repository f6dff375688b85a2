//! Accounts: the namespaces for which they pay, their limits and their balances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::Uid;

use super::pending::PendingRun;
use super::{ActiveRun, BudgetLedger};
use crate::config::Account;
use crate::ledger::{Balance, Commitment, CommitmentState, committed};
use crate::money::Amount;
use crate::period::Period;

/// The namespaces of an account.
pub(in crate::ledger) enum Members<'a> {
    One(Arc<str>),
    Some(BTreeSet<&'a str>),
}

impl Members<'_> {
    pub(in crate::ledger) fn contain(&self, namespace: &str) -> bool {
        match self {
            Self::One(one) => **one == *namespace,
            Self::Some(names) => names.contains(namespace),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let (one, some) = match self {
            Self::One(one) => (Some(&**one), None),
            Self::Some(names) => (None, Some(names)),
        };
        one.into_iter().chain(some.into_iter().flatten().copied())
    }
}

/// An index of commitments and held runs by namespace, for readers of many accounts.
#[derive(Debug)]
pub(crate) struct AccountIndex<'a> {
    ledger: &'a BudgetLedger,
    claims: BTreeMap<&'a str, Vec<&'a Commitment>>,
    held: BTreeMap<&'a str, Vec<&'a PendingRun>>,
}

impl AccountIndex<'_> {
    /// Returns the same as [`BudgetLedger::balance`].
    pub(crate) fn balance(&self, account: &Account, period: Period, now: Timestamp) -> Balance {
        let ledger = self.ledger;
        let members = ledger.members(account);
        let claims = members.names().filter_map(|name| self.claims.get(name));
        let claims = claims.flatten().copied();
        ledger.balance_of(account, &members, claims, period, now)
    }

    /// Returns the number of held runs of `account`, and the smallest estimate of those that wait
    /// for money.
    pub(crate) fn held(&self, account: &Account) -> (u32, Option<Amount>) {
        let members = self.ledger.members(account);
        let held = members.names().filter_map(|name| self.held.get(name));
        let (mut count, mut smallest) = (0_u32, None);
        for held in held.flatten() {
            count = count.saturating_add(1);
            if held.waits_for_money() {
                let estimate = held.run.estimate.total();
                smallest = Some(smallest.map_or(estimate, |known: Amount| known.min(estimate)));
            }
        }
        (count, smallest)
    }
}

impl BudgetLedger {
    /// Returns the current period; `None` outside a term.
    pub fn period(&self, now: Timestamp) -> Option<Period> {
        self.terms.schedule.at(now)
    }

    /// Returns the accounts that pay for `namespace` at `now`: its own, and its pools. Empty if it
    /// is not governed.
    pub fn accounts(&self, namespace: &str, now: Timestamp) -> Vec<Account> {
        let own = self
            .limit_of_namespace(namespace, now)
            .map(|_| Account::Namespace(namespace.into()));
        let labels = self.namespaces.known().and_then(|all| all.get(namespace));
        let none = BTreeMap::new();
        let pools = self
            .terms
            .pools
            .iter()
            .filter(|pool| pool.selector.selects(labels.unwrap_or(&none)));
        own.into_iter()
            .chain(pools.map(|pool| Account::Pool(Arc::clone(&pool.name))))
            .collect()
    }

    fn limit_of_namespace(&self, namespace: &str, now: Timestamp) -> Option<Amount> {
        let own = self.own.known().and_then(|own| own.get(namespace));
        self.terms.namespace_limit(namespace, own, now)
    }

    /// Returns the limit of `account` at `now`.
    pub fn limit(&self, account: &Account, now: Timestamp) -> Amount {
        let limit = match account {
            Account::Namespace(namespace) => self.limit_of_namespace(namespace, now),
            Account::Pool(name) => self
                .terms
                .pools
                .iter()
                .find(|pool| pool.name == *name)
                .map(|pool| pool.limit),
        };
        limit.unwrap_or_default()
    }

    /// Returns the namespaces for which `account` pays, and those for which it has paid.
    pub(in crate::ledger) fn members(&self, account: &Account) -> Members<'_> {
        match account {
            Account::Namespace(namespace) => Members::One(Arc::clone(namespace)),
            Account::Pool(name) => {
                let pool = self.terms.pools.iter().find(|pool| pool.name == *name);
                let known = self.namespaces.known().into_iter().flatten();
                let all = known.chain(&self.vanished);
                Members::Some(
                    all.filter(|(_, labels)| {
                        pool.is_some_and(|pool| pool.selector.selects(labels))
                    })
                    .map(|(name, _)| name.as_str())
                    .collect(),
                )
            }
        }
    }

    /// Returns all commitments, of all namespaces.
    pub(super) fn claims(&self) -> impl Iterator<Item = &Commitment> {
        let live = self.live.values().flat_map(ActiveRun::claims);
        live.chain(&self.ended)
    }

    /// Returns an index for balances of many accounts, from one pass over the commitments.
    pub(crate) fn index(&self) -> AccountIndex<'_> {
        let mut index = AccountIndex {
            ledger: self,
            claims: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        for claim in self.claims() {
            index
                .claims
                .entry(&claim.namespace)
                .or_default()
                .push(claim);
        }
        for held in self.held.values() {
            let namespace = &*held.run.namespace;
            index.held.entry(namespace).or_default().push(held);
        }
        index
    }

    /// Returns the known spend of `account` in `period`.
    pub fn spent(&self, account: &Account, period: Period) -> Amount {
        self.spent_by(&self.members(account), period)
    }

    fn spent_by(&self, members: &Members<'_>, period: Period) -> Amount {
        match members {
            Members::One(namespace) => self.spend.spent(namespace, period),
            Members::Some(names) => names
                .iter()
                .map(|name| self.spend.spent(name, period))
                .sum(),
        }
    }

    /// Returns the balance of `account` in `period`. Reads every commitment.
    pub fn balance(&self, account: &Account, period: Period, now: Timestamp) -> Balance {
        let members = self.members(account);
        let claims = self.claims();
        let claims = claims.filter(|claim| members.contain(&claim.namespace));
        self.balance_of(account, &members, claims, period, now)
    }

    fn balance_of<'a>(
        &self,
        account: &Account,
        members: &Members<'_>,
        claims: impl Iterator<Item = &'a Commitment>,
        period: Period,
        now: Timestamp,
    ) -> Balance {
        let (watermarks, overrun) = (self.spend.watermarks(), self.terms.overrun);
        Balance {
            account: account.clone(),
            period,
            // A top-up may end before a later period begins.
            limit: self.limit(account, now.max(period.start)),
            spent: self.spent_by(members, period),
            committed: committed(claims, period, watermarks, now.as_second(), overrun),
        }
    }

    /// Returns the time up to which the spend of `account` is known.
    ///
    /// That of a pool omits namespaces that count by estimates and those that were deleted.
    pub fn watermark(&self, account: &Account) -> Option<i64> {
        let watermarks = self.spend.watermarks();
        let is_pool = matches!(account, Account::Pool(_));
        let members = self.members(account);
        let behind = members
            .names()
            .filter(|name| !is_pool || !self.counts_without_figures(name))
            .filter_map(|name| watermarks.behind.get(name));
        let oldest = behind.min().copied();
        watermarks
            .common
            .map(|common| oldest.map_or(common, |oldest| oldest.min(common)))
    }

    /// Returns true if a pool need not wait for figures of `namespace`: it was deleted, or only
    /// lacks a current sample and every run since its last figure has been observed, and counts by
    /// its estimate.
    fn counts_without_figures(&self, namespace: &str) -> bool {
        let known = self.spend.watermarks().of(namespace);
        let is_observed = self
            .watched_since
            .is_some_and(|watched| known.is_some_and(|known| known >= watched));
        self.vanished.contains_key(namespace)
            || (is_observed && self.spend.is_only_unmeasured(namespace))
    }

    /// Returns every account with a commitment, a held run or a limit of its own, and every
    /// namespace with spend.
    ///
    /// Omits namespaces with spend that are known not to exist: the author of the source's labels
    /// must not be able to create accounts.
    pub fn known_accounts(&self, now: Timestamp) -> BTreeSet<Account> {
        let mut namespaces: BTreeSet<&str> = self.terms.named_namespaces().collect();
        let own = self.own.known().into_iter().flat_map(BTreeMap::keys);
        namespaces.extend(own.map(String::as_str));
        namespaces.extend(self.live.values().map(|live| &*live.claim.namespace));
        namespaces.extend(self.ended.iter().map(|claim| &*claim.namespace));
        if let Some(period) = self.period(now) {
            let spent = self.spend.namespaces(period).map(|name| &**name);
            let exist = self.namespaces.known();
            namespaces.extend(spent.filter(|name| exist.is_none_or(|all| all.contains_key(*name))));
        }
        let of_namespaces = namespaces
            .into_iter()
            .filter(|name| self.limit_of_namespace(name, now).is_some());
        let pools = self
            .terms
            .pools
            .iter()
            .map(|pool| Account::Pool(Arc::clone(&pool.name)));
        of_namespaces
            .map(|name| Account::Namespace(name.into()))
            .chain(pools)
            .collect()
    }

    /// Returns the runs with a commitment in `account`, each with its amount.
    pub fn holders(
        &self,
        account: &Account,
        period: Period,
        now: Timestamp,
    ) -> Vec<(Uid, CommitmentState, Amount)> {
        let members = self.members(account);
        let live = self.live.iter().flat_map(|(uid, live)| {
            let claims = live.claims().map(move |claim| (uid, claim));
            claims.filter(|(_, claim)| members.contain(&claim.namespace))
        });
        let part = |claim: &Commitment| {
            committed(
                std::iter::once(claim),
                period,
                self.spend.watermarks(),
                now.as_second(),
                self.terms.overrun,
            )
            .total()
        };
        live.map(|(uid, claim)| (uid.clone(), claim.state, part(claim)))
            .collect()
    }
}
