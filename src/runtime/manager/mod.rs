//! The runtime: its builder, its event loop around the core, and the tasks it runs.
//!
//! The state is in `runtime::core`, which the loop owns. Anything that takes time is a task, which
//! receives copies and returns a result.

mod background;
mod builder;
mod diagnostics;
mod reporting;
mod session;
mod spans;
mod streams;
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

/// Runs checks on a cluster.
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

/// The settings of a [`Runtime`].
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

/// The reason why a runtime stopped without a shutdown. The program then ends its process, which is
/// restarted.
///
/// A panic in a check's evaluation is an error of that evaluation. A panic in code that runs apart
/// from evaluations, such as a check's streams and background work, stops the runtime:
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
///         check.background(|_| async { panic!("there are no rates for 2027") })
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
    /// A task of the runtime ended: by a panic in a check's background work, or by a bug in this
    /// SDK.
    #[error("a background task ended: {0}")]
    TaskEnded(String),
    /// Another replica leads now, or has led meanwhile. The checks' state in memory belongs to the
    /// leadership term of this replica, so the process ends and restarts, as client-go's and
    /// controller-runtime's do.
    #[error(
        "leadership was lost, and `{holder}` holds the lease: this process ends, so that a fresh one \
         becomes a standby"
    )]
    LeadershipLost {
        /// The replica that holds the Lease; empty if it has released it.
        holder: String,
    },
    /// etcd was restored from a backup. Watches do not report that, and the caches of this process
    /// are from another history, so the process ends and restarts.
    #[error(
        "the cluster was restored from a backup (its version was {shown} and is {now}): this process \
         ends, so that a fresh one reads everything"
    )]
    ClusterRestored {
        /// The newest version that a watch has returned.
        shown: ResourceVersion,
        /// The version that the API server's storage has now.
        now: ResourceVersion,
    },
}

/// A request to a running session.
pub(crate) enum Query {
    /// Update the gauges.
    Gauges(oneshot::Sender<()>),
    /// Return the diagnostics.
    Diagnostics(oneshot::Sender<Diagnostics>),
}

/// A handle to a running [`Runtime`], for an admin endpoint. Cheap to clone.
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

/// The time after which a loop that has not replied counts as stuck.
const DIAGNOSTICS_TIMEOUT: Duration = Duration::from_secs(5);

impl RuntimeHandle {
    /// Returns the problems that keep the process from being ready, each a sentence; empty if it is
    /// ready.
    pub fn problems(&self) -> Vec<String> {
        self.health.problems()
    }

    /// Returns true if the event loop replies. It also does while it waits for Kueue or the API
    /// server: a restart of the process would not help.
    pub async fn is_alive(&self) -> bool {
        self.send_query(Query::Gauges).await.is_some()
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub async fn metrics(&self) -> String {
        self.send_query(Query::Gauges).await;
        for watch in self.health.watches() {
            let labels = super::metrics::WatchLabels { watch: watch.name };
            self.metrics
                .watches
                .synced
                .get_or_create(&labels)
                .set(watch.synced.into());
            #[expect(clippy::cast_precision_loss, reason = "seconds")]
            self.metrics
                .watches
                .idle_seconds
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

    /// Returns the state of the runtime; `None` while it waits for Kueue's API, or if the loop is
    /// stuck or ended.
    pub async fn diagnostics(&self) -> Option<Diagnostics> {
        self.send_query(Query::Diagnostics).await
    }

    async fn send_query<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let response = async {
            self.queries.send(query(sender)).await.ok()?;
            receiver.await.ok()
        };
        tokio::time::timeout(DIAGNOSTICS_TIMEOUT, response)
            .await
            .ok()
            .flatten()
    }
}

impl Runtime {
    /// Returns the builder of a runtime for the cluster of `client`.
    pub fn builder(client: Client) -> RuntimeBuilder {
        RuntimeBuilder::new(client)
    }

    /// Returns a handle for an admin endpoint.
    pub fn handle(&self) -> RuntimeHandle {
        RuntimeHandle {
            queries: self.queries.0.clone(),
            checks: Arc::clone(&self.checks),
            metrics: Arc::clone(&self.metrics),
            health: self.health.clone(),
        }
    }

    /// Runs until `shutdown` completes. Then nothing new is started, running tasks end within the
    /// grace time or are abandoned, and the Lease is released.
    ///
    /// # Errors
    /// [`RunError`] if a part of the runtime ended. An unreachable API server, a missing Kueue or
    /// missing permissions are no errors: the runtime reports not ready, and waits.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<(), RunError> {
        let (stop_sender, stop) = watch::channel(false);
        let (release_sender, release) = watch::channel(false);
        let (leadership_sender, leadership) = watch::channel(Leadership::Undecided { error: None });
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
        // Publishes the last events, then releases the Lease, after which a standby may lead at
        // once.
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
    /// Replies before discovery has completed: the loop is alive, and there is no state to return.
    fn without_session(self) {
        match self {
            Self::Gauges(reply) => drop(reply.send(())),
            Self::Diagnostics(reply) => drop(reply),
        }
    }
}

/// The time limit for publishing the last events.
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
