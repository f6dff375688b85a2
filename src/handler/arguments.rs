//! The conversion of a request to a function's arguments.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::check::{CheckError, NoParameters, Parameters, Request, Verdict};

/// An extractor: a type that a function can take as an argument.
///
/// ```
/// use kueue_check::handler::FromCheckRequest;
/// use kueue_check::{CheckError, Request};
///
/// /// The team that pays.
/// struct Team(String);
///
/// impl<S: Sync> FromCheckRequest<S> for Team {
///     type Requirements = ();
///     type Rejection = CheckError;
///
///     async fn from_check(request: &Request, _: &S) -> Result<Self, CheckError> {
///         let team = request.workload().label("team").ok_or_else(|| CheckError::permanent("the Workload has no label `team`"))?;
///         Ok(Self(team.to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken from a request",
    label = "not an extractor",
    note = "the arguments of a check are `Params<T>`, `Workload`, `Now`, `State<T>`, `Attempt`, `Reservation`, `FullWorkload`, `Request`, and types that implement `FromCheckRequest`",
    note = "`State<T>` needs `.with_state(...)`, and a state of type `T` or one from which `FromRef` makes a `T`"
)]
pub trait FromCheckRequest<S>: Sized {
    /// `()`, or [`Params<P>`](super::Params) for an extractor of the parameters.
    type Requirements;
    /// The error if it cannot be extracted.
    type Rejection: Into<CheckError>;

    /// Extracts it from `request`, or from the check's `state`.
    ///
    /// # Errors
    /// If it is missing: the check then fails with this error, and the function is not called.
    fn from_check(
        request: &Request,
        state: &S,
    ) -> impl Future<Output = Result<Self, Self::Rejection>> + Send;
}

/// The requirements of two extractors together.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a check has one type of parameters, but this function takes two",
    note = "an AdmissionCheck refers to one parameters object: put everything into one type"
)]
pub trait MergeRequirements<Other> {
    /// The requirements of both.
    type Joined;
}

impl<Other> MergeRequirements<Other> for () {
    type Joined = Other;
}

/// The requirements of all arguments, a nested list `(A, (B, ()))`.
#[doc(hidden)]
pub trait CollectRequirements<S> {
    /// All requirements.
    type Requirements;
}

impl<S> CollectRequirements<S> for () {
    type Requirements = ();
}

impl<S, First: FromCheckRequest<S>, Rest: CollectRequirements<S>> CollectRequirements<S>
    for (First, Rest)
where
    First::Requirements: MergeRequirements<Rest::Requirements>,
{
    type Requirements = <First::Requirements as MergeRequirements<Rest::Requirements>>::Joined;
}

/// The parameters type that follows from the requirements.
#[doc(hidden)]
pub trait ResolveRequirements {
    /// The parameters type.
    type Parameters: Parameters;
}

impl ResolveRequirements for () {
    type Parameters = NoParameters;
}

/// The return type of a function that is a check.
///
/// ```
/// use kueue_check::{Verdict, handler::IntoVerdict};
///
/// fn spent(figure: &str) -> Result<Verdict, std::num::ParseFloatError> {
///     let spent: f64 = figure.parse()?;
///     Ok(if spent < 100.0 { Verdict::ready("within budget") } else { Verdict::pending("over budget") })
/// }
///
/// assert!(spent("12.5").into_verdict().is_ok_and(|verdict| verdict.is_ready()));
/// assert!(spent("a lot").into_verdict().is_err(), "no verdict: the state stays as it is");
/// ```
#[diagnostic::on_unimplemented(
    message = "a check returns a `Verdict`, or a `Result` of one, not `{Self}`",
    label = "neither a verdict nor a `Result` of one"
)]
pub trait IntoVerdict {
    /// Returns the verdict, or the error in its place.
    ///
    /// # Errors
    /// The function's own.
    fn into_verdict(self) -> Result<Verdict, CheckError>;
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Result<Verdict, CheckError> {
        Ok(self)
    }
}

impl<E: Into<CheckError>> IntoVerdict for Result<Verdict, E> {
    fn into_verdict(self) -> Result<Verdict, CheckError> {
        self.map_err(Into::into)
    }
}

/// An async function that is a check with the state `S`. `Args` are its arguments.
///
/// ```
/// use std::sync::Arc;
/// use kueue_check::handler::{Handler, State};
/// use kueue_check::{NoParameters, RequestBuilder, Verdict, api::Workload};
///
/// async fn small(workload: Workload, State(most): State<usize>) -> Verdict {
///     if workload.pod_sets().len() <= most { Verdict::ready("small enough") } else { Verdict::rejected("too large") }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let workload = Workload::from_json(serde_json::json!({"metadata": {"namespace": "team-a", "name": "train", "uid": "1"}}))?;
/// let request = RequestBuilder::new(workload, "small").build(NoParameters);
/// let verdict = small.call(request.request().clone(), Arc::new(3_usize)).await;
/// assert!(verdict.is_ok_and(|verdict| verdict.is_ready()));
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a check",
    note = "a check is an `async fn` of at most eight extractors that returns a `Verdict`, or a `Result` of one",
    note = "put `#[admission_check(controller = \"...\")]` on it to see which argument is wrong"
)]
pub trait Handler<Args, S>: Clone + Send + Sync + 'static {
    /// The parameters that it takes.
    type Parameters: Parameters;

    /// Extracts the arguments from `request` and `state`, and calls the function.
    fn call(
        self,
        request: Request,
        state: Arc<S>,
    ) -> BoxFuture<'static, Result<Verdict, CheckError>>;
}

macro_rules! nested {
    () => { () };
    ($first:ident $(, $rest:ident)*) => { ($first, nested!($($rest),*)) };
}

macro_rules! handlers {
    ($(($($argument:ident),*)),* $(,)?) => {$(
        #[allow(non_snake_case, unused_variables)]
        impl<F, Out, S, $($argument),*> Handler<($($argument,)*), S> for F
        where
            F: Fn($($argument),*) -> Out + Clone + Send + Sync + 'static,
            Out: Future<Output: IntoVerdict> + Send,
            S: Send + Sync + 'static,
            $($argument: FromCheckRequest<S> + Send,)*
            nested!($($argument),*): CollectRequirements<S, Requirements: ResolveRequirements>,
        {
            type Parameters = <<nested!($($argument),*) as CollectRequirements<S>>::Requirements as ResolveRequirements>::Parameters;

            fn call(self, request: Request, state: Arc<S>) -> BoxFuture<'static, Result<Verdict, CheckError>> {
                Box::pin(async move {
                    $(let $argument = $argument::from_check(&request, &state).await.map_err(Into::into)?;)*
                    self($($argument),*).await.into_verdict()
                })
            }
        }
    )*};
}

handlers! {
    (),
    (A),
    (A, B),
    (A, B, C),
    (A, B, C, D),
    (A, B, C, D, E),
    (A, B, C, D, E, G),
    (A, B, C, D, E, G, H),
    (A, B, C, D, E, G, H, I),
}
