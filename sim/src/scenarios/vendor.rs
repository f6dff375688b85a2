//! A licence server outside the cluster, and a check that takes licences from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict,
};
use serde_json::Value;

use crate::simulation::{Cluster, workloads};
use crate::timeline::{condition, is_true};

/// A check that takes licences from a service outside the cluster, which has a fixed number. The
/// service survives every crash of the check.
///
/// ```
/// use kueue_check_sim::{Job, Simulation, scenarios::LicenceVendor};
///
/// let simulation = Simulation::with_context(|tools| tools.external(|| LicenceVendor::new(1))).invariant("sold once", LicenceVendor::each_licence_sold_once);
/// simulation.run(async |cluster| {
///     cluster.submit(Job::new("first"));
///     cluster.expect_admitted("first").await;
///     cluster.submit(Job::new("second"));
///     cluster.expect_message("second", "all licences are in use").await;
///     cluster.crash(0);
///     cluster.complete("first");
///     cluster.expect_admitted("second").await; // the licence came back although the check was not there
///     assert_eq!(cluster.external::<LicenceVendor>().sold(), 1);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct LicenceVendor {
    licences: usize,
    state: Arc<Mutex<VendorState>>,
}

#[derive(Debug, Default)]
struct VendorState {
    /// The licences in use, by reservation.
    out: BTreeMap<String, Reservation>,
    /// The number of licences that were sold to each reservation.
    sales: BTreeMap<String, usize>,
    /// The maximum number of licences in use at once.
    most: usize,
}

impl LicenceVendor {
    /// Returns a vendor with this number of licences.
    pub fn new(licences: usize) -> Self {
        Self {
            licences,
            state: Arc::default(),
        }
    }

    /// Returns the number of licences in use.
    pub fn sold(&self) -> usize {
        self.state().out.len()
    }

    /// Returns the maximum number of licences in use at once.
    pub fn max_sold(&self) -> usize {
        self.state().most
    }

    /// An invariant: each reservation was sold at most one licence. None is in use for an ended
    /// reservation, and each running job has one.
    pub fn each_licence_sold_once(cluster: &Cluster) -> Result<(), String> {
        let vendor: Self = cluster.external();
        let state = vendor.state();
        if let Some((reservation, sales)) = state.sales.iter().find(|(_, sales)| **sales > 1) {
            return Err(format!("{reservation} was sold {sales} licences"));
        }
        if state.most > vendor.licences {
            return Err(format!(
                "{} of {} licences were out",
                state.most, vendor.licences
            ));
        }
        let all = cluster.server().objects(&workloads(), "");
        let holding = all.iter().filter_map(|workload| holds(workload));
        let holding: BTreeMap<(&str, &str), &Value> = holding.collect();
        let since = |reservation: &Reservation| reservation.since().to_string();
        let mut licensed = Vec::new();
        for (key, reservation) in &state.out {
            let (uid, since) = (reservation.uid().to_string(), since(reservation));
            let place = (uid.as_str(), since.as_str());
            match holding.get(&place) {
                Some(workload) => licensed.push(*workload),
                None => return Err(format!("{key} is over and has a licence")),
            }
        }
        let mut running = holding
            .values()
            .filter(|workload| is_true(workload, "Admitted"));
        match running.find(|workload| !licensed.contains(workload)) {
            Some(workload) => Err(format!(
                "{} runs without a licence",
                workload["metadata"]["name"]
            )),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, VendorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sells a licence. A repeated request for the same reservation is the same sale.
    fn buy(&self, reservation: &Reservation) -> bool {
        let mut state = self.state();
        let key = reservation.to_string();
        if state.out.contains_key(&key) {
            return true;
        }
        if state.out.len() >= self.licences {
            return false;
        }
        *state.sales.entry(key.clone()).or_default() += 1;
        state.out.insert(key, reservation.clone());
        state.most = state.most.max(state.out.len());
        true
    }
}

impl AdmissionCheckController for LicenceVendor {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/vendor") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
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
    ) -> Result<ReleaseOutcome, CheckError> {
        self.state().out.remove(&reservation.to_string());
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        Ok(self.state().out.values().cloned().collect())
    }
}

/// Returns uid and reservation time of a Workload that holds quota.
pub(super) fn holds(workload: &Arc<Value>) -> Option<((&str, &str), &Value)> {
    if is_true(workload, "Finished") || !is_true(workload, "QuotaReserved") {
        return None;
    }
    let reserved = condition(workload, "QuotaReserved")?;
    let uid = workload["metadata"]["uid"].as_str()?;
    Some(((uid, reserved["lastTransitionTime"].as_str()?), workload))
}
