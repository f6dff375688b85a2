//! Type-erased checks, as the runtime holds them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::parameters::{AnyParameters, ParametersType};
use super::watches::Start;
use super::{
    AdmissionCheckController, BackgroundContext, CheckError, CheckEvent, ControllerName, Inactive,
    ParametersProblem, Policy, ReleaseOutcome, ReleaseReason, Request, Reservation, StateChange,
    Verdict, Watches, WorkloadEvent,
};
use crate::api::AdmissionCheck;
#[cfg(feature = "cli")]
use crate::check::Preview;

/// A check of any type, ready to run. Cheap to clone.
///
/// ```
/// use kueue_check::prelude::*;
/// use kueue_check::DynCheck;
///
/// #[admission_check(controller = "example.com/approve", read_only)]
/// async fn approve() -> Verdict {
///     Verdict::ready("as all are")
/// }
///
/// let check = DynCheck::from(approve);
/// assert_eq!(check.controller_name().as_str(), "example.com/approve");
/// assert!(check.permissions().is_empty(), "it needs no right but those of every check");
/// ```
#[derive(Clone)]
pub struct DynCheck(Arc<dyn ErasedCheck>);

trait ErasedCheck: Send + Sync {
    fn controller_name(&self) -> ControllerName;
    fn parameters(&self) -> ParametersType;
    fn check(&self, request: Request) -> BoxFuture<'_, Result<Verdict, CheckError>>;
    #[cfg(feature = "cli")]
    fn preview(&self, request: Request) -> BoxFuture<'_, Result<Preview, CheckError>>;
    fn activate<'a>(
        &'a self,
        check: &'a AdmissionCheck,
        parameters: AnyParameters,
    ) -> BoxFuture<'a, Result<(), Inactive>>;
    fn release<'a>(
        &'a self,
        reservation: &'a Reservation,
        why: ReleaseReason,
    ) -> BoxFuture<'a, Result<ReleaseOutcome, CheckError>>;
    fn outstanding(&self) -> BoxFuture<'_, Result<Vec<Reservation>, CheckError>>;
    fn watches(&self) -> Watches;
    fn observe(&self, seen: WorkloadEvent<'_>);
    fn background(&self, context: BackgroundContext) -> BoxFuture<'_, ()>;
    fn metrics(&self) -> String;
    fn definitions(&self) -> Vec<CustomResourceDefinition>;
    fn policy(&self) -> Policy;
    fn annotations(&self) -> Vec<String>;
    fn timeout(&self) -> Option<Duration>;
    fn lifetime(&self) -> Lifetime;
    fn without_parameters(&self, problem: &ParametersProblem<'_>) -> Option<String>;
    fn state_event(&self, change: &StateChange<'_>) -> CheckEvent;
    fn permissions(&self) -> Vec<PolicyRule>;
    fn namespace_permissions(&self) -> Vec<PolicyRule>;
}

/// When what a check answered and allocated for a reservation ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lifetime {
    /// Its Ready stays valid when quota is lost.
    pub(crate) outlives: bool,
    /// What it allocated is released when Kueue begins to stop the job, not when the quota is gone.
    pub(crate) ends_at_eviction: bool,
}

/// The one adapter between the author's trait, whose futures have no names, and the runtime.
impl<C: AdmissionCheckController> ErasedCheck for C {
    fn controller_name(&self) -> ControllerName {
        self.controller_name()
    }

    fn parameters(&self) -> ParametersType {
        ParametersType::of::<C::Parameters>()
    }

    fn check(&self, request: Request) -> BoxFuture<'_, Result<Verdict, CheckError>> {
        Box::pin(async move {
            let request = request
                .typed()
                .ok_or_else(|| CheckError::permanent(WRONG_TYPE))?;
            AdmissionCheckController::evaluate(self, request).await
        })
    }

    #[cfg(feature = "cli")]
    fn preview(&self, request: Request) -> BoxFuture<'_, Result<Preview, CheckError>> {
        Box::pin(async move {
            let request = request
                .typed()
                .ok_or_else(|| CheckError::permanent(WRONG_TYPE))?;
            AdmissionCheckController::preview(self, request).await
        })
    }

    fn activate<'a>(
        &'a self,
        check: &'a AdmissionCheck,
        parameters: AnyParameters,
    ) -> BoxFuture<'a, Result<(), Inactive>> {
        Box::pin(async move {
            let parameters = parameters
                .downcast()
                .map_err(|_| Inactive::new("InternalError", WRONG_TYPE))?;
            AdmissionCheckController::activate(self, check, &parameters).await
        })
    }

    fn release<'a>(
        &'a self,
        reservation: &'a Reservation,
        why: ReleaseReason,
    ) -> BoxFuture<'a, Result<ReleaseOutcome, CheckError>> {
        Box::pin(AdmissionCheckController::release(self, reservation, why))
    }

    fn outstanding(&self) -> BoxFuture<'_, Result<Vec<Reservation>, CheckError>> {
        Box::pin(AdmissionCheckController::unreleased_reservations(self))
    }

    fn watches(&self) -> Watches {
        self.watches()
    }

    fn observe(&self, seen: WorkloadEvent<'_>) {
        self.observe(seen);
    }

    fn background(&self, context: BackgroundContext) -> BoxFuture<'_, ()> {
        Box::pin(AdmissionCheckController::background(self, context))
    }

    fn metrics(&self) -> String {
        self.metrics()
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        self.definitions()
    }

    fn policy(&self) -> Policy {
        self.policy()
    }

    fn annotations(&self) -> Vec<String> {
        self.annotations()
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout()
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime {
            outlives: self.outlives_reservation(),
            ends_at_eviction: self.releases_at_eviction(),
        }
    }

    fn without_parameters(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        self.on_parameters_unavailable(problem)
    }

    fn state_event(&self, change: &StateChange<'_>) -> CheckEvent {
        self.state_change_event(change)
    }

    fn permissions(&self) -> Vec<PolicyRule> {
        self.permissions()
    }

    fn namespace_permissions(&self) -> Vec<PolicyRule> {
        self.namespace_permissions()
    }
}

const WRONG_TYPE: &str =
    "the parameters are of another type than the check's: a fault in kueue-check";

impl DynCheck {
    /// The check that `controller` answers.
    pub fn new(controller: impl AdmissionCheckController) -> Self {
        Self(Arc::new(controller))
    }

    /// Its controller name.
    pub fn controller_name(&self) -> ControllerName {
        self.0.controller_name()
    }

    pub(crate) fn parameters(&self) -> ParametersType {
        self.0.parameters()
    }

    pub(crate) async fn check(&self, request: Request) -> Result<Verdict, CheckError> {
        self.0.check(request).await
    }

    #[cfg(feature = "cli")]
    pub(crate) async fn preview(&self, request: Request) -> Result<Preview, CheckError> {
        self.0.preview(request).await
    }

    pub(crate) async fn activate(
        &self,
        check: &AdmissionCheck,
        parameters: AnyParameters,
    ) -> Result<(), Inactive> {
        self.0.activate(check, parameters).await
    }

    pub(crate) async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.0.release(reservation, why).await
    }

    pub(crate) async fn outstanding(&self) -> Result<Vec<Reservation>, CheckError> {
        self.0.outstanding().await
    }

    pub(crate) fn watches(&self) -> Watches {
        self.0.watches()
    }

    /// Shows it what is seen. A panic of the author's is the author's, not the loop's.
    pub(crate) fn observe(&self, seen: WorkloadEvent<'_>) {
        self.caught("observe", || self.0.observe(seen));
    }

    pub(crate) async fn background(&self, context: BackgroundContext) {
        self.0.background(context).await;
    }

    pub(crate) fn metrics(&self) -> String {
        self.caught("metrics", || self.0.metrics())
            .unwrap_or_default()
    }

    /// Everything that it needs defined: its parameters, if they are its own, and its further
    /// [`definitions`](AdmissionCheckController::definitions).
    pub fn definitions(&self) -> Vec<CustomResourceDefinition> {
        self.definition()
            .into_iter()
            .chain(self.0.definitions())
            .collect()
    }

    /// A panic of the author's code counts as the default.
    pub(crate) fn policy(&self) -> Policy {
        self.caught("policy", || self.0.policy())
            .unwrap_or_default()
    }

    pub(crate) fn annotations(&self) -> Vec<String> {
        self.0.annotations()
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.0.timeout()
    }

    pub(crate) fn lifetime(&self) -> Lifetime {
        self.0.lifetime()
    }

    /// A panic of the author's code counts as the default.
    pub(crate) fn without_parameters(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        self.caught("without_parameters", || self.0.without_parameters(problem))
            .flatten()
    }

    /// A panic of the author's code counts as the default.
    pub(crate) fn state_event(&self, change: &StateChange<'_>) -> CheckEvent {
        self.caught("state_event", || self.0.state_event(change))
            .unwrap_or_else(|| change.event())
    }

    /// Runs the author's code in the loop. Its panic is logged, and takes nothing else down.
    fn caught<T>(&self, called: &str, code: impl FnOnce() -> T) -> Option<T> {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code));
        if result.is_err() {
            tracing::error!(controller = %self.controller_name(), called, "the check's code panicked");
        }
        result.ok()
    }

    /// The definition of its parameters, if they are its own.
    pub fn definition(&self) -> Option<CustomResourceDefinition> {
        let mut definition = (self.parameters().definition)()?;
        // A type without a field leaves the scope empty, and parameters have none.
        if definition.spec.scope.is_empty() {
            "Cluster".clone_into(&mut definition.spec.scope);
        }
        Some(definition)
    }

    /// What it may do in the whole cluster besides what the runtime does for every check: to list
    /// and watch its parameters and what its
    /// [`watches`](AdmissionCheckController::watches) name, and its own [`permissions`](AdmissionCheckController::permissions).
    pub fn permissions(&self) -> Vec<PolicyRule> {
        let kind = self.parameters().kind.map(|kind| PolicyRule {
            api_groups: Some(vec![kind.group]),
            resources: Some(vec![kind.plural]),
            verbs: vec!["list".to_owned(), "watch".to_owned()],
            ..PolicyRule::default()
        });
        let watched = self
            .watches()
            .0
            .into_iter()
            .filter_map(|source| match source.start {
                Start::Objects { permission, .. } => Some(*permission),
                Start::Stream(_) => None,
            });
        kind.into_iter()
            .chain(watched)
            .chain(self.0.permissions())
            .collect()
    }

    /// What it may do in the namespace that its program runs in, besides the Lease:
    /// [`namespace_permissions`](AdmissionCheckController::namespace_permissions).
    pub fn namespace_permissions(&self) -> Vec<PolicyRule> {
        self.0.namespace_permissions()
    }
}

impl<C: AdmissionCheckController> From<C> for DynCheck {
    fn from(controller: C) -> Self {
        Self::new(controller)
    }
}

impl fmt::Debug for DynCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check")
            .field(&self.controller_name())
            .finish()
    }
}
