//! The runtime: it watches, asks the checks, and writes what they decide.
//!
//! Data flows one way: intake → index → queue → evaluate → decide → writer. A room knows the next one, never the previous; decisions are pure.

mod activation;
mod backoff;
mod connection;
mod decide;
mod defect;
mod evaluate;
mod events;
mod health;
mod intake;
mod lease;
mod manager;
mod metrics;
#[cfg(feature = "cli")]
pub(crate) mod preview;
mod queue;
mod signal;
mod writer;

#[cfg(feature = "cli")]
pub(crate) use decide::{Conclusion, EntryPatch, HeldBack, LookAgain, Note, Outcome, Standing};
#[cfg(feature = "planted-defects")]
#[doc(hidden)]
pub use defect::{Defect, with_defect};
#[cfg(feature = "cli")]
pub(crate) use intake::{Failure, StoredParameters, brief, parameters_resource};
pub use lease::{LeaseConfig, LeaseTimes};
pub use manager::{BuildError, Diagnostics, RunError, Runtime, RuntimeBuilder, RuntimeHandle};
#[cfg(feature = "serve")]
pub(crate) use metrics::{every_metric, followed_by};
