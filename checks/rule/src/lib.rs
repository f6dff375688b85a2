//! `WebhookCheck`: an admission check for Kueue whose verdicts are an HTTP service's.
//!
//! A service receives a versioned JSON [`document`] with up to 500 Workloads, and answers with a
//! verdict for each. What it answers wrongly costs that answer and nothing else: an error is never
//! a verdict, so an outage of the service evicts no job.
//!
//! ```no_run
//! use kueue_check_rule::{ServerPolicy, Unlisted, WebhookCheck};
//!
//! # fn arguments() -> Vec<String> { Vec::new() }
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! // Each value of the flag `--allow-host`: `https://HOST[:PORT][=FOLDER]`.
//! let servers: Result<_, _> = arguments().iter().map(|value| value.parse()).collect();
//! let policy = ServerPolicy {
//!     folder: "/var/run/secrets/rule-check".into(),
//!     servers: servers?,
//!     unlisted: Unlisted::Refuse,
//!     setting: "--allow-host",
//! };
//! kueue_check::App::new().check(WebhookCheck::new(policy)).main().await?;
//! # Ok(()) }
//! ```
//!
//! AdmissionChecks name it by [`CONTROLLER`]. A program in which another kind of check has that name
//! gives it one of its own: [`WebhookCheck::named`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`resource`] | the custom resource `WebhookCheck` |
//! | [`document`] | the JSON documents, their schema and `OpenAPI` |
//! | `registry` | what is known about each Workload, and who is asked about next; pure |
//! | `pace` | how often a service is asked; pure |
//! | [`signature`] | signatures of requests |
//! | [`transport`] | how requests reach a service |
//! | `service` | deadline, circuit breaker, pauses and concurrency of each server |
//! | `worker` | puts requests together, beside the evaluations |
//! | [`controller`] | the admission check |

pub mod approval;
pub mod cel;
pub mod celcheck;
pub mod document;
mod servers;
pub mod tools;
pub mod webhook;

pub use approval::ApprovalCheck;
pub use celcheck::CELCheck;
pub use kueue_check_sources::{AllowedServer, ServerPolicy, Unlisted};
pub use webhook::WebhookCheck;

/// `spec.controllerName` of the AdmissionChecks that are answered.
pub const CONTROLLER: &str = "kueue-check.dev/rule";
