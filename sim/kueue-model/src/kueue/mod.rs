//! Kueue, as a model: pure decisions, and an actor that carries them out.
//!
//! The workload reconciler and the scheduler are functions of plain values. [`Kueue`] keeps up with
//! an [`ApiServer`](kueue_check_apiserver::ApiServer) and writes what they say, with Kueue's field
//! managers and preconditions. [`Webhook`] is what Kueue refuses. [`KueueVersion`] has what differs
//! between releases and feature gates.
//!
//! It reproduces what was recorded of Kueue 0.19.2 (`sim/cli/tests/it/traces.rs`), and
//! `cargo xtask twin` compares it with a real one. Not in it: fair sharing, topologies,
//! `MultiKueue`, the preemption gates of variants, timeouts of Pods that do not get
//! ready, `LimitRange`s, the counts in the status of queues, metrics, and the two built-in checks.

mod active;
mod actor;
pub(crate) mod api;
mod event_series;
mod kep993;
pub(crate) mod objects;
pub(crate) mod patch;
mod queue;
mod queue_usage;
pub(crate) mod reconcile;
pub(crate) mod scheduler;
mod variants;
mod version;
mod webhook;

pub use actor::{Actor, Kueue, Pace, run, run_at};
pub use api::kueue as resource;
pub use kep993::kep993_definitions;
pub use queue_usage::QueueUsage;
pub use version::KueueVersion;
pub use webhook::Webhook;
