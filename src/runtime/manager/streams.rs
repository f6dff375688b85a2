//! The streams of triggers of check authors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::api::digest;
use crate::check::Trigger;
use crate::runtime::backoff::Backoff;
use crate::runtime::evaluate::panic_message;
use crate::runtime::informers::InformerEvent;
use crate::runtime::metrics::{Metrics, WatchLabels};

/// The first and the maximum delay before a stream is opened again after a panic.
const REOPENED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// Time without a panic after which the delays start small again.
const QUIET: Duration = Duration::from_mins(10);

/// A stream of a check, and where its triggers go.
pub(super) struct TriggerStream {
    pub(super) name: String,
    pub(super) check: usize,
    pub(super) open: Arc<dyn Fn() -> BoxStream<'static, Trigger> + Send + Sync>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) seed: u64,
    pub(super) to: mpsc::Sender<InformerEvent>,
}

impl TriggerStream {
    /// Opens the stream, and forwards its triggers until it ends. After a panic in it, it is opened
    /// again. The triggers between are unknown, so all Workloads of the check are evaluated.
    pub(super) fn forward(self) -> impl Future<Output = ()> + Send {
        let mut opened = self.opened();
        async move {
            let backoff = Backoff::new(REOPENED.0, REOPENED.1, self.seed);
            let mut panics = 0;
            loop {
                let (since, first) = (Instant::now(), opened.take());
                let forwarded = AssertUnwindSafe(self.forward_one(first));
                let Err(panic) = forwarded.catch_unwind().await else {
                    return;
                };
                panics = if since.elapsed() > QUIET {
                    1
                } else {
                    panics + 1
                };
                self.panicked(&panic_message(&*panic));
                sleep(backoff.delay(panics, digest(&self.name))).await;
                opened = self.opened();
                if !self.send(Trigger::AllWorkloads).await {
                    return;
                }
            }
        }
    }

    /// Opens the stream; `None` if that panics.
    fn opened(&self) -> Option<BoxStream<'static, Trigger>> {
        std::panic::catch_unwind(AssertUnwindSafe(|| (self.open)())).ok()
    }

    async fn forward_one(&self, opened: Option<BoxStream<'static, Trigger>>) {
        let mut triggers = opened.unwrap_or_else(|| (self.open)());
        while let Some(trigger) = triggers.next().await {
            if trigger != Trigger::Ignore && !self.send(trigger).await {
                return;
            }
        }
        tracing::info!(stream = self.name, "a stream of triggers has ended");
    }

    /// Returns false if the session has ended.
    async fn send(&self, trigger: Trigger) -> bool {
        let check = self.check;
        let sent = self.to.send(InformerEvent::Trigger { check, trigger });
        sent.await.is_ok()
    }

    fn panicked(&self, error: &str) {
        let watch = self.name.clone();
        let errors = self
            .metrics
            .watches
            .errors
            .get_or_create(&WatchLabels { watch });
        errors.inc();
        tracing::error!(
            stream = self.name,
            error,
            "a stream of triggers panicked; it will be opened again"
        );
    }
}
