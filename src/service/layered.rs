//! Adapters between checks and tower services.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use crate::check::builder::{Call, call};
use crate::check::{Check, CheckError, CheckRequest, ControllerName, Parameters, Verdict};

/// The evaluations of a check as a tower service: what a [layer](Check::layer) wraps.
///
/// It is always ready: the runtime chooses how many evaluations run together.
///
/// ```
/// # use kueue_check::prelude::*;
/// # use kueue_check::service::example::request;
/// # #[admission_check(controller = "example.com/open")]
/// # async fn open() -> Verdict { Verdict::ready("open") }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// use std::time::Duration;
/// use kueue_check::service::CheckService;
/// use tower::{ServiceExt, layer::layer_fn};
///
/// // Whatever the verdict is, the Workload is evaluated again after a minute.
/// let minutely = layer_fn(|inner: CheckService<_>| {
///     inner.map_response(|verdict: Verdict| verdict.recheck_in(Duration::from_secs(60)))
/// });
/// let verdict = Check::new(open).layer(minutely).evaluate(request("train")).await?;
/// assert_eq!((verdict.message(), verdict.recheck()), ("open", Some(Duration::from_secs(60))));
/// # Ok(()) }
/// ```
pub struct CheckService<P>(Call<CheckRequest<P>, Verdict>);

impl<P> Clone for CheckService<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for CheckService<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckService")
    }
}

impl<P: Parameters> Service<CheckRequest<P>> for CheckService<P> {
    type Response = Verdict;
    type Error = CheckError;
    type Future = BoxFuture<'static, Result<Verdict, CheckError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CheckError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CheckRequest<P>) -> Self::Future {
        (self.0)(request)
    }
}

impl<P: Parameters> Check<P> {
    /// Wraps each evaluation in a tower layer. Everything else is kept; the
    /// [`preview`](crate::AdmissionCheckController::preview) too, without the layer.
    ///
    /// ```
    /// # use kueue_check::prelude::*;
    /// # use kueue_check::service::{CircuitBreakerLayer, example::request};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), CheckError> {
    /// #[admission_check(controller = "example.com/licence")]
    /// async fn licence() -> Result<Verdict, CheckError> {
    ///     Err(CheckError::transient("connection refused"))
    /// }
    ///
    /// let check = Check::new(licence).layer(CircuitBreakerLayer::new(1, Duration::from_secs(60)));
    /// check.evaluate(request("train")).await.expect_err("it is down: the circuit opens");
    /// let error = check.preview(request("train")).await.expect_err("previews pass by the layer");
    /// assert_eq!(error.to_string(), "connection refused");
    /// # Ok(()) }
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<CheckService<P>>,
        L::Service: Service<CheckRequest<P>, Response = Verdict, Error: Into<CheckError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.calls.evaluate = evaluate(layer.layer(CheckService(self.calls.evaluate)));
        self
    }

    /// Makes a check named `name` whose evaluations are the calls of a tower service.
    ///
    /// Calls of a service may have effects, so it is not [previewable](Self::previewable) unless
    /// that is set.
    ///
    /// ```
    /// # use kueue_check::prelude::*;
    /// # use kueue_check::service::example::request;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), CheckError> {
    /// let service = tower::service_fn(|request: CheckRequest<NoParameters>| async move {
    ///     Ok::<_, CheckError>(Verdict::ready(format!("hello, {}", request.workload())))
    /// });
    /// let check = Check::from_service(ControllerName::from_static("example.com/hello"), service);
    /// let verdict = check.evaluate(request("train")).await?;
    /// assert_eq!(verdict.message(), "hello, team-a/train");
    /// # Ok(()) }
    /// ```
    pub fn from_service<S>(name: ControllerName, service: S) -> Self
    where
        S: Service<CheckRequest<P>, Response = Verdict, Error: Into<CheckError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        Self::evaluating(name, evaluate(service))
    }
}

/// Calls a fresh clone that is made ready: the readiness of one clone does not imply that of
/// another.
fn evaluate<S, P>(service: S) -> Call<CheckRequest<P>, Verdict>
where
    S: Service<CheckRequest<P>, Response = Verdict, Error: Into<CheckError>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    P: Parameters,
{
    call(move |request| {
        let service = service.clone();
        async move { service.oneshot(request).await.map_err(Into::into) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{AdmissionCheckController, NoParameters, Preview};
    use crate::service::example::request;

    #[tokio::test]
    async fn a_service_is_previewed_only_if_declared_previewable() {
        let evaluate =
            async |_: CheckRequest<NoParameters>| Ok::<_, CheckError>(Verdict::ready("evaluated"));
        let check = Check::from_service(
            ControllerName::from_static("example.com/c"),
            tower::service_fn(evaluate),
        );
        let preview = check.preview(request("w")).await.unwrap();
        assert_eq!(preview.verdict(), None);
        let preview = check.previewable(true).preview(request("w")).await.unwrap();
        assert_eq!(preview, Preview::of(Verdict::ready("evaluated")));
    }
}
