//! The trait `AdmissionCheckController`.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{
    BackgroundContext, CheckError, CheckEvent, CheckRequest, Message, Parameters, Policy, Preview,
    ReleaseOutcome, ReleaseReason, Reservation, StateChange, Verdict, Watches, WorkloadEvent,
};
use crate::api::AdmissionCheck;

/// A controller that answers AdmissionChecks.
///
/// Only [`evaluate`](Self::evaluate) and the name are required. A check that is one function need not implement this: see [`handler`](crate::handler).
///
/// What the runtime does around it, and the author need not:
/// - it watches the AdmissionChecks with this name, their parameters, and the Workloads that hold quota;
/// - it asks [`evaluate`](Self::evaluate) about each such Workload: at once for a new reservation; again when the Workload, the parameters or one of the
///   [`watches`](Self::watches) change, when the verdict asked for it, and once after a restart;
/// - it never asks twice at the same time about one Workload and AdmissionCheck, and drops an answer that comes too late;
/// - it writes the state, and nobody else's; an error, a panic or a timeout writes none.
///
/// ```
/// use kueue_check::{AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, Verdict};
///
/// struct Licences(tokio::sync::Mutex<u32>);
///
/// impl AdmissionCheckController for Licences {
///     type Parameters = NoParameters;
///
///     fn controller_name(&self) -> ControllerName {
///         const { ControllerName::from_static("example.com/licences") }
///     }
///
///     async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
///         let free = self.0.lock().await;
///         Ok(if *free > 0 { Verdict::ready("a licence is free") } else { Verdict::pending("all licences are in use") })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an admission check",
    label = "not an admission check",
    note = "a function becomes one with `#[admission_check(controller = \"...\")]`",
    note = "one with a `State` argument needs its state first: `.with_state(...)`",
    note = "a type becomes one by implementing `AdmissionCheckController`"
)]
pub trait AdmissionCheckController: Send + Sync + 'static {
    /// A cluster-scoped custom resource, or [`NoParameters`](super::NoParameters).
    ///
    /// They have changed when their spec, labels or annotations have: the check is activated and asked again. Their status is what controllers say of them, this
    /// one perhaps; when it alone changes nobody is asked, and questions carry the one that was known at the last change.
    type Parameters: Parameters;

    /// The `spec.controllerName` of the AdmissionChecks that it answers.
    fn controller_name(&self) -> ControllerName;

    /// Decides about one Workload.
    ///
    /// May be called any number of times for one reservation and must then say the same of the same facts. It is dropped when its deadline passes.
    ///
    /// # Errors
    /// An error is not a verdict: it changes no state, and the check is asked again. See [`CheckError`].
    fn evaluate(
        &self,
        request: CheckRequest<Self::Parameters>,
    ) -> impl Future<Output = Result<Verdict, CheckError>> + Send;

    /// What [`evaluate`](Self::evaluate) would say now, for a person who asks with the command `explain`. It must have no effect at all. Default: it is not asked.
    ///
    /// A `check` that only reads, and decides by what it is given and what it reads, is its own preview:
    ///
    /// ```
    /// # use kueue_check::*;
    /// # struct Licences;
    /// # impl AdmissionCheckController for Licences {
    /// #     type Parameters = NoParameters;
    /// #     fn controller_name(&self) -> ControllerName { const { ControllerName::from_static("example.com/licences") } }
    /// #     async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> { Ok(Verdict::ready("")) }
    /// async fn preview(&self, request: CheckRequest<NoParameters>) -> Result<Preview, CheckError> {
    ///     self.evaluate(request).await.map(Preview::of)
    /// }
    /// # }
    /// ```
    ///
    /// (for a function: `#[admission_check(controller = "...", read_only)]`). One that starts things says what it would start. One whose answer depends on what
    /// the running process remembers says so with [`Preview::skipped`]: `explain` is another process, in which nothing was observed, activated or begun.
    ///
    /// Its object [`watches`](Self::watches) run while it is asked, so an index that they fill fills here too. A client from
    /// [`App::check_on`](crate::App::check_on), and the request, refuse every request that is not a read. Other systems are the author's to spare.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate); shown, and nothing else.
    fn preview(
        &self,
        request: CheckRequest<Self::Parameters>,
    ) -> impl Future<Output = Result<Preview, CheckError>> + Send {
        let _ = request;
        async {
            Ok(Preview::skipped(
                "this check does not say that asking it has no effect",
            ))
        }
    }

    /// Whether an AdmissionCheck can be answered with its parameters, which have been decoded and validated. Default: it can.
    ///
    /// Asked when either changes. The answer stands in the AdmissionCheck's condition `Active`; a ClusterQueue with an inactive check starts no new jobs.
    ///
    /// # Errors
    /// [`Inactive`] says why not, and when to ask again.
    fn activate(
        &self,
        check: &AdmissionCheck,
        parameters: &Arc<Self::Parameters>,
    ) -> impl Future<Output = Result<(), Inactive>> + Send {
        let _ = (check, parameters);
        async { Ok(()) }
    }

    /// Stops what was started for `reservation`, which is over. Default: nothing was started.
    ///
    /// Called until it says [`ReleaseOutcome::Done`], before the check is asked about a later reservation of the same Workload. It must be idempotent, and may come
    /// without an earlier [`evaluate`](Self::evaluate) in this process.
    ///
    /// It is called when the pods are gone: of an evicted Workload when Kueue releases its quota. When a
    /// slice of an elastic job is [replaced](ReleaseReason::Replaced), it is called once the new one is
    /// admitted, and what is held for the job passes to that. Hold by the
    /// [family's key](Reservation::family_key) what a job has once.
    ///
    /// # Errors
    /// It is called again after a growing delay.
    fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> impl Future<Output = Result<ReleaseOutcome, CheckError>> + Send {
        let _ = (reservation, why);
        async { Ok(ReleaseOutcome::NeverAllocates) }
    }

    /// The reservations for which something was started and not yet released, as far as this controller can find out (from labels of the objects that it
    /// created, from the licence server). Default: none.
    ///
    /// Asked once by each new leader: those that are over are [released](Self::release). It closes the gap in which a reservation ended while nobody ran.
    ///
    /// # Errors
    /// It is asked again after a growing delay.
    fn unreleased_reservations(
        &self,
    ) -> impl Future<Output = Result<Vec<Reservation>, CheckError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// What else wakes Workloads: other objects, or a stream of the author's. Default: nothing. A panic in one ends the process, which is then started again.
    fn watches(&self) -> Watches {
        Watches::none()
    }

    /// Shown what the runtime sees of Workloads, for a check that accounts for what it has approved. Default: it looks away.
    ///
    /// Called for each Workload that holds quota, also for those that this check is not asked about, by standbys too, and always before the check is asked
    /// about what it shows. It is called from the runtime's loop, so it must return at once. A question takes longer: when [`evaluate`](Self::evaluate) hears it, something
    /// newer may have been shown, the end of the job even. What counts then is what was shown. See [`WorkloadEvent`].
    fn observe(&self, seen: WorkloadEvent<'_>) {
        let _ = seen;
    }

    /// Work beside the answers: to ask another system at its own pace, to write the parameters' status. Default: none.
    ///
    /// Begun once for each session with the cluster, on standbys too, and dropped with it; [`BackgroundContext::is_leader`] says who leads. When it returns, it is
    /// over. A panic ends the process, which is then started again.
    fn background(&self, context: BackgroundContext) -> impl Future<Output = ()> + Send {
        let _ = context;
        async {}
    }

    /// Lines in the OpenMetrics text format, without the final `# EOF`, that are added to
    /// `/metrics` each time it is read. Default: none. [`MetricsText`](crate::MetricsText) writes
    /// them, and escapes label values: text of others that is not escaped can add series, or make
    /// the whole of `/metrics` unreadable. Every replica is asked: show what only the leader knows
    /// only while [`BackgroundContext::is_leader`].
    fn metrics(&self) -> String {
        String::new()
    }

    /// Definitions of resources that the check reads besides its parameters, for `manifests` and `crds`. Default: none.
    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        Vec::new()
    }

    /// The policy where the parameters choose none. In it, [`u32::MAX`] evictions in an hour are no
    /// limit.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// The Workloads' annotations that [`evaluate`](Self::evaluate) reads: whole keys, or domains with their slash (`example.com/`) for all of theirs.
    /// Others are not kept. Default: none.
    fn annotations(&self) -> Vec<String> {
        Vec::new()
    }

    /// How long [`evaluate`](Self::evaluate) may take. Default: what the command line says (30 s).
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether a Ready answer holds for the Workload's next reservation too. Default: no.
    ///
    /// When quota is lost without an eviction (the queue is stopped), Kueue keeps the check's state and admits the Workload with it the next time (measured on
    /// 0.19.2). So the runtime withdraws a Ready to Pending, unless this says that the answer outlives the reservation.
    fn outlives_reservation(&self) -> bool {
        false
    }

    /// Whether [`release`](Self::release) is called as soon as Kueue begins to stop a job. Default:
    /// no, it is called when the quota is gone.
    ///
    /// Kueue stops a job that is evicted, deactivated or deleted, and keeps its quota until its pods
    /// are gone. A check that counts what pods use must wait for that. One that has asked for
    /// something that no pod uses any more, such as capacity, may say yes to give it back earlier.
    fn releases_at_eviction(&self) -> bool {
        false
    }

    /// What a Workload in flight is told while the AdmissionCheck's parameters are missing or wrong; `problem` says what is. Default: nothing, it is judged by
    /// the last good parameters.
    ///
    /// With a message, an answer that Kueue has not acted on yet is taken back to Pending with it, and what was started is
    /// [released](Self::release) with [`ReleaseReason::CheckInactive`], until there are good parameters again.
    fn on_parameters_unavailable(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        let _ = problem;
        None
    }

    /// The event that tells of a change of state. Default: a reason such as `AdmissionCheckReady`, and a note with both states and the message.
    fn state_change_event(&self, change: &StateChange<'_>) -> CheckEvent {
        change.event()
    }

    /// What the controller itself does with the Kubernetes API in the whole cluster, for the
    /// generated ClusterRole. What the runtime does is added. Default: nothing. Rights to write
    /// what is not the controller's own, such as every `ConfigMap`, make its token as good as the
    /// administrator's: prefer [`namespace_permissions`](Self::namespace_permissions).
    fn permissions(&self) -> Vec<PolicyRule> {
        Vec::new()
    }

    /// What the controller itself does in the namespace that its program runs in, for the generated
    /// Role. Default: nothing. In a pod, that namespace is the client's default
    /// ([`kube::Api::default_namespaced`]).
    fn namespace_permissions(&self) -> Vec<PolicyRule> {
        Vec::new()
    }
}

/// Why an AdmissionCheck has no usable parameters.
///
/// ```
/// use kueue_check::ParametersProblem;
///
/// /// As in `on_parameters_unavailable` of a check that must not go by an old price list.
/// fn told(problem: &ParametersProblem<'_>) -> Option<String> {
///     Some(format!("no prices to judge by ({}): {}", problem.reason, problem.message))
/// }
///
/// let problem = ParametersProblem::new("ParametersNotFound", "there is no PriceList `eu`: create it");
/// assert_eq!(told(&problem).as_deref(), Some("no prices to judge by (ParametersNotFound): there is no PriceList `eu`: create it"));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ParametersProblem<'a> {
    /// One word, as in the condition `Active`: `ParametersNotFound`, `ParametersKindMismatch`, `ParametersMissing`, `ParametersInvalid`, or the author's own.
    pub reason: &'a str,
    /// What is wrong and what to do.
    pub message: &'a str,
}

impl<'a> ParametersProblem<'a> {
    /// The problem, as [`on_parameters_unavailable`](AdmissionCheckController::on_parameters_unavailable) is told of it.
    pub fn new(reason: &'a str, message: &'a str) -> Self {
        Self { reason, message }
    }
}

/// The name by which AdmissionChecks choose their controller: 1 to 253 bytes, by convention `domain/name`.
///
/// ```
/// use kueue_check::ControllerName;
///
/// const NAME: ControllerName = ControllerName::from_static("example.com/licences");
/// assert_eq!("example.com/licences".parse(), Ok(NAME));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerName(Cow<'static, str>);

/// A controller name that Kueue would refuse.
///
/// ```
/// let error = "my licences".parse::<kueue_check::ControllerName>().unwrap_err();
/// assert_eq!(error.to_string(), "`my licences` is not a controller name: expected 1 to 253 printable characters, by convention `domain/name`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a controller name: expected 1 to 253 printable characters, by convention `domain/name`"
)]
pub struct ControllerNameError(String);

impl ControllerName {
    /// The name `name`; in a `const`, a wrong one does not compile.
    ///
    /// # Panics
    /// If the name is empty, longer than 253 bytes or not printable ASCII.
    pub const fn from_static(name: &'static str) -> Self {
        assert!(
            is_legal(name.as_bytes()),
            "a controller name has 1 to 253 printable characters"
        );
        Self(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const fn is_legal(name: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() {
        if !name[at].is_ascii_graphic() {
            return false;
        }
        at += 1;
    }
    !name.is_empty() && name.len() <= 253
}

impl TryFrom<String> for ControllerName {
    type Error = ControllerNameError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        if is_legal(name.as_bytes()) {
            Ok(Self(Cow::Owned(name)))
        } else {
            Err(ControllerNameError(name))
        }
    }
}

impl std::str::FromStr for ControllerName {
    type Err = ControllerNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        name.to_owned().try_into()
    }
}

impl fmt::Display for ControllerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ControllerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Why an AdmissionCheck can't be answered: the reason and message of its condition `Active`.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::Inactive;
///
/// /// As in `activate`: a licence server that is not there yet.
/// fn activate(server: Option<&str>) -> Result<(), Inactive> {
///     match server {
///         Some(_) => Ok(()),
///         None => Err(Inactive::new("NoServer", "no licence server answers: start one").recheck_in(Duration::from_secs(10))),
///     }
/// }
///
/// assert_eq!(activate(None).unwrap_err().reason(), "NoServer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inactive {
    pub(crate) reason: String,
    pub(crate) message: Message,
    pub(crate) recheck_in: Duration,
}

const RECHECK_INACTIVE: Duration = Duration::from_mins(1);

impl Inactive {
    /// Inactive because of `reason` (one word in CamelCase, for machines) and `message` (for people: what is wrong and what to do).
    ///
    /// A reason that is no such word becomes `Inactive`, because the API server would refuse it.
    pub fn new(reason: &str, message: impl Into<Message>) -> Self {
        let legal = reason.starts_with(|c: char| c.is_ascii_alphabetic())
            && reason
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let reason = if legal && reason.len() <= 1024 {
            reason
        } else {
            "Inactive"
        };
        Self {
            reason: reason.to_owned(),
            message: message.into(),
            recheck_in: RECHECK_INACTIVE,
        }
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The message.
    pub fn message(&self) -> &str {
        self.message.as_str()
    }

    /// Asks again after `delay`, even if nothing changes. Default: one minute.
    #[must_use]
    pub fn recheck_in(mut self, delay: Duration) -> Self {
        self.recheck_in = delay;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_name_is_what_kueue_accepts() {
        assert!("example.com/window".parse::<ControllerName>().is_ok());
        for name in [
            String::new(),
            "x".repeat(254),
            "a b".to_owned(),
            "é".to_owned(),
        ] {
            assert_eq!(
                ControllerName::try_from(name.clone()),
                Err(ControllerNameError(name))
            );
        }
    }

    #[test]
    fn a_reason_that_the_api_server_would_refuse_is_replaced() {
        assert_eq!(Inactive::new("NoLicence", "m").reason, "NoLicence");
        for reason in ["", "no licence", "9Lives", "a-b"] {
            assert_eq!(Inactive::new(reason, "m").reason, "Inactive");
        }
    }
}
