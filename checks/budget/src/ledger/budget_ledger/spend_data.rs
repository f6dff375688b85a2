//! Spend data: reports of the source, and whether they are sufficient.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::BudgetLedger;
use crate::config::{Account, BudgetConfig};
use crate::ledger::{Commitment, CommitmentState, Observation, Spend, SpendUpdate};
use crate::money::{Amount, Rate};
use crate::period::Period;
use crate::resource::Takeover;

/// The seconds after which a running job is in the source's figures: its pods may start late.
const UNMEASURED: i64 = 900;

/// The seconds by which a clock may be set back into the period before.
const CLOCK_STEP: i64 = 3_600;

/// The seconds between queries of a source that lags more than its settings state.
const OVERDUE: i64 = 30;

impl BudgetLedger {
    /// Applies an observation of the source.
    pub fn observe(&mut self, observation: &Observation, now: Timestamp) -> SpendUpdate {
        let working = self.working_at(observation.as_of.as_second());
        let taken = self.spend.apply(observation, &working, now);
        self.problem = None;
        self.drop_settled(now);
        if taken.used {
            self.drop_vanished(observation.period);
        }
        let period = self.period(now).filter(|_| self.limits_are_known().is_ok());
        let over: Vec<Account> = self
            .known_accounts(now)
            .into_iter()
            .filter(|account| {
                period.is_some_and(|period| self.spent(account, period) > self.limit(account, now))
            })
            .collect();
        self.over_since.retain(|account, _| over.contains(account));
        for account in over {
            self.over_since.entry(account).or_insert(now.as_second());
        }
        taken
    }

    /// Applies published spend, if it is of the current period and the same source.
    pub(crate) fn apply_published_spend(&mut self, terms: &BudgetConfig, now: Timestamp) {
        let floor = terms.floor.as_ref();
        let floor = floor.filter(|_| self.terms.measures_like(terms));
        self.drop_settled(now);
        if let Some(floor) = floor.filter(|floor| self.period(now) == Some(floor.period)) {
            self.spend.at_least(floor);
            self.drop_vanished(floor.period);
        }
    }

    /// Removes deleted namespaces that have neither spend in `period` nor a commitment.
    fn drop_vanished(&mut self, period: Period) {
        let mut vanished = std::mem::take(&mut self.vanished);
        if !vanished.is_empty() {
            let claimed: BTreeSet<&str> = self.claims().map(|claim| &*claim.namespace).collect();
            vanished.retain(|name, _| {
                self.spend.spent(name, period) > Amount::ZERO || claimed.contains(name.as_str())
            });
        }
        self.vanished = vanished;
    }

    /// Returns the namespaces in which a job that costs something has run, at `at`, for long enough
    /// to be measured.
    fn working_at(&self, at: i64) -> BTreeSet<Arc<str>> {
        let runs = self.live.values().map(|live| &live.claim);
        let works = |claim: &&Commitment| {
            let long =
                matches!(claim.state, CommitmentState::Running(since) if at - since >= UNMEASURED);
            long && claim.rate > Rate::ZERO
        };
        let namespaces = runs.filter(works).map(|claim| Arc::clone(&claim.namespace));
        namespaces.collect()
    }

    /// Records that the source returned no usable response.
    pub fn failed(&mut self, problem: impl Into<String>) {
        self.problem = Some(problem.into());
    }

    /// Returns why the source returned no usable response.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Drops the commitments of ended runs that the source has reported. Of a namespace without a
    /// report, those that ended before the period: a process that does not lead has none.
    fn drop_settled(&mut self, now: Timestamp) {
        let watermarks = self.spend.watermarks();
        let period = self.period(now);
        let before = period.map(|period| period.start.as_second().saturating_sub(CLOCK_STEP));
        self.ended.retain(|claim| match claim.state {
            CommitmentState::Ended(since, ran) => watermarks
                .of(&claim.namespace)
                .or(before)
                .is_none_or(|known| known < since + i64::from(ran)),
            _ => true,
        });
    }

    /// Returns the known spend.
    pub fn spend(&self) -> &Spend {
        &self.spend
    }

    /// Returns the seconds until a response can end the cold start. Returns `None` if there is no
    /// cold start, or if the source lags by more than `interval` beyond `settle`.
    pub(crate) fn cold_for(&self, settle: i64, interval: i64, now: Timestamp) -> Option<i64> {
        let watched = self.watched_since?;
        let known = self.spend.watermarks().common.unwrap_or(i64::MIN);
        let rest = watched.saturating_add(settle) - now.as_second();
        let waits = known < watched && self.terms.takeover == Takeover::WaitForSource;
        let pause = if rest >= 0 { rest.max(1) } else { OVERDUE };
        (waits && rest >= -interval).then_some(pause)
    }
}
