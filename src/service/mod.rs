//! Checks as tower services, and back.
//!
//! Asking a check is a [`tower_service::Service`] from a [`CheckRequest`](crate::CheckRequest) to a [`Verdict`](crate::Verdict), so any tower layer fits
//! between the runtime and the check:
//!
//! ```
//! use std::time::Duration;
//! use kueue_check::service::{CircuitBreakerLayer, SingleFlightLayer, TimeoutLayer, layered};
//! use kueue_check::{CheckRequest, NoParameters, Verdict, admission_check};
//!
//! #[admission_check(controller = "example.com/budget")]
//! async fn budget() -> Verdict {
//!     Verdict::ready("a slow question was answered")
//! }
//!
//! // One answer for each namespace serves everybody for ten seconds; five failures in a row, and nobody asks for a minute.
//! let check = layered(budget, tower::ServiceBuilder::new()
//!     .layer(SingleFlightLayer::new(Duration::from_secs(10), |request: &CheckRequest<NoParameters>| request.workload().namespace().to_owned()))
//!     .layer(CircuitBreakerLayer::new(5, Duration::from_secs(60)))
//!     .layer(TimeoutLayer::new(Duration::from_secs(5))));
//! # let _: kueue_check::DynCheck = check.into();
//! ```
//!
//! | here | what it does |
//! | --- | --- |
//! | [`CheckService`] | a check as a service |
//! | [`layered`] | a check with layers around it; everything but the asking is the check's own |
//! | [`service_check`] | a service of yours as a check |
//! | [`TimeoutLayer`] | gives up |
//! | [`SingleFlightLayer`], [`SingleFlight`] | one question for many: single flight, and a cache with a time to live |
//! | [`CircuitBreakerLayer`] | leaves alone what is down |
//! | [`all_of`], [`any_of`] | several checks as one |

mod circuit_breaker;
mod combine;
mod layered;
mod single_flight;
mod timeout;

pub use circuit_breaker::{CircuitBreaker, CircuitBreakerLayer};
pub use combine::{Combined, all_of, any_of};
pub use layered::{CheckService, Layered, ServiceCheck, layered, service_check};
pub use single_flight::{SingleFlight, SingleFlightLayer, SingleFlightService};
pub use timeout::{Timeout, TimeoutLayer};
