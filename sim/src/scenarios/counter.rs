//! A check that counts licences in memory.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict,
};

/// A check that counts licences in the memory of its process. A new process counts anew, because
/// the runtime first evaluates running jobs.
///
/// ```
/// use kueue_check_sim::{Job, Simulation, scenarios::Counter};
///
/// Simulation::new(|| Counter::new(1)).run(async |cluster| {
///     cluster.submit(Job::new("first"));
///     cluster.expect_admitted("first").await;
///     cluster.submit(Job::new("second"));
///     cluster.expect_message("second", "all licences are in use").await;
///     cluster.complete("first");
///     cluster.expect_admitted("second").await;
/// });
/// ```
#[derive(Debug)]
pub struct Counter {
    licences: usize,
    held: Mutex<BTreeSet<Reservation>>,
}

impl Counter {
    /// Returns a check with this number of licences.
    pub fn new(licences: usize) -> Self {
        Self {
            licences,
            held: Mutex::default(),
        }
    }
}

impl AdmissionCheckController for Counter {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/counter") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let reservation = request.reservation();
        if held.contains(reservation) || held.len() < self.licences {
            held.insert(reservation.clone());
            return Ok(Verdict::ready("has a licence"));
        }
        let verdict = Verdict::pending("all licences are in use");
        Ok(verdict.recheck_in(Duration::from_secs(30)))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        _: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(reservation);
        Ok(ReleaseOutcome::Done)
    }
}
