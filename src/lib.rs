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
//!     let hour = now.to_zoned(kueue_check::jiff::tz::TimeZone::UTC).hour();
//!     if pods <= 100 || hour >= 22 || hour < 6 {
//!         return Verdict::ready("may start");
//!     }
//!     Verdict::pending("large jobs start at 22:00 UTC").recheck_in(std::time::Duration::from_secs(60))
//! }
//!
//! #[kueue_check::main]
//! async fn main() -> kueue_check::Result<()> {
//!     kueue_check::main(large_jobs_at_night).await
//! }
//! ```
//!
//! That is a whole program: `run` answers AdmissionChecks with metrics, health, leader election and events; `manifests` prints what to apply; `explain` says why
//! a job waits; see [`cli`]. `kueue-check-sim` tries it on a simulated cluster, in virtual time, with every single fault.
//!
//! # What a check is
//!
//! Kueue reserves quota for a job and adds an entry for each AdmissionCheck of the queue to `status.admissionChecks` of its Workload. The controller that an
//! AdmissionCheck names (`spec.controllerName`) writes the entry's state: the answer to *may this job start now?* While one is Pending, the job holds its quota
//! and waits; when all are Ready, it starts.
//!
//! What you write is the answer, as a function of what is known. When it is asked, what is written, and what Kueue makes of it is this crate's part:
//! - a new reservation is asked about at once; again when the Workload, the parameters, or what the check watches changes, and when the answer asked for it;
//! - an answer belongs to one reservation, and is dropped if that is over;
//! - an error, a panic or a timeout changes nothing: the question is asked again.
//!
//! # Where to find what
//!
//! | to | look at |
//! | --- | --- |
//! | write a check as a function | [`handler`], `#[admission_check]` |
//! | say yes, no or not yet | [`Verdict`], and what each answer costs; [`CheckError`] for what is no answer |
//! | change what the pods get | [`PodSetUpdates`] |
//! | let operators configure it | [`Parameters`], and [`Policy`]: the choices that every check should offer |
//! | keep state, clean up, watch other objects | [`AdmissionCheckController`] |
//! | ask a slow or costly system | [`service`]: timeouts, shared queries, circuit breakers; several checks as one |
//! | know what a Workload is here | [`api`]: slim views of Kueue's objects |
//! | know what the program can do | [`cli`], and its admin endpoint [`admin`] |
//! | run checks inside another program | [`runtime`] |
//! | test | `RequestBuilder` for one question; the crate `kueue-check-sim` for everything else |
//!
//! # What it guarantees
//!
//! Only the runtime writes check states, by rules that are listed in `ARCHITECTURE.md` and tested one by one. A bug or an outage in a check never evicts a job:
//! errors, panics and timeouts leave every state as it is, and a refusal of the growth of an
//! elastic job does not stop the pods that run.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `macros` | yes | `#[admission_check]`, `#[parameters]`, `#[main]` and `#[derive(Parameters)]` |
//! | `cli` | yes | the command line: [`main()`], [`App`] |
//! | `k8s-earliest` | yes | the oldest version of the Kubernetes API that `k8s-openapi` has, which all servers speak |
//! | `admin` | with `cli` | the admin endpoint |
//! | `cel` | no | `validate` also runs the rules of definitions (`x-kubernetes-validations`), in CEL |
//!
//! A program that needs another version of the Kubernetes API switches `k8s-earliest` off, here and in
//! `kueue-check-sim`, and chooses one itself:
//! `k8s-openapi = { version = "0.29", features = ["v1_34"] }`.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
pub mod api;
pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
pub mod handler;
#[cfg(test)]
mod interleavings;
pub mod runtime;
pub mod service;

pub use check::*;
#[cfg(feature = "cli")]
pub use cli::{App, Error, Result, main};
pub use clock::Clock;
/// Parameters of a custom resource, where [`parameters`](macro@parameters) is too little:
///
/// ```
/// use kube::CustomResource;
/// use kueue_check::Parameters;
/// # use serde::{Deserialize, Serialize};
/// # use schemars::JsonSchema;
///
/// /// How large a job may be.
/// #[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #[kube(group = "example.com", version = "v1alpha1", kind = "Limit")]
/// struct LimitSpec {
///     most_pods: u32,
/// }
/// assert_eq!(<Limit as Parameters>::kind().map(|kind| kind.to_string()).as_deref(), Some("Limit.example.com"));
/// ```
///
#[cfg(feature = "macros")]
pub use kueue_check_macros::Parameters;
/// A check of a function:
///
/// ```
/// use kueue_check::{Verdict, admission_check, api::Workload};
///
/// /// Only jobs of a team may start.
/// #[admission_check(controller = "example.com/teams", timeout = "2s", read_only)]
/// async fn teams(workload: Workload) -> Verdict {
///     match workload.label("team") {
///         Some(team) => Verdict::ready(format!("of team {team}")),
///         None => Verdict::rejected("label the job with its team: team=NAME"),
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), serde_json::Error> {
/// # let _: kueue_check::DynCheck = teams.into();
/// // The function is still there, for tests.
/// let workload = Workload::from_json(serde_json::json!({"metadata": {"name": "train", "labels": {"team": "vision"}}}))?;
/// assert!(teams::decide(workload).await.is_ready());
/// # Ok(()) }
/// ```
///
#[cfg(feature = "macros")]
pub use kueue_check_macros::admission_check;
/// Starts the runtime of a program, as `#[tokio::main]` does, without a dependency on tokio:
///
/// ```no_run
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// #[kueue_check::main]
/// async fn main() -> kueue_check::Result<()> {
///     kueue_check::main(open).await
/// }
/// ```
///
#[cfg(feature = "macros")]
pub use kueue_check_macros::main;
/// A custom resource as parameters, with every derive:
///
/// ```
/// use kueue_check::Parameters;
///
/// /// How large a job may be.
/// #[kueue_check::parameters(group = "example.com", version = "v1alpha1", kind = "Limit")]
/// struct LimitSpec {
///     most_pods: u32,
/// }
/// let limit = Limit::new("small", LimitSpec { most_pods: 4 });
/// assert_eq!(limit.spec.most_pods, 4);
/// assert_eq!(<Limit as Parameters>::kind().map(|kind| kind.to_string()).as_deref(), Some("Limit.example.com"));
/// ```
///
#[cfg(feature = "macros")]
pub use kueue_check_macros::parameters;

// The crates whose types are in this one's API, and whose macros it uses.
pub use {jiff, k8s_openapi, kube, schemars, serde, serde_json, tokio};

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
        Parameters, PodSetUpdates, Policy, Preview, ReleaseOutcome, ReleaseReason, Request,
        Reservation, Trigger, Verdict, Watches,
    };
    pub use crate::handler::{Attempt, FullWorkload, Now, Params, State};
    #[cfg(feature = "macros")]
    pub use kueue_check_macros::{Parameters, admission_check};
}
