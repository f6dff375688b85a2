//! Kubernetes events: aggregated, rate limited, and sent apart from state writes.
//!
//! An event costs the API server as much as a verdict does, and contains nothing that the
//! Workload's status does not. So events do not double the load of many verdicts: they have their
//! own rate limit. Events beyond it are counted and dropped, warnings last.

mod aggregator;
mod rate_limit;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use self::aggregator::{Aggregation, EventAggregator};
use self::rate_limit::RateLimiter;
use super::metrics::{Metrics, ResultLabels};
use crate::Clock;
use crate::api::{AdmissionCheck, ApiVersion};
use crate::check::{CheckEvent, Reservation};

/// An event to publish.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventRecord {
    pub(crate) regarding: Regarding,
    pub(crate) event: CheckEvent,
}

/// The object of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Regarding {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: String,
}

impl Regarding {
    pub(crate) fn workload(reservation: &Reservation, version: ApiVersion) -> Self {
        Self {
            api_version: version.group_version(),
            kind: "Workload".to_owned(),
            namespace: Some(reservation.namespace().to_owned()),
            name: reservation.name().to_owned(),
            uid: reservation.uid().to_string(),
        }
    }

    pub(crate) fn admission_check(check: &AdmissionCheck, version: ApiVersion) -> Self {
        Self {
            api_version: version.group_version(),
            kind: "AdmissionCheck".to_owned(),
            namespace: None,
            name: check.name().to_owned(),
            uid: check.uid().to_string(),
        }
    }
}

impl From<ObjectReference> for Regarding {
    fn from(object: ObjectReference) -> Self {
        Self {
            api_version: object.api_version.unwrap_or_default(),
            kind: object.kind.unwrap_or_default(),
            namespace: object.namespace,
            name: object.name.unwrap_or_default(),
            uid: object.uid.unwrap_or_default(),
        }
    }
}

/// Maximum number of events that wait to be sent. More are counted and dropped.
const WAITING: usize = 512;
/// The part of these places that only warnings may take.
const KEPT_FOR_WARNINGS: usize = WAITING / 4;
/// Time limit for sending one event.
const SENDING: Duration = Duration::from_secs(5);

/// The handle with which events are published.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    to: mpsc::Sender<(Timestamp, EventRecord)>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Recorder {
    /// Returns the recorder and its reporter. Nothing is sent before [`Reporter::run`].
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        controller: &str,
        instance: &str,
        metrics: Arc<Metrics>,
    ) -> (Self, Reporter) {
        let (to, from) = mpsc::channel(WAITING);
        let aggregator = EventAggregator::new(controller, instance);
        (
            Self {
                to,
                clock,
                metrics: Arc::clone(&metrics),
            },
            Reporter {
                client,
                from,
                aggregator,
                pace: RateLimiter::default(),
                metrics,
            },
        )
    }

    /// Publishes `record`. Never waits.
    pub(crate) fn publish(&self, record: EventRecord) {
        let full = !record.event.warning && self.to.capacity() <= KEPT_FOR_WARNINGS;
        if full || self.to.try_send((self.clock.now(), record)).is_err() {
            self.metrics
                .events
                .get_or_create(&ResultLabels { result: "dropped" })
                .inc();
        }
    }
}

/// Sends the published events.
pub(crate) struct Reporter {
    client: Client,
    from: mpsc::Receiver<(Timestamp, EventRecord)>,
    aggregator: EventAggregator,
    pace: RateLimiter,
    metrics: Arc<Metrics>,
}

impl Reporter {
    /// Sends events until all recorders are gone and everything is sent.
    pub(crate) async fn run(mut self) {
        while let Some((at, record)) = self.from.recv().await {
            let sent = match self.aggregator.aggregate(&record, Instant::now(), at) {
                Aggregation::New(event) => {
                    self.wait_for_rate_limit().await;
                    let sent = self.create(*event).await;
                    if sent == "failed" {
                        self.aggregator.drop_event(&record);
                    }
                    sent
                }
                Aggregation::Repeated {
                    namespace,
                    name,
                    series,
                } => {
                    self.wait_for_rate_limit().await;
                    self.repeat(&namespace, &name, series).await
                }
                Aggregation::Deduplicated => continue,
                Aggregation::RateLimited => "limited",
            };
            self.metrics
                .events
                .get_or_create(&ResultLabels { result: sent })
                .inc();
        }
    }

    /// Waits until the rate limit allows the next event. When the recorders are gone, it does not
    /// wait.
    async fn wait_for_rate_limit(&mut self) {
        let wait = self.pace.wait(Instant::now());
        if !self.from.is_closed() {
            sleep(wait).await;
        }
    }

    async fn create(&self, event: Event) -> &'static str {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        match timeout(SENDING, api.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => "sent",
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot publish event");
                "failed"
            }
            Err(_) => "failed",
        }
    }

    async fn repeat(&self, namespace: &str, name: &str, series: EventSeries) -> &'static str {
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        let patch = serde_json::json!({"series": series});
        match timeout(
            SENDING,
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)),
        )
        .await
        {
            Ok(Ok(_)) => "repeated",
            _ => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_verdicts_is_not_doubled_by_its_events() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sent);
        let server = tower::service_fn(move |request: Request<Body>| {
            seen.lock().unwrap().push(Instant::now());
            async move { Ok::<_, Infallible>(Response::new(request.into_body())) }
        });
        let metrics = Arc::new(Metrics::default());
        let client = Client::new(server, "default");
        let (recorder, reporter) =
            Recorder::new(client, Clock::system(), "c", "i", Arc::clone(&metrics));
        let began = Instant::now();
        let running = tokio::spawn(reporter.run());
        for number in 0..2000 {
            recorder.publish(aggregator::record(&format!("w{number}"), "ok", false));
            sleep(Duration::from_millis(10)).await;
        }
        let in_time = |seconds| {
            let until = began + Duration::from_secs(seconds);
            sent.lock()
                .unwrap()
                .iter()
                .filter(|at| **at <= until)
                .count()
        };
        assert_eq!((in_time(1), in_time(20)), (30, 219));
        let count = |result| metrics.events.get_or_create(&ResultLabels { result }).get();
        let dropped = count("dropped");
        recorder.publish(aggregator::record("one more", "ok", false));
        assert_eq!(count("dropped"), dropped + 1, "others wait already");
        recorder.publish(aggregator::record("odd", "beware", true));
        assert_eq!(count("dropped"), dropped + 1, "a warning finds a place");
        drop(recorder);
        running.await.unwrap();
        assert_eq!(count("sent") + count("dropped"), 2002);
    }
}
