//! An SDK for Kueue's admission checks: you write the decision, it does the rest.
//!
//! [Kueue](https://kueue.sigs.k8s.io) admits a job in two phases. It reserves quota, and then waits
//! until every *admission check* of the queue is Ready. An AdmissionCheck object names a
//! controller: this crate makes such controllers.
//!
//! ```no_run
//! use kueue_check::prelude::*;
//!
//! /// Jobs of more than a hundred pods wait until night.
//! #[admission_check(controller = "example.com/large-jobs-at-night")]
//! async fn large_jobs_at_night(workload: Workload, Now(now): Now) -> Verdict {
//!     let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
//!     let hour = now.to_zoned(kueue_check::jiff::tz::TimeZone::UTC).hour();
//!     let minute = std::time::Duration::from_secs(60);
//!     if pods <= 100 || hour >= 22 || hour < 6 {
//!         return Verdict::ready("may start").recheck_until_admitted(minute);
//!     }
//!     Verdict::pending("large jobs start at 22:00 UTC").recheck_in(minute)
//! }
//!
//! #[kueue_check::main]
//! async fn main() -> kueue_check::Result<()> {
//!     kueue_check::main(large_jobs_at_night).await
//! }
//! ```
//!
//! That is a whole program: `run` runs the controller with metrics, health, leader election and
//! events; `manifests` prints what to apply; `explain` shows why a job waits; see [`cli`].
//! `kueue-check-sim` runs it on a simulated cluster, in virtual time, with each single fault.
//!
//! # What a check is
//!
//! Kueue reserves quota for a job and adds an entry for each AdmissionCheck of the queue to
//! `status.admissionChecks` of its Workload. The controller that an AdmissionCheck names
//! (`spec.controllerName`) writes the entry's state: may this job start now? While one state is
//! Pending, the job holds its quota and waits; when all are Ready, it starts.
//!
//! You write the evaluation, as a function of its inputs. The runtime decides when to call it and
//! what to write:
//! - it evaluates a new reservation at once, and again when the Workload, the parameters or a
//!   watched object changes, or when the verdict set a recheck;
//! - a verdict belongs to one reservation, and is dropped once that has ended;
//! - an error, a panic or a timeout changes no state: the evaluation is repeated.
//!
//! # Where to find what
//!
//! | to | see |
//! | --- | --- |
//! | write a check as a function | [`handler`], `#[admission_check]` |
//! | configure it: watches, policy, permissions, metrics | [`Check`] |
//! | hold and release resources for a job | [`Check::on_release`], [`AdmissionCheckController`] |
//! | return a decision | [`Verdict`], and what each costs; [`CheckError`] for failures |
//! | change the pods of a job | [`PodSetUpdates`] |
//! | let administrators configure it | [`Parameters`], [`Policy`] |
//! | call a slow or costly system | [`service`]: timeouts, single flight, circuit breakers |
//! | make one of several checks | [`Check::all_of`], [`Check::any_of`] |
//! | read a Workload | [`api`]: slim views of Kueue's objects |
//! | run the program | [`cli`], and its admin endpoint [`admin`] |
//! | run checks inside another program | [`runtime`] |
//! | test | [`RequestBuilder`] for one evaluation; the crate `kueue-check-sim` for the rest |
//!
//! # What it guarantees
//!
//! Only the runtime writes check states, by rules that are listed in `ARCHITECTURE.md` and tested
//! one by one. An error, a panic, a timeout or an outage of a check never evicts a job: each leaves
//! every state as it is. By default, a Retry or Rejected for the growth of an elastic job does not
//! stop the pods that run.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `macros` | yes | `#[admission_check]`, `#[parameters]`, `#[main]` and `#[derive(Parameters)]` |
//! | `cli` | yes | the command line: [`main()`], [`App`] |
//! | `k8s-earliest` | yes | the oldest Kubernetes API of `k8s-openapi`, which all servers serve |
//! | `admin` | with `cli` | the admin endpoint |
//! | `cel` | no | `validate` also runs the rules of definitions (`x-kubernetes-validations`), in CEL |
//! | `otel` | no | spans for OpenTelemetry: of evaluations, releases, activations and writes |
//!
//! With `otel`, `run` exports the spans over OTLP. The standard environment variables configure it.
//!
//! A program that needs another version of the Kubernetes API switches `k8s-earliest` off, here and
//! in `kueue-check-sim`, and chooses one itself: `k8s-openapi = { version = "0.29", features =
//! ["v1_34"] }`.

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
/// Derives [`Parameters`](trait@Parameters) for a custom resource that
/// [`parameters`](macro@parameters) cannot express:
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
/// let kind = <Limit as Parameters>::kind().map(|kind| kind.to_string());
/// assert_eq!(kind.as_deref(), Some("Limit.example.com"));
/// ```
///
#[cfg(feature = "macros")]
pub use kueue_check_macros::Parameters;
/// Makes a check of an async function:
///
/// ```
/// use kueue_check::{Verdict, admission_check, api::Workload};
///
/// /// Only jobs of a team may start.
/// #[admission_check(controller = "example.com/teams", timeout = "2s")]
/// async fn teams(workload: Workload) -> Verdict {
///     match workload.label("team") {
///         Some(team) => Verdict::ready(format!("of team {team}")),
///         None => Verdict::rejected("label the job with its team: team=NAME"),
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), serde_json::Error> {
/// # let _ = kueue_check::Check::new(teams);
/// // The function is still there, for tests.
/// let object = serde_json::json!({"metadata": {"name": "train", "labels": {"team": "vision"}}});
/// let workload = Workload::from_json(object)?;
/// assert!(teams::decide(workload).await.is_ready());
/// # Ok(()) }
/// ```
///
#[cfg(feature = "macros")]
pub use kueue_check_macros::admission_check;
/// Starts the tokio runtime of a program, as `#[tokio::main]` does, without a dependency on tokio:
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
/// Makes a custom resource of a struct, as parameters, with every derive:
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

// The macros' output refers to these.
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

/// The prelude, with what most checks need: `use kueue_check::prelude::*`.
pub mod prelude {
    pub use crate::api::{PodSet, Quantity, Workload};
    pub use crate::check::{
        AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, NoParameters,
        Parameters, PodSetUpdates, Policy, Preview, ReleaseOutcome, ReleaseReason, Request,
        Reservation, Trigger, Verdict,
    };
    pub use crate::handler::{Attempt, FullWorkload, Now, Params, State};
    #[cfg(feature = "macros")]
    pub use kueue_check_macros::{Parameters, admission_check};
}
