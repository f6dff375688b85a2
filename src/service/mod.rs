//! Tower layers for checks, and checks as tower services.
//!
//! An evaluation is a [`tower_service::Service`] from a [`CheckRequest`](crate::CheckRequest) to a
//! [`Verdict`](crate::Verdict), so [`Check::layer`](crate::Check::layer) takes any tower layer:
//!
//! ```
//! use std::time::Duration;
//! use kueue_check::prelude::*;
//! use kueue_check::service::{CircuitBreakerLayer, SingleFlightLayer, TimeoutLayer};
//!
//! #[admission_check(controller = "example.com/budget")]
//! async fn budget() -> Verdict {
//!     Verdict::ready("a slow source responded")
//! }
//!
//! // One verdict for each namespace is shared for ten seconds. After five failures in a row,
//! // nothing is evaluated for a minute.
//! let by_namespace =
//!     |request: &CheckRequest<NoParameters>| request.workload().namespace().to_owned();
//! let check = Check::new(budget).layer(
//!     tower::ServiceBuilder::new()
//!         .layer(SingleFlightLayer::new(Duration::from_secs(10), by_namespace))
//!         .layer(CircuitBreakerLayer::new(5, Duration::from_secs(60)))
//!         .layer(TimeoutLayer::new(Duration::from_secs(5))),
//! );
//! ```
//!
//! | here | what it does |
//! | --- | --- |
//! | [`Check::layer`](crate::Check::layer) | a check with layers around its evaluations |
//! | [`Check::from_service`](crate::Check::from_service) | a service as a check |
//! | [`CheckService`] | the evaluations of a check, as a layer receives them |
//! | [`TimeoutLayer`] | a timeout |
//! | [`SingleFlightLayer`], [`SingleFlight`] | single flight, and a cache with a time to live |
//! | [`CircuitBreakerLayer`] | a circuit breaker |
//! | [`Check::all_of`](crate::Check::all_of), [`Check::any_of`](crate::Check::any_of) | several checks as one |

mod circuit_breaker;
mod combine;
mod layered;
mod single_flight;
mod timeout;

pub use circuit_breaker::CircuitBreakerLayer;
pub use layered::CheckService;
pub use single_flight::{SingleFlight, SingleFlightLayer};
pub use timeout::TimeoutLayer;

// The services that the layers construct.
#[doc(hidden)]
pub use {circuit_breaker::CircuitBreaker, single_flight::SingleFlightService, timeout::Timeout};

/// Shared by the examples of this module.
#[doc(hidden)]
pub mod example {
    use crate::api::Workload;
    use crate::check::{CheckRequest, NoParameters, RequestBuilder};

    /// Returns a request about the Workload `team-a/JOB`.
    pub fn request(job: &str) -> CheckRequest<NoParameters> {
        let workload = serde_json::json!({
            "metadata": {"namespace": "team-a", "name": job, "uid": job},
        });
        let workload = Workload::from_json(workload).unwrap_or_else(|error| panic!("{error}"));
        let now = jiff::Timestamp::from_second(1_795_000_000).unwrap_or_default();
        RequestBuilder::new(workload, "check")
            .now(now)
            .build(NoParameters)
    }
}
