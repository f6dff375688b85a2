//! A client for services with a timeout, a circuit breaker, throttling by the server and a
//! concurrency limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kueue_check::service::CircuitBreakerLayer;
use kueue_check::{CheckError, ErrorKind};
use kueue_check_sources::{Origin, SourceError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use super::transport::{Operation, ServiceCall, ServiceReply, Transport, WHO};
use crate::document::quote;

/// The maximum number of concurrent requests to one server.
const AT_ONCE: usize = 4;
/// The number of consecutive failures that open a server's circuit breaker.
const FAILURES: u32 = 5;
/// How long the circuit breaker stays open.
const PAUSE: Duration = Duration::from_secs(15);
/// The maximum throttling that a server may request.
const LONGEST_PAUSE: Duration = Duration::from_mins(15);

/// All servers, by their origin.
pub(crate) struct Services {
    transport: Arc<dyn Transport>,
    hosts: Mutex<BTreeMap<Origin, Host>>,
    counts: Mutex<BTreeMap<(Operation, &'static str), u64>>,
}

type Guarded = BoxCloneSyncService<ServiceCall, ServiceReply, CheckError>;

/// One server.
#[derive(Clone)]
struct Host {
    service: Guarded,
    permits: Arc<Semaphore>,
    paused_until: Pause,
}

/// Until when a server has throttled requests.
type Pause = Arc<Mutex<Option<Instant>>>;

impl Services {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            hosts: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// Sends `call`, and returns a reply that is no outage. The caller holds a
    /// [permit](Self::permit).
    pub(crate) async fn send(&self, call: ServiceCall) -> Result<ServiceReply, CheckError> {
        let operation = call.operation;
        let reply = self.send_guarded(call).await;
        let result = match &reply {
            Ok(reply) if reply.status.is_success() => "ok",
            Ok(_) => "refused",
            Err(_) => "failed",
        };
        *lock(&self.counts).entry((operation, result)).or_default() += 1;
        reply
    }

    /// Returns the number of requests, by operation and result.
    pub(crate) fn counts(&self) -> BTreeMap<(Operation, &'static str), u64> {
        lock(&self.counts).clone()
    }

    /// Waits for a permit for a request to the server of `origin`. It is held until the reply is
    /// read.
    pub(crate) async fn permit(&self, origin: Origin) -> Result<OwnedSemaphorePermit, CheckError> {
        Ok(self.host(origin).permits.acquire_owned().await?)
    }

    async fn send_guarded(&self, call: ServiceCall) -> Result<ServiceReply, CheckError> {
        let origin = call.spec.origin().map_err(CheckError::parameters)?;
        let host = self.host(origin);
        let now = Instant::now();
        let paused = *lock(&host.paused_until);
        if let Some(until) = paused.filter(|until| *until > now) {
            let text = format!("{WHO} requests a pause");
            return Err(CheckError::throttled(until - now, text));
        }
        host.service.oneshot(call).await
    }

    fn host(&self, origin: Origin) -> Host {
        let mut hosts = lock(&self.hosts);
        let host = hosts.entry(origin).or_insert_with(|| {
            let (transport, paused_until) = (Arc::clone(&self.transport), Pause::default());
            let pause = Arc::clone(&paused_until);
            let send =
                service_fn(move |call| attempt(Arc::clone(&transport), call, Arc::clone(&pause)));
            let breaker = CircuitBreakerLayer::new(FAILURES, PAUSE).layer(send);
            Host {
                service: BoxCloneSyncService::new(breaker),
                permits: Arc::new(Semaphore::new(AT_ONCE)),
                paused_until,
            }
        });
        host.clone()
    }
}

/// Sends `call` once. The transport has its own timeout; this one is for transports that exceed it.
fn attempt(
    transport: Arc<dyn Transport>,
    call: ServiceCall,
    pause: Pause,
) -> BoxFuture<'static, Result<ServiceReply, CheckError>> {
    async move {
        let limit = call.spec.timeout() + Duration::from_secs(1);
        let reply = match timeout(limit, transport.send(call)).await {
            Ok(reply) => reply.map_err(|error| failure(&error))?,
            Err(_) => return Err(failure(&SourceError::TimedOut(WHO, limit))),
        };
        let classified = classify(reply);
        if let Err(error) = &classified
            && let ErrorKind::Throttled { after } = error.kind()
        {
            *lock(&pause) = Some(Instant::now() + after);
        }
        classified
    }
    .boxed()
}

/// Returns `reply`, or an error if it reports an outage.
fn classify(reply: ServiceReply) -> Result<ServiceReply, CheckError> {
    let status = reply.status.as_u16();
    let quoted = || quote(&reply.body);
    let retry_after = reply
        .headers
        .get(http::header::RETRY_AFTER)
        .and_then(|after| after.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    match (status, retry_after) {
        (429, _) | (503, Some(_)) => {
            let after = retry_after.unwrap_or(Duration::from_secs(60));
            let after = after.clamp(Duration::from_secs(1), LONGEST_PAUSE);
            Err(CheckError::throttled(
                after,
                format!("{WHO} requests a pause of {}s ({status})", after.as_secs()),
            ))
        }
        (300..=399, _) => Err(CheckError::transient(format!(
            "{WHO} redirects ({status}), which is not followed"
        ))),
        (401 | 403, _) => Err(CheckError::transient(format!(
            "{WHO} rejected the credentials ({status})"
        ))),
        (200..=299 | 404 | 409 | 410, _) => Ok(reply),
        _ => Err(CheckError::transient(format!(
            "{WHO} responded with {status}: {}",
            quoted()
        ))),
    }
}

fn failure(error: &SourceError) -> CheckError {
    CheckError::transient(error.to_string())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
