//! A model of Kueue: pure decisions, and an actor that carries them out.
//!
//! The Workload reconciler and the scheduler are functions of plain values. [`Kueue`] watches an
//! [`ApiServer`](kueue_check_apiserver::ApiServer) and writes their results, with Kueue's field
//! managers and preconditions. [`Webhook`] rejects what Kueue rejects. [`KueueVersion`] has the
//! differences between releases and feature gates.
//!
//! The model reproduces the recorded traces of Kueue 0.19.2 (`sim/cli/tests/it/traces.rs`), and
//! `cargo xtask twin` compares it with a real Kueue. It does not contain topologies,
//! `MultiKueue`, `LimitRange`s, the counts in the status of LocalQueues, the shares in that of
//! ClusterQueues and Cohorts, metrics, or the two built-in checks.

mod active;
mod actor;
pub(crate) mod api;
mod event_series;
mod fair_sharing;
mod kep993;
mod not_modelled;
mod note;
pub(crate) mod objects;
pub(crate) mod patch;
mod pods_ready;
mod queue;
mod queue_status;
mod queue_usage;
pub(crate) mod reconcile;
pub(crate) mod scheduler;
mod variants;
mod version;
mod webhook;

pub use actor::{Actor, Kueue, Pace, VersionSwitch, run, run_at};
pub use api::kueue as resource;
pub use fair_sharing::FairSharing;
pub use kep993::kep993_definitions;
#[doc(hidden)]
pub use not_modelled::{not_modelled, refusal};
pub use pods_ready::{RequeuingTimestamp, WaitForPodsReady};
pub use queue_usage::QueueUsage;
#[doc(hidden)]
pub use scheduler::resource_hash;
pub use version::KueueVersion;
pub use webhook::Webhook;
