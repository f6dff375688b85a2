//! Decisions: may this run start?
//!
//! To decide and to write the decision down is one step: nothing happens in between. Between a look at the money and its commitment lies the overspending of every
//! controller that asks and then acts.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Balance, Book, Exemption, Run, RunState};
use crate::ledger::book::Said;
use crate::money::Amount;
use crate::period::Period;
use crate::resource::{
    AdmitOrder, Enforcement, HoldOrAdmit, OnTooLarge, OnUnpriced, Running, Takeover,
};
use crate::terms::Account;

/// What is decided about a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// What it was told before still holds.
    Unchanged,
    /// No limit applies to it.
    NotGoverned,
    /// It may start.
    Admit(Why),
    /// It waits.
    Hold(Reason),
    /// It will never start as it is.
    Reject(Reason),
    /// It runs, and is to be stopped.
    Stop(Balance),
}

/// Why a run may start.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Its whole estimate fits. The balances are those after it, of each account.
    Fits(Vec<Balance>),
    /// It is never held.
    Exempt(Exemption),
    /// Nothing is enforced; what would have been said otherwise.
    ReportOnly(Option<Box<Reason>>),
    /// It has no price, and the Budget lets such jobs start.
    Unpriced,
    /// Spending is not known, and the Budget lets jobs start then.
    Stale(Box<Reason>),
}

/// Why a run may not start.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Its estimate is more than what is left.
    DoesNotFit {
        /// The estimate, within the period.
        need: Amount,
        /// The account that lacks it.
        balance: Balance,
    },
    /// More than the limit has been spent.
    Overspent(Balance),
    /// It passes nobody, and somebody before it does not fit.
    Behind(Balance),
    /// It costs more than one job may.
    TooLarge {
        /// What it costs.
        estimate: Amount,
        /// What it may.
        most: Amount,
        /// The account whose whole limit that is, if it is not the limit for one job.
        account: Option<Account>,
    },
    /// There is no price for it.
    Unpriced {
        /// A resource.
        resource: String,
        /// Its flavor.
        flavor: String,
    },
    /// It is not known yet what has been spent up to the time since which this process watches.
    ColdStart {
        /// That time; `None` while the list is being read.
        need: Option<Timestamp>,
        /// What is known.
        have: Option<Timestamp>,
        /// Why nothing more is.
        problem: Option<String>,
    },
    /// It has not been known for too long what is spent.
    Stale {
        /// Whose spending.
        account: Account,
        /// Since when.
        since: Timestamp,
        /// Why.
        problem: Option<String>,
    },
    /// The term is over, or has not begun.
    NoPeriod,
}

impl Reason {
    /// A number for the kind of reason, to tell when it changes.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::DoesNotFit { .. } => 1,
            Self::Overspent(_) => 2,
            Self::Behind(_) => 3,
            Self::TooLarge { .. } => 4,
            Self::Unpriced { .. } => 5,
            Self::ColdStart { .. } => 6,
            Self::Stale { .. } => 7,
            Self::NoPeriod => 8,
        }
    }

    /// A word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::DoesNotFit { .. } => "does_not_fit",
            Self::Overspent(_) => "overspent",
            Self::Behind(_) => "behind",
            Self::TooLarge { .. } => "too_large",
            Self::Unpriced { .. } => "unpriced",
            Self::ColdStart { .. } => "cold_start",
            Self::Stale { .. } => "stale",
            Self::NoPeriod => "no_period",
        }
    }

    /// The account that stands in the way.
    pub fn balance(&self) -> Option<&Balance> {
        match self {
            Self::DoesNotFit { balance, .. } | Self::Overspent(balance) | Self::Behind(balance) => {
                Some(balance)
            }
            _ => None,
        }
    }
}

#[expect(
    clippy::result_large_err,
    reason = "a reason is made once for each decision, and moved"
)]
impl Book {
    /// Decides about `run`, and commits its estimate if it may start. Asked again about the same facts it says the same.
    pub fn decide(&mut self, run: &Run, now: Timestamp) -> Decision {
        if let RunState::Running(_) = run.state {
            return self.about_running(run, now);
        }
        if let RunState::Approved(_) = run.state {
            self.see(run, now);
            return Decision::Unchanged;
        }
        // What was given money once keeps it: the answer may be on its way.
        self.see(run, now);
        let given = self.liens().any(|uid| *uid == run.uid);
        self.unlien(&run.uid);
        if self.accounts(&run.namespace, now).is_empty()
            && run.exempt.is_none()
            && self.knows_namespaces()
        {
            self.no_longer_held(&run.uid);
            return Decision::NotGoverned;
        }
        match self.judge(run, now, &mut Tally::default()) {
            Ok(why) => {
                self.lien(run, now);
                Decision::Admit(self.after(why, run, now))
            }
            Err(reason) if given => {
                self.lien(run, now);
                Decision::Admit(self.after(
                    Why::Fits(reason.balance().cloned().into_iter().collect()),
                    run,
                    now,
                ))
            }
            Err(reason) => self.refuse(run, reason, now),
        }
    }

    fn refuse(&mut self, run: &Run, reason: Reason, now: Timestamp) -> Decision {
        let rejects = match reason {
            Reason::TooLarge { .. } => self.terms.on_too_large == OnTooLarge::Reject,
            Reason::Unpriced { .. } => self.terms.on_unpriced == OnUnpriced::Reject,
            _ => false,
        };
        if rejects {
            self.no_longer_held(&run.uid);
            return Decision::Reject(reason);
        }
        let held = self.hold(run).clone();
        if !Self::is_untrue(&held, &reason, now) {
            return Decision::Unchanged;
        }
        let said = Said {
            code: reason.code(),
            remaining: reason.balance().map(Balance::remaining).unwrap_or_default(),
            at: now.as_second(),
        };
        if let Some(held) = self.held.get_mut(&run.uid) {
            held.said = Some(said);
        }
        Decision::Hold(reason)
    }

    /// The balances with `run` in them.
    fn after(&self, why: Why, run: &Run, now: Timestamp) -> Why {
        let (Why::Fits(_), Some(period)) = (&why, self.period(now)) else {
            return why;
        };
        Why::Fits(
            self.accounts(&run.namespace, now)
                .iter()
                .map(|account| self.balance(account, period, now))
                .collect(),
        )
    }

    /// Whether `run` may start, as a pure question.
    pub(super) fn judge(
        &self,
        run: &Run,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Result<Why, Reason> {
        if let Some(exemption) = &run.exempt {
            return Ok(Why::Exempt(exemption.clone()));
        }
        if self.terms.enforcement == Enforcement::ReportOnly {
            return Ok(Why::ReportOnly(
                self.strictly(run, now, tally).err().map(Box::new),
            ));
        }
        if let Some((resource, flavor)) = &run.quote.unpriced {
            if self.terms.on_unpriced == OnUnpriced::Admit {
                return Ok(Why::Unpriced);
            }
            return Err(Reason::Unpriced {
                resource: resource.clone(),
                flavor: flavor.clone(),
            });
        }
        match self.strictly(run, now, tally) {
            Ok(()) => Ok(Why::Fits(Vec::new())),
            Err(reason @ Reason::Stale { .. }) if self.terms.on_stale == HoldOrAdmit::Admit => {
                Ok(Why::Stale(Box::new(reason)))
            }
            Err(reason) => Err(reason),
        }
    }

    fn strictly(&self, run: &Run, now: Timestamp, tally: &mut Tally) -> Result<(), Reason> {
        let period = self.period(now).ok_or(Reason::NoPeriod)?;
        if !self.knows_namespaces() {
            return Err(Reason::ColdStart {
                need: None,
                have: None,
                problem: None,
            });
        }
        let accounts = self.accounts(&run.namespace, now);
        self.not_too_large(run, &accounts, now)?;
        for account in &accounts {
            self.is_known(account, now)?;
        }
        for account in &accounts {
            self.fits(run, account, period, now, tally)?;
        }
        Ok(())
    }

    fn not_too_large(&self, run: &Run, accounts: &[Account], now: Timestamp) -> Result<(), Reason> {
        let estimate = run.quote.total();
        let too_large = |most, account| {
            Err(Reason::TooLarge {
                estimate,
                most,
                account,
            })
        };
        if let Some(most) = self.terms.max_per_workload.filter(|most| estimate > *most) {
            return too_large(most, None);
        }
        // A job that outlives its period pays from two: what counts is whether it could ever start.
        let longest = self.period(now).map_or(0, |period| {
            period.end.as_second() - period.start.as_second()
        });
        let at_once = run
            .quote
            .rate
            .cost(i64::from(run.quote.seconds).min(longest));
        for account in accounts {
            let limit = self.limit(account, now);
            if at_once > limit {
                return too_large(limit, Some(account.clone()));
            }
        }
        Ok(())
    }

    pub(super) fn knows_namespaces(&self) -> bool {
        self.terms.pools.is_empty() || self.namespaces.is_some()
    }

    /// Whether it is known what `account` has spent: at all, since this process watches, and not too long ago.
    fn is_known(&self, account: &Account, now: Timestamp) -> Result<(), Reason> {
        let at = |second: i64| Timestamp::from_second(second).unwrap_or_default();
        let known = self.watermark(account).filter(|known| *known > i64::MIN);
        let cold = |need: Option<i64>| Reason::ColdStart {
            need: need.map(at),
            have: known.map(at),
            problem: self.problem.clone(),
        };
        let watched = self
            .watched_since
            .filter(|_| self.knows_namespaces())
            .ok_or_else(|| cold(None))?;
        let known_at = known.ok_or_else(|| cold(Some(watched)))?;
        if known_at < watched && self.terms.takeover == Takeover::WaitForSource {
            return Err(cold(Some(watched)));
        }
        if now.as_second() - known_at > self.terms.staleness {
            return Err(Reason::Stale {
                account: account.clone(),
                since: at(known_at),
                problem: self.problem.clone(),
            });
        }
        Ok(())
    }

    fn fits(
        &self,
        run: &Run,
        account: &Account,
        period: Period,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Result<(), Reason> {
        let own = |period: Period| {
            let claim =
                super::book::Live::of(run, super::book::Approval::Given, now.as_second()).claim;
            super::committed(
                std::iter::once(&claim),
                period,
                self.spend.watermarks(),
                now.as_second(),
                self.terms.overrun,
            )
            .total()
        };
        let balance = tally.balance(self, account, period, now);
        if balance.spent > balance.limit {
            return Err(Reason::Overspent(balance));
        }
        let need = own(period);
        let fits = |used: Amount, need: Amount| match self.terms.enforcement {
            // While anything is left.
            Enforcement::Relaxed => used < balance.limit,
            _ => used + need <= balance.limit,
        };
        if !fits(balance.used(), need) {
            return Err(Reason::DoesNotFit { need, balance });
        }
        if self.terms.order == AdmitOrder::Strict && tally.somebody_is_before(self, run, account) {
            return Err(Reason::Behind(balance));
        }
        if let Some(next) = self.terms.schedule.at(period.end) {
            // What outlives this period must fit in the next one too.
            let need = own(next);
            if need == Amount::ZERO {
                return Ok(());
            }
            let balance = tally.balance(self, account, next, now);
            if !fits(balance.committed.total(), need) {
                return Err(Reason::DoesNotFit { need, balance });
            }
        }
        Ok(())
    }

    /// The first of those that wait for money of `account`.
    fn first_waiting(&self, account: &Account) -> Option<Place> {
        let members = self.members(account);
        // Who waits for something else than money stands in nobody's way.
        let waits_for_money =
            |held: &super::book::Held| held.said.is_none_or(|said| said.code <= 3);
        let waiting = self
            .held
            .values()
            .filter(|held| members.contain(&held.run.namespace) && waits_for_money(held));
        waiting.map(|held| place(&held.run)).min()
    }

    fn about_running(&mut self, run: &Run, now: Timestamp) -> Decision {
        self.see(run, now);
        let (running, grace) = self.terms.overspent;
        if running == Running::Leave || run.exempt.is_some() {
            return Decision::Unchanged;
        }
        let Some(period) = self.period(now) else {
            return Decision::Unchanged;
        };
        for account in self.accounts(&run.namespace, now) {
            let balance = self.balance(&account, period, now);
            let long_enough = self
                .over_since
                .get(&account)
                .is_some_and(|since| now.as_second() - since >= grace);
            if balance.overspent().is_some()
                && long_enough
                && self.first_to_stop(&account) == Some(&run.uid)
            {
                return Decision::Stop(balance);
            }
        }
        Decision::Unchanged
    }
}

/// Who comes first: by priority, then by the age of the reservation.
type Place = (i32, i64, kueue_check::api::Uid);

fn place(run: &Run) -> Place {
    (-run.priority, run.since, run.uid.clone())
}

/// What has been added up while nothing changed: a walk over thousands of held runs adds up each account once.
#[derive(Debug, Default)]
pub(super) struct Tally {
    balances: BTreeMap<(Account, Timestamp), Balance>,
    first: BTreeMap<Account, Option<Place>>,
}

impl Tally {
    fn balance(
        &mut self,
        book: &Book,
        account: &Account,
        period: Period,
        now: Timestamp,
    ) -> Balance {
        let key = (account.clone(), period.start);
        self.balances
            .entry(key)
            .or_insert_with(|| book.balance(account, period, now))
            .clone()
    }

    fn somebody_is_before(&mut self, book: &Book, run: &Run, account: &Account) -> bool {
        let first = self
            .first
            .entry(account.clone())
            .or_insert_with(|| book.first_waiting(account));
        first.as_ref().is_some_and(|first| *first < place(run))
    }
}
