//! Decisions and their reasons.

use jiff::Timestamp;

use super::{Balance, Exemption};
use crate::config::Account;
use crate::money::Amount;

/// A decision about a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The previous verdict still holds.
    Unchanged,
    /// No limit applies to it, and the Budget admits such jobs.
    NotGoverned,
    /// It may start.
    Admit(AdmitReason),
    /// It waits.
    Hold(HoldReason),
    /// It can never start as it is.
    Reject(HoldReason),
    /// It runs and is to be evicted.
    Stop(Balance),
}

/// The reason for which a run may start.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmitReason {
    /// Its whole estimate fits. Contains the balance of each account after its commitment.
    Fits(Vec<Balance>),
    /// It is never held.
    Exempt(Exemption),
    /// Nothing is enforced. Contains the reason for which it would have waited.
    ReportOnly(Option<Box<HoldReason>>),
    /// It has no price, and the Budget admits such jobs.
    Unpriced,
    /// Spend is unknown, and the Budget admits jobs in that case.
    Stale(Box<HoldReason>),
}

/// The reason for which a run may not start.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldReason {
    /// Its estimate exceeds the remaining amount.
    DoesNotFit {
        /// The estimate, within the period.
        need: Amount,
        /// The balance of the account that lacks it.
        balance: Balance,
    },
    /// More than the limit has been spent.
    Overspent(Balance),
    /// The order is strict, and an earlier run does not fit.
    BlockedByOrder(Balance),
    /// It costs more than one job may.
    TooLarge {
        /// Its cost.
        estimate: Amount,
        /// The maximum cost.
        most: Amount,
        /// The account whose whole limit is the maximum; `None` if it is the maximum of one job.
        account: Option<Account>,
    },
    /// There is no price for it.
    Unpriced {
        /// A resource.
        resource: String,
        /// Its flavor.
        flavor: String,
    },
    /// Limits are unknown, or spend up to the time since which this process watches.
    ColdStart {
        /// The missing data.
        awaits: Awaited,
        /// The time up to which spend is known.
        have: Option<Timestamp>,
        /// The cause.
        problem: Option<String>,
    },
    /// Spend data is older than the staleness bound.
    Stale {
        /// The account.
        account: Account,
        /// The time up to which its spend is known.
        since: Timestamp,
        /// The cause.
        problem: Option<String>,
    },
    /// The source has no figures of the period's beginning.
    NotCovered,
    /// The term is over, or has not begun.
    NoPeriod,
    /// Its namespace has no limit, and is in no pool.
    NotGoverned,
}

/// Data that a decision requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The first complete list of Workloads.
    Workloads,
    /// The first complete list of NamespaceBudgets: they change limits.
    NamespaceBudgets,
    /// The first complete list of Namespaces: pools select them by their labels.
    Namespaces,
    /// Spend up to this time, since which this process has observed every Workload.
    Spend(Timestamp),
}

impl HoldReason {
    /// Returns true if both wait for lists or spend, but not for the same one, or not for the same
    /// cause.
    pub(super) fn awaits_other_than(&self, before: &Self) -> bool {
        let (
            Self::ColdStart {
                awaits, problem, ..
            },
            Self::ColdStart {
                awaits: other,
                problem: earlier,
                ..
            },
        ) = (self, before)
        else {
            return false;
        };
        // The source's error may differ at each attempt; that of a list is one of a few sentences.
        let is_list = matches!(awaits, Awaited::NamespaceBudgets | Awaited::Namespaces);
        std::mem::discriminant(awaits) != std::mem::discriminant(other)
            || (is_list && problem != earlier)
    }

    /// Returns true if it lacks money.
    pub(super) fn is_about_money(&self) -> bool {
        self.balance().is_some()
    }

    /// Returns the label for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::DoesNotFit { .. } => "does_not_fit",
            Self::Overspent(_) => "overspent",
            Self::BlockedByOrder(_) => "behind",
            Self::TooLarge { .. } => "too_large",
            Self::Unpriced { .. } => "unpriced",
            Self::ColdStart { .. } => "cold_start",
            Self::Stale { .. } => "stale",
            Self::NotCovered => "not_covered",
            Self::NoPeriod => "no_period",
            Self::NotGoverned => "not_governed",
        }
    }

    /// Returns true if it requires more than the limit of a period.
    pub(crate) fn exceeds_limit(&self) -> bool {
        matches!(self, Self::DoesNotFit { need, balance } if *need > balance.limit)
    }

    /// Returns the balance of the account that blocks it.
    pub fn balance(&self) -> Option<&Balance> {
        match self {
            Self::DoesNotFit { balance, .. }
            | Self::Overspent(balance)
            | Self::BlockedByOrder(balance) => Some(balance),
            _ => None,
        }
    }
}
