//! A circuit breaker layer.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use crate::check::CheckError;

/// A circuit breaker: after a number of failures in a row, it sends no request for a set time.
///
/// It then sends one request, and if that does not fail, all. Only transient and throttled errors
/// count as failures. A request that is dropped before it ends is not counted, so a
/// [`TimeoutLayer`](super::TimeoutLayer) belongs inside of this layer: the check's own timeout and
/// `any_of` are outside. The other requests fail at once, with the time until when to wait. The service may
/// return any type, so a client of another system can be wrapped too.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::service::CircuitBreakerLayer;
/// use kueue_check::{CheckError, ErrorKind, Verdict};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let down = tower::service_fn(|()| async { Err::<Verdict, _>(CheckError::transient("connection refused")) });
/// let service = CircuitBreakerLayer::new(2, Duration::from_secs(60)).layer(down);
/// for expected in ["transient", "transient", "throttled"] {
///     let error = service.clone().oneshot(()).await.expect_err("it is down");
///     let word = if matches!(error.kind(), ErrorKind::Throttled { .. }) { "throttled" } else { "transient" };
///     assert_eq!(word, expected);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CircuitBreakerLayer {
    failures: u32,
    pause: Duration,
}

impl CircuitBreakerLayer {
    /// Opens after `failures` failures in a row, at least one, for `pause`.
    pub fn new(failures: u32, pause: Duration) -> Self {
        Self {
            failures: failures.max(1),
            pause,
        }
    }
}

impl<S> Layer<S> for CircuitBreakerLayer {
    type Service = CircuitBreaker<S>;

    fn layer(&self, inner: S) -> CircuitBreaker<S> {
        CircuitBreaker {
            inner,
            settings: self.clone(),
            state: Arc::default(),
        }
    }
}

/// A service with a [`CircuitBreakerLayer`] around it. Clones share their state.
///
/// ```
/// # use kueue_check::{CheckError, Verdict, service::CircuitBreakerLayer};
/// # use std::time::Duration;
/// # use tower::{Layer, ServiceExt};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # let down = tower::service_fn(|()| async { Err::<Verdict, _>(CheckError::transient("connection refused")) });
/// let breaker = CircuitBreakerLayer::new(2, Duration::from_secs(60)).layer(down);
/// for _ in 0..2 {
///     breaker.clone().oneshot(()).await.expect_err("it is down");
/// }
/// let error = breaker.clone().oneshot(()).await.expect_err("the circuit is open");
/// assert_eq!(error.to_string(), "not evaluated, because it failed 2 times in a row");
///
/// tokio::time::sleep(Duration::from_secs(60)).await;
/// let error = breaker.oneshot(()).await.expect_err("one request is sent");
/// assert_eq!(error.to_string(), "connection refused");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CircuitBreaker<S> {
    inner: S,
    settings: CircuitBreakerLayer,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open_until: Option<Instant>,
    /// Since when a probe request is in flight.
    trying: Option<Instant>,
}

/// The longest time until a request that was not sent because of a probe is tried again.
const AFTER_PROBE: Duration = Duration::from_secs(5);

impl State {
    /// Returns `Ok` if a request may be sent at `now`; otherwise the time to wait. A probe that
    /// never ends blocks others for no longer than a pause.
    fn admit(&mut self, now: Instant, pause: Duration) -> Result<(), Duration> {
        let Some(until) = self.open_until else {
            return Ok(());
        };
        if now < until {
            return Err(until - now);
        }
        if let Some(since) = self
            .trying
            .filter(|since| now.duration_since(*since) < pause)
        {
            let left = pause.saturating_sub(now.duration_since(since));
            return Err(left.min(AFTER_PROBE));
        }
        self.trying = Some(now);
        Ok(())
    }

    fn record(&mut self, failed: bool, now: Instant, settings: &CircuitBreakerLayer) {
        let was_a_try = self.trying.take().is_some();
        if !failed {
            *self = Self::default();
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if was_a_try || self.failures >= settings.failures {
            self.open_until = Some(now + settings.pause);
        }
    }
}

impl<S, R> Service<R> for CircuitBreaker<S>
where
    S: Service<R, Response: Send, Error: Into<CheckError>, Future: Send> + Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = CheckError;
    type Future = BoxFuture<'static, Result<S::Response, CheckError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CheckError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (inner, settings, state) = (
            self.inner.clone(),
            self.settings.clone(),
            Arc::clone(&self.state),
        );
        Box::pin(async move {
            let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(wait) = lock().admit(Instant::now(), settings.pause) {
                let failed = match settings.failures {
                    1 => "it failed".to_owned(),
                    failures => format!("it failed {failures} times in a row"),
                };
                return Err(CheckError::throttled(
                    wait,
                    format!("not evaluated, because {failed}"),
                ));
            }
            let result = inner.oneshot(request).await.map_err(Into::into);
            let failed = result
                .as_ref()
                .is_err_and(|error: &CheckError| error.kind().may_go_away());
            lock().record(failed, Instant::now(), &settings);
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;
    use crate::check::{ErrorKind, Verdict};

    const PAUSE: Duration = Duration::from_secs(60);

    #[derive(Clone, Default)]
    struct Source {
        requests: Arc<AtomicU32>,
        down: Arc<AtomicBool>,
    }

    impl Source {
        fn guarded(&self) -> impl Service<(), Response = Verdict, Error = CheckError> + Clone {
            let source = self.clone();
            CircuitBreakerLayer::new(3, PAUSE).layer(tower::service_fn(move |()| {
                source.requests.fetch_add(1, Ordering::Relaxed);
                let down = source.down.load(Ordering::Relaxed);
                async move {
                    if down {
                        Err(CheckError::transient("down"))
                    } else {
                        Ok(Verdict::ready("up"))
                    }
                }
            }))
        }

        fn requests(&self) -> u32 {
            self.requests.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_breaker_calls_nothing_until_one_probe() {
        let source = Source::default();
        source.down.store(true, Ordering::Relaxed);
        let service = source.guarded();
        let call = || service.clone().oneshot(());
        for _ in 0..10 {
            call().await.unwrap_err();
        }
        assert_eq!(source.requests(), 3);
        let error = call().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Throttled { after: PAUSE });
        assert_eq!(
            error.to_string(),
            "not evaluated, because it failed 3 times in a row"
        );

        tokio::time::advance(PAUSE).await;
        for _ in 0..10 {
            call().await.unwrap_err();
        }
        assert_eq!(
            source.requests(),
            4,
            "one probe, and the breaker is open again"
        );

        tokio::time::advance(PAUSE).await;
        source.down.store(false, Ordering::Relaxed);
        for _ in 0..10 {
            assert!(call().await.unwrap().is_ready());
        }
        assert_eq!(source.requests(), 14);
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_probe_does_not_keep_the_breaker_open() {
        let mut state = State {
            failures: 3,
            open_until: Some(Instant::now()),
            trying: None,
        };
        assert_eq!(state.admit(Instant::now(), PAUSE), Ok(()));
        assert_eq!(
            state.admit(Instant::now(), PAUSE),
            Err(AFTER_PROBE),
            "one tries, and its result is soon known"
        );
        tokio::time::advance(PAUSE).await;
        assert_eq!(state.admit(Instant::now(), PAUSE), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_failure_may_be_enough() {
        let down = tower::service_fn(|()| async {
            Err::<Verdict, _>(CheckError::transient("connection refused"))
        });
        let service = CircuitBreakerLayer::new(1, PAUSE).layer(down);
        service.clone().oneshot(()).await.unwrap_err();
        let error = service.oneshot(()).await.unwrap_err();
        assert_eq!(error.to_string(), "not evaluated, because it failed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_failure_between_successes_does_not_open_the_breaker() {
        let source = Source::default();
        let service = source.guarded();
        for round in 0..20 {
            source.down.store(round % 3 == 0, Ordering::Relaxed);
            let _ = service.clone().oneshot(()).await;
        }
        assert_eq!(source.requests(), 20);
    }
}
