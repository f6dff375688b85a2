//! Type-erased checks, as the runtime holds them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join_all, ready};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::builder::{Call, call};
use super::parameters::{AnyParameters, ParametersType};
use super::settings::Settings;
use super::watches::{Start, WatchSource};
use super::{
    AdmissionCheckController, BackgroundContext, Check, CheckError, CheckEvent, ControllerName,
    Inactive, Message, MetricsText, Parameters, ParametersKind, Policy, ReleaseOutcome,
    ReleaseReason, Request, Reservation, StateChange, Verdict, WorkloadEvent,
};
use crate::api::AdmissionCheck;
#[cfg(feature = "cli")]
use crate::check::Preview;

/// A [`Check`] with parameters of any type.
#[derive(Clone)]
pub struct DynCheck(Arc<ErasedCheck>);

struct ErasedCheck {
    name: ControllerName,
    parameters: ParametersType,
    evaluate: Call<Request, Verdict>,
    #[cfg(feature = "cli")]
    preview: Call<Request, Preview>,
    activate: Call<(AdmissionCheck, AnyParameters), (), Inactive>,
    release: Call<(Reservation, ReleaseReason), ReleaseOutcome>,
    unreleased: Call<(), Vec<Reservation>>,
    settings: Arc<Settings>,
}

/// When the verdict and the resources of a reservation end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lifetime {
    /// Its Ready stays valid when quota is lost.
    pub(crate) outlives: bool,
    /// What it allocated is released when Kueue begins to stop the job, not when the quota is gone.
    pub(crate) ends_at_eviction: bool,
}

const WRONG_TYPE: &str =
    "the parameters are of another type than the check's: a bug in kueue-check";

/// Wraps `call` for requests with parameters of any type.
fn erase<P: Parameters, T: Send + 'static>(
    call: Call<super::CheckRequest<P>, T>,
) -> Call<Request, T> {
    Arc::new(move |request: Request| match request.typed() {
        Some(request) => call(request),
        None => ready(Err(CheckError::permanent(WRONG_TYPE))).boxed(),
    })
}

impl DynCheck {
    /// Makes the check that `controller` implements, type-erased.
    pub fn new<P: Parameters>(controller: impl AdmissionCheckController<Parameters = P>) -> Self {
        let Check {
            name,
            calls,
            settings,
        } = Check::new(controller);
        let activate = calls.activate;
        Self(Arc::new(ErasedCheck {
            name,
            parameters: ParametersType::of::<P>(),
            evaluate: erase(calls.evaluate),
            #[cfg(feature = "cli")]
            preview: erase(calls.preview),
            activate: call(
                move |(check, parameters): (AdmissionCheck, AnyParameters)| {
                    let parameters = parameters
                        .downcast()
                        .map_err(|_| Inactive::new("InternalError", WRONG_TYPE));
                    let activated = parameters.map(|parameters| activate((check, parameters)));
                    async move { activated?.await }
                },
            ),
            release: calls.release,
            unreleased: calls.unreleased,
            settings,
        }))
    }

    /// Returns which of `checks` serves `object`: the one of its `spec.controllerName` that takes
    /// the kind of its `spec.parameters`. If none of them does, it is the first, which reports the
    /// mismatch.
    pub(crate) fn serving<'c>(
        checks: impl IntoIterator<Item = &'c Self>,
        object: &AdmissionCheck,
    ) -> Option<usize> {
        let mut first = None;
        for (number, check) in checks.into_iter().enumerate() {
            if check.0.name.as_str() != object.controller_name() {
                continue;
            }
            let takes = match (&check.0.parameters.kind, object.parameters()) {
                (None, None) => true,
                (Some(kind), Some(given)) => kind.kind == given.kind && kind.group == given.group,
                _ => false,
            };
            if takes {
                return Some(number);
            }
            first = first.or(Some(number));
        }
        first
    }

    /// Returns the kinds of parameters that others of `checks` with its controller name take.
    pub(crate) fn other_kinds<'c>(
        &self,
        checks: impl IntoIterator<Item = &'c Self>,
    ) -> Vec<ParametersKind> {
        let own = &self.0.parameters.kind;
        let same_name = checks
            .into_iter()
            .filter(|other| other.0.name == self.0.name);
        let kinds = same_name.filter_map(|other| other.0.parameters.kind.clone());
        kinds.filter(|kind| Some(kind) != own.as_ref()).collect()
    }

    /// Returns its controller name.
    pub fn controller_name(&self) -> ControllerName {
        self.0.name.clone()
    }

    #[cfg(test)]
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn parameters(&self) -> ParametersType {
        self.0.parameters.clone()
    }

    pub(crate) async fn check(&self, request: Request) -> Result<Verdict, CheckError> {
        (self.0.evaluate)(request).await
    }

    #[cfg(feature = "cli")]
    pub(crate) async fn preview(&self, request: Request) -> Result<Preview, CheckError> {
        (self.0.preview)(request).await
    }

    pub(crate) async fn activate(
        &self,
        check: &AdmissionCheck,
        parameters: AnyParameters,
    ) -> Result<(), Inactive> {
        (self.0.activate)((check.clone(), parameters)).await
    }

    pub(crate) async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        (self.0.release)((reservation.clone(), why)).await
    }

    pub(crate) async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        (self.0.unreleased)(()).await
    }

    pub(crate) fn watches(&self) -> Vec<WatchSource> {
        self.0.settings.watches.clone()
    }

    /// Passes it a Workload event. A panic of the check does not reach the runtime's loop.
    pub fn observe(&self, seen: WorkloadEvent<'_>) {
        for observe in &self.0.settings.observe {
            self.caught("observe", || observe(seen));
        }
    }

    /// Runs its background work.
    pub async fn background(&self, context: BackgroundContext) {
        let all = self.0.settings.background.iter();
        join_all(all.map(|work| work(context.clone()))).await;
    }

    /// Returns its metrics, in the OpenMetrics text format without the final `# EOF`.
    pub fn metrics(&self) -> String {
        let all = self.0.settings.metrics.iter();
        all.filter_map(|write| {
            self.caught("metrics", || {
                let mut text = MetricsText::new();
                write(&mut text);
                text.finish()
            })
        })
        .collect()
    }

    /// Returns every definition that it needs: its parameters, if they are its own, and its further
    /// [`definitions`](Check::definitions).
    pub fn definitions(&self) -> Vec<CustomResourceDefinition> {
        self.definition()
            .into_iter()
            .chain(self.0.settings.definitions.iter().cloned())
            .collect()
    }

    /// Returns the [objects](Check::objects) of the cluster that it relies on.
    pub fn objects(&self) -> &[serde_json::Value] {
        &self.0.settings.objects
    }

    /// Returns its [policy](Check::policy).
    pub fn policy(&self) -> Policy {
        self.0.settings.policy.clone()
    }

    pub(crate) fn annotations(&self) -> Vec<String> {
        self.0.settings.annotations.clone()
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.0.settings.timeout
    }

    pub(crate) fn lifetime(&self) -> Lifetime {
        Lifetime {
            outlives: self.outlives_reservation(),
            ends_at_eviction: self.0.settings.release_at_eviction,
        }
    }

    /// Returns true if its Ready [holds](Check::outlives_reservation) for later reservations.
    pub fn outlives_reservation(&self) -> bool {
        self.0.settings.outlives_reservation
    }

    /// Returns what the check adds to the message of the condition `Active` of `check`. A panic of
    /// the check adds nothing.
    pub(crate) fn active_message(&self, check: &AdmissionCheck) -> Option<Message> {
        let messages = self.0.settings.active_message.iter();
        let messages = messages.filter_map(|message| {
            self.caught("active_message", || message(check))
                .flatten()
                .filter(|message| !message.is_empty())
        });
        let messages: Vec<String> = messages.collect();
        (!messages.is_empty()).then(|| Message::new(messages.join("; ")))
    }

    /// Returns the message while parameters are unavailable. A panic of the check counts as the
    /// default.
    pub(crate) fn without_parameters(&self, problem: &Inactive) -> Option<String> {
        let message = self.0.settings.on_parameters_unavailable.as_ref()?;
        self.caught("on_parameters_unavailable", || message(problem))
            .flatten()
    }

    /// Returns the event of a changed state. A panic of the check counts as the default.
    pub(crate) fn state_event(&self, change: &StateChange<'_>) -> CheckEvent {
        let make = self.0.settings.state_change_event.as_ref();
        make.and_then(|make| self.caught("state_change_event", || make(change)))
            .unwrap_or_else(|| change.event())
    }

    /// Runs code of the check in the loop. Its panic is logged, and affects nothing else.
    fn caught<T>(&self, called: &str, code: impl FnOnce() -> T) -> Option<T> {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code));
        if result.is_err() {
            tracing::error!(controller = %self.0.name, called, "the check's code panicked");
        }
        result.ok()
    }

    /// Returns the definition of its parameters, if they are its own.
    pub fn definition(&self) -> Option<CustomResourceDefinition> {
        let mut definition = (self.0.parameters.definition)()?;
        // A type without a field leaves the scope empty, and parameters have none.
        if definition.spec.scope.is_empty() {
            "Cluster".clone_into(&mut definition.spec.scope);
        }
        Some(definition)
    }

    /// Returns its permissions in the whole cluster, besides those that every check has: to list
    /// and watch its parameters and the objects of its [`watches`](Check::watches), and its own
    /// [`permissions`](Check::permissions).
    pub fn permissions(&self) -> Vec<PolicyRule> {
        let kind = self.0.parameters.kind.clone().map(|kind| PolicyRule {
            api_groups: Some(vec![kind.group]),
            resources: Some(vec![kind.plural]),
            verbs: vec!["list".to_owned(), "watch".to_owned()],
            ..PolicyRule::default()
        });
        let settings = &self.0.settings;
        let watched = settings
            .watches
            .iter()
            .filter_map(|source| match &source.start {
                Start::Objects { permission, .. } => Some(PolicyRule::clone(permission)),
                Start::Stream(_) => None,
            });
        kind.into_iter()
            .chain(watched)
            .chain(settings.permissions.iter().cloned())
            .collect()
    }

    /// Returns its permissions in the namespace of its program, besides the Lease:
    /// [`namespace_permissions`](Check::namespace_permissions).
    pub fn namespace_permissions(&self) -> Vec<PolicyRule> {
        self.0.settings.namespace_permissions.clone()
    }
}

impl<C: AdmissionCheckController> From<C> for DynCheck {
    fn from(controller: C) -> Self {
        Self::new(controller)
    }
}

impl fmt::Debug for DynCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.0.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::NoParameters;
    use crate::check::samples::{self, Limit, Quota, kind};

    fn named<P: Parameters>(name: &str) -> DynCheck {
        DynCheck::new(samples::check::<P>(name))
    }

    #[test]
    fn an_admission_check_is_served_by_the_check_of_its_name_and_kind() {
        let checks = [
            named::<Quota>("example.com/other"),
            named::<Limit>("example.com/shared"),
            named::<Quota>("example.com/shared"),
            named::<NoParameters>("example.com/shared"),
            named::<Limit>("example.com/last"),
        ];
        let reference =
            |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "p"});
        let ours = "example.com";
        for (controller, parameters, expected) in [
            ("example.com/shared", reference(ours, "Limit"), Some(1)),
            ("example.com/shared", reference(ours, "Quota"), Some(2)),
            ("example.com/shared", json!(null), Some(3)),
            ("example.com/other", reference(ours, "Quota"), Some(0)),
            // None takes these: the first of the name reports it.
            ("example.com/shared", reference(ours, "Door"), Some(1)),
            ("example.com/shared", reference("x.com", "Quota"), Some(1)),
            ("example.com/last", json!(null), Some(4)),
            ("example.com/last", reference(ours, "Quota"), Some(4)),
            ("example.com/unknown", reference(ours, "Limit"), None),
        ] {
            let object = AdmissionCheck::from_json(json!({
                "metadata": {"name": "c", "uid": "u"},
                "spec": {"controllerName": controller, "parameters": parameters},
            }));
            let found = DynCheck::serving(&checks, &object.unwrap());
            assert_eq!(found, expected, "{controller} {parameters}");
        }
        let kinds = checks.each_ref().map(|check| check.other_kinds(&checks));
        assert_eq!(
            kinds,
            [
                vec![],
                vec![kind("Quota")],
                vec![kind("Limit")],
                vec![kind("Limit"), kind("Quota")],
                vec![],
            ]
        );
    }
}
