//! Kueue, as a model: pure decisions, and an actor that carries them out.
//!
//! [`reconcile`] is the workload reconciler, [`scheduler`] and [`queue`] are the scheduler; both are functions of plain values. [`Kueue`] keeps up with an
//! [`ApiServer`](crate::apiserver::ApiServer) and writes what they say, with Kueue's field managers and preconditions. [`Webhook`] is what Kueue refuses.
//! [`KueueVersion`] has what differs between releases and feature gates.
//!
//! It reproduces what was recorded of Kueue 0.19.2 (`tests/it/traces.rs`). Not in it: cohorts and fair sharing, topologies, `MultiKueue`, workload slices, partial
//! admission, reclaimable Pods, timeouts of Pods that do not get ready, `LimitRange`s, the counts in the status of queues, metrics, and the two built-in
//! checks.

mod active;
mod actor;
pub(crate) mod api;
mod kep993;
pub mod objects;
pub(crate) mod patch;
pub mod queue;
pub mod reconcile;
pub mod scheduler;
mod told;
mod version;
mod webhook;

pub use active::{active, local_active};
pub use actor::{Actor, Kueue, run};
pub use kep993::kep993_definitions;
pub use patch::{ADMISSION_MANAGER, Guard, apply_body};
pub use version::KueueVersion;
pub use webhook::Webhook;
