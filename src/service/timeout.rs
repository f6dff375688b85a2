//! Giving up.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use crate::check::{CheckError, Verdict};

/// Gives up on a question after a time: the error is transient, so the check is asked again.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/slow")] async fn slow() -> Verdict { Verdict::ready("") }
/// use std::time::Duration;
/// use kueue_check::service::{TimeoutLayer, layered};
///
/// let check = layered(slow, TimeoutLayer::new(Duration::from_secs(5)));
/// # let _: kueue_check::Check = check.into();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLayer {
    limit: Duration,
}

impl TimeoutLayer {
    /// Gives up after `limit`.
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

/// See [`TimeoutLayer`].
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
        let (answer, limit) = (self.inner.call(request), self.limit);
        Box::pin(async move {
            match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(CheckError::transient(format!("no answer in {limit:?}"))),
            }
        })
    }
}
