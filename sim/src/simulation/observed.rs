//! What the author's check has answered, to compare with what was written.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kueue_check::api::AdmissionCheck;
use kueue_check::{
    AdmissionCheckController, Background, CheckError, CheckRequest, ControllerName, Inactive, Policy,
    ReleaseReason, Released, Reservation, Seen, Verdict, Watches,
};

/// A verdict, as the check gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// About which reservation.
    pub reservation: Reservation,
    /// What it said.
    pub verdict: Verdict,
}

/// All verdicts of a trial, over all crashes.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<Vec<Answer>>>);

impl Answers {
    /// The verdicts so far, oldest first.
    pub fn all(&self) -> Vec<Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `check`, with its verdicts written down here.
    pub(super) fn around<C: AdmissionCheckController>(&self, check: C) -> Observed<C> {
        Observed {
            check,
            answers: self.clone(),
        }
    }

    fn add(&self, answer: Answer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
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

    fn permissions(&self) -> Vec<PolicyRule> {
        self.check.permissions()
    }
}
