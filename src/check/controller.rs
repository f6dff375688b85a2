//! The trait of an admission check controller.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Check, CheckError, CheckRequest, Message, Parameters, Preview, ReleaseOutcome, ReleaseReason,
    Reservation, Verdict,
};
use crate::api::AdmissionCheck;

/// An admission check controller: the trait that a check implements.
///
/// [`evaluate`](Self::evaluate) and the name are required. The configuration of the check (watches,
/// permissions, policy, metrics) is set on a [`Check`], by the caller or in
/// [`configure`](Self::configure). A check that is one function need not implement this trait: see
/// [`handler`](crate::handler).
///
/// The runtime does the rest:
/// - it watches the AdmissionChecks with this name, their parameters, and the Workloads that hold
///   quota;
/// - it calls [`evaluate`](Self::evaluate) for each such Workload: at once for a new reservation;
///   again when the Workload, the parameters or a [watched](Check::watches) object changes, when
///   the verdict set a recheck, and once after a restart;
/// - it never runs two evaluations of one Workload and AdmissionCheck at once, and drops a verdict
///   that arrives too late;
/// - it writes this check's state and no other; an error, a panic or a timeout writes none.
///
/// ```
/// use kueue_check::prelude::*;
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
///     async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
///         let free = self.0.lock().await;
///         Ok(if *free > 0 {
///             Verdict::ready("a licence is free")
///         } else {
///             Verdict::pending("all licences are in use")
///         })
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
    /// A change of their spec, labels or annotations activates the check and evaluates again. Their
    /// status belongs to controllers, possibly this one: a change of the status alone triggers no
    /// evaluation. Requests carry the status as it was at the last other change.
    type Parameters: Parameters;

    /// Returns the `spec.controllerName` of the AdmissionChecks of this controller.
    ///
    /// Several checks of one program may have the same name if each takes
    /// [`Parameters`](Self::Parameters) of another kind. The kind of an AdmissionCheck's
    /// `spec.parameters` selects the check. When that kind changes, resources that this check holds
    /// are [released](Self::release), and the other check evaluates.
    fn controller_name(&self) -> ControllerName;

    /// Evaluates one Workload.
    ///
    /// It may be called any number of times for one reservation, and must then return the same
    /// verdict for the same inputs. It is dropped when its [timeout](Check::timeout) passes.
    ///
    /// # Errors
    /// An error is not a verdict: it changes no state, and the evaluation is repeated. See
    /// [`CheckError`].
    fn evaluate(
        &self,
        request: CheckRequest<Self::Parameters>,
    ) -> impl Future<Output = Result<Verdict, CheckError>> + Send;

    /// Returns what [`evaluate`](Self::evaluate) would return now, for the command `explain`. It
    /// must have no effect at all. Default: [`Preview::skipped`].
    ///
    /// An evaluation that only reads, and depends only on the request and what it reads, is its own
    /// preview: set [`Check::previewable`], in [`configure`](Self::configure) for example. A check
    /// that allocates returns what it would allocate. A check whose verdict depends on state of the
    /// running process returns [`Preview::skipped`]: `explain` is another process, in which nothing
    /// was observed, activated or started.
    ///
    /// The check's [watches](Check::watches) of objects run during the preview, so an index that
    /// they fill is filled here too. A client from [`App::check_on`](crate::App::check_on), and the
    /// request, refuse every request that is not a read. The check author must prevent effects on
    /// other systems.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate); `explain` shows the error and does nothing else.
    fn preview(
        &self,
        request: CheckRequest<Self::Parameters>,
    ) -> impl Future<Output = Result<Preview, CheckError>> + Send {
        let _ = request;
        async { Ok(Preview::has_side_effects()) }
    }

    /// Activates an AdmissionCheck with its parameters, which are decoded and valid. Default: does
    /// nothing.
    ///
    /// Called when either changes. The result becomes the AdmissionCheck's condition `Active`; a
    /// ClusterQueue with an inactive check admits no new jobs.
    ///
    /// # Errors
    /// [`Inactive`] contains the reason, and the delay of the retry.
    fn activate(
        &self,
        check: &AdmissionCheck,
        parameters: &Arc<Self::Parameters>,
    ) -> impl Future<Output = Result<(), Inactive>> + Send {
        let _ = (check, parameters);
        async { Ok(()) }
    }

    /// Releases the resources held for `reservation`, which has ended. Default: nothing is held.
    ///
    /// Called until it returns [`ReleaseOutcome::Done`], before the evaluation of a later
    /// reservation of the same Workload. It must be idempotent, and may be called without an
    /// earlier [`evaluate`](Self::evaluate) in this process.
    ///
    /// It is called when Kueue releases the quota (or [earlier](Check::release_at_eviction)). The
    /// pods of an evicted Workload may then take up to their [grace
    /// period](crate::api::PodSet::termination_grace) to end. A check whose resource must not be
    /// used by two jobs holds it for that time, as the example `licences` does.
    ///
    /// When a slice of an elastic job is [replaced](ReleaseReason::Replaced), it is called once the
    /// new slice is admitted, and resources held for the job pass to that slice. Identify a
    /// resource that a job holds only once by the [family's key](Reservation::family_key).
    ///
    /// # Errors
    /// It is called again with exponential backoff.
    fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> impl Future<Output = Result<ReleaseOutcome, CheckError>> + Send {
        let _ = (reservation, why);
        async { Ok(ReleaseOutcome::nothing()) }
    }

    /// Returns the reservations for which resources are held, as far as this controller can find
    /// out: from annotations of the objects that it created, or from the licence server. Default: none.
    ///
    /// It must not return resources of another check: if another check now serves the
    /// AdmissionCheck, everything that is returned here is released.
    ///
    /// Each new leader calls it once, and [releases](Self::release) the reservations that have
    /// ended. This covers reservations that ended, and AdmissionChecks that were given to another
    /// check, while no process ran.
    ///
    /// # Errors
    /// It is called again with exponential backoff.
    fn unreleased_reservations(
        &self,
    ) -> impl Future<Output = Result<Vec<Reservation>, CheckError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Configures the check wherever this controller becomes one, in [`Check::new`]. Default:
    /// changes nothing.
    ///
    /// Closures of the configuration share the controller by a clone of the [`Arc`]:
    ///
    /// ```
    /// # use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
    /// # use kueue_check::prelude::*;
    /// # struct Licences { free: AtomicU64 }
    /// # impl AdmissionCheckController for Licences {
    /// #     type Parameters = NoParameters;
    /// #     fn controller_name(&self) -> ControllerName { const { ControllerName::from_static("example.com/x") } }
    /// #     async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> { Ok(Verdict::ready("")) }
    /// fn configure(self: &Arc<Self>, check: Check) -> Check {
    ///     let licences = Arc::clone(self);
    ///     check.annotations(["example.com/licence"]).metrics(move |metrics| {
    ///         let free = licences.free.load(Ordering::Relaxed);
    ///         metrics.gauge("licences_free", "Licences that are free").count(&[], free);
    ///     })
    /// }
    /// # }
    /// # let _ = Check::new(Licences { free: AtomicU64::new(1) });
    /// ```
    fn configure(self: &Arc<Self>, check: Check<Self::Parameters>) -> Check<Self::Parameters> {
        check
    }
}

/// The name by which AdmissionChecks choose their controller: 1 to 253 bytes, by convention
/// `domain/name`.
///
/// ```
/// use kueue_check::ControllerName;
///
/// const NAME: ControllerName = ControllerName::from_static("example.com/licences");
/// assert_eq!("example.com/licences".parse(), Ok(NAME));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerName(Cow<'static, str>);

/// An invalid controller name, which Kueue would reject.
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
    /// Returns the name `name`. In a `const`, an invalid name does not compile.
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

    /// Returns the name.
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

/// The reason and message of an inactive AdmissionCheck: its condition `Active`.
///
/// [`activate`](AdmissionCheckController::activate) returns it, and
/// [`Check::on_parameters_unavailable`] receives it. Each kind of problem has one place:
///
/// | the problem shows | returned by |
/// | --- | --- |
/// | in the parameters alone | [`Parameters::validate`]; `validate FILE` finds it too |
/// | only in another system, or in the AdmissionCheck | [`activate`](AdmissionCheckController::activate), as `Inactive` |
/// | only with a Workload | [`evaluate`](AdmissionCheckController::evaluate), as [`CheckError::parameters`] |
///
/// All set the condition `Active=False`, so a ClusterQueue admits no new jobs meanwhile. The last one
/// does so if [more than one Workload](crate::ErrorKind::Parameters) has the problem, or each one.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::Inactive;
///
/// /// As in `activate`: a licence server that is not there yet.
/// fn activate(server: Option<&str>) -> Result<(), Inactive> {
///     match server {
///         Some(_) => Ok(()),
///         None => Err(Inactive::new("NoServer", "no licence server responds: start one")
///             .recheck_in(Duration::from_secs(10))),
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
    /// Makes an `Inactive` of `reason` (one word in CamelCase, for machines) and `message` (for
    /// people: what is wrong and what to do).
    ///
    /// A reason that is not such a word becomes `Inactive`, because the API server would reject it.
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

    /// Returns the reason: that of the check, or `ParametersNotFound`, `ParametersKindMismatch`,
    /// `ParametersMissing`, `ParametersInvalid`.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        self.message.as_str()
    }

    /// Sets the delay after which the check is activated again, even if nothing changes.
    /// Default: 1 min; at least 1 s, at most 1 h.
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
    fn a_reason_that_the_api_server_would_reject_is_replaced() {
        assert_eq!(Inactive::new("NoLicence", "m").reason, "NoLicence");
        for reason in ["", "no licence", "9Lives", "a-b"] {
            assert_eq!(Inactive::new(reason, "m").reason, "Inactive");
        }
    }
}
