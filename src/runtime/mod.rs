//! The runtime: it watches, asks the checks, and writes what they decide.
//!
//! Data flows one way: intake → index → queue → evaluate → decide → writer. A room knows the next one, never the previous; decisions are pure.

mod activation;
mod backoff;
mod connection;
mod decide;
mod evaluate;
mod events;
mod health;
mod intake;
mod lease;
mod manager;
mod metrics;
mod queue;
mod signal;
mod writer;

pub use lease::{LeaseConfig, LeaseTimes};
pub use manager::{BuildError, Diagnostics, RunError, Runtime, RuntimeBuilder, RuntimeHandle};
