//! The client of the runtime: no request hangs, no retry is hidden, every request is counted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep, timeout};
use tower::BoxError;
use tower_http::timeout::TimeoutBody;

use super::health::WatchHealth;
use super::metrics::{Metrics, RequestLabels};

/// Time limits for the head of a response, and for silence in its body. The body of a watch has no
/// such limit: the watch's own timeout ends it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The first and the maximum delay between watches that end early. kube's watcher starts the next
/// one at once.
const WATCH_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Minimum duration of a watch for the next one to start at once.
const LASTING: Duration = Duration::from_secs(10);

/// The reason why a request failed without a response of the API server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// It hangs.
    #[error("the API server did not respond within {0:?}")]
    Timeout(Duration),
    /// The API server requests a pause (429, or 503 with Retry-After), which kube's own error would
    /// not contain.
    #[error("the API server responded with {code} and requests a pause of {after:?}")]
    Throttled {
        /// The HTTP status.
        code: u16,
        /// The requested pause.
        after: Duration,
    },
}

/// Returns `client` with limits and metrics for each request. Responses to the watch of `health`
/// are its signs of life.
pub(crate) fn instrumented(
    client: &Client,
    metrics: &Arc<Metrics>,
    health: Option<WatchHealth>,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let (client, metrics) = (client.clone(), Arc::clone(metrics));
    let throttle = Arc::new(WatchThrottle::default());
    let service = tower::service_fn(move |request| {
        let (metrics, health) = (Arc::clone(&metrics), health.clone());
        let (client, throttle) = (client.clone(), Arc::clone(&throttle));
        async move {
            // A client with `health` belongs to one watch.
            if health.is_some() && verb(&request) == "watch" {
                sleep(throttle.wait(Instant::now())).await;
            }
            send(client, metrics, health, request).await
        }
    });
    Client::new(service, namespace)
}

/// The starts of the watches of one client.
#[derive(Debug, Default)]
struct WatchThrottle(Mutex<WatchStarts>);

#[derive(Debug, Default)]
struct WatchStarts {
    began: Option<Instant>,
    /// Consecutive watches that ended early.
    hasty: u32,
}

impl WatchThrottle {
    /// Returns how long the watch that is requested at `now` has to wait.
    fn wait(&self, now: Instant) -> Duration {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lasted = starts
            .began
            .map(|began| now.saturating_duration_since(began));
        let wait = match lasted.filter(|lasted| *lasted < LASTING) {
            None => {
                starts.hasty = 0;
                Duration::ZERO
            }
            Some(lasted) => {
                starts.hasty += 1;
                let (first, largest) = WATCH_PAUSES;
                let pause = first.saturating_mul(1 << (starts.hasty - 1).min(16));
                pause.min(largest).saturating_sub(lasted)
            }
        };
        starts.began = Some(now + wait);
        wait
    }
}

type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

async fn send(
    client: Client,
    metrics: Arc<Metrics>,
    health: Option<WatchHealth>,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, BoxError> {
    let verb = verb(&request);
    let result = timeout(HEAD_TIMEOUT, client.send(request)).await;
    let code = match &result {
        Ok(Ok(response)) => response.status().as_u16(),
        _ => 0,
    };
    metrics
        .requests
        .get_or_create(&RequestLabels { verb, code })
        .inc();
    let response = result.map_err(|_| RequestError::Timeout(HEAD_TIMEOUT))??;
    if let Some(after) = pause(&response) {
        return Err(RequestError::Throttled { code, after }.into());
    }
    // An error response contains nothing of what is watched.
    let health = health.filter(|_| response.status().is_success());
    if let Some(health) = &health {
        health.record_activity();
    }
    Ok(response.map(|body| match (verb, health) {
        ("watch", Some(health)) => body
            .map_frame(move |frame| {
                health.record_activity();
                frame
            })
            .map_err(Into::into)
            .boxed_unsync(),
        ("watch", None) => body.map_err(Into::into).boxed_unsync(),
        _ => TimeoutBody::new(BODY_TIMEOUT, body).boxed_unsync(),
    }))
}

/// Returns the API verb of a request.
fn verb(request: &Request<Body>) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    let watches = query.split('&').any(|pair| pair == "watch=true");
    match request.method().as_str() {
        "GET" if watches => "watch",
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

/// Returns the pause that the response requests.
fn pause<B>(response: &Response<B>) -> Option<Duration> {
    let overloaded = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let header = response.headers().get(RETRY_AFTER).filter(|_| overloaded)?;
    header.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// Returns the pause that an error requests.
pub(crate) fn retry_after(error: &kube::Error) -> Option<Duration> {
    match error {
        kube::Error::Service(error) => match error.downcast_ref::<RequestError>()? {
            RequestError::Throttled { after, .. } => Some(*after),
            RequestError::Timeout(_) => None,
        },
        kube::Error::Api(status) if status.code == 429 => {
            let seconds = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            Some(Duration::from_secs(seconds.max(1).into()))
        }
        _ => None,
    }
}

/// Returns the status of an error with which the API server replied.
pub(crate) fn status_of(error: &kube::Error) -> Option<&kube::core::Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_that_end_soon_begin_ever_more_rarely() {
        let throttle = WatchThrottle::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = throttle.wait(now);
            waits.push(wait.as_millis());
            now += wait + Duration::from_millis(100);
        }
        assert_eq!(
            waits,
            [0, 400, 900, 1_900, 3_900, 7_900, 15_900, 29_900, 29_900]
        );
        now += LASTING;
        assert_eq!(throttle.wait(now), Duration::ZERO, "it lasted");
    }
}
