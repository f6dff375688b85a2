//! The test suite of the model: one binary, because linking is slow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod autoscaler;
mod jobs;
mod kueue;
