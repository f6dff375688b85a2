//! The model's suite: one binary, because linking is what takes time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod autoscaler;
mod jobs;
mod kueue;
