//! Fuzzing of everything that reads what others wrote.
//!
//! A [`Target`] is a function of bytes that panics when a property does not hold. [`campaign`] runs
//! one with inputs that are mutated from its corpus, from a seed, so that a run can be repeated. An
//! input whose [`Outcome`] is new joins the pool that later ones are made of. A finding is made
//! small and written into the corpus, where it is a test case from then on.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`target`] | what a target is |
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
pub use execution::{Failure, Memory};
pub use targets::{Outcome, TARGETS, Target};
