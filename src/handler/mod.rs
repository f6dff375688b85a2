//! Checks as plain async functions.
//!
//! A function whose arguments can each be taken from a request is a check. `#[admission_check]`
//! gives it its name:
//!
//! ```
//! use kueue_check::handler::Now;
//! use kueue_check::{Verdict, admission_check, api::Workload};
//!
//! /// Jobs of the team `night` start only at night.
//! #[admission_check(controller = "example.com/night-shift")]
//! async fn night_shift(workload: Workload, Now(now): Now) -> Verdict {
//!     let hour = now.to_zoned(jiff::tz::TimeZone::UTC).hour();
//!     match workload.label("team") {
//!         Some("night") if (6..22).contains(&hour) => Verdict::pending("waits for the night").recheck_in(std::time::Duration::from_secs(600)),
//!         _ => Verdict::ready("may start at any time"),
//!     }
//! }
//! # let _ = kueue_check::Check::new(night_shift);
//! ```
//!
//! # Extractors
//!
//! | argument | what it is |
//! | --- | --- |
//! | [`Params<T>`] | the AdmissionCheck's parameters; at most one type in a function |
//! | [`Workload`](crate::api::Workload) | the Workload |
//! | [`Now`] | the time of the question |
//! | [`State<T>`] | what the check was given with `with_state` |
//! | [`Attempt`] | which attempt it is, counting Kueue's requeues |
//! | [`Reservation`](crate::Reservation) | the quota reservation that the answer is for |
//! | [`FullWorkload`] | the whole Workload as JSON: one request |
//! | [`Request`](crate::Request) | all of it |
//!
//! Others are made by implementing [`FromCheckRequest`]. A function returns a
//! [`Verdict`](crate::Verdict), or a `Result` of one with any error. What more a check can do
//! (state of its own, cleanup, watches) is in
//! [`AdmissionCheckController`](crate::AdmissionCheckController).

mod arguments;
mod check_fn;
mod extract;

pub use arguments::{
    CollectRequirements, FromCheckRequest, Handler, IntoVerdict, MergeRequirements,
    ResolveRequirements,
};
pub use extract::{Attempt, FromRef, FullWorkload, Now, Params, State};
