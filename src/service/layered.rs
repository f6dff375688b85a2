//! Adapters between checks and tower services.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use crate::api::AdmissionCheck;
use crate::check::{
    AdmissionCheckController, BackgroundContext, CheckError, CheckEvent, CheckRequest,
    ControllerName, Inactive, Parameters, ParametersProblem, Policy, Preview, ReleaseOutcome,
    ReleaseReason, Reservation, StateChange, Verdict, Watches, WorkloadEvent,
};

/// Asking a check, as a service. It is always ready: how many questions are asked together is the runtime's choice.
///
/// A layer of your own is given one to wrap:
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, NoParameters, RequestBuilder, Verdict, admission_check, api::Workload};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// use std::time::Duration;
/// use kueue_check::service::{CheckService, layered};
/// use tower::{ServiceExt, layer::layer_fn};
///
/// // Whatever the check says, it is asked again after a minute.
/// let minutely = layer_fn(|inner: CheckService<_>| inner.map_response(|verdict: Verdict| verdict.recheck_in(Duration::from_secs(60))));
/// let verdict = layered(open, minutely).evaluate(request("train")).await?;
/// assert_eq!((verdict.message(), verdict.recheck()), ("open", Some(Duration::from_secs(60))));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct CheckService<C>(Arc<C>);

impl<C> CheckService<C> {
    /// Asking `check`.
    pub fn new(check: C) -> Self {
        Self(Arc::new(check))
    }
}

impl<C> Clone for CheckService<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: AdmissionCheckController> Service<CheckRequest<C::Parameters>> for CheckService<C> {
    type Response = Verdict;
    type Error = CheckError;
    type Future = BoxFuture<'static, Result<Verdict, CheckError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CheckError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CheckRequest<C::Parameters>) -> Self::Future {
        let check = Arc::clone(&self.0);
        Box::pin(async move { check.evaluate(request).await })
    }
}

/// `check` with `layer` around each question. Its name, parameters, activation, release and the rest are its own; its
/// [`preview`](AdmissionCheckController::preview) too, without the layer.
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, NoParameters, RequestBuilder, Verdict, admission_check, api::Workload};
/// # use kueue_check::service::{CircuitBreakerLayer, layered};
/// # use std::time::Duration;
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// #[admission_check(controller = "example.com/licence", read_only)]
/// async fn licence() -> Result<Verdict, CheckError> {
///     Err(CheckError::transient("connection refused"))
/// }
///
/// let check = layered(licence, CircuitBreakerLayer::new(1, Duration::from_secs(60)));
/// assert_eq!(check.controller_name().as_str(), "example.com/licence");
/// check.evaluate(request("train")).await.expect_err("it is down, and left alone from now on");
/// let error = check.preview(request("train")).await.expect_err("who explains, asks all the same");
/// assert_eq!(error.to_string(), "connection refused");
/// # Ok(()) }
/// ```
pub fn layered<C, L>(check: C, layer: L) -> Layered<C, L::Service>
where
    C: AdmissionCheckController,
    L: Layer<CheckService<C>>,
{
    let check = Arc::new(check);
    let service = layer.layer(CheckService(Arc::clone(&check)));
    Layered { check, service }
}

/// A check with layers around it. See [`layered`].
///
/// It is a check like any other, so that a command line takes it, and a trial on a simulated cluster:
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/slow")] async fn slow() -> Verdict { std::future::pending().await }
/// use std::time::Duration;
/// use kueue_check::service::{CheckService, Layered, Timeout, TimeoutLayer, layered};
/// use kueue_check_sim::{Job, Simulation};
///
/// fn patient() -> Layered<slow, Timeout<CheckService<slow>>> {
///     layered(slow, TimeoutLayer::new(Duration::from_secs(5)))
/// }
/// Simulation::new(patient).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_message("train", "no answer in 5s").await;
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Layered<C, S> {
    check: Arc<C>,
    service: S,
}

impl<C, S> AdmissionCheckController for Layered<C, S>
where
    C: AdmissionCheckController,
    S: Service<
            CheckRequest<C::Parameters>,
            Response = Verdict,
            Error: Into<CheckError>,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    type Parameters = C::Parameters;

    fn controller_name(&self) -> ControllerName {
        self.check.controller_name()
    }

    async fn evaluate(&self, request: CheckRequest<C::Parameters>) -> Result<Verdict, CheckError> {
        ask(&self.service, request).await
    }

    async fn preview(&self, request: CheckRequest<C::Parameters>) -> Result<Preview, CheckError> {
        self.check.preview(request).await
    }

    async fn activate(
        &self,
        check: &AdmissionCheck,
        parameters: &Arc<C::Parameters>,
    ) -> Result<(), Inactive> {
        self.check.activate(check, parameters).await
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.check.release(reservation, why).await
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        self.check.unreleased_reservations().await
    }

    fn watches(&self) -> Watches {
        self.check.watches()
    }

    fn observe(&self, seen: WorkloadEvent<'_>) {
        self.check.observe(seen);
    }

    async fn background(&self, context: BackgroundContext) {
        self.check.background(context).await;
    }

    fn metrics(&self) -> String {
        self.check.metrics()
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        self.check.definitions()
    }

    fn policy(&self) -> Policy {
        self.check.policy()
    }

    fn annotations(&self) -> Vec<String> {
        self.check.annotations()
    }

    fn timeout(&self) -> Option<Duration> {
        self.check.timeout()
    }

    fn outlives_reservation(&self) -> bool {
        self.check.outlives_reservation()
    }

    fn releases_at_eviction(&self) -> bool {
        self.check.releases_at_eviction()
    }

    fn on_parameters_unavailable(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        self.check.on_parameters_unavailable(problem)
    }

    fn state_change_event(&self, change: &StateChange<'_>) -> CheckEvent {
        self.check.state_change_event(change)
    }

    fn permissions(&self) -> Vec<PolicyRule> {
        self.check.permissions()
    }

    fn namespace_permissions(&self) -> Vec<PolicyRule> {
        self.check.namespace_permissions()
    }
}

/// A fresh clone is made ready and asked: the readiness of one clone says nothing about another.
async fn ask<S, P>(service: &S, request: CheckRequest<P>) -> Result<Verdict, CheckError>
where
    S: Service<CheckRequest<P>, Response = Verdict, Error: Into<CheckError>> + Clone,
{
    service.clone().oneshot(request).await.map_err(Into::into)
}

/// A service of yours as a check named `name`.
///
/// ```
/// use kueue_check::service::service_check;
/// use kueue_check::{CheckError, CheckRequest, ControllerName, NoParameters, Verdict};
///
/// # use kueue_check::{AdmissionCheckController, RequestBuilder, api::Workload};
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// let service = tower::service_fn(|request: CheckRequest<NoParameters>| async move {
///     Ok::<_, CheckError>(Verdict::ready(format!("hello, {}", request.workload())))
/// });
/// let check = service_check(ControllerName::from_static("example.com/hello"), service);
/// let verdict = check.evaluate(request("train")).await?;
/// assert_eq!(verdict.message(), "hello, team-a/train");
/// # Ok(()) }
/// ```
pub fn service_check<S, P>(name: ControllerName, service: S) -> ServiceCheck<S, P> {
    ServiceCheck {
        name,
        service,
        read_only: false,
        parameters: PhantomData,
    }
}

/// A service as a check. See [`service_check`].
///
/// Nobody knows what it does to ask a service, so `explain` does not, until it is said that it may:
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, RequestBuilder, Verdict, api::Workload};
/// # use kueue_check::service::service_check;
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// let prices = tower::service_fn(async |_: CheckRequest<NoParameters>| Ok::<_, CheckError>(Verdict::ready("power is cheap")));
/// let check = service_check(ControllerName::from_static("example.com/prices"), prices);
/// assert_eq!(check.preview(request("train")).await?.verdict(), None);
///
/// let preview = check.read_only().preview(request("train")).await?;
/// assert_eq!(preview.verdict().map(Verdict::message), Some("power is cheap"));
/// # Ok(()) }
/// ```
pub struct ServiceCheck<S, P> {
    name: ControllerName,
    service: S,
    read_only: bool,
    parameters: PhantomData<fn(P)>,
}

impl<S, P> ServiceCheck<S, P> {
    /// Says that to ask the service has no effect, and that its answer does not depend on what the process remembers: so the command `explain` may ask it.
    /// See [`AdmissionCheckController::preview`].
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl<S, P> AdmissionCheckController for ServiceCheck<S, P>
where
    S: Service<CheckRequest<P>, Response = Verdict, Error: Into<CheckError>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    P: Parameters,
{
    type Parameters = P;

    fn controller_name(&self) -> ControllerName {
        self.name.clone()
    }

    async fn evaluate(&self, request: CheckRequest<P>) -> Result<Verdict, CheckError> {
        ask(&self.service, request).await
    }

    async fn preview(&self, request: CheckRequest<P>) -> Result<Preview, CheckError> {
        if self.read_only {
            self.evaluate(request).await.map(Preview::of)
        } else {
            Ok(Preview::has_side_effects())
        }
    }
}

impl<S, P> fmt::Debug for ServiceCheck<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCheck")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Workload;
    use crate::check::{NoParameters, RequestBuilder};

    #[tokio::test]
    async fn a_service_is_previewed_only_if_it_says_that_it_may_be() {
        let answer =
            async |_: CheckRequest<NoParameters>| Ok::<_, CheckError>(Verdict::ready("asked"));
        let check = service_check(
            ControllerName::from_static("example.com/c"),
            tower::service_fn(answer),
        );
        let workload = serde_json::json!({"metadata": {"namespace": "n", "name": "w", "uid": "u"}});
        let request = RequestBuilder::new(Workload::from_json(workload).unwrap(), "c")
            .now("2026-11-21T09:00:00Z".parse().unwrap())
            .build(NoParameters);
        let preview = check.preview(request.clone()).await.unwrap();
        assert_eq!(preview.verdict(), None);
        let preview = check.read_only().preview(request).await.unwrap();
        assert_eq!(preview, Preview::of(Verdict::ready("asked")));
    }
}
