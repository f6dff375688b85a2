//! The tests of rule-check: one binary, because linking takes most of the time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod alertmanager;
mod approval;
mod batches;
mod cel;
mod chart;
mod data_sources;
mod definition;
mod end_to_end;
mod examples;
mod faults;
mod hostile;
mod mock;
mod opa;
mod program;
mod prometheus;
mod promise;
mod schema;
mod sdk;
mod server;
mod service;
mod starting;
mod together;
mod tools;
mod verdicts;
mod with_kueue;
