//! Checks as plain async functions.
//!
//! A function is a check if each of its arguments is an extractor. `#[admission_check]` gives it
//! its name:
//!
//! ```
//! use kueue_check::handler::Now;
//! use kueue_check::{Verdict, admission_check, api::Workload};
//!
//! /// Jobs of the team `night` start only at night.
//! #[admission_check(controller = "example.com/night-shift")]
//! async fn night_shift(workload: Workload, Now(now): Now) -> Verdict {
//!     let ten_minutes = std::time::Duration::from_secs(600);
//!     let hour = now.to_zoned(jiff::tz::TimeZone::UTC).hour();
//!     match workload.label("team") {
//!         Some("night") if (6..22).contains(&hour) => Verdict::pending("waits for the night").recheck_in(ten_minutes),
//!         // While it waits for other checks, the day may begin.
//!         Some("night") => Verdict::ready("it is night").recheck_until_admitted(ten_minutes),
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
//! | [`Now`] | the time of the evaluation |
//! | [`State<T>`] | the state given to `with_state`, or a part of it |
//! | [`Attempt`] | the number of the attempt: 1, and one more for each Retry of this check |
//! | [`Reservation`](crate::Reservation) | the quota reservation that is evaluated |
//! | [`FullWorkload`] | the whole Workload as JSON: one request |
//! | [`Request`](crate::Request) | all of it |
//!
//! Implement [`FromCheckRequest`] for other extractors. A function returns a
//! [`Verdict`](crate::Verdict), or a `Result` of one with any error. Checks with state of their
//! own, cleanup and watches: see [`AdmissionCheckController`](crate::AdmissionCheckController).

mod arguments;
mod check_fn;
mod extract;

pub use arguments::{
    CollectRequirements, FromCheckRequest, Handler, IntoVerdict, MergeRequirements,
    ResolveRequirements,
};
pub use extract::{Attempt, FromRef, FullWorkload, Now, Params, State};
