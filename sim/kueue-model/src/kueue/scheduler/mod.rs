//! The scheduler: flavor assignment and preemption.

mod amount;
mod assign;
mod contest;
mod fit;
mod limits;
mod node_affinity;
mod preempt;
mod preempt_fairly;
mod reduce;
mod rejected_flavors;
mod requests;
pub(crate) mod second_pass;
mod share;
mod tree;
mod usage;

#[cfg(test)]
mod tests;

pub(crate) use amount::show;
pub use assign::resource_hash;
pub(crate) use assign::{Assignment, AssignmentInput, LastTried, assign};
pub(crate) use contest::{Candidate, Cause, Contest};
pub(crate) use fit::Fit;
pub(crate) use limits::above_limits;
pub(crate) use preempt::victims;
pub(crate) use reduce::largest_that_fits;
pub(crate) use requests::requests_of;
pub(crate) use share::{Contender, fairest};
pub(crate) use tree::{NodeId, Tree};
pub(crate) use usage::{Cell, Usage, usage_of};

/// The reporter of the scheduler's events.
pub(crate) const SCHEDULER: &str = "kueue-admission";
