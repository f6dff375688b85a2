//! What the author's check has answered, to compare with what was written.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kueue_check::api::AdmissionCheck;
use kueue_check::{
    AdmissionCheckController, Background, CheckError, CheckRequest, Clock, ControllerName,
    EventNote, Inactive, ParametersProblem, Policy, ReleaseReason, Released, Reservation, Seen,
    StateChange, Verdict, Watches,
};

/// A verdict, as the check gave it.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Job, Simulation, simulation::Answer};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     let Answer { at, reservation, verdict } = &cluster.answers().all()[0];
///     assert!(reservation.since() <= *at);
///     assert_eq!((reservation.admission_check(), verdict.message()), ("check", "open"));
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// When.
    pub at: Timestamp,
    /// About which reservation.
    pub reservation: Reservation,
    /// What it said.
    pub verdict: Verdict,
}

/// All verdicts of a trial, over all crashes.
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
///     assert_eq!(cluster.answers().all().len(), 1);
///     cluster.crash(0);
///     cluster.advance(Duration::from_secs(60)).await;
///     // The process that was started again is asked anew; what the first one said is still here.
///     assert_eq!(cluster.answers().all().len(), 2);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Answers {
    clock: Clock,
    all: Arc<Mutex<Vec<Answer>>>,
}

impl Answers {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            all: Arc::default(),
        }
    }

    /// The verdicts so far, oldest first.
    pub fn all(&self) -> Vec<Answer> {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// `check`, with its verdicts written down here.
    pub(super) fn around<C: AdmissionCheckController>(&self, check: C) -> Observed<C> {
        Observed {
            check,
            answers: self.clone(),
        }
    }

    fn add(&self, answer: Answer) {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(answer);
    }
}

/// A check whose verdicts are written down.
pub(super) struct Observed<C> {
    check: C,
    answers: Answers,
}

impl<C: AdmissionCheckController> AdmissionCheckController for Observed<C> {
    type Parameters = C::Parameters;

    fn controller_name(&self) -> ControllerName {
        self.check.controller_name()
    }

    async fn check(&self, request: CheckRequest<C::Parameters>) -> Result<Verdict, CheckError> {
        let reservation = request.reservation().clone();
        let verdict = self.check.check(request).await?;
        self.answers.add(Answer {
            at: self.answers.clock.now(),
            reservation,
            verdict: verdict.clone(),
        });
        Ok(verdict)
    }

    fn activate(
        &self,
        check: &AdmissionCheck,
        parameters: &Arc<C::Parameters>,
    ) -> impl Future<Output = Result<(), Inactive>> + Send {
        self.check.activate(check, parameters)
    }

    fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> impl Future<Output = Result<Released, CheckError>> + Send {
        self.check.release(reservation, why)
    }

    fn outstanding(&self) -> impl Future<Output = Result<Vec<Reservation>, CheckError>> + Send {
        self.check.outstanding()
    }

    fn watches(&self) -> Watches {
        self.check.watches()
    }

    fn observe(&self, seen: Seen<'_>) {
        self.check.observe(seen);
    }

    async fn background(&self, context: Background) {
        self.check.background(context).await;
    }

    fn metrics(&self) -> String {
        self.check.metrics()
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        self.check.definitions()
    }

    fn policy(&self) -> Policy {
        self.check.policy()
    }

    fn annotations(&self) -> Vec<String> {
        self.check.annotations()
    }

    fn timeout(&self) -> Option<Duration> {
        self.check.timeout()
    }

    fn outlives_reservation(&self) -> bool {
        self.check.outlives_reservation()
    }

    fn without_parameters(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        self.check.without_parameters(problem)
    }

    fn state_event(&self, change: &StateChange<'_>) -> EventNote {
        self.check.state_event(change)
    }

    fn permissions(&self) -> Vec<PolicyRule> {
        self.check.permissions()
    }

    fn namespace_permissions(&self) -> Vec<PolicyRule> {
        self.check.namespace_permissions()
    }
}
