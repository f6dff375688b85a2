//! The extractors.

use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;

use super::arguments::{FromCheckRequest, MergeRequirements, ResolveRequirements};
use crate::api::Workload;
use crate::check::{CheckError, Parameters, Request, Reservation};

/// The AdmissionCheck's parameters.
///
/// ```
/// # use kube::CustomResource;
/// # use kueue_check::prelude::*;
/// # #[derive(CustomResource, Parameters, serde::Serialize, serde::Deserialize, schemars::JsonSchema, Clone, Debug)]
/// # #[kube(group = "example.com", version = "v1alpha1", kind = "Limit")]
/// # struct LimitSpec { most: u32 }
/// #[admission_check(controller = "example.com/limit")]
/// async fn limit(Params(limit): Params<Limit>, workload: Workload) -> Verdict {
///     let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
///     if pods <= limit.spec.most { Verdict::ready("small enough") } else { Verdict::rejected("too large") }
/// }
/// # let _ = kueue_check::Check::new(limit);
/// ```
#[derive(Clone, Debug)]
pub struct Params<P>(pub Arc<P>);

impl<P> MergeRequirements<()> for Params<P> {
    type Joined = Params<P>;
}

impl<P> MergeRequirements<Params<P>> for Params<P> {
    type Joined = Params<P>;
}

impl<P: Parameters> ResolveRequirements for Params<P> {
    type Parameters = P;
}

/// The time of the evaluation. Use it instead of the machine's clock, so that tests can set it.
///
/// ```
/// # use kueue_check::prelude::*;
/// #[admission_check(controller = "example.com/weekdays")]
/// async fn weekdays(Now(now): Now) -> Verdict {
///     let weekday = now.to_zoned(jiff::tz::TimeZone::UTC).weekday();
///     if weekday.to_monday_zero_offset() < 5 {
///         return Verdict::ready("a weekday");
///     }
///     Verdict::pending("waits for Monday").recheck_in(std::time::Duration::from_secs(3600))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), jiff::Error> {
/// assert!(weekdays::decide(Now("2026-11-20T09:00:00Z".parse()?)).await.is_ready());
/// assert!(weekdays::decide(Now("2026-11-21T09:00:00Z".parse()?)).await.is_pending());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Now(pub Timestamp);

/// The state given to `with_state`, or a part of it ([`FromRef`]).
///
/// ```
/// # use kueue_check::prelude::*;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// #[admission_check(controller = "example.com/switch")]
/// async fn switch(State(on): State<Arc<AtomicBool>>) -> Verdict {
///     if on.load(Ordering::Relaxed) { Verdict::ready("switched on") } else { Verdict::pending("switched off") }
/// }
///
/// let check = switch.with_state(Arc::new(AtomicBool::new(true)));
/// # let _ = kueue_check::Check::new(check);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct State<T>(pub T);

/// The number of the attempt: 1, and one more for each requeue after a Retry of this check. See
/// [`Request::attempt`].
///
/// ```
/// # use kueue_check::prelude::*;
/// #[admission_check(controller = "example.com/patient")]
/// async fn patient(Attempt(attempt): Attempt) -> Verdict {
///     if attempt > 3 {
///         return Verdict::ready("it has waited for its turn three times");
///     }
///     Verdict::retry_after(std::time::Duration::from_secs(60), format!("attempt {attempt} of 3"))
/// }
/// # let _ = kueue_check::Check::new(patient);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Attempt(pub u32);

/// The whole Workload as JSON, read from the API server: one request.
///
/// ```
/// # use kueue_check::prelude::*;
/// #[admission_check(controller = "example.com/signed-images")]
/// async fn signed_images(FullWorkload(workload): FullWorkload) -> Verdict {
///     let image = workload.pointer("/spec/podSets/0/template/spec/containers/0/image");
///     match image.and_then(serde_json::Value::as_str) {
///         Some(image) if image.starts_with("registry.example.com/") => Verdict::ready("an image of ours"),
///         _ => Verdict::rejected("only images of registry.example.com may run"),
///     }
/// }
/// # let _ = kueue_check::Check::new(signed_images);
/// ```
#[derive(Clone, Debug)]
pub struct FullWorkload(pub serde_json::Value);

/// A part of a state. Each state is a part of itself.
///
/// ```
/// use kueue_check::prelude::*;
/// use kueue_check::handler::FromRef;
///
/// #[derive(Clone)]
/// struct App {
///     licences: Licences,
///     team: &'static str,
/// }
///
/// #[derive(Clone)]
/// struct Licences(u32);
///
/// impl FromRef<App> for Licences {
///     fn from_ref(app: &App) -> Self {
///         app.licences.clone()
///     }
/// }
///
/// #[admission_check(controller = "example.com/licences", state = App)]
/// async fn licences(State(Licences(free)): State<Licences>, State(app): State<App>) -> Verdict {
///     if free > 0 { Verdict::ready(format!("a licence of {}", app.team)) } else { Verdict::pending("none is free") }
/// }
///
/// let check = licences.with_state(App { licences: Licences(3), team: "vision" });
/// # let _ = kueue_check::Check::new(check);
/// ```
pub trait FromRef<S> {
    /// Returns the part of `state`.
    fn from_ref(state: &S) -> Self;
}

impl<S: Clone> FromRef<S> for S {
    fn from_ref(state: &S) -> Self {
        state.clone()
    }
}

impl<P: Parameters, S: Sync> FromCheckRequest<S> for Params<P> {
    type Requirements = Self;
    type Rejection = CheckError;

    async fn from_check(request: &Request, _: &S) -> Result<Self, CheckError> {
        let parameters = request.parameters_as().ok_or_else(|| {
            CheckError::permanent("the parameters are of another type than the function's")
        })?;
        Ok(Self(parameters))
    }
}

impl<S: Sync> FromCheckRequest<S> for FullWorkload {
    type Requirements = ();
    type Rejection = CheckError;

    async fn from_check(request: &Request, _: &S) -> Result<Self, CheckError> {
        request.full_workload().await.map(Self)
    }
}

impl<T: FromRef<S> + Send, S: Sync> FromCheckRequest<S> for State<T> {
    type Requirements = ();
    type Rejection = Infallible;

    async fn from_check(_: &Request, state: &S) -> Result<Self, Infallible> {
        Ok(Self(T::from_ref(state)))
    }
}

/// Implements extractors that only copy a value.
macro_rules! from_request {
    ($($extractor:ty: $take:expr),* $(,)?) => {$(
        impl<S: Sync> FromCheckRequest<S> for $extractor {
            type Requirements = ();
            type Rejection = Infallible;

            async fn from_check(request: &Request, _: &S) -> Result<Self, Infallible> {
                let take: fn(&Request) -> Self = $take;
                Ok(take(request))
            }
        }
    )*};
}

from_request! {
    Request: Request::clone,
    Workload: |request| request.workload().clone(),
    Reservation: |request| request.reservation().clone(),
    Now: |request| Self(request.now()),
    Attempt: |request| Self(request.attempt()),
}
