//! The log of verdicts, for a comparison with the written states.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use kueue_check::api::AdmissionCheck;
use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, Clock, ControllerName, DynCheck,
    Inactive, Parameters, Preview, ReleaseOutcome, ReleaseReason, Reservation, Verdict,
};

use crate::faults::Injector;

/// A verdict of the check, as returned.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Job, Simulation, simulation::RecordedVerdict};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     let RecordedVerdict { at, reservation, verdict } = &cluster.verdicts().all()[0];
///     assert!(reservation.since() <= *at);
///     assert_eq!((reservation.admission_check(), verdict.message()), ("check", "open"));
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedVerdict {
    /// The time at which it was returned.
    pub at: Timestamp,
    /// The reservation that was evaluated.
    pub reservation: Reservation,
    /// The verdict.
    pub verdict: Verdict,
}

/// All verdicts of a simulation, over all crashes.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use std::time::Duration;
/// use kueue_check_sim::{Job, Simulation};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     assert_eq!(cluster.verdicts().all().len(), 1);
///     cluster.crash(0);
///     cluster.advance(Duration::from_secs(60)).await;
///     // The restarted process evaluates again; the verdict of the first one is still recorded.
///     assert_eq!(cluster.verdicts().all().len(), 2);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct VerdictLog {
    clock: Clock,
    all: Arc<Mutex<Vec<RecordedVerdict>>>,
    calls: Arc<Mutex<Vec<AuthorCall>>>,
    traits: Arc<Mutex<BTreeMap<CheckKey, Traits>>>,
    pauses: Arc<OnceLock<Arc<Injector>>>,
    process: Arc<Process>,
}

/// One process of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) agent: String,
    /// The number of earlier processes of the replica.
    pub(crate) life: u64,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.agent, self.life)
    }
}

/// The key of the AdmissionChecks of a check. It is `spec.controllerName`, and the kind and group
/// of `spec.parameters`.
pub(crate) type CheckKey = (String, Option<(String, String)>);

/// The properties of a check that invariants depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// The maximum number of running jobs that it may evict in an hour.
    pub(crate) evictions: u32,
    /// Whether a Ready remains valid for later reservations.
    pub(crate) outlives: bool,
}

/// The methods of a check that are recorded.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Job, Simulation, simulation::CallKind};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     let kinds: Vec<CallKind> = cluster.verdicts().calls().iter().map(|call| call.kind).collect();
///     assert_eq!(kinds, [CallKind::Activate, CallKind::Evaluate]);
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// [`evaluate`](AdmissionCheckController::evaluate).
    Evaluate,
    /// [`release`](AdmissionCheckController::release).
    Release,
    /// [`activate`](AdmissionCheckController::activate).
    Activate,
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Evaluate => "evaluate",
            Self::Release => "release",
            Self::Activate => "activate",
        })
    }
}

/// One call of the check's code, from its beginning to its end.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::Verdict;
/// use kueue_check_sim::{Job, Simulation, scenarios::Scripted};
///
/// let slow = || Scripted::new(|_| Ok(Verdict::ready("slow"))).latency(|_| Duration::from_secs(20));
/// Simulation::new(slow).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.advance(Duration::from_secs(10)).await;
///     let calls = cluster.verdicts().calls();
///     let call = calls.last().expect("it was called");
///     assert_eq!((call.process.as_str(), call.admission_check.as_str()), ("check-0#0", "check"));
///     assert_eq!(call.ended, None); // it still takes its time, or its process was stopped
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AuthorCall {
    /// The calling process: the replica, and the number of its earlier processes, as in
    /// `check-0#2`.
    pub process: String,
    /// The called method.
    pub kind: CallKind,
    /// The AdmissionCheck.
    pub admission_check: String,
    /// The reservation; `None` for an activation.
    pub reservation: Option<Reservation>,
    /// The time of its beginning.
    pub began: Timestamp,
    /// The time when it ended, or was dropped; `None` if it has not yet.
    pub ended: Option<Timestamp>,
}

impl AuthorCall {
    /// Returns the replica, without the number of its process.
    pub fn agent(&self) -> &str {
        self.process
            .split_once('#')
            .map_or(&self.process, |(agent, _)| agent)
    }
}

impl VerdictLog {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            all: Arc::default(),
            calls: Arc::default(),
            traits: Arc::default(),
            pauses: Arc::default(),
            process: Arc::default(),
        }
    }

    /// Returns the verdicts so far, oldest first.
    pub fn all(&self) -> Vec<RecordedVerdict> {
        lock(&self.all).clone()
    }

    /// Returns the calls of the checks' code so far, in the order in which they began.
    pub fn calls(&self) -> Vec<AuthorCall> {
        lock(&self.calls).clone()
    }

    /// Returns the properties of the checks.
    pub(crate) fn traits(&self) -> BTreeMap<CheckKey, Traits> {
        lock(&self.traits).clone()
    }

    /// Sets the injector, which records the pauses of processes.
    pub(super) fn pauses_of(&self, injector: &Arc<Injector>) {
        drop(self.pauses.set(Arc::clone(injector)));
    }

    /// Returns the same log for the checks of one process.
    pub(super) fn of(&self, process: Process) -> Self {
        Self {
            process: Arc::new(process),
            ..self.clone()
        }
    }

    /// Wraps `check`, so that its verdicts are recorded here.
    pub(super) fn wrap<P: Parameters>(
        &self,
        check: impl AdmissionCheckController<Parameters = P>,
    ) -> DynCheck {
        let check = DynCheck::new(RecordingCheck {
            check: Check::new(check),
            log: self.clone(),
        });
        let after = check.policy().after_admission.unwrap_or_default();
        let traits = Traits {
            evictions: after.max_evictions_per_hour.unwrap_or(EVICTIONS),
            outlives: check.outlives_reservation(),
        };
        let kind = P::kind().map(|kind| (kind.kind, kind.group));
        lock(&self.traits).insert((check.controller_name().to_string(), kind), traits);
        check
    }

    fn begin(&self, kind: CallKind, check: &str, reservation: Option<&Reservation>) -> Running {
        let mut calls = lock(&self.calls);
        calls.push(AuthorCall {
            process: self.process.to_string(),
            kind,
            admission_check: check.to_owned(),
            reservation: reservation.cloned(),
            began: self.clock.now(),
            ended: None,
        });
        Running {
            log: self.clone(),
            at: calls.len() - 1,
        }
    }

    /// Waits while the process is paused.
    async fn awake(&self) {
        while let Some(rest) = self
            .pauses
            .get()
            .and_then(|injector| injector.paused_for(&self.process.agent))
        {
            tokio::time::sleep(rest).await;
        }
    }
}

/// The default of `maxEvictionsPerHour`.
const EVICTIONS: u32 = 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that has not ended yet; it ends when this is dropped.
struct Running {
    log: VerdictLog,
    at: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        let now = self.log.clock.now();
        if let Some(call) = lock(&self.log.calls).get_mut(self.at) {
            call.ended = Some(now);
        }
    }
}

/// A check whose verdicts are recorded.
struct RecordingCheck<P> {
    check: Check<P>,
    log: VerdictLog,
}

impl<P: Parameters> AdmissionCheckController for RecordingCheck<P> {
    type Parameters = P;

    fn controller_name(&self) -> ControllerName {
        self.check.controller_name()
    }

    async fn evaluate(&self, request: CheckRequest<P>) -> Result<Verdict, CheckError> {
        let reservation = request.reservation().clone();
        let name = reservation.admission_check();
        let _running = self.log.begin(CallKind::Evaluate, name, Some(&reservation));
        let verdict = self.check.evaluate(request).await;
        self.log.awake().await;
        if let Ok(verdict) = &verdict {
            lock(&self.log.all).push(RecordedVerdict {
                at: self.log.clock.now(),
                reservation: reservation.clone(),
                verdict: verdict.clone(),
            });
        }
        verdict
    }

    async fn preview(&self, request: CheckRequest<P>) -> Result<Preview, CheckError> {
        self.check.preview(request).await
    }

    async fn activate(&self, check: &AdmissionCheck, parameters: &Arc<P>) -> Result<(), Inactive> {
        let _running = self.log.begin(CallKind::Activate, check.name(), None);
        let activated = self.check.activate(check, parameters).await;
        self.log.awake().await;
        activated
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        let name = reservation.admission_check();
        let _running = self.log.begin(CallKind::Release, name, Some(reservation));
        let released = self.check.release(reservation, why).await;
        self.log.awake().await;
        released
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        self.check.unreleased_reservations().await
    }

    fn configure(self: &Arc<Self>, check: Check<P>) -> Check<P> {
        check.configured_as(&self.check)
    }
}

#[cfg(test)]
mod tests {
    use kueue_check::{NoParameters, ParametersKind};

    use super::*;

    struct Limit;

    impl Parameters for Limit {
        fn kind() -> Option<ParametersKind> {
            Some(ParametersKind {
                group: "example.com".into(),
                kind: "Limit".into(),
                plural: "limits".into(),
                versions: vec!["v1".into()],
            })
        }

        fn decode(_: serde_json::Value) -> Result<Self, String> {
            Ok(Self)
        }
    }

    /// One of several checks with the same controller name.
    struct Shared<P>(std::marker::PhantomData<P>);

    impl<P: Parameters> AdmissionCheckController for Shared<P> {
        type Parameters = P;

        fn controller_name(&self) -> ControllerName {
            const { ControllerName::from_static("example.com/shared") }
        }

        async fn evaluate(&self, _: CheckRequest<P>) -> Result<Verdict, CheckError> {
            Ok(Verdict::ready(""))
        }
    }

    #[test]
    fn checks_of_one_name_are_distinguished_by_the_kind_of_their_parameters() {
        let log = VerdictLog::new(Clock::system());
        let outliving = Check::new(Shared::<Limit>(std::marker::PhantomData));
        log.wrap(outliving.outlives_reservation());
        log.wrap(Shared::<NoParameters>(std::marker::PhantomData));
        let outlive: Vec<(CheckKey, bool)> = log
            .traits()
            .into_iter()
            .map(|(key, traits)| (key, traits.outlives))
            .collect();
        let name = || "example.com/shared".to_owned();
        let limit = ("Limit".to_owned(), "example.com".to_owned());
        assert_eq!(
            outlive,
            [((name(), None), false), ((name(), Some(limit)), true)]
        );
    }
}
