//! A check made of a closure.

use std::sync::Arc;
use std::time::Duration;

use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, NoParameters,
    Policy, Request, Verdict,
};

type Decide = dyn Fn(&Request) -> Result<Verdict, CheckError> + Send + Sync;

/// A check made of a closure, with a latency and a policy for scenarios.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::Verdict;
/// use kueue_check_sim::{Job, Simulation, scenarios::Scripted};
///
/// let slow = || Scripted::new(|request| Ok(Verdict::ready(format!("evaluated at {:.0}", request.now())))).latency(|_| Duration::from_secs(20));
/// Simulation::new(slow).starting_at("2026-11-21T09:00:00Z").run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     // The verdict is of the beginning of the evaluation.
///     assert_eq!(cluster.message("train"), "evaluated at 2026-11-21T09:00:00Z");
///     assert!(cluster.now() >= "2026-11-21T09:00:20Z".parse().unwrap());
/// });
/// ```
pub struct Scripted {
    controller: ControllerName,
    decide: Box<Decide>,
    takes: Box<dyn Fn(&Request) -> Duration + Send + Sync>,
    policy: Policy,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Scripted {
    /// Returns a check that decides at once.
    pub fn new(
        decide: impl Fn(&Request) -> Result<Verdict, CheckError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            controller: const { ControllerName::from_static("example.com/scripted") },
            decide: Box::new(decide),
            takes: Box::new(|_| Duration::ZERO),
            policy: Policy::default(),
        }
    }

    /// Sets the controller name: two checks of one process require two.
    ///
    /// # Panics
    /// If `name` is no controller name.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.controller = ControllerName::from_static(name);
        self
    }

    /// Sets the latency of an evaluation: it decides first and returns its verdict after this time.
    #[must_use]
    pub fn latency(mut self, takes: impl Fn(&Request) -> Duration + Send + Sync + 'static) -> Self {
        self.takes = Box::new(takes);
        self
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }
}

impl AdmissionCheckController for Scripted {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        self.controller.clone()
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let verdict = (self.decide)(request.request());
        let takes = (self.takes)(request.request());
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        verdict
    }

    fn configure(self: &Arc<Self>, check: Check) -> Check {
        check.policy(self.policy.clone())
    }
}
