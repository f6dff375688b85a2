//! The simulator's test suite: one binary, because linking is slow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod simulation;
mod timeline;
