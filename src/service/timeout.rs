//! Timeouts.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use crate::check::{CheckError, Verdict};

/// A timeout for evaluations: the error is transient, so the check is evaluated again.
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckRequest, ErrorKind, NoParameters, RequestBuilder, Verdict, admission_check, api::Workload};
/// # #[admission_check(controller = "example.com/slow")] async fn slow() -> Verdict { std::future::pending().await }
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use kueue_check::{Check, service::TimeoutLayer};
///
/// let check = Check::new(slow).layer(TimeoutLayer::new(Duration::from_secs(5)));
/// let error = check.evaluate(request("train")).await.expect_err("it never returns");
/// assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Transient, "no verdict in 5s"));
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLayer {
    limit: Duration,
}

impl TimeoutLayer {
    /// Sets the timeout to `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout {
            inner,
            limit: self.limit,
        }
    }
}

/// A service with a [`TimeoutLayer`] around it. The inner service may fail with any error that
/// converts to a [`CheckError`].
///
/// ```
/// # use kueue_check::{ErrorKind, Verdict, service::TimeoutLayer};
/// # use tower::{Layer, ServiceExt};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::io;
/// use std::time::Duration;
///
/// let prices = tower::service_fn(|file: &'static str| async move {
///     Ok::<_, io::Error>(Verdict::ready(std::fs::read_to_string(file)?))
/// });
/// let prices = TimeoutLayer::new(Duration::from_secs(5)).layer(prices);
/// let error = prices.oneshot("/no/such/file").await.expect_err("there is none");
/// assert_eq!(error.kind(), ErrorKind::Transient, "evaluated again, as after a timeout");
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timeout<S> {
    inner: S,
    limit: Duration,
}

impl<S, R> Service<R> for Timeout<S>
where
    S: Service<R, Response = Verdict, Error: Into<CheckError>, Future: Send + 'static>,
{
    type Response = Verdict;
    type Error = CheckError;
    type Future = BoxFuture<'static, Result<Verdict, CheckError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CheckError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (evaluation, limit) = (self.inner.call(request), self.limit);
        Box::pin(async move {
            match tokio::time::timeout(limit, evaluation).await {
                Ok(result) => result.map_err(Into::into),
                Err(_) => Err(CheckError::transient(format!("no verdict in {limit:?}"))),
            }
        })
    }
}
