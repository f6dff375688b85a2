//! What the source has said, and since when that is enough.

use jiff::Timestamp;

use super::Book;
use crate::ledger::{Observation, Spend, State, Taken};
use crate::terms::Account;

impl Book {
    /// Takes in what the source has said.
    pub fn observe(&mut self, observation: &Observation, now: Timestamp) -> Taken {
        let taken = self.spend.take(observation, now);
        self.problem = None;
        self.forget_settled();
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

    /// The source gave no usable answer.
    pub fn failed(&mut self, problem: impl Into<String>) {
        self.problem = Some(problem.into());
    }

    /// Why the source gives no answer.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn forget_settled(&mut self) {
        let watermarks = self.spend.watermarks();
        self.ended.retain(|claim| match claim.state {
            State::Ended(since, ran) => watermarks
                .of(&claim.namespace)
                .is_none_or(|known| known < since + i64::from(ran)),
            _ => true,
        });
    }

    /// What is known of spending.
    pub fn spend(&self) -> &Spend {
        &self.spend
    }

    /// In how many seconds an answer may come that ends a cold start; `None` if there is none to end.
    pub(crate) fn cold_for(&self, settle: i64, now: Timestamp) -> Option<i64> {
        let watched = self.watched_since?;
        let known = self.spend.watermarks().common.unwrap_or(i64::MIN);
        (known < watched).then(|| (watched + settle - now.as_second()).max(1))
    }
}
