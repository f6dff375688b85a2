//! The suite of replays.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod record;
mod traces;
