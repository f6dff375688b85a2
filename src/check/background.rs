//! Background work of a check, and the Workload events that it receives.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt, unfold};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::sleep;

use super::fence::fenced;
use super::{CheckEvent, Family};
use crate::Clock;
use crate::api::Workload;

/// A Workload event, as [`observe`](crate::Check::observe) receives it.
///
/// ```
/// use std::collections::BTreeSet;
/// use kueue_check::{Family, WorkloadEvent, api::Workload};
///
/// /// The Workloads that run, as a closure of `Check::observe` keeps them.
/// fn observe(running: &mut BTreeSet<String>, seen: WorkloadEvent<'_>) {
///     match seen {
///         WorkloadEvent::ListStarted => running.clear(),
///         WorkloadEvent::Applied(workload, _) if workload.is_admitted() => { running.insert(workload.to_string()); }
///         WorkloadEvent::Applied(workload, _) | WorkloadEvent::Removed(workload) => { running.remove(&workload.to_string()); }
///         _ => {}
///     }
/// }
///
/// let mut running = BTreeSet::new();
/// let train = Workload::from_json(serde_json::json!({
///     "metadata": {"namespace": "team-a", "name": "train"}, "status": {"conditions": [{"type": "Admitted", "status": "True"}]},
/// }))?;
/// observe(&mut running, WorkloadEvent::Applied(&train, &Family::of(&train, [])));
/// assert!(running.contains("team-a/train"));
/// observe(&mut running, WorkloadEvent::Removed(&train));
/// assert!(running.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkloadEvent<'a> {
    /// The start of a list of all Workloads that hold quota, up to
    /// [`ListCompleted`](Self::ListCompleted). Workloads missing from it are removed.
    ListStarted,
    /// A Workload in its current state, and its family. It holds quota, or has just lost it, or has
    /// just finished. It is sent again when another Workload of the job changes the family.
    Applied(&'a Workload, &'a Family),
    /// A Workload that no longer holds quota, in its last observed state: it lost the quota, or was
    /// deleted. This event does not distinguish the two;
    /// [`release`](crate::AdmissionCheckController::release) does, on the leader.
    Removed(&'a Workload),
    /// The list is complete.
    ListCompleted {
        /// Whether every event between the previous list and this one was sent too. If not, a
        /// Workload may have appeared and disappeared unobserved.
        continuous: bool,
    },
}

/// The context of [`background`](crate::Check::background) work.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::BackgroundContext;
///
/// /// Polls another system once a minute; only the leader writes the results.
/// async fn background(mut context: BackgroundContext) {
///     loop {
///         if context.is_leader() {
///             // poll, and write with `context.client()`
///         }
///         tokio::select! {
///             () = tokio::time::sleep(Duration::from_secs(60)) => {}
///             () = context.leadership_changed() => {}
///         }
///     }
/// }
/// # let _ = background;
/// ```
#[derive(Clone)]
pub struct BackgroundContext {
    client: Client,
    clock: Clock,
    leading: watch::Receiver<bool>,
    host: Arc<dyn BackgroundHost>,
}

/// What the runtime provides for background work.
pub(crate) trait BackgroundHost: Send + Sync {
    /// Begins the watch `name`. Returns the client that it uses, and a receiver of its progress.
    fn watch(&self, name: &str) -> (Client, Box<dyn WatchProgress>);

    /// Records an event about an object.
    fn record_event(&self, regarding: ObjectReference, event: CheckEvent);
}

/// A receiver of the progress of a watch. The watch ends when it is dropped.
pub(crate) trait WatchProgress: Send {
    /// Records that the watch received something.
    fn progressed(&mut self, step: WatchStep);

    /// Records that the watch failed. Returns the delay before it is retried, and whether it must
    /// begin with a list.
    fn failed(&mut self, error: &watcher::Error) -> (Duration, bool);
}

/// What a watch received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStep {
    ListStarted,
    ListCompleted,
    Object,
}

impl<K> From<&Event<K>> for WatchStep {
    fn from(event: &Event<K>) -> Self {
        match event {
            Event::Init => Self::ListStarted,
            Event::InitDone => Self::ListCompleted,
            Event::Apply(_) | Event::Delete(_) | Event::InitApply(_) => Self::Object,
        }
    }
}

impl BackgroundContext {
    /// Makes a context for a test, or for a program with a runtime of its own; `leading` is true
    /// while it leads. Events are only logged, and no health report lists its watches.
    pub fn new(client: Client, clock: Clock, leading: watch::Receiver<bool>) -> Self {
        let host = Arc::new(WithoutRuntime(client.clone()));
        Self::hosted(client, clock, leading, host)
    }

    /// Makes the context of a check that a runtime runs.
    pub(crate) fn hosted(
        client: Client,
        clock: Clock,
        leading: watch::Receiver<bool>,
        host: Arc<dyn BackgroundHost>,
    ) -> Self {
        let client = fenced(&client, leads(&leading));
        Self {
            client,
            clock,
            leading,
            host,
        }
    }

    /// Returns a client for the cluster; no request of it hangs. Its permissions are the check's
    /// [`permissions`](crate::Check::permissions).
    ///
    /// It reads at any time, and writes only while this replica leads and its Lease is valid. A
    /// later write is an error and is not sent, because another replica may lead by then. Reviews,
    /// such as a `SelfSubjectAccessReview`, are reads.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns true if this replica leads. Only then can anything be written.
    pub fn is_leader(&self) -> bool {
        *self.leading.borrow()
    }

    /// Completes when [`is_leader`](Self::is_leader) has changed since this was last awaited; never
    /// again once the session is over.
    pub async fn leadership_changed(&mut self) {
        if self.leading.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Watches objects for ever, on standbys too. A failure is an item; the watch is retried
    /// after an exponential backoff of at most 30 s.
    ///
    /// The watch is one of the program's: `kueue_check_watch_synced` and `/diagnostics` name it as
    /// `CONTROLLER/NAME`. `/readyz` does too, while its list has not been read or it has failed for
    /// 2 min. A program that is not ready continues to evaluate. `open` is called each time that
    /// the watch begins with a list; its error is a failure of the watch.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::Api;
    /// use kube::runtime::watcher::{Config, Event};
    /// use kueue_check::BackgroundContext;
    ///
    /// /// Keeps the labels of namespaces.
    /// async fn background(context: BackgroundContext) {
    ///     let open = async |client| Ok(Api::<Namespace>::all(client));
    ///     let mut events = context.watch("namespaces", open, Config::default());
    ///     while let Some(event) = events.next().await {
    ///         if let Ok(Event::Apply(namespace) | Event::InitApply(namespace)) = event {
    ///             // keep `namespace.metadata.labels`
    /// #           drop(namespace);
    ///         }
    ///     }
    /// }
    /// # let _ = background;
    /// ```
    pub fn watch<K, F>(
        &self,
        name: &str,
        open: impl Fn(Client) -> F + Send + 'static,
        config: watcher::Config,
    ) -> BoxStream<'static, watcher::Result<Event<K>>>
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
        F: Future<Output = kube::Result<Api<K>>> + Send + 'static,
    {
        let (client, progress) = self.host.watch(name);
        let begun = Watching {
            client: fenced(&client, leads(&self.leading)),
            open,
            config,
            events: None,
            progress,
            pause: Duration::ZERO,
        };
        unfold(begun, Watching::next).boxed()
    }

    /// Records an event about `regarding`, while this replica leads. The number and the rate of
    /// events are limited, and repeats become one event, as for the runtime's own. Never waits.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::Resource;
    /// use kueue_check::{BackgroundContext, CheckEvent};
    ///
    /// fn warn(context: &BackgroundContext, namespace: &Namespace) {
    ///     let event = CheckEvent::warning("NoBudget", "the namespace has no budget: make one");
    ///     context.record_event(namespace.object_ref(&()), event);
    /// }
    /// # let _ = warn;
    /// ```
    pub fn record_event(&self, regarding: ObjectReference, event: CheckEvent) {
        if self.is_leader() {
            self.host.record_event(regarding, event);
        }
    }
}

fn leads(leading: &watch::Receiver<bool>) -> impl Fn() -> bool + Clone + Send + 'static {
    let leading = leading.clone();
    move || *leading.borrow()
}

/// A watch of background work.
struct Watching<K, O> {
    client: Client,
    open: O,
    config: watcher::Config,
    /// `None` if the watch has to begin with a list.
    events: Option<BoxStream<'static, watcher::Result<Event<K>>>>,
    progress: Box<dyn WatchProgress>,
    /// The delay before the next request.
    pause: Duration,
}

impl<K, O, F> Watching<K, O>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    O: Fn(Client) -> F,
    F: Future<Output = kube::Result<Api<K>>>,
{
    /// Returns the next item; the watch never ends.
    async fn next(mut self) -> Option<(watcher::Result<Event<K>>, Self)> {
        sleep(std::mem::take(&mut self.pause)).await;
        let item = loop {
            let events = match &mut self.events {
                Some(events) => events,
                None => match (self.open)(self.client.clone()).await {
                    Ok(api) => {
                        let events = watcher(api, self.config.clone()).boxed();
                        self.events.insert(events)
                    }
                    Err(error) => break Err(watcher::Error::InitialListFailed(error)),
                },
            };
            match events.next().await {
                Some(item) => break item,
                None => self.events = None,
            }
        };
        match &item {
            Ok(event) => self.progress.progressed(event.into()),
            Err(error) => {
                let (pause, relist) = self.progress.failed(error);
                self.pause = pause;
                if relist {
                    self.events = None;
                }
            }
        }
        Some((item, self))
    }
}

/// The host of background work in a program without a runtime of this crate.
struct WithoutRuntime(Client);

impl BackgroundHost for WithoutRuntime {
    fn watch(&self, _: &str) -> (Client, Box<dyn WatchProgress>) {
        (self.0.clone(), Box::new(Unreported))
    }

    fn record_event(&self, regarding: ObjectReference, event: CheckEvent) {
        let name = regarding.name.unwrap_or_default();
        tracing::info!(name, reason = event.reason(), note = event.note(), "event");
    }
}

/// A receiver that discards the progress of a watch.
struct Unreported;

impl WatchProgress for Unreported {
    fn progressed(&mut self, _: WatchStep) {}

    fn failed(&mut self, _: &watcher::Error) -> (Duration, bool) {
        (Duration::from_secs(5), false)
    }
}

impl fmt::Debug for BackgroundContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundContext")
            .field("clock", &self.clock)
            .field("leading", &self.is_leader())
            .finish_non_exhaustive()
    }
}
