//! The ledger: who may spend what.
//!
//! Nothing in it is a counter. What is committed is a pure function of the Workloads that may run, their prices, the watermark (the time up to which spending is
//! known) and the clock: spending before the watermark comes from the source, spending after it from estimates. True-up, rollover, restart and outage follow
//! from that one rule. One thing is written down: that a Workload has just been told Ready and the cluster does not show it yet.

mod balance;
mod book;
mod books;
mod claim;
mod decide;
mod decision;
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
pub use book::Book;
pub use books::Books;
pub use claim::{Claim, Committed, Job, State, Watermarks, committed};
pub use decision::{Awaited, Decision, Reason, Why};
pub use run::{Exemption, Run, RunState, run_of};
pub use spend::{Floor, Observation, Spend, Taken};

pub(crate) use book::Listed;
#[cfg(test)]
pub(crate) use book::Walked;
