//! Informers: one task for each watch, one channel to the manager.
//!
//! kube's `watcher` runs the watches. This module handles what it does not: rejected selectors, a
//! 410 in reply to a watch (not inside one), hanging requests, errors without a delay between them.
//! Streaming lists are not used, so they need no fallback; objects cannot fail to decode.

mod compare;
mod discovery;
mod sources;
mod without_quota;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::backoff::Backoff;
use super::connection::retry_after;
use super::error_text::brief;
use super::health::WatchHealth;
use super::metrics::{Metrics, WatchLabels};
use crate::api::{AdmissionCheck, ResourceFlavor, ResourceVersion, ServedApi, Uid, Workload};
use crate::check::{Trigger, WatchStep};

pub(crate) use compare::compare;
pub(crate) use discovery::{Noticed, find_served, watch_served_api};
#[cfg(feature = "cli")]
pub(crate) use sources::parameters_resource;
pub(crate) use sources::{
    CheckSource, FlavorSource, ParametersSource, Revision, StoredParameters, TriggerSource,
    WorkloadSource,
};
pub(crate) use without_quota::scan_without_quota;

/// An event for the manager.
#[derive(Debug)]
pub(crate) enum InformerEvent {
    Checks(Event<AdmissionCheck>),
    /// `selected` is true if only Workloads with quota are sent, so that a deletion may be a loss
    /// of quota. `term` is the number of the watch.
    Workloads {
        event: Event<Workload>,
        selected: bool,
        term: u64,
    },
    /// A Workload without quota, from the scan of this term.
    WithoutQuota {
        workload: Workload,
        term: u64,
    },
    Flavors(Event<ResourceFlavor>),
    /// Parameters of the kind with this number.
    Parameters {
        kind: usize,
        event: Event<StoredParameters>,
    },
    /// The kind with this number is not served, or its list is forbidden.
    ParametersFailed {
        kind: usize,
        failure: Failure,
    },
    /// A trigger of evaluations, for the controller with this number.
    Trigger {
        check: usize,
        trigger: Trigger,
    },
    /// A Workload with quota, from a list of the version `as_of` that is read in addition to the
    /// watch.
    Compare {
        workload: Workload,
        as_of: ResourceVersion,
        term: u64,
    },
    /// That list is complete, and contained these.
    Compared {
        named: BTreeSet<Uid>,
        term: u64,
    },
    /// How Kueue's API is served, after a change.
    Served(ServedApi),
    /// The API server's storage is older than it was.
    Restored {
        shown: ResourceVersion,
        now: ResourceVersion,
    },
}

/// The reason why a watch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The HTTP status; 0 without a reply.
    pub(crate) code: u16,
    pub(crate) message: String,
    /// Whether a list failed, not a watch.
    pub(crate) lists: bool,
}

/// A source of watch events.
pub(crate) trait Source: Send {
    /// The content of its events.
    type Item: Send + 'static;

    /// Starts with a new list.
    fn start(
        &mut self,
    ) -> impl Future<Output = kube::Result<BoxStream<'static, watcher::Result<Event<Self::Item>>>>> + Send;

    /// Converts an event for the manager; `None` if the manager does not need it.
    fn incoming(&mut self, event: Event<Self::Item>) -> Option<InformerEvent>;

    /// Returns true if its list is read again from time to time.
    fn resyncs(&self) -> bool {
        true
    }

    /// Returns the event of a failure for the manager, and the recovery.
    fn failed(&mut self, failure: &Failure) -> (Option<InformerEvent>, WatchRecovery) {
        let _ = failure;
        (None, WatchRecovery::Resume)
    }
}

/// The recovery from a failure, after a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchRecovery {
    /// Continue.
    Resume,
    /// Start with a new list.
    Relist,
}

/// The first and the maximum delay after failures.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Time without a failure after which the delays of a watch start small again. A list that is
/// retried starts with an event, which is no success.
const QUIET: Duration = Duration::from_mins(2);

/// Interval of complete comparisons with the API server, although no event seems to be lost.
pub(crate) const RESYNC: Duration = Duration::from_mins(30);

/// Watches `source` forever.
pub(crate) async fn watch<S: Source>(
    mut source: S,
    health: WatchHealth,
    metrics: Arc<Metrics>,
    seed: u64,
    to: mpsc::Sender<InformerEvent>,
) {
    let mut monitor = WatchMonitor::new(health, metrics, seed);
    loop {
        let mut stream = match source.start().await {
            Ok(stream) => stream,
            Err(error) => {
                futures::stream::once(async { Err(watcher::Error::InitialListFailed(error)) })
                    .boxed()
            }
        };
        let resync = source.resyncs().then(|| Instant::now() + RESYNC);
        let mut synced = false;
        while let Some(item) = next(&mut stream, resync.filter(|_| synced)).await {
            let error = match item {
                Ok(event) => {
                    match event {
                        Event::Init => synced = false,
                        Event::InitDone => synced = true,
                        _ => {}
                    }
                    monitor.progressed(WatchStep::from(&event));
                    if let Some(incoming) = source.incoming(event)
                        && to.send(incoming).await.is_err()
                    {
                        return;
                    }
                    continue;
                }
                Err(error) => error,
            };
            let (failure, pause) = monitor.failed(&error);
            let (incoming, reaction) = source.failed(&failure);
            if let Some(incoming) = incoming
                && to.send(incoming).await.is_err()
            {
                return;
            }
            tokio::time::sleep(pause).await;
            // With a version that is gone, kube would send the same request again, forever.
            if reaction == WatchRecovery::Relist || is_expired_at_start(&error) {
                break;
            }
        }
    }
}

/// Reports the state of one watch, and delays its retries.
pub(crate) struct WatchMonitor {
    health: WatchHealth,
    metrics: Arc<Metrics>,
    backoff: Backoff,
    /// The key of its jitter.
    key: u64,
    failures: u32,
    last_failure: Option<Instant>,
}

impl WatchMonitor {
    pub(crate) fn new(health: WatchHealth, metrics: Arc<Metrics>, seed: u64) -> Self {
        Self {
            key: crate::api::digest(health.name()),
            health,
            metrics,
            backoff: Backoff::new(BACKOFF.0, BACKOFF.1, seed),
            failures: 0,
            last_failure: None,
        }
    }

    pub(crate) fn progressed(&self, step: WatchStep) {
        match step {
            WatchStep::ListStarted => self.health.unsynced(),
            WatchStep::ListCompleted => self.health.synced(),
            WatchStep::Object => self.health.record_activity(),
        }
    }

    /// Records a failure of the watch. Returns its reason, and the delay before the retry.
    pub(crate) fn failed(&mut self, error: &watcher::Error) -> (Failure, Duration) {
        if self.last_failure.is_none_or(|at| at.elapsed() > QUIET) {
            self.failures = 0;
        }
        self.last_failure = Some(Instant::now());
        self.failures += 1;
        self.metrics
            .watches
            .errors
            .get_or_create(&self.labels())
            .inc();
        let failure = Failure::from(error);
        self.health.failed(failure.message.clone());
        tracing::debug!(
            watch = self.health.name(),
            error = failure.message,
            "a watch failed; will retry"
        );
        let requested = pause_in(error).unwrap_or_default();
        let pause = requested.max(self.backoff.delay(self.failures, self.key));
        (failure, pause.min(BACKOFF.1))
    }

    /// Ends the watch: it is no longer reported.
    pub(crate) fn end(&self) {
        self.health.remove();
        self.metrics.remove_watch(&self.labels());
    }

    fn labels(&self) -> WatchLabels {
        WatchLabels {
            watch: self.health.name().to_owned(),
        }
    }
}

/// Returns the next item; `None` when everything must be listed again.
async fn next<T>(stream: &mut BoxStream<'static, T>, resync: Option<Instant>) -> Option<T> {
    match resync {
        Some(at) => timeout_at(at, stream.next()).await.ok().flatten(),
        None => stream.next().await,
    }
}

/// Returns true for an HTTP 410 in reply to a watch, which a proxy or an aggregated server may
/// send. The API server itself sends it inside the watch, where kube handles it.
pub(crate) fn is_expired_at_start(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

fn pause_in(error: &watcher::Error) -> Option<Duration> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => retry_after(error),
        watcher::Error::WatchError(status) if status.code == 429 => status
            .details
            .as_ref()
            .map(|details| Duration::from_secs(details.retry_after_seconds.into())),
        _ => None,
    }
}

impl From<&watcher::Error> for Failure {
    fn from(error: &watcher::Error) -> Self {
        let code = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => status.code,
            _ => 0,
        };
        let message = match error {
            watcher::Error::InitialListFailed(error) => format!("list: {}", brief(error)),
            watcher::Error::WatchStartFailed(error) => format!("watch: {}", brief(error)),
            watcher::Error::WatchFailed(error) => format!("watch broke off: {}", brief(error)),
            watcher::Error::WatchError(status) => {
                format!("watch: {} {}", status.code, status.message)
            }
            watcher::Error::NoResourceVersion => error.to_string(),
        };
        Self {
            code,
            message: crate::check::redact(&message).into_owned(),
            lists: matches!(error, watcher::Error::InitialListFailed(_)),
        }
    }
}
