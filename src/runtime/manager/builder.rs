//! The builder of a runtime.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;

use super::{Runtime, Settings};
use crate::Clock;
use crate::check::{AdmissionCheckController, DynCheck};
use crate::runtime::health::Health;
use crate::runtime::lease::{LeaseConfig, LeaseTimes};
use crate::runtime::metrics::{BuildLabels, Metrics};

/// Builds a [`Runtime`].
///
/// ```
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::Runtime};
/// # use kueue_check_sim::apiserver::{ApiServer, ApiRequest, Resource, Verb};
/// # use std::time::Duration;
/// # #[admission_check(controller = "example.com/window")] async fn window() -> Verdict { Verdict::ready("inside the window") }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::with_definitions(Clock::system(), kueue_check_sim::definitions::kueue());
/// # let checks = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
/// # let object = serde_json::json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "window"}, "spec": {"controllerName": "example.com/window"}});
/// # assert_eq!(server.call(&ApiRequest::new(Verb::Create, &checks).body(object)).code, 201);
/// # let client = server.client();
/// let runtime = Runtime::builder(client)
///     .check(window)
///     .evaluation_timeout(Duration::from_secs(5))
///     .clock(Clock::following_tokio("2026-11-21T09:00:00Z".parse()?)) // for a test; it dates what is written
///     .build()?;
/// runtime.run(tokio::time::sleep(Duration::from_secs(10))).await?;
/// // The condition of its AdmissionCheck:
/// # let object = server.get(&checks, "", "window").ok_or("no AdmissionCheck")?;
/// let active = &object["status"]["conditions"][0];
/// assert_eq!(active["message"], "The admission check is active");
/// assert_eq!(active["lastTransitionTime"], "2026-11-21T09:00:00Z");
/// # Ok(()) }
/// ```
#[must_use]
pub struct RuntimeBuilder {
    checks: Vec<DynCheck>,
    client: Client,
    lease_client: Option<Client>,
    settings: Settings,
}

/// The reason why a runtime cannot be built.
///
/// ```
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::Runtime};
/// # use kueue_check_sim::apiserver::ApiServer;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let client = ApiServer::new(Clock::system()).client();
/// #[admission_check(controller = "example.com/limit")]
/// async fn most_pods() -> Verdict { Verdict::ready("not too many pods") }
///
/// #[admission_check(controller = "example.com/limit")]
/// async fn most_gpus() -> Verdict { Verdict::ready("not too many GPUs") }
///
/// let error = Runtime::builder(client).check(most_pods).check(most_gpus).build().unwrap_err();
/// assert_eq!(error.to_string(), "two checks have the controller name `example.com/limit` and parameters of one kind: AdmissionChecks could not be assigned to one of them");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No check was added.
    #[error("there is no check to run: add one with `check`")]
    NoChecks,
    /// Two checks manage the same AdmissionChecks: they have the same controller name, and take
    /// parameters of the same kind, or none.
    #[error(
        "two checks have the controller name `{0}` and parameters of one kind: AdmissionChecks could not be assigned to one of them"
    )]
    SameName(String),
    /// The Lease's times allow two leaders at once, or none for long.
    #[error(
        "the lease's times do not fit: 0 < `retry_period` and 0 < `renew_interval` ({renew:?}) < `renew_deadline` ({renew_deadline:?}) < `duration` ({duration:?}, of which whole seconds count) must hold",
        renew = .0.renew_interval, renew_deadline = .0.renew_deadline, duration = .0.duration
    )]
    LeaseTimes(LeaseTimes),
}

impl RuntimeBuilder {
    pub(super) fn new(client: Client) -> Self {
        let settings = Settings {
            name: "kueue-check".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: "kueue-check".to_owned(),
            concurrency: 10,
            timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            lease: None,
            clock: Clock::system(),
            seed: 0,
        };
        Self {
            checks: Vec::new(),
            client,
            lease_client: None,
            settings,
        }
    }

    /// Adds a check. Each check needs its own controller name, or its own kind of parameters. An
    /// AdmissionCheck is managed by the check that has its `spec.controllerName` and takes the kind
    /// of its `spec.parameters`.
    pub fn check(mut self, check: impl AdmissionCheckController) -> Self {
        self.checks.push(DynCheck::new(check));
        self
    }

    /// Adds type-erased checks.
    pub fn checks(mut self, checks: impl IntoIterator<Item = DynCheck>) -> Self {
        self.checks.extend(checks);
        self
    }

    /// Sets the controller's name in events (`reportingController`) and in
    /// `kueue_check_build_info`. Default: `kueue-check`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Sets the program's version in `kueue_check_build_info`. Default: the version of this SDK.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.settings.version = version.into();
        self
    }

    /// Sets this replica's name in events, such as the pod's name.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = instance.into();
        self
    }

    /// Sets the maximum number of parallel evaluations. Default: 10, at which the API server, not
    /// the check, is the limit.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency.max(1);
        self
    }

    /// Sets the time limit of an evaluation, unless the check sets its own. Default: 30 s.
    pub fn evaluation_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Sets the time for which running evaluations may continue after a shutdown has begun. The
    /// Lease is held meanwhile. The runtime always waits for a write that was sent. Default: 5 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Enables leader election among several replicas. Default: no Lease, this is the only replica.
    pub fn lease(mut self, lease: LeaseConfig) -> Self {
        self.settings.lease = Some(lease);
        self
    }

    /// Sets a client for the Lease alone, so that a renewal never waits behind other requests.
    /// Default: the client of the runtime.
    pub fn lease_client(mut self, client: Client) -> Self {
        self.lease_client = Some(client);
        self
    }

    /// Sets the clock. Default: the machine's clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Sets the seed of the jitter of delays: two runs with one seed do the same. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Builds the runtime.
    ///
    /// # Errors
    /// Without a check, with two of one name and one kind of parameters, or with invalid times of
    /// the Lease.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if self.checks.is_empty() {
            return Err(BuildError::NoChecks);
        }
        let mut names = BTreeSet::new();
        for check in &self.checks {
            let name = check.controller_name();
            let kind = check.parameters().kind.map(|kind| kind.to_string());
            if !names.insert((name.clone(), kind)) {
                return Err(BuildError::SameName(name.to_string()));
            }
        }
        if let Some(lease) = &self.settings.lease
            && !lease.times.is_valid()
        {
            return Err(BuildError::LeaseTimes(lease.times));
        }
        let build = BuildLabels::new(&self.settings.name, &self.settings.version);
        Ok(Runtime {
            checks: self.checks.into(),
            lease_client: self.lease_client.unwrap_or_else(|| self.client.clone()),
            client: self.client,
            settings: self.settings,
            metrics: Arc::new(Metrics::new(build)),
            health: Health::starting(),
            queries: mpsc::channel(16),
        })
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
