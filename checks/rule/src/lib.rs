//! Admission checks for Kueue whose rules are resources: expressions ([`CELCheck`]), an HTTP
//! service ([`WebhookCheck`]) or people ([`ApprovalCheck`]) decide.
//!
//! The service of a `WebhookCheck` receives a versioned JSON [`document`] with up to 500 Workloads,
//! and returns a verdict for each. An invalid verdict affects only that verdict: an error is never
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
//! All of them have the controller name [`CONTROLLER`]; the kind of an AdmissionCheck's parameters
//! selects the check.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`celcheck`] | `CELCheck`: expressions decide |
//! | [`webhook`] | `WebhookCheck`: an HTTP service decides |
//! | [`approval`] | `ApprovalCheck`: people decide |
//! | [`cel`] | the language of expressions |
//! | [`document`] | the JSON documents of webhooks, their schema and `OpenAPI` |
//! | [`mock`] | a service that returns verdicts from a table |
//! | [`tools`] | the verdict of a rule about a Workload, without a cluster |

pub mod approval;
mod bounds;
pub mod cel;
pub mod celcheck;
pub mod document;
pub mod mock;
mod servers;
pub mod tools;
pub mod webhook;

pub use approval::ApprovalCheck;
pub use celcheck::CELCheck;
pub use kueue_check_sources::{AllowedServer, ServerPolicy, Unlisted};
pub use webhook::WebhookCheck;

/// The `spec.controllerName` of the AdmissionChecks of this program.
pub const CONTROLLER: &str = "kueue-check.dev/rule";
