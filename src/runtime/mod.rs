//! The runtime: it watches, evaluates the checks, and writes their verdicts.
//!
//! Its state is in `core`, which is a value with one step: inputs in, effects out. `manager` is the
//! event loop around it, which carries effects out. Decisions are pure.

mod activation;
pub(crate) mod backoff;
mod connection;
pub(crate) mod core;
pub(crate) mod decide;
pub(crate) mod error_text;
pub(crate) mod evaluate;
mod events;
mod health;
pub(crate) mod informers;
mod lease;
mod manager;
mod metrics;
#[cfg(feature = "cli")]
pub(crate) mod preview;
mod queue;
mod signal;
pub(crate) mod writer;

#[cfg(feature = "cli")]
pub(crate) use decide::{
    CheckPhase, Conclusion, EntryPatch, NextEvaluation, Notice, Outcome, Suppression, waits_since,
};
#[cfg(feature = "cli")]
pub(crate) use informers::{Failure, StoredParameters, parameters_resource};
#[doc(hidden)]
pub use lease::lease_after;
pub use lease::{LeaseConfig, LeaseTimes};
pub use manager::{BuildError, Diagnostics, RunError, Runtime, RuntimeBuilder, RuntimeHandle};
/// The target of the spans that are exported with what happens inside them.
#[cfg(feature = "otel")]
pub(crate) const SPANS: &str = "kueue_check::spans";

#[cfg(feature = "admin")]
pub(crate) use metrics::{followed_by, sample_metrics};
