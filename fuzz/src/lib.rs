//! Fuzzing of all code that reads foreign input.
//!
//! A [`Target`] is a function of bytes that panics if a property does not hold. [`campaign`] runs a
//! target with inputs that are mutated from its corpus. A seed makes a run repeatable. An input
//! with a new [`Outcome`] joins the pool from which later inputs are made. A finding is minimised
//! and written into the corpus, where it is a test case from then on.
//!
//! | module | contents |
//! | --- | --- |
//! | [`target`] | the type of a target |
//! | [`targets`] | the table of targets, and their properties |
//! | [`mutate`] | inputs from inputs: bytes, words of a dictionary, JSON trees, parts |
//! | [`campaign`] | the run of one target |
//! | [`execution`] | one execution: panic, time and memory |
//! | [`minimise`] | a smaller input that fails in the same place |
//! | [`corpus`] | the files |

pub mod campaign;
pub mod corpus;
pub mod execution;
pub mod minimise;
pub mod mutate;
pub mod target;
pub mod targets;

pub use campaign::{Bound, Campaign, Report};
pub use execution::{Failure, MemoryMeter};
pub use targets::{Outcome, TARGETS, Target};
