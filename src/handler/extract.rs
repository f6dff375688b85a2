//! The extractors.

use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;

use super::arguments::{FromCheck, Needs, NeedsNothing};
use crate::api::Workload;
use crate::check::{CheckError, Parameters, Request, Reservation};

/// The AdmissionCheck's parameters.
#[derive(Clone, Debug)]
pub struct Params<P>(pub Arc<P>);

/// The time of the question. Use it instead of the machine's clock, and tests can set it.
#[derive(Clone, Copy, Debug)]
pub struct Now(pub Timestamp);

/// What the check was given with `with_state`, or a part of it ([`FromRef`]).
#[derive(Clone, Copy, Debug)]
pub struct State<T>(pub T);

/// Which attempt it is: 1, and one more each time that the check said Retry and Kueue queued the Workload again. See [`Request::attempt`].
#[derive(Clone, Copy, Debug)]
pub struct Attempt(pub u32);

/// The whole Workload as the API server has it now, as JSON: one request.
#[derive(Clone, Debug)]
pub struct FullWorkload(pub serde_json::Value);

/// A part of a state. Each state is a part of itself.
pub trait FromRef<S> {
    /// The part of `state`.
    fn from_ref(state: &S) -> Self;
}

impl<S: Clone> FromRef<S> for S {
    fn from_ref(state: &S) -> Self {
        state.clone()
    }
}

impl<P: Parameters, S: Sync> FromCheck<S> for Params<P> {
    type Needs = Needs<P>;
    type Rejection = CheckError;

    async fn from_check(request: &Request, _: &S) -> Result<Self, CheckError> {
        let parameters = request.parameters_as().ok_or_else(|| {
            CheckError::permanent("the parameters are of another type than the function's")
        })?;
        Ok(Self(parameters))
    }
}

impl<S: Sync> FromCheck<S> for FullWorkload {
    type Needs = NeedsNothing;
    type Rejection = CheckError;

    async fn from_check(request: &Request, _: &S) -> Result<Self, CheckError> {
        request.full_workload().await.map(Self)
    }
}

impl<T: FromRef<S> + Send, S: Sync> FromCheck<S> for State<T> {
    type Needs = NeedsNothing;
    type Rejection = Never;

    async fn from_check(_: &Request, state: &S) -> Result<Self, Never> {
        Ok(Self(T::from_ref(state)))
    }
}

/// For an extractor that always succeeds.
#[derive(Clone, Copy, Debug)]
pub struct Never(Infallible);

impl From<Never> for CheckError {
    fn from(never: Never) -> Self {
        match never.0 {}
    }
}

/// Extractors that are only there to be copied.
macro_rules! from_request {
    ($($extractor:ty: $take:expr),* $(,)?) => {$(
        impl<S: Sync> FromCheck<S> for $extractor {
            type Needs = NeedsNothing;
            type Rejection = Never;

            async fn from_check(request: &Request, _: &S) -> Result<Self, Never> {
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
