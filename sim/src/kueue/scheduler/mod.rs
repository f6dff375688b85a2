//! The scheduler: who gets which flavor, and who has to make room.

mod amount;
mod assign;
mod considered;
mod preempt;
pub mod second_pass;
mod suitable;
mod usage;

#[cfg(test)]
mod tests;

pub(crate) use assign::within_quota;
pub use assign::{Assignment, Fit, Ground, assign};
pub use preempt::{Candidate, victims};
pub use suitable::Flavors;
pub use usage::{Cell, Usage, usage_of};

/// The reporter of the scheduler's events.
pub const SCHEDULER: &str = "kueue-admission";
