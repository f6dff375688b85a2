//! [`WebhookCheck`]: an HTTP service decides.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`resource`] | the custom resource `WebhookCheck` |
//! | `registry` | the verdicts of each Workload, and the order of reviews; pure |
//! | `rate_limit` | the rate of requests to a service; pure |
//! | [`signature`] | signatures of requests |
//! | [`transport`] | how requests reach a service |
//! | `service` | timeout, circuit breaker, rate limiting and concurrency of each server |
//! | `worker` | sends batched requests in the background |
//! | `controller` | the admission check |

mod controller;
mod failure;
mod rate_limit;
mod registry;
pub mod resource;
pub(crate) mod service;
pub mod signature;
pub mod transport;
mod worker;

pub use controller::WebhookCheck;
