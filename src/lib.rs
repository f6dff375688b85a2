//! An SDK for Kueue's admission checks: you write what to decide, it does the rest.
//!
//! [Kueue](https://kueue.sigs.k8s.io) admits a job in two phases. It reserves quota, and then waits until every *admission check* of the queue says Ready. A
//! check is an AdmissionCheck object that is answered by some controller: this crate makes such controllers.
//!
//! ```no_run
//! use kueue_check::prelude::*;
//!
//! /// Jobs of more than a hundred pods wait until night.
//! #[admission_check(controller = "example.com/large-jobs-at-night")]
//! async fn large_jobs_at_night(workload: Workload, Now(now): Now) -> Verdict {
//!     let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
//!     let hour = now.to_zoned(jiff::tz::TimeZone::UTC).hour();
//!     if pods <= 100 || hour >= 22 || hour < 6 {
//!         return Verdict::ready("may start");
//!     }
//!     Verdict::pending("large jobs start at 22:00 UTC").recheck_in(std::time::Duration::from_secs(60))
//! }
//!
//! #[tokio::main]
//! async fn main() -> kueue_check::Result<()> {
//!     kueue_check::main(large_jobs_at_night).await
//! }
//! ```
//!
//! That is a whole program: with flags, metrics, health, leader election, events, and a command that prints its manifests.
//!
//! # What to read first
//!
//! 1. [`handler`]: checks as plain functions, and what they can take as arguments.
//! 2. [`Verdict`]: what a check can say, and what each answer costs. [`CheckError`]: what is not an answer.
//! 3. [`Parameters`]: the custom resource with which operators configure a check, and [`Policy`], the choices that every check should offer.
//! 4. [`AdmissionCheckController`]: a check with state, cleanup or watches of its own.
//! 5. [`service`]: timeouts, shared queries, circuit breakers, several checks as one.
//! 6. [`cli`] and [`serve`]: what the binary does. [`runtime`]: how to run checks inside another program.
//!
//! # What it guarantees
//!
//! Only the runtime writes check states, by rules that are listed in `ARCHITECTURE.md` and tested one by one. A bug or an outage in a check never evicts a job:
//! errors, panics and timeouts leave every state as it is.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `macros` | yes | `#[admission_check]` and `#[derive(Parameters)]` |
//! | `cli` | yes | the command line: [`main`], [`App`] |
//! | `serve` | with `cli` | the admin endpoint |
//!
//! A binary also chooses the version of the Kubernetes API that its types are made for, as `k8s-openapi` asks of it:
//! `k8s-openapi = { version = "0.29", features = ["earliest"] }`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod api;
pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
pub mod handler;
pub mod runtime;
#[cfg(feature = "serve")]
pub mod serve;
pub mod service;

pub use check::*;
#[cfg(feature = "cli")]
pub use cli::{App, Error, Result, main};
pub use clock::Clock;
#[cfg(feature = "macros")]
pub use kueue_check_macros::{Parameters, admission_check};

// What the macros' output refers to.
#[doc(hidden)]
pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
#[doc(hidden)]
pub use kube::CustomResourceExt;
#[doc(hidden)]
pub use serde_json::Value as JsonValue;

/// The README's code is compiled.
#[cfg(all(doctest, feature = "cli", feature = "macros"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// What most checks need: `use kueue_check::prelude::*`.
pub mod prelude {
    pub use crate::api::{PodSet, Quantity, Workload};
    pub use crate::check::{
        AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters,
        Parameters, PodSetUpdates, Policy, ReleaseReason, Released, Request, Reservation, Verdict,
        Wake, Watches,
    };
    pub use crate::handler::{Attempt, FullWorkload, Now, Params, State};
    #[cfg(feature = "macros")]
    pub use kueue_check_macros::{Parameters, admission_check};
}
