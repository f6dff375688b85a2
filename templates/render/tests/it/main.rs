//! The template of a check, rendered.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod refusals;
mod rendered;
