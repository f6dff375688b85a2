//! `WebhookCheck`: an admission check for Kueue whose verdicts are an HTTP service's.
//!
//! A service receives a versioned JSON [`document`] with up to 500 Workloads, and answers with a
//! verdict for each. What it answers wrongly costs that answer and nothing else: an error is never
//! a verdict, so an outage of the service evicts no job.
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

pub mod controller;
pub mod document;
mod failure;
mod pace;
mod registry;
pub mod resource;
mod service;
pub mod signature;
pub mod transport;
mod worker;

pub use controller::{CONTROLLER, WebhookCheck};
pub use kueue_check_sources::{AllowedServer, ServerPolicy, Unlisted};
