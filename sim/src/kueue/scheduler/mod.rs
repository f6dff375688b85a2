//! The scheduler: who gets which flavor, and who has to make room.

mod amount;
mod assign;
mod considered;
mod preempt;
pub(crate) mod second_pass;
mod suitable;
mod usage;

#[cfg(test)]
mod tests;

pub(crate) use assign::{Assignment, Fit, Ground, assign, within_quota};
pub(crate) use preempt::{Candidate, victims};
pub(crate) use usage::{Usage, usage_of};

/// The reporter of the scheduler's events.
pub(crate) const SCHEDULER: &str = "kueue-admission";
