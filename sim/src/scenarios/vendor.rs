//! A licence server, and a check that books at it: what a check does outside the cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters,
    ReleaseReason, Released, Reservation, Verdict,
};
use std::time::Duration;

/// A service outside the cluster that sells licences, of which it has a fixed number. It survives every crash of the check.
#[derive(Clone, Debug)]
pub struct Vendor {
    licences: usize,
    book: Arc<Mutex<BTreeMap<String, Reservation>>>,
    most: Arc<Mutex<usize>>,
}

impl Vendor {
    /// A vendor with so many licences.
    pub fn new(licences: usize) -> Self {
        Self {
            licences,
            book: Arc::default(),
            most: Arc::default(),
        }
    }

    /// How many are out.
    pub fn sold(&self) -> usize {
        self.book().len()
    }

    /// How many were out at the same time at most.
    pub fn most(&self) -> usize {
        *self.most.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self) -> MutexGuard<'_, BTreeMap<String, Reservation>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asking again for the same reservation is the same sale.
    fn buy(&self, reservation: &Reservation) -> bool {
        let mut book = self.book();
        let key = reservation.to_string();
        if !book.contains_key(&key) && book.len() >= self.licences {
            return false;
        }
        book.insert(key, reservation.clone());
        let mut most = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        *most = (*most).max(book.len());
        true
    }
}

impl AdmissionCheckController for Vendor {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/vendor") }
    }

    async fn check(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        if self.buy(request.reservation()) {
            return Ok(Verdict::ready("has a licence"));
        }
        let verdict = Verdict::pending("all licences are in use");
        Ok(verdict.recheck_in(Duration::from_secs(30)))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        _: ReleaseReason,
    ) -> Result<Released, CheckError> {
        self.book().remove(&reservation.to_string());
        Ok(Released::Done)
    }

    async fn outstanding(&self) -> Result<Vec<Reservation>, CheckError> {
        Ok(self.book().values().cloned().collect())
    }
}
