//! Kueue, as a model: pure decisions, and an actor that carries them out.
//!
//! [`reconcile`] is the workload reconciler, [`scheduler`] and [`queue`] are the scheduler; both are functions of plain values. [`Kueue`] keeps up with an
//! [`ApiServer`](crate::apiserver::ApiServer) and writes what they say, with Kueue's field managers and preconditions. [`Webhook`] is what Kueue refuses.

mod active;
mod actor;
pub(crate) mod api;
mod kep993;
pub mod objects;
pub(crate) mod patch;
pub mod queue;
pub mod reconcile;
pub mod scheduler;
mod version;
mod webhook;

pub use active::active;
pub use actor::{Actor, Kueue, run};
pub use kep993::kep993_definitions;
pub use patch::{ADMISSION_MANAGER, Guard, apply_body};
pub use version::KueueVersion;
pub use webhook::Webhook;
