//! The admission check: evaluations from the ledger, and background work.

mod background;
mod conditions;
mod features;
mod metrics;
mod polling;
mod queues;
mod shared;
mod status;
mod warning_events;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::{CustomResourceExt, ResourceExt};
use kueue_check::api::{AdmissionCheck, CheckState, Uid};
use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, Inactive, Preview,
    ReleaseOutcome, ReleaseReason, Reservation, Trigger, Verdict,
};
use tokio::sync::broadcast;

pub use self::features::Feature;
pub(crate) use self::watches::{VERSIONS, resource};

use crate::config::BudgetConfig;
use crate::ledger::{Decision, RunState};
use crate::messages::MessageFormatter;
use crate::resource::{Budget, GROUP, NamespaceBudget, Quota, Running};
use crate::source::{Credentials, Http, Source};
use shared::SharedState;

/// A factory of the sources that Budgets describe.
pub type SourceFactory = dyn Fn(&BudgetConfig) -> Arc<dyn Source> + Send + Sync;

/// The `spec.controllerName` of this controller's AdmissionChecks.
pub const CONTROLLER: &str = "kueue-check.dev/budget";

/// The budget check. One instance handles any number of AdmissionChecks; those that name one Budget
/// share its ledger.
pub struct BudgetCheck {
    shared: Arc<SharedState>,
}

impl BudgetCheck {
    /// Creates the check with the sources that Budgets describe. `credentials` restricts the files
    /// that they may name.
    pub fn new(credentials: Credentials) -> Self {
        let http = Http::new(credentials);
        Self::with_sources(move |terms| crate::source::source(&terms.source, &http))
    }

    /// Creates the check with custom sources: for an unsupported monitoring system, and for tests.
    pub fn with_sources(
        make: impl Fn(&BudgetConfig) -> Arc<dyn Source> + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(SharedState::new(Box::new(make))),
        }
    }

    /// Enables these features. Default: none.
    #[must_use]
    pub fn with(mut self, features: impl IntoIterator<Item = Feature>) -> Self {
        // No other reference exists yet.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.features.extend(features);
        }
        self
    }
}

impl AdmissionCheckController for BudgetCheck {
    type Parameters = Budget;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static(CONTROLLER) }
    }

    async fn activate(&self, check: &AdmissionCheck, budget: &Arc<Budget>) -> Result<(), Inactive> {
        let terms = BudgetConfig::of(budget)
            .map_err(|invalid| Inactive::new("BudgetInvalid", invalid.to_string()))?;
        if let Some(feature) = Feature::of(terms.quota)
            && !self.shared.has(feature)
        {
            return Err(Inactive::new(
                "FeatureOff",
                format!(
                    "onExhausted.quota: {:?} needs the feature {name}: run budget-check with --with={name} and its permissions, or enable it in the chart's `features`",
                    terms.quota,
                    name = feature.name()
                ),
            ));
        }
        self.shared.refer(check.name(), terms);
        // Prometheus reports what is wrong with a query, so the activation queries it before a
        // Workload waits for it.
        match self
            .shared
            .first_report(
                &budget.name_any(),
                budget.metadata.generation.unwrap_or_default(),
            )
            .await
        {
            Some(Err(error)) if error.is_configuration() => {
                Err(Inactive::new(error.reason(), error.to_string())
                    .recheck_in(Duration::from_mins(10)))
            }
            _ => Ok(()),
        }
    }

    async fn evaluate(&self, request: CheckRequest<Budget>) -> Result<Verdict, CheckError> {
        let (budget, now) = (request.parameters(), request.now());
        let name = budget.name_any();
        self.shared
            .register_budget(request.admission_check(), budget)?;
        let workload = request.workload();
        // Nothing is awaited from here to the end: decision and commitment are one step.
        let mut ledgers = self.shared.ledgers();
        // The last observed state counts, not that of the request: a job that has ended must not be
        // counted again.
        let run = ledgers.run(&name, workload.uid());
        let ledger = ledgers
            .ledger_mut(&name)
            .ok_or_else(|| CheckError::transient("the Budget is not known yet"))?;
        let since = request.reservation().since().as_second();
        let Some(run) = run.filter(|run| run.since == since) else {
            return Ok(Verdict::unchanged());
        };
        let terms = Arc::clone(ledger.terms());
        let message_time = ledger.message_changed_at(&run.uid);
        let decision = ledger.decide(&run, now);
        let same_message = ledger.message_changed_at(&run.uid) == message_time;
        let held = matches!(decision, Decision::Hold(_) | Decision::Unchanged)
            && !matches!(run.state, RunState::Running(_));
        if held
            && terms.quota == Quota::Yield
            && self
                .shared
                .may_yield(ledger, workload, request.attempt(), now)
        {
            return Ok(Verdict::retry_now(format!(
                "gives its quota back for others while Budget {name} has nothing left for it"
            )));
        }
        drop(ledgers);
        let verdict = MessageFormatter {
            terms: &terms,
            workload,
            run: &run,
        }
        .verdict(&decision);
        // If a Workload has several checks of one Budget, a check that is already Ready gets no new
        // verdict while the others are evaluated.
        let already_ready = workload
            .check(request.admission_check())
            .is_some_and(|entry| *entry.state() == CheckState::Ready);
        let new = match decision {
            Decision::Unchanged => false,
            Decision::Hold(_) => !same_message,
            _ => !already_ready,
        };
        if new {
            self.shared.count(&name, &decision);
            self.shared.changed();
        }
        let verdict = if verdict.is_ready() && already_ready {
            Verdict::unchanged()
        } else {
            verdict
        };
        let watched = terms.overspent.0 == Running::Evict && !verdict.is_pending();
        Ok(if watched {
            verdict.recheck_in(Duration::from_mins(1))
        } else {
            verdict
        })
    }

    /// The ledger is in the memory of the leader, where a verdict is also a commitment.
    async fn preview(&self, request: CheckRequest<Budget>) -> Result<Preview, CheckError> {
        let (budget, namespace) = (
            request.parameters().name_any(),
            request.workload().namespace().to_owned(),
        );
        Ok(Preview::skipped(format!(
            "the ledger is kept by the program that runs; the balance that it last published: `budget-check balance {budget} --namespace {namespace}`"
        )))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        _: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.shared.ledgers().released(reservation);
        self.shared.changed();
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        Ok(self.shared.ledgers().suspended())
    }

    fn configure(self: &Arc<Self>, check: Check<Budget>) -> Check<Budget> {
        let share = || Arc::clone(&self.shared);
        let (observer, worker, triggers, metrics) = (share(), share(), share(), share());
        check
            .observe(move |event| {
                let now = observer.now();
                observer.ledgers().observe_workload(event, now);
                observer.changed();
            })
            .background(move |context| {
                let shared = Arc::clone(&worker);
                async move { Box::pin(background::run(&shared, context)).await }
            })
            .watches_stream("money", move || triggered(triggers.triggers()))
            .metrics(move |text| metrics::write(&metrics, text))
            .definitions([NamespaceBudget::crd()])
            .permissions(permissions(&self.shared.features))
    }
}

/// Returns a stream of the Workloads to evaluate again.
fn triggered(triggers: broadcast::Receiver<Uid>) -> impl Stream<Item = Trigger> {
    futures::stream::unfold(triggers, async |mut triggered| {
        loop {
            match triggered.recv().await {
                Ok(uid) => return Some((Trigger::Uid(uid), triggered)),
                // Some were missed. The next allocation pass triggers approved runs again.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })
}

fn permissions(features: &[Feature]) -> Vec<PolicyRule> {
    let mut permissions = vec![
        rule(GROUP, &["namespacebudgets"], &["list", "watch"]),
        rule(
            GROUP,
            &["budgets/status", "namespacebudgets/status"],
            &["patch"],
        ),
        // Pools and exemptions select namespaces by labels, and with a default limit each namespace
        // has one.
        rule("", &["namespaces"], &["list", "watch"]),
    ];
    permissions.extend(features.iter().map(|feature| feature.permission()));
    permissions
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
