//! A single-flight cache.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use crate::check::{CheckError, ErrorKind, Message, Verdict};

/// A single-flight cache: concurrent calls for one key share one request, and its result is cached.
///
/// Five thousand Workloads on one budget make one query:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), kueue_check::CheckError> {
/// use std::time::Duration;
/// use kueue_check::service::SingleFlight;
///
/// let spent: SingleFlight<&str, f64> = SingleFlight::new(Duration::from_secs(30));
/// let first = spent.get("team-a", || async { Ok(12.5) }).await?;
/// let second = spent.get("team-a", || async { unreachable!("the result is cached") }).await?;
/// assert_eq!((first, second), (12.5, 12.5));
/// # Ok(()) }
/// ```
///
/// A failure is cached as well, for 1 s, so that during an outage waiting callers do not repeat the
/// request one after another. Cheap to clone; clones share one cache.
pub struct SingleFlight<K, V> {
    flights: Arc<Mutex<BTreeMap<K, Arc<Flight<V>>>>>,
    ttl: Duration,
}

/// One request.
struct Flight<V> {
    result: OnceCell<(Result<V, Failure>, Instant)>,
}

/// An error that several callers can receive.
#[derive(Clone, Debug)]
struct Failure {
    kind: ErrorKind,
    message: Message,
}

/// How long a failure is cached.
const KEEP_FAILURE: Duration = Duration::from_secs(1);

impl<K, V> SingleFlight<K, V> {
    /// Caches each result for `keep`.
    pub fn new(keep: Duration) -> Self {
        Self {
            flights: Arc::default(),
            ttl: keep,
        }
    }
}

impl<K: Ord + Clone, V: Clone> SingleFlight<K, V> {
    /// Returns the result for `key`: the cached one, or the one that another caller waits for, or
    /// else that of `request`.
    ///
    /// # Errors
    /// The error of `request`.
    pub async fn get<F, Fut>(&self, key: K, request: F) -> Result<V, CheckError>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<V, CheckError>>,
    {
        let flight = self.flight(key);
        // If the caller that runs `request` is dropped, another waiting caller runs its own.
        let call = async {
            let result = request().await.map_err(|error| Failure {
                kind: error.kind(),
                message: Message::new(error.to_string()),
            });
            (result, Instant::now())
        };
        let (result, _) = flight.result.get_or_init(|| call).await;
        result.clone().map_err(CheckError::from_failure)
    }

    /// Removes the result for `key`.
    pub fn invalidate(&self, key: &K) {
        self.flights
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    /// Removes all results.
    pub fn clear(&self) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.clear();
    }

    fn flight(&self, key: K) -> Arc<Flight<V>> {
        let now = Instant::now();
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights
            .get(&key)
            .filter(|flight| flight.is_valid(now, self.ttl))
        {
            return Arc::clone(flight);
        }
        // A request that has no result, and that nothing waits for, was abandoned.
        flights.retain(|_, flight| {
            let waits = Arc::strong_count(flight) > 1;
            waits || (flight.result.initialized() && flight.is_valid(now, self.ttl))
        });
        let flight = Arc::new(Flight {
            result: OnceCell::new(),
        });
        flights.insert(key, Arc::clone(&flight));
        flight
    }
}

impl<V> Flight<V> {
    fn is_valid(&self, now: Instant, keep: Duration) -> bool {
        self.result.get().is_none_or(|(result, at)| {
            now.duration_since(*at)
                < if result.is_ok() {
                    keep
                } else {
                    KEEP_FAILURE.min(keep)
                }
        })
    }
}

impl CheckError {
    fn from_failure(failure: Failure) -> Self {
        Self::new(failure.kind, failure.message.to_string())
    }
}

impl<K, V> Clone for SingleFlight<K, V> {
    fn clone(&self) -> Self {
        Self {
            flights: Arc::clone(&self.flights),
            ttl: self.ttl,
        }
    }
}

impl<K, V> fmt::Debug for SingleFlight<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight")
            .field("keep", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// Shares verdicts between Workloads: correct only if the verdict follows from the key alone.
///
/// The key must have whatever else the verdict depends on, such as a value of the parameters. A
/// change that [watches](crate::Check::watches) report evaluates Workloads again, with cached
/// verdicts: [`clear`](Self::clear) the layer in `trigger` first. Without that, such a Workload keeps
/// the old verdict until something else evaluates it.
///
/// ```
/// # use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, NoParameters, RequestBuilder, Verdict, admission_check, api::Workload};
/// # use kueue_check::{Check, service::SingleFlightLayer};
/// # use std::time::Duration;
/// # fn request(job: &str) -> CheckRequest<NoParameters> {
/// #     let workload = serde_json::json!({"metadata": {"namespace": "team-a", "name": job, "uid": job}});
/// #     RequestBuilder::new(Workload::from_json(workload).unwrap(), "check").build(NoParameters)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// #[admission_check(controller = "example.com/budget")]
/// async fn budget(workload: Workload) -> Verdict {
///     Verdict::ready(format!("evaluated for {workload}"))
/// }
///
/// let by_namespace = |request: &CheckRequest<NoParameters>| request.workload().namespace().to_owned();
/// let check = Check::new(budget).layer(SingleFlightLayer::new(Duration::from_secs(10), by_namespace));
/// check.evaluate(request("train")).await?;
/// assert_eq!(check.evaluate(request("check")).await?.message(), "evaluated for team-a/train", "the verdict is that of the namespace");
/// # Ok(()) }
/// ```
pub struct SingleFlightLayer<K, F> {
    shared: SingleFlight<K, Verdict>,
    key: F,
}

impl<K, F> SingleFlightLayer<K, F> {
    /// Caches each verdict for `keep`. Requests with the same `key` share a verdict.
    pub fn new(keep: Duration, key: F) -> Self {
        Self {
            shared: SingleFlight::new(keep),
            key,
        }
    }

    /// Removes all cached verdicts, of all services that this layer or a clone of it wraps.
    pub fn clear(&self)
    where
        K: Ord + Clone,
    {
        self.shared.clear();
    }
}

impl<K, F: Clone, S> Layer<S> for SingleFlightLayer<K, F> {
    type Service = SingleFlightService<K, F, S>;

    fn layer(&self, inner: S) -> SingleFlightService<K, F, S> {
        SingleFlightService {
            shared: self.shared.clone(),
            key: self.key.clone(),
            inner,
        }
    }
}

/// A service with a [`SingleFlightLayer`] around it. All services that one layer wraps share one
/// cache.
///
/// ```
/// # use kueue_check::{CheckError, Verdict, service::SingleFlightLayer};
/// # use std::time::Duration;
/// # use tower::{Layer, ServiceExt};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), CheckError> {
/// let returns = |word: &'static str| tower::service_fn(move |_team: &str| async move { Ok::<_, CheckError>(Verdict::ready(word)) });
///
/// // The request is its own key.
/// let layer = SingleFlightLayer::new(Duration::from_secs(10), |team: &&'static str| *team);
/// let (first, second) = (layer.layer(returns("first")), layer.layer(returns("second")));
/// first.oneshot("team-a").await?;
/// assert_eq!(second.oneshot("team-a").await?.message(), "first", "not evaluated: give different checks layers of their own");
/// # Ok(()) }
/// ```
pub struct SingleFlightService<K, F, S> {
    shared: SingleFlight<K, Verdict>,
    key: F,
    inner: S,
}

impl<K, F, S, R> Service<R> for SingleFlightService<K, F, S>
where
    K: Ord + Clone + Send + Sync + 'static,
    F: Fn(&R) -> K,
    S: Service<R, Response = Verdict, Error: Into<CheckError>, Future: Send>
        + Clone
        + Send
        + 'static,
    R: Send + 'static,
{
    type Response = Verdict;
    type Error = CheckError;
    type Future = BoxFuture<'static, Result<Verdict, CheckError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CheckError>> {
        // Whether the inner service must be ready depends on the cache, which is read in `call`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (shared, key, inner) = (
            self.shared.clone(),
            (self.key)(&request),
            self.inner.clone(),
        );
        Box::pin(async move {
            shared
                .get(key, || async {
                    inner.oneshot(request).await.map_err(Into::into)
                })
                .await
        })
    }
}

impl<K, F: Clone> Clone for SingleFlightLayer<K, F> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            key: self.key.clone(),
        }
    }
}

impl<K, F: Clone, S: Clone> Clone for SingleFlightService<K, F, S> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            key: self.key.clone(),
            inner: self.inner.clone(),
        }
    }
}

impl<K, F> fmt::Debug for SingleFlightLayer<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SingleFlightLayer")
            .field(&self.shared)
            .finish()
    }
}

impl<K, F, S: fmt::Debug> fmt::Debug for SingleFlightService<K, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlightService")
            .field("shared", &self.shared)
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const KEEP: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn five_thousand_at_once_send_one_request() {
        let (shared, requests) = (SingleFlight::new(KEEP), AtomicU32::new(0));
        let request = || async {
            requests.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(2)).await;
            Ok(7)
        };
        let results = join_all((0..5000).map(|_| shared.get("budget", request))).await;
        assert!(results.into_iter().all(|result| result.unwrap() == 7));
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        shared.get("other", request).await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_cached_for_its_time_from_its_arrival() {
        let shared: SingleFlight<(), Instant> = SingleFlight::new(KEEP);
        let slow = || async {
            sleep(Duration::from_secs(60)).await;
            Ok(Instant::now())
        };
        let first = shared.get((), slow).await.unwrap();
        tokio::time::advance(Duration::from_millis(29_999)).await;
        assert_eq!(shared.get((), slow).await.unwrap(), first);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_ne!(shared.get((), slow).await.unwrap(), first);
        shared.invalidate(&());
        assert_eq!(shared.flights.lock().unwrap().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_and_cached_briefly() {
        let (shared, requests) = (SingleFlight::<(), ()>::new(KEEP), AtomicU32::new(0));
        let fail = || async {
            requests.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(10)).await;
            Err(CheckError::throttled(KEEP, "busy"))
        };
        let errors = join_all((0..100).map(|_| shared.get((), fail))).await;
        assert!(
            errors
                .into_iter()
                .all(|error| error.unwrap_err().kind() == ErrorKind::Throttled { after: KEEP })
        );
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        tokio::time::advance(KEEP_FAILURE).await;
        shared.get((), fail).await.unwrap_err();
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_caller_repeats_a_canceled_request() {
        let (shared, requests) = (
            Arc::new(SingleFlight::new(KEEP)),
            Arc::new(AtomicU32::new(0)),
        );
        let get = || {
            let (shared, requests) = (Arc::clone(&shared), Arc::clone(&requests));
            async move {
                shared
                    .get((), || async {
                        requests.fetch_add(1, Ordering::Relaxed);
                        sleep(Duration::from_secs(5)).await;
                        Ok(1)
                    })
                    .await
            }
        };
        let impatient = tokio::time::timeout(Duration::from_secs(1), get());
        let (gave_up, patient) = futures::future::join(impatient, get()).await;
        assert!(gave_up.is_err());
        assert_eq!(patient.unwrap(), 1);
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_is_bounded() {
        let shared = SingleFlight::new(KEEP);
        for key in 0..1000 {
            shared.get(key, || async { Ok(key) }).await.unwrap();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(shared.flights.lock().unwrap().len() <= 31);
    }

    /// As by the deadline of an evaluation.
    #[tokio::test(start_paused = true)]
    async fn abandoned_requests_are_removed() {
        let shared = SingleFlight::<_, u32>::new(KEEP);
        for key in 0..100 {
            let hangs = shared.get(key, std::future::pending);
            drop(tokio::time::timeout(Duration::from_secs(1), hangs).await);
        }
        let shares = shared.get(100, std::future::pending);
        let waits = tokio::time::timeout(Duration::from_secs(1), shares);
        let other = async { shared.get(1000, || async { Ok(1) }).await };
        let (_, one) = tokio::join!(waits, other);
        assert_eq!(one.unwrap(), 1);
        assert!(shared.flights.lock().unwrap().len() <= 2);
    }
}
