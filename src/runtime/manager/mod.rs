//! The manager: it wires the rooms and owns the state.
//!
//! All state has one owner, the session's loop. Everything that takes time is a job, which gets copies and hands back a result; so there are no locks to hold
//! and no two paths to keep in step.

mod checks;
mod jobs;
mod looks;
mod releases;
mod report;
mod session;
mod tracked;
mod workloads;

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::backoff::Backoff;
use super::connection::guarded;
use super::events::Recorder;
use super::health::Health;
use super::intake::brief;
use super::lease::{self, Leadership, LeaseConfig};
use super::metrics::Metrics;
use super::signal::given;
use crate::Clock;
use crate::api::{ProbeError, Served, probe};
use crate::check::{AdmissionCheckController, Check, redact};
use session::{Session, SessionEnd};

pub use report::Diagnostics;

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
    checks: Arc<[Check]>,
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
    instance: String,
    concurrency: usize,
    timeout: Duration,
    grace: Duration,
    lease: Option<LeaseConfig>,
    clock: Clock,
    seed: u64,
}

/// Builds a [`Runtime`].
#[must_use]
pub struct RuntimeBuilder {
    checks: Vec<Check>,
    client: Client,
    lease_client: Option<Client>,
    settings: Settings,
}

/// Why a runtime can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is nothing to run.
    #[error("there is no check to run: add one with `check`")]
    NoChecks,
    /// Two checks answer the same AdmissionChecks.
    #[error("two checks have the controller name `{0}`: AdmissionChecks could not tell them apart")]
    SameName(String),
}

/// Why a runtime stopped without being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A part of it died, which is a fault of this SDK: the process should be restarted.
    #[error("a background task ended: {0}")]
    TaskDied(String),
}

/// A question to a running session.
pub(crate) enum Query {
    /// Bring the gauges up to date.
    Gauges(oneshot::Sender<()>),
    /// Say everything.
    Diagnostics(oneshot::Sender<Diagnostics>),
}

/// A view of a running [`Runtime`], for an admin endpoint. Cheap to clone.
#[derive(Clone)]
pub struct RuntimeHandle {
    queries: mpsc::Sender<Query>,
    metrics: Arc<Metrics>,
    health: Health,
}

/// How long the loop may take to answer a question before it counts as stuck.
const ANSWER: Duration = Duration::from_secs(5);

impl RuntimeHandle {
    /// What keeps the process from being ready, each a sentence; empty when nothing does.
    pub fn problems(&self) -> Vec<String> {
        self.health.problems()
    }

    /// Whether the loop turns.
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
                .watch_silent_seconds
                .get_or_create(&labels)
                .set(watch.silent_seconds as f64);
        }
        self.metrics.text()
    }

    /// What the runtime knows and does; `None` if the loop is stuck or over.
    pub async fn diagnostics(&self) -> Option<Diagnostics> {
        self.ask(Query::Diagnostics).await
    }

    async fn ask<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> Option<T> {
        let (answer, question) = oneshot::channel();
        let asked = async {
            self.queries.send(query(answer)).await.ok()?;
            question.await.ok()
        };
        tokio::time::timeout(ANSWER, asked).await.ok().flatten()
    }
}

impl Runtime {
    /// A runtime on the cluster that `client` speaks to.
    pub fn builder(client: Client) -> RuntimeBuilder {
        let settings = Settings {
            name: "kueue-check".to_owned(),
            instance: "kueue-check".to_owned(),
            concurrency: 10,
            timeout: Duration::from_secs(30),
            grace: Duration::from_secs(20),
            lease: None,
            clock: Clock::system(),
            seed: 0,
        };
        RuntimeBuilder {
            checks: Vec::new(),
            client,
            lease_client: None,
            settings,
        }
    }

    /// For an admin endpoint.
    pub fn handle(&self) -> RuntimeHandle {
        RuntimeHandle {
            queries: self.queries.0.clone(),
            metrics: Arc::clone(&self.metrics),
            health: self.health.clone(),
        }
    }

    /// Runs until `shutdown` completes: then nothing new is begun, what runs is finished within the grace time or abandoned, and the lease is given back.
    ///
    /// # Errors
    /// [`RunError`] if a part of the runtime died. An unreachable API server, a missing Kueue or missing permissions are no errors: the runtime says so in
    /// its readiness, and waits.
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
            let mut sessions = pin!(self.sessions(recorder, leadership, stop));
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown, if !stopping => {
                        stopping = true;
                        health.report("shutdown", Some("in progress".to_owned()));
                        stop_sender.send_replace(true);
                    }
                    outcome = &mut sessions => break outcome,
                    Some(ended) = lease.join_next() => break Err(RunError::died("lease", ended)),
                }
            }
        };
        // The last events first, then the lease: who waits for it may begin at once.
        let _ = timeout(FLUSH, events.join_next()).await;
        release_sender.send_replace(true);
        while lease.join_next().await.is_some() {}
        outcome
    }

    /// One session after another, until it is time to stop: each begins by asking what the cluster serves.
    async fn sessions(
        &mut self,
        recorder: Recorder,
        leadership: watch::Receiver<Leadership>,
        stop: watch::Receiver<bool>,
    ) -> Result<(), RunError> {
        let client = guarded(&self.client, &self.metrics, None);
        let mut wait = stop.clone();
        loop {
            let served = tokio::select! {
                biased;
                () = given(&mut wait) => return Ok(()),
                served = self.probe(&client) => served,
            };
            let session = Session::new(self, served, recorder.clone(), leadership.clone());
            match session.run(&mut self.queries.1, stop.clone()).await? {
                SessionEnd::Stopped => return Ok(()),
                SessionEnd::ApiChanged => {
                    tracing::warn!("Kueue's API is not served as it was; asking again");
                }
            }
        }
    }

    /// Asks what the cluster serves, for as long as it takes.
    async fn probe(&self, client: &Client) -> Served {
        let backoff = Backoff::new(
            Duration::from_secs(1),
            Duration::from_secs(30),
            self.settings.seed,
        );
        let mut failures = 0;
        loop {
            match probe(client).await {
                Ok(served) => {
                    self.health.report("kueue", None);
                    tracing::info!(?served, "Kueue's API");
                    return served;
                }
                Err(error) => {
                    failures += 1;
                    let message = match &error {
                        ProbeError::Client(error) => redact(&brief(error)).into_owned(),
                        error => error.to_string(),
                    };
                    tracing::warn!(message, "Kueue's API cannot be used yet");
                    self.health.report("kueue", Some(message));
                    tokio::time::sleep(backoff.delay(failures, 0)).await;
                }
            }
        }
    }

    fn start_events(&self) -> (JoinSet<()>, Recorder) {
        let client = guarded(&self.client, &self.metrics, None);
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
                    given(&mut stop).await;
                    drop(leadership);
                });
            }
            Some(config) => {
                let client = guarded(&self.lease_client, &self.metrics, None);
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

/// How long the last events may take to be sent.
const FLUSH: Duration = Duration::from_secs(2);

impl RunError {
    fn died(task: &str, ended: Result<(), JoinError>) -> Self {
        match ended {
            Ok(()) => Self::TaskDied(format!("{task} ended")),
            Err(error) => Self::TaskDied(format!("{task}: {error}")),
        }
    }
}

impl RuntimeBuilder {
    /// Adds a check. Each needs a controller name of its own.
    pub fn check(mut self, check: impl AdmissionCheckController) -> Self {
        self.checks.push(Check::new(check));
        self
    }

    /// Adds checks whose types are forgotten.
    pub fn checks(mut self, checks: impl IntoIterator<Item = Check>) -> Self {
        self.checks.extend(checks);
        self
    }

    /// What this controller is called in events (`reportingController`). Default: `kueue-check`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// What this replica is called in events, such as the pod's name.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = instance.into();
        self
    }

    /// How many Workloads are looked at together. Default: 10, with which the API server, not the check, is the limit.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency.max(1);
        self
    }

    /// How long a check may take to answer, unless it says so itself. Default: 30 s.
    pub fn evaluation_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How long running evaluations may go on after a shutdown has begun. Default: 20 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Lets one of several replicas act. Default: no lease, this is the only one.
    pub fn lease(mut self, lease: LeaseConfig) -> Self {
        self.settings.lease = Some(lease);
        self
    }

    /// A client for the lease alone, so that its renewal never waits behind other requests. Default: the one given first.
    pub fn lease_client(mut self, client: Client) -> Self {
        self.lease_client = Some(client);
        self
    }

    /// Where the time comes from. Default: the machine's clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// What the jitter of delays is made from: two runs with one seed do the same. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// The runtime.
    ///
    /// # Errors
    /// Without a check, or with two of one name.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if self.checks.is_empty() {
            return Err(BuildError::NoChecks);
        }
        let mut names = BTreeSet::new();
        for check in &self.checks {
            let name = check.controller_name();
            if !names.insert(name.clone()) {
                return Err(BuildError::SameName(name.to_string()));
            }
        }
        Ok(Runtime {
            checks: self.checks.into(),
            lease_client: self.lease_client.unwrap_or_else(|| self.client.clone()),
            client: self.client,
            settings: self.settings,
            metrics: Arc::default(),
            health: Health::default(),
            queries: mpsc::channel(16),
        })
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

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder")
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
