//! The provisioning check's suite: one binary, because linking is what takes time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod better;
mod chart;
mod configs;
#[cfg(feature = "demo")]
mod demo;
mod explore;
mod flavors;
mod kep;
mod points;
mod program;
mod quiet;
mod real;
mod retries;
mod stage;
mod story;
mod traces;
