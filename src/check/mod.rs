//! The API for check authors.
//!
//! A check is an [`AdmissionCheckController`], or a plain function ([`handler`](crate::handler)).
//! It receives a [`CheckRequest`] and returns a [`Verdict`] or a [`CheckError`]; it writes nothing.
//! Its [`Parameters`] are a custom resource, into which a [`Policy`] can be flattened.

mod background;
pub(crate) mod builder;
mod controller;
mod duration;
mod erased;
mod error;
mod event;
pub(crate) mod family;
mod fence;
mod message;
mod metrics;
mod parameters;
mod policy;
mod preview;
mod request;
mod reservation;
#[cfg(test)]
pub(crate) mod samples;
mod scheduling;
pub(crate) mod settings;
mod updates;
mod verdict;
mod watches;

pub use background::{BackgroundContext, WorkloadEvent};
pub use builder::Check;
pub use controller::{AdmissionCheckController, ControllerName, Inactive};
pub use duration::HumanDuration;
pub use error::{CheckError, ErrorKind};
pub use event::{CheckEvent, StateChange};
pub use family::{Family, FamilyRole};
pub use message::Message;
pub use metrics::{MetricFamily, MetricsText};
pub use parameters::{NoParameters, Parameters, ParametersKind};
pub use policy::{AfterAdmission, OnError, OnFailure, OnTimeout, PendingTimeout, Policy};
pub use preview::Preview;
pub use request::{CheckRequest, Request, RequestBuilder};
pub use reservation::{ReleaseOutcome, ReleaseReason, Reservation};
pub use updates::{PodSetUpdateBuilder, PodSetUpdates, PodSetUpdatesBuilder, PodSetUpdatesError};
pub use verdict::Verdict;
pub use watches::Trigger;

// Errors, bounds and the simulator name these; check authors do not.
#[doc(hidden)]
pub use {
    controller::ControllerNameError,
    duration::HumanDurationError,
    erased::DynCheck,
    message::MESSAGE_LIMIT,
    parameters::Validation,
    reservation::{ReservationError, Unimplemented},
    scheduling::{ForbiddenChange, scheduling_directives_may_change},
    updates::{KeyConflict, MAX_TOLERATIONS, MAX_UPDATES},
};

pub(crate) use background::{BackgroundHost, WatchProgress, WatchStep};
pub(crate) use erased::Lifetime;
pub(crate) use family::{Families, PodsState};
pub(crate) use fence::fenced;
pub(crate) use message::redact;
pub(crate) use parameters::{AnyParameters, DecodedParameters, ParametersType, with_article};
pub(crate) use policy::ResolvedPolicy;
pub(crate) use preview::PreviewOutcome;
pub(crate) use request::ReadWorkload;
#[cfg(feature = "cli")]
pub(crate) use updates::metadata_errors;
pub(crate) use updates::{Conflicts, written_updates_are_suspected};
pub(crate) use verdict::VerdictKind;
pub(crate) use watches::{Start, WatchSource};
