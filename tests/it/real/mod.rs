//! Tests on a real kube-apiserver with Kueue's own definitions. No other client writes: each test
//! acts as Kueue where it must.

mod activation;
mod admin;
mod bad_input;
mod checks;
mod examples;
mod explain;
pub(crate) mod faults;
mod harness;
mod kep993;
mod ownership;
mod process;
mod program;
mod recovery;
mod replicas;
mod request_counts;
mod rules;
mod stale_verdicts;
mod verdicts;
