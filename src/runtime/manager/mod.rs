//! The runtime as a whole: its builder, its loop around the core, and the tasks it carries out.
//!
//! The state is in `runtime::core`, which the loop owns. Whatever takes time is a task,
//! which gets copies and returns a result.

mod background;
mod builder;
mod diagnostics;
mod reporting;
mod session;
mod spans;
mod tasks;
mod updates;
mod watches;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::connection::instrumented;
use super::events::Recorder;
use super::health::Health;
use super::informers::find_served;
use super::lease::{self, Leadership, LeaseConfig};
use super::metrics::Metrics;
use super::signal::cancelled;
use crate::Clock;
use crate::api::ResourceVersion;
use crate::check::DynCheck;
use session::Session;

#[cfg(feature = "cli")]
#[cfg(feature = "cli")]
pub(in crate::runtime) use updates::{About, fit_updates};

pub use builder::{BuildError, RuntimeBuilder};
pub use diagnostics::Diagnostics;

/// Runs checks against a cluster.
///
/// ```no_run
/// # async fn example(check: impl kueue_check::AdmissionCheckController) -> Result<(), Box<dyn std::error::Error>> {
/// use kueue_check::runtime::Runtime;
///
/// let client = kube::Client::try_default().await?;
/// Runtime::builder(client).check(check).build()?.run(std::future::pending()).await?;
/// # Ok(()) }
/// ```
pub struct Runtime {
    checks: Arc<[DynCheck]>,
    client: Client,
    lease_client: Client,
    settings: Settings,
    metrics: Arc<Metrics>,
    health: Health,
    queries: (mpsc::Sender<Query>, mpsc::Receiver<Query>),
}

/// What can be chosen about a [`Runtime`].
#[derive(Clone, Debug)]
pub(super) struct Settings {
    name: String,
    version: String,
    instance: String,
    concurrency: usize,
    timeout: Duration,
    grace: Duration,
    lease: Option<LeaseConfig>,
    clock: Clock,
    seed: u64,
}

/// Why a runtime stopped without being asked to. The program then ends the process, which is
/// started again.
///
/// What a check is asked may panic. What runs apart from evaluations, such as its own streams and its
/// background work, may not:
///
/// ```
/// # use kueue_check::*;
/// # use kueue_check::runtime::Runtime;
/// # use kueue_check_sim::apiserver::ApiServer;
/// struct Rates;
///
/// impl AdmissionCheckController for Rates {
/// #   type Parameters = NoParameters;
/// #   fn controller_name(&self) -> ControllerName { const { ControllerName::from_static("example.com/rates") } }
/// #   async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> { Ok(Verdict::ready("")) }
///     fn configure(self: &std::sync::Arc<Self>, check: Check) -> Check {
///         check.watches_stream("daily", || {
///             futures::stream::once(async { panic!("there are no rates for 2027") })
///         })
///     }
///     // ...
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::with_definitions(Clock::system(), kueue_check_sim::definitions::kueue());
/// # let client = server.client();
/// let error = Runtime::builder(client).check(Rates).build()?.run(std::future::pending()).await.unwrap_err();
/// assert!(error.to_string().contains("there are no rates for 2027"), "{error}");
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A part of it died: by a panic in a check's own stream, watch or background work, or by a
    /// fault of this SDK.
    #[error("a background task ended: {0}")]
    TaskEnded(String),
    /// Another replica leads now. What the checks keep in memory belongs to the time in which this
    /// one did, so the process starts afresh, as client-go's and controller-runtime's do.
    #[error(
        "leadership was lost to `{holder}`: this process ends, so that a fresh one becomes a standby"
    )]
    LeadershipLost {
        /// The replica that leads.
        holder: String,
    },
    /// etcd was restored from a backup. Watches show nothing of that, and the caches of this
    /// process are of another history, so it starts afresh.
    #[error(
        "the cluster was restored from a backup (its version was {shown} and is {now}): this process \
         ends, so that a fresh one reads everything"
    )]
    ClusterRestored {
        /// The newest version that watches have shown.
        shown: ResourceVersion,
        /// The version that the API server's storage has now.
        now: ResourceVersion,
    },
}

/// A question to a running session.
pub(crate) enum Query {
    /// Bring the gauges up to date.
    Gauges(oneshot::Sender<()>),
    /// Say everything.
    Diagnostics(oneshot::Sender<Diagnostics>),
}

/// A view of a running [`Runtime`], for an admin endpoint. Cheap to clone.
///
/// ```
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::Runtime};
/// # use kueue_check_sim::apiserver::ApiServer;
/// # use std::time::Duration;
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = ApiServer::new(Clock::system()).client();
/// // On a cluster without Kueue, which is no error: the runtime waits for it.
/// let runtime = Runtime::builder(client).check(open).build()?;
/// let handle = runtime.handle();
/// tokio::spawn(runtime.run(std::future::pending()));
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// assert_eq!(handle.problems(), ["kueue: Kueue is not installed: the API server does not serve the group kueue.x-k8s.io"]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RuntimeHandle {
    queries: mpsc::Sender<Query>,
    checks: Arc<[DynCheck]>,
    metrics: Arc<Metrics>,
    health: Health,
}

/// How long the loop may take to answer a question before it counts as stuck.
const DIAGNOSTICS_TIMEOUT: Duration = Duration::from_secs(5);

impl RuntimeHandle {
    /// What keeps the process from being ready, each a sentence; empty when nothing does.
    pub fn problems(&self) -> Vec<String> {
        self.health.problems()
    }

    /// Whether the loop turns. It does while it waits for Kueue or the API server: to start the
    /// process again would not help.
    pub async fn is_alive(&self) -> bool {
        self.ask(Query::Gauges).await.is_some()
    }

    /// All metrics in the OpenMetrics text format.
    pub async fn metrics(&self) -> String {
        self.ask(Query::Gauges).await;
        for watch in self.health.watches() {
            let labels = super::metrics::WatchLabels { watch: watch.name };
            self.metrics
                .watch_synced
                .get_or_create(&labels)
                .set(watch.synced.into());
            #[expect(clippy::cast_precision_loss, reason = "seconds")]
            self.metrics
                .watch_idle_seconds
                .get_or_create(&labels)
                .set(watch.idle_seconds as f64);
        }
        self.metrics.text(
            &self
                .checks
                .iter()
                .map(DynCheck::metrics)
                .collect::<String>(),
        )
    }

    /// The state of the runtime; `None` while it waits for Kueue's API, and if the loop is
    /// stuck or over.
    pub async fn diagnostics(&self) -> Option<Diagnostics> {
        self.ask(Query::Diagnostics).await
    }

    async fn ask<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> Option<T> {
        let (answer, question) = oneshot::channel();
        let asked = async {
            self.queries.send(query(answer)).await.ok()?;
            question.await.ok()
        };
        tokio::time::timeout(DIAGNOSTICS_TIMEOUT, asked)
            .await
            .ok()
            .flatten()
    }
}

impl Runtime {
    /// A runtime on the cluster that `client` speaks to.
    pub fn builder(client: Client) -> RuntimeBuilder {
        RuntimeBuilder::new(client)
    }

    /// For an admin endpoint.
    pub fn handle(&self) -> RuntimeHandle {
        RuntimeHandle {
            queries: self.queries.0.clone(),
            checks: Arc::clone(&self.checks),
            metrics: Arc::clone(&self.metrics),
            health: self.health.clone(),
        }
    }

    /// Runs until `shutdown` completes: then nothing new is begun, what runs is finished within the
    /// grace time or abandoned, and the lease is released.
    ///
    /// # Errors
    /// [`RunError`] if a part of the runtime died. An unreachable API server, a missing Kueue or
    /// missing permissions are no errors: the runtime says so in its readiness, and waits.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<(), RunError> {
        let (stop_sender, stop) = watch::channel(false);
        let (release_sender, release) = watch::channel(false);
        let (leadership_sender, leadership) = watch::channel(Leadership::Undecided);
        let mut lease = self.start_lease(leadership_sender, release);
        let (mut events, recorder) = self.start_events();
        let health = self.health.clone();
        let outcome = {
            let mut stopping = false;
            let mut shutdown = pin!(shutdown);
            let mut served = pin!(self.serve(recorder, leadership, stop));
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown, if !stopping => {
                        stopping = true;
                        health.report("shutdown", Some("in progress".to_owned()));
                        stop_sender.send_replace(true);
                    }
                    outcome = &mut served => break outcome,
                    Some(ended) = lease.join_next() => break Err(RunError::task_ended("lease", ended)),
                }
            }
        };
        // The last events first, then the lease: who waits for it may begin at once.
        let _ = timeout(FLUSH, events.join_next()).await;
        release_sender.send_replace(true);
        while lease.join_next().await.is_some() {}
        outcome
    }

    /// Waits until Kueue's API is served, then runs the loop.
    async fn serve(
        &mut self,
        recorder: Recorder,
        leadership: watch::Receiver<Leadership>,
        stop: watch::Receiver<bool>,
    ) -> Result<(), RunError> {
        let client = instrumented(&self.client, &self.metrics, None);
        let (mut wait, mut decided) = (stop.clone(), leadership.clone());
        let served = {
            let mut found = pin!(find_served(&client, &self.health, self.settings.seed));
            loop {
                self.health.set_leadership(&decided.borrow_and_update());
                tokio::select! {
                    biased;
                    () = cancelled(&mut wait) => return Ok(()),
                    probed = &mut found => break probed.served,
                    Some(query) = self.queries.1.recv() => query.without_session(),
                    Ok(()) = decided.changed() => {}
                }
            }
        };
        tracing::info!(?served, "served Kueue API");
        let session = Session::new(self, served, recorder, leadership);
        session.run(&mut self.queries.1, stop).await
    }

    fn start_events(&self) -> (JoinSet<()>, Recorder) {
        let client = instrumented(&self.client, &self.metrics, None);
        let Settings {
            clock,
            name,
            instance,
            ..
        } = &self.settings;
        let (recorder, reporter) = Recorder::new(
            client,
            clock.clone(),
            name,
            instance,
            Arc::clone(&self.metrics),
        );
        let mut tasks = JoinSet::new();
        tasks.spawn(reporter.run());
        (tasks, recorder)
    }

    fn start_lease(
        &self,
        leadership: watch::Sender<Leadership>,
        stop: watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        match &self.settings.lease {
            None => {
                leadership.send_replace(Leadership::Leader { valid_until: None });
                tasks.spawn(async move {
                    let mut stop = stop;
                    cancelled(&mut stop).await;
                    drop(leadership);
                });
            }
            Some(config) => {
                let client = instrumented(&self.lease_client, &self.metrics, None);
                tasks.spawn(lease::run(
                    client,
                    config.clone(),
                    self.settings.clock.clone(),
                    leadership,
                    stop,
                ));
            }
        }
        tasks
    }
}

impl Query {
    /// The answer while it is not known what the cluster serves: the loop turns, and there is
    /// nothing to say.
    fn without_session(self) {
        match self {
            Self::Gauges(answer) => drop(answer.send(())),
            Self::Diagnostics(answer) => drop(answer),
        }
    }
}

/// How long the last events may take to be sent.
const FLUSH: Duration = Duration::from_secs(2);

impl RunError {
    fn task_ended(task: &str, ended: Result<(), JoinError>) -> Self {
        match ended {
            Ok(()) => Self::TaskEnded(format!("{task} ended")),
            Err(error) => Self::TaskEnded(format!("{task}: {error}")),
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("checks", &self.checks)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RuntimeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeHandle")
            .field("problems", &self.problems())
            .finish_non_exhaustive()
    }
}
