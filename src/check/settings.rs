//! The configuration of a check, apart from its functions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::watches::WatchSource;
use super::{
    AfterAdmission, BackgroundContext, CheckEvent, Inactive, MetricsText, Policy, StateChange,
    WorkloadEvent,
};
use crate::api::AdmissionCheck;

pub(crate) type RunBackground =
    Arc<dyn Fn(BackgroundContext) -> BoxFuture<'static, ()> + Send + Sync>;
pub(crate) type Observe = Arc<dyn Fn(WorkloadEvent<'_>) + Send + Sync>;
pub(crate) type WriteMetrics = Arc<dyn Fn(&mut MetricsText) + Send + Sync>;
pub(crate) type MakeEvent = Arc<dyn Fn(&StateChange<'_>) -> CheckEvent + Send + Sync>;
pub(crate) type ActiveMessage = Arc<dyn Fn(&AdmissionCheck) -> Option<String> + Send + Sync>;
pub(crate) type OnParametersUnavailable = Arc<dyn Fn(&Inactive) -> Option<String> + Send + Sync>;

/// The settings of a check: each is set by the method of [`Check`](super::Check) of its name.
///
/// Wrappers of a check keep this struct whole. Only [`merge`](Self::merge) takes it apart, and
/// names every field.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) annotations: Vec<String>,
    pub(crate) permissions: Vec<PolicyRule>,
    pub(crate) namespace_permissions: Vec<PolicyRule>,
    pub(crate) definitions: Vec<CustomResourceDefinition>,
    pub(crate) objects: Vec<serde_json::Value>,
    pub(crate) watches: Vec<WatchSource>,
    pub(crate) background: Vec<RunBackground>,
    pub(crate) observe: Vec<Observe>,
    pub(crate) metrics: Vec<WriteMetrics>,
    pub(crate) state_change_event: Option<MakeEvent>,
    pub(crate) active_message: Vec<ActiveMessage>,
    pub(crate) on_parameters_unavailable: Option<OnParametersUnavailable>,
    pub(crate) outlives_reservation: bool,
    pub(crate) release_at_eviction: bool,
}

/// How the members of a combined check decide together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    All,
    Any,
}

/// The limit where neither a check nor the command line sets one.
pub(crate) const EVALUATION_TIMEOUT: Duration = Duration::from_secs(30);

impl Settings {
    /// Merges the settings of several checks, by the table at
    /// [`Check::all_of`](super::Check::all_of).
    pub(crate) fn merge(rule: Rule, members: &[Arc<Self>]) -> Self {
        let mut whole = Self {
            outlives_reservation: !members.is_empty(),
            release_at_eviction: !members.is_empty(),
            ..Self::default()
        };
        let mut timeouts = Vec::new();
        let mut unavailable = Vec::new();
        for member in members {
            // Without `..`: a new setting needs a rule here.
            let Self {
                policy,
                timeout,
                annotations,
                permissions,
                namespace_permissions,
                definitions,
                objects,
                watches,
                background,
                observe,
                metrics,
                state_change_event,
                active_message,
                on_parameters_unavailable,
                outlives_reservation,
                release_at_eviction,
            } = Self::clone(member);
            whole.policy = first_choices(whole.policy, policy);
            timeouts.push(timeout);
            whole.annotations.extend(annotations);
            whole.permissions.extend(permissions);
            whole.namespace_permissions.extend(namespace_permissions);
            whole.definitions.extend(definitions);
            whole.objects.extend(objects);
            whole.watches.extend(watches);
            whole.background.extend(background);
            whole.observe.extend(observe);
            whole.metrics.extend(metrics);
            whole.state_change_event = whole.state_change_event.or(state_change_event);
            whole.active_message.extend(active_message);
            unavailable.push(on_parameters_unavailable);
            whole.outlives_reservation &= outlives_reservation;
            whole.release_at_eviction &= release_at_eviction;
        }
        whole.timeout = longest(&timeouts);
        whole.on_parameters_unavailable = unavailable
            .iter()
            .any(Option::is_some)
            .then(|| together(rule, unavailable));
        whole
    }
}

/// Returns each choice of `first`, else that of `then`.
fn first_choices(first: Policy, then: Policy) -> Policy {
    let Policy {
        on_error,
        on_error_after,
        pending_timeout,
        after_admission,
    } = then;
    let after = match (first.after_admission, after_admission) {
        (Some(first), Some(then)) => Some(AfterAdmission {
            on_failure: first.on_failure.or(then.on_failure),
            consecutive: first.consecutive.or(then.consecutive),
            max_evictions_per_hour: first.max_evictions_per_hour.or(then.max_evictions_per_hour),
        }),
        (first, then) => first.or(then),
    };
    Policy {
        on_error: first.on_error.or(on_error),
        on_error_after: first.on_error_after.or(on_error_after),
        pending_timeout: first.pending_timeout.or(pending_timeout),
        after_admission: after,
    }
}

/// Returns the longest timeout. A member without a timeout of its own counts with the default.
fn longest(timeouts: &[Option<Duration>]) -> Option<Duration> {
    let longest = timeouts.iter().copied().flatten().max()?;
    let all = timeouts.iter().all(Option::is_some);
    (all || longest > EVALUATION_TIMEOUT).then_some(longest)
}

/// Merges messages: all members continue without parameters only if each does; of any, one is
/// enough.
fn together(rule: Rule, members: Vec<Option<OnParametersUnavailable>>) -> OnParametersUnavailable {
    Arc::new(move |problem| {
        let mut messages = members
            .iter()
            .map(|member| member.as_ref().and_then(|member| member(problem)));
        match rule {
            Rule::All => messages.find_map(std::convert::identity),
            Rule::Any => messages
                .reduce(|first, other| first.filter(|_| other.is_some()))
                .flatten(),
        }
    })
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("policy", &self.policy)
            .field("timeout", &self.timeout)
            .field("annotations", &self.annotations)
            .field("outlives_reservation", &self.outlives_reservation)
            .field("release_at_eviction", &self.release_at_eviction)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
