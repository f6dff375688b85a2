//! Checks of functions, without the macro.

use std::sync::Arc;

use super::Handler;
use crate::check::builder::call;
use crate::check::{Check, CheckRequest, ControllerName, Parameters};

impl<P: Parameters> Check<P> {
    /// Makes a check named `name` of an async function without state. `#[admission_check]` does the
    /// same, with errors that point at the argument.
    ///
    /// It is [previewable](Self::previewable), unless that is set to `false`.
    ///
    /// ```
    /// use kueue_check::prelude::*;
    ///
    /// async fn small(workload: Workload) -> Verdict {
    ///     let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
    ///     if pods <= 100 { Verdict::ready("small enough") } else { Verdict::rejected("too large") }
    /// }
    ///
    /// let check = Check::from_fn(ControllerName::from_static("example.com/small"), small);
    /// ```
    pub fn from_fn<F, Arguments>(name: ControllerName, function: F) -> Self
    where
        F: Handler<Arguments, (), Parameters = P>,
    {
        Self::from_fn_with_state(name, (), function).previewable(true)
    }

    /// Makes a check named `name` of an async function with a state, for its
    /// [`State`](crate::handler::State) arguments.
    ///
    /// ```
    /// use kueue_check::prelude::*;
    ///
    /// async fn small(workload: Workload, State(most): State<u32>) -> Verdict {
    ///     let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
    ///     if pods <= most { Verdict::ready("small enough") } else { Verdict::rejected("too large") }
    /// }
    ///
    /// const NAME: ControllerName = ControllerName::from_static("example.com/small");
    /// let check = Check::from_fn_with_state(NAME, 100, small);
    /// ```
    pub fn from_fn_with_state<F, Arguments, S>(name: ControllerName, state: S, function: F) -> Self
    where
        F: Handler<Arguments, S, Parameters = P>,
        S: Send + Sync + 'static,
    {
        Self::from_shared_state(name, Arc::new(state), function)
    }

    /// Called by the macro.
    #[doc(hidden)]
    pub fn from_shared_state<F, Arguments, S>(
        name: ControllerName,
        state: Arc<S>,
        function: F,
    ) -> Self
    where
        F: Handler<Arguments, S, Parameters = P>,
        S: Send + Sync + 'static,
    {
        let evaluate = call(move |request: CheckRequest<P>| {
            let function = function.clone();
            function.call(request.request().clone(), Arc::clone(&state))
        });
        Self::evaluating(name, evaluate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Workload;
    use crate::check::{
        AdmissionCheckController, DynCheck, ErrorKind, ParametersKind, Preview, Request,
        RequestBuilder, Reservation, Verdict, samples,
    };
    use crate::handler::{Attempt, FromRef, FullWorkload, Now, Params, State};

    struct Limit(u32);

    impl Parameters for Limit {
        fn kind() -> Option<ParametersKind> {
            Some(samples::kind("Limit"))
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
        let verdict = Check::from_fn_with_state(NAME, "state", check)
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
            kind(Check::from_fn(NAME, with).into()),
            Some("Limit.example.com".to_owned())
        );
        assert_eq!(kind(Check::from_fn(NAME, without).into()), None);
        let error = Check::from_fn(NAME, without)
            .evaluate(request().build(crate::NoParameters))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Transient, "down".to_owned())
        );
    }

    #[tokio::test]
    async fn a_function_is_previewed_if_it_has_no_state_or_is_declared_previewable() {
        async fn check() -> Verdict {
            Verdict::ready("evaluated")
        }
        async fn with_state(_: State<u32>) -> Verdict {
            Verdict::ready("evaluated")
        }
        let preview = async |check: Check| {
            let request = request().build(crate::NoParameters);
            check.preview(request).await.unwrap()
        };
        let evaluated = Preview::of(Verdict::ready("evaluated"));
        let stateless = Check::from_fn(NAME, check);
        assert_eq!(preview(stateless.clone()).await, evaluated);
        assert_eq!(preview(stateless.previewable(false)).await.verdict(), None);
        let stateful = Check::from_fn_with_state(NAME, 1, with_state);
        assert_eq!(preview(stateful.clone()).await.verdict(), None);
        assert_eq!(preview(stateful.previewable(true)).await, evaluated);
    }

    #[tokio::test]
    async fn an_argument_that_cannot_be_had_fails_the_check_and_the_function_is_not_called() {
        async fn check(_: FullWorkload) -> Verdict {
            panic!("called");
        }
        let error = Check::from_fn(NAME, check)
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
        let app = App {
            name: "a",
            limit: 3,
        };
        let check = Check::from_fn_with_state(NAME, app, check);
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
