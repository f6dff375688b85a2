//! [`WebhookCheck`]: an HTTP service decides.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`resource`] | the custom resource `WebhookCheck` |
//! | `registry` | what is known about each Workload, and who is asked about next; pure |
//! | `pace` | how often a service is asked; pure |
//! | [`signature`] | signatures of requests |
//! | [`transport`] | how requests reach a service |
//! | `service` | deadline, circuit breaker, pauses and concurrency of each server |
//! | `worker` | puts requests together, beside the evaluations |
//! | `controller` | the admission check |

mod controller;
mod failure;
mod pace;
mod registry;
pub mod resource;
pub(crate) mod service;
pub mod signature;
pub mod transport;
mod worker;

pub use controller::WebhookCheck;
