//! `kueue-check-try` as a user runs it: its output, its end, and its remains.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod endings;
mod kubectl;
mod running;
mod verdicts;
