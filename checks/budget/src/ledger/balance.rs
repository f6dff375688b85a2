//! The balance of an account.

use jiff::Timestamp;

use super::Committed;
use crate::config::Account;
use crate::money::Amount;
use crate::period::Period;

/// The balance of an account in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// The account.
    pub account: Account,
    /// The period.
    pub period: Period,
    /// The limit with the current top-ups.
    pub limit: Amount,
    /// The known spend.
    pub spent: Amount,
    /// The commitments on top of it.
    pub committed: Committed,
}

impl Balance {
    /// Returns the remaining amount.
    pub fn remaining(&self) -> Amount {
        self.limit.less(self.used())
    }

    /// Returns the sum of spend and commitments.
    pub fn used(&self) -> Amount {
        self.spent + self.committed.total()
    }

    /// Returns the amount by which spend exceeds the limit.
    pub fn overspent(&self) -> Option<Amount> {
        (self.spent > self.limit).then(|| self.spent.less(self.limit))
    }

    /// Returns the percentage of the limit that is spent or committed.
    pub fn used_percent(&self) -> u32 {
        self.used().percent_of(self.limit)
    }

    /// Returns the time in the period at which the limit will have been spent if the running jobs
    /// continue. `as_of` is the time up to which spend is known.
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
