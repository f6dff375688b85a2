//! An account's balance.

use jiff::Timestamp;

use super::Committed;
use crate::config::Account;
use crate::money::Amount;
use crate::period::Period;

/// Where an account stands in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Whose.
    pub account: Account,
    /// In which period.
    pub period: Period,
    /// The limit with the top-ups that count now.
    pub limit: Amount,
    /// What has been spent, as far as is known.
    pub spent: Amount,
    /// What may be spent on top of it.
    pub committed: Committed,
}

impl Balance {
    /// What is left.
    pub fn remaining(&self) -> Amount {
        self.limit.less(self.used())
    }

    /// What is spent or committed.
    pub fn used(&self) -> Amount {
        self.spent + self.committed.total()
    }

    /// By how much more than the limit has been spent.
    pub fn overspent(&self) -> Option<Amount> {
        (self.spent > self.limit).then(|| self.spent.less(self.limit))
    }

    /// Percent of the limit that is spent or committed.
    pub fn used_percent(&self) -> u32 {
        self.used().percent_of(self.limit)
    }

    /// When the limit will have been spent if what runs goes on, within the period. `as_of` is the
    /// time up to which spending is known.
    pub fn exhausted_at(&self, as_of: Timestamp) -> Option<Timestamp> {
        if self.spent > self.limit {
            return None;
        }
        let seconds = self
            .committed
            .rate
            .seconds_until(self.limit.less(self.spent))?;
        let at = as_of
            .max(self.period.start)
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .ok()?;
        (at < self.period.end).then_some(at)
    }
}
