//! The ledger of budgets: decides which jobs may spend how much.
//!
//! The ledger accumulates no amounts. The committed amount is a pure function of the Workloads that
//! may run, their prices, the watermark and the clock. The watermark is the time up to which spend
//! is known. Spend before the watermark comes from the source, spend after it from estimates.
//! True-up, rollover, restart and outage follow from that one rule. The ledger stores one fact:
//! that a Workload has just become Ready and the cluster does not show it yet.

mod balance;
mod budget_ledger;
mod commitment;
mod decide;
mod decision;
mod ledgers;
mod run;
mod spend;
mod tally;

#[cfg(test)]
mod families_tests;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use balance::Balance;
pub use budget_ledger::BudgetLedger;
pub use commitment::{Commitment, CommitmentState, Committed, Job, Watermarks, committed};
pub use decision::{AdmitReason, Awaited, Decision, HoldReason};
pub use ledgers::Ledgers;
pub use run::{Exemption, Run, RunState, RunningPods, run_of};
pub use spend::{Floor, Observation, Spend, SpendUpdate};

#[cfg(test)]
pub(crate) use budget_ledger::AllocationPass;
pub(crate) use budget_ledger::{AccountIndex, Listed};
