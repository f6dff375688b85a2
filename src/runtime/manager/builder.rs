//! What a runtime is made of.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;

use super::{Runtime, Settings};
use crate::Clock;
use crate::check::{AdmissionCheckController, Check};
use crate::runtime::health::Health;
use crate::runtime::lease::LeaseConfig;

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

impl RuntimeBuilder {
    pub(super) fn new(client: Client) -> Self {
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
        Self {
            checks: Vec::new(),
            client,
            lease_client: None,
            settings,
        }
    }

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

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("checks", &self.checks)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
