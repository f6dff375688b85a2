//! Decisions and their reasons.

use jiff::Timestamp;

use super::{Balance, Exemption};
use crate::config::Account;
use crate::money::Amount;

/// What is decided about a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The previous verdict still holds.
    Unchanged,
    /// No limit applies to it, and the Budget lets such jobs start.
    NotGoverned,
    /// It may start.
    Admit(AdmitReason),
    /// It waits.
    Hold(HoldReason),
    /// It will never start as it is.
    Reject(HoldReason),
    /// It runs, and is to be stopped.
    Stop(Balance),
}

/// Why a run may start.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmitReason {
    /// Its whole estimate fits. The balances are those after it, of each account.
    Fits(Vec<Balance>),
    /// It is never held.
    Exempt(Exemption),
    /// Nothing is enforced; what would have been said otherwise.
    ReportOnly(Option<Box<HoldReason>>),
    /// It has no price, and the Budget lets such jobs start.
    Unpriced,
    /// Spending is not known, and the Budget lets jobs start then.
    Stale(Box<HoldReason>),
}

/// Why a run may not start.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldReason {
    /// Its estimate is more than what is left.
    DoesNotFit {
        /// The estimate, within the period.
        need: Amount,
        /// The account that lacks it.
        balance: Balance,
    },
    /// More than the limit has been spent.
    Overspent(Balance),
    /// It passes no other run, and one before it does not fit.
    BlockedByOrder(Balance),
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
    /// Limits, or what has been spent up to the time since which this process watches, are not
    /// known yet.
    ColdStart {
        /// What is not known.
        awaits: Awaited,
        /// Up to when spending is known.
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
    /// The source has nothing about the beginning of the period.
    NotCovered,
    /// The term is over, or has not begun.
    NoPeriod,
    /// Its namespace has no limit, and is in no pool.
    NotGoverned,
}

/// What a decision cannot be made without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The first complete list of Workloads.
    Workloads,
    /// The first complete list of NamespaceBudgets: they change limits.
    NamespaceBudgets,
    /// The first complete list of Namespaces: pools select them by their labels.
    Namespaces,
    /// Spending as of this time, since which this process has seen every Workload.
    Spend(Timestamp),
}

impl HoldReason {
    /// Whether both wait for lists or spending, but not for the same one, or not for the same
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

    /// Whether what it lacks is money.
    pub(super) fn is_about_money(&self) -> bool {
        self.balance().is_some()
    }

    /// A word for metrics.
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

    /// The account that stands in the way.
    pub fn balance(&self) -> Option<&Balance> {
        match self {
            Self::DoesNotFit { balance, .. }
            | Self::Overspent(balance)
            | Self::BlockedByOrder(balance) => Some(balance),
            _ => None,
        }
    }
}
