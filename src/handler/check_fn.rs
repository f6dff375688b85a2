//! A function, its name and its state.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Handler;
use crate::check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, Preview, Verdict,
};

/// A check made of a function, without the macro:
///
/// ```
/// use kueue_check::handler::{State, check_fn};
/// use kueue_check::{ControllerName, Verdict, api::Workload};
///
/// async fn quota(workload: Workload, State(limit): State<u32>) -> Verdict {
///     let pods: u32 = workload.pod_sets().iter().map(|pod_set| pod_set.count()).sum();
///     if pods <= limit { Verdict::ready("small enough") } else { Verdict::rejected(format!("{pods} pods, at most {limit}")) }
/// }
///
/// let check = check_fn(ControllerName::from_static("example.com/small"), quota).with_state(100_u32);
/// # let _: kueue_check::DynCheck = check.into();
/// ```
pub fn check_fn<F>(name: ControllerName, function: F) -> CheckFn<F, (), ()> {
    CheckFn {
        name,
        function,
        state: Arc::new(()),
        read_only: false,
        arguments: PhantomData,
    }
}

/// A check made of a function: see [`check_fn`].
///
/// ```
/// use kueue_check::handler::{Now, check_fn};
/// use kueue_check::{AdmissionCheckController, ControllerName, NoParameters, RequestBuilder, Verdict, api::Workload};
///
/// async fn this_year(Now(now): Now) -> Verdict {
///     let year = now.to_zoned(jiff::tz::TimeZone::UTC).year();
///     if year == 2026 { Verdict::ready("it is 2026") } else { Verdict::rejected("too late") }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let workload = Workload::from_json(serde_json::json!({"metadata": {"namespace": "team-a", "name": "train", "uid": "1"}}))?;
/// let check = check_fn(ControllerName::from_static("example.com/this-year"), this_year).without_state().read_only();
/// let request = RequestBuilder::new(workload, "this-year").now("2026-11-21T09:00:00Z".parse()?).build(NoParameters);
/// assert!(check.evaluate(request).await.is_ok_and(|verdict| verdict.is_ready()));
/// # Ok(()) }
/// ```
pub struct CheckFn<F, Args, S> {
    name: ControllerName,
    function: F,
    state: Arc<S>,
    read_only: bool,
    arguments: PhantomData<fn(Args)>,
}

impl<F> CheckFn<F, (), ()> {
    /// Gives the function a state, for its [`State`](super::State) arguments.
    pub fn with_state<Args, S>(self, state: S) -> CheckFn<F, Args, S>
    where
        F: Handler<Args, S>,
    {
        CheckFn {
            name: self.name,
            function: self.function,
            state: Arc::new(state),
            read_only: self.read_only,
            arguments: PhantomData,
        }
    }

    /// Without a state.
    pub fn without_state<Args>(self) -> CheckFn<F, Args, ()>
    where
        F: Handler<Args, ()>,
    {
        self.with_state(())
    }
}

impl<F, Args, S> CheckFn<F, Args, S> {
    /// Says that to ask the function has no effect, and that its answer does not depend on what the process remembers: so the command `explain` may ask it.
    /// See [`AdmissionCheckController::preview`].
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl<F, Args, S> AdmissionCheckController for CheckFn<F, Args, S>
where
    F: Handler<Args, S>,
    Args: 'static,
    S: Send + Sync + 'static,
{
    type Parameters = F::Parameters;

    fn controller_name(&self) -> ControllerName {
        self.name.clone()
    }

    async fn evaluate(&self, request: CheckRequest<F::Parameters>) -> Result<Verdict, CheckError> {
        self.function
            .clone()
            .call(request.request().clone(), Arc::clone(&self.state))
            .await
    }

    async fn preview(&self, request: CheckRequest<F::Parameters>) -> Result<Preview, CheckError> {
        if !self.read_only {
            return Ok(Preview::has_side_effects());
        }
        self.evaluate(request).await.map(Preview::of)
    }
}

impl<F, Args, S> fmt::Debug for CheckFn<F, Args, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckFn")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Workload;
    use crate::check::{
        DynCheck, ErrorKind, Parameters, ParametersKind, Request, RequestBuilder, Reservation,
    };
    use crate::handler::{Attempt, FromRef, FullWorkload, Now, Params, State};

    struct Limit(u32);

    impl Parameters for Limit {
        fn kind() -> Option<ParametersKind> {
            let (group, kind, plural) = ("example.com".into(), "Limit".into(), "limits".into());
            Some(ParametersKind {
                group,
                kind,
                plural,
                versions: vec!["v1".into()],
            })
        }

        fn decode(_: serde_json::Value) -> Result<Self, String> {
            Ok(Self(0))
        }
    }

    fn request() -> RequestBuilder {
        let workload = Workload::from_json(
            serde_json::json!({"metadata": {"namespace": "n", "name": "w", "uid": "u"}}),
        )
        .unwrap();
        RequestBuilder::new(workload, "c").now("2026-11-21T09:00:00Z".parse().unwrap())
    }

    const NAME: ControllerName = ControllerName::from_static("example.com/c");

    #[tokio::test]
    async fn each_extractor_gives_its_part_of_the_request() {
        async fn check(
            Params(limit): Params<Limit>,
            workload: Workload,
            Now(now): Now,
            Attempt(attempt): Attempt,
            reservation: Reservation,
            request: Request,
            State(word): State<&'static str>,
        ) -> Verdict {
            assert_eq!(request.workload().name(), workload.name());
            Verdict::ready(format!(
                "{} {workload} {now} {attempt} {} {word}",
                limit.0,
                reservation.admission_check()
            ))
        }
        let verdict = check_fn(NAME, check)
            .with_state("state")
            .evaluate(request().build(Limit(7)))
            .await
            .unwrap();
        assert_eq!(verdict.message(), "7 n/w 2026-11-21T09:00:00Z 1 c state");
    }

    #[tokio::test]
    async fn parameters_are_those_of_the_signature() {
        async fn with(_: Params<Limit>) -> Verdict {
            Verdict::ready("x")
        }
        async fn without() -> Result<Verdict, std::io::Error> {
            Err(std::io::Error::other("down"))
        }
        let kind = |check: DynCheck| check.parameters().kind.map(|kind| kind.to_string());
        assert_eq!(
            kind(check_fn(NAME, with).without_state().into()),
            Some("Limit.example.com".to_owned())
        );
        assert_eq!(kind(check_fn(NAME, without).without_state().into()), None);
        let error = check_fn(NAME, without)
            .without_state()
            .evaluate(request().build(crate::NoParameters))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Transient, "down".to_owned())
        );
    }

    #[tokio::test]
    async fn a_function_is_previewed_only_if_it_says_that_it_may_be() {
        async fn check() -> Verdict {
            Verdict::ready("asked")
        }
        let ask = async |read_only: bool| {
            let check = check_fn(NAME, check).without_state();
            let check = if read_only { check.read_only() } else { check };
            check
                .preview(request().build(crate::NoParameters))
                .await
                .unwrap()
        };
        assert_eq!(ask(false).await.verdict(), None);
        assert_eq!(ask(true).await, Preview::of(Verdict::ready("asked")));
    }

    #[tokio::test]
    async fn an_argument_that_cannot_be_had_fails_the_check_and_the_function_is_not_called() {
        async fn check(_: FullWorkload) -> Verdict {
            panic!("called");
        }
        let error = check_fn(NAME, check)
            .without_state()
            .evaluate(request().build(crate::NoParameters))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permanent);
    }

    #[tokio::test]
    async fn a_state_can_be_taken_in_parts() {
        #[derive(Clone)]
        struct App {
            name: &'static str,
            limit: u32,
        }
        struct Name(&'static str);
        struct Bound(u32);
        impl FromRef<App> for Name {
            fn from_ref(app: &App) -> Self {
                Self(app.name)
            }
        }
        impl FromRef<App> for Bound {
            fn from_ref(app: &App) -> Self {
                Self(app.limit)
            }
        }
        async fn check(State(name): State<Name>, State(limit): State<Bound>) -> Verdict {
            Verdict::ready(format!("{} {}", name.0, limit.0))
        }
        let check = check_fn(NAME, check).with_state(App {
            name: "a",
            limit: 3,
        });
        assert_eq!(
            check
                .evaluate(request().build(crate::NoParameters))
                .await
                .unwrap()
                .message(),
            "a 3"
        );
    }
}
