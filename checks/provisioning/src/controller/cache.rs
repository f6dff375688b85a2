//! The cache between evaluations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use kueue_check::api::{PodSet, Uid};
use kueue_check::{CheckError, CheckRequest, FamilyRole, Reservation};
use serde_json::Value;

use super::CapacityCheck;
use crate::backend::Backend;
use crate::config::ProvisioningRequestConfig;
use crate::pods;
use crate::request::FailureCounts;

type EvaluationRequest = CheckRequest<ProvisioningRequestConfig>;

/// The state that this process keeps between evaluations. Only the number of requests to the API
/// server depends on it.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Whether capacity is needed, by Workload and AdmissionCheck.
    pub(super) needed: BTreeMap<(Uid, Box<str>), CapacityNeed>,
    /// The requests that were created or compared and are large enough, by Workload and
    /// AdmissionCheck.
    pub(super) sufficient: BTreeMap<(Uid, Box<str>), SufficientRequests>,
    /// The number of consecutive failed creates.
    pub(super) failures: BTreeMap<(Uid, Box<str>), u32>,
    /// The last attempts whose requests were deleted with the quota, and the failures until then.
    pub(super) tallies: BTreeMap<(Uid, Box<str>), (u32, FailureCounts)>,
    /// The last reservations whose quota was lost while their request was kept, by Workload and
    /// AdmissionCheck.
    pub(super) orphans: BTreeMap<(Uid, Box<str>), Reservation>,
    /// The reservations that growths have replaced, by the key of their family and AdmissionCheck.
    /// Their pods continue to run.
    pub(super) replaced: BTreeMap<(Uid, Box<str>), BTreeSet<Reservation>>,
    /// Whether all reservations were listed once.
    pub(super) listed_once: bool,
}

/// Whether capacity is needed, evaluated for one reservation and one config.
#[derive(Debug)]
pub(super) struct CapacityNeed {
    basis: Basis,
    yes: bool,
}

/// The requests that are large enough for one reservation and one config. Their content never
/// changes, but the needs of the Workload may.
#[derive(Debug)]
pub(super) struct SufficientRequests {
    basis: Basis,
    requests: BTreeSet<Uid>,
}

/// The reservation and config that the needs of a Workload depend on.
#[derive(Debug)]
struct Basis {
    reserved: i64,
    /// The config itself, not its generation: another config may have the same generation.
    config: Arc<ProvisioningRequestConfig>,
}

impl Basis {
    fn of(evaluation: &EvaluationRequest) -> Self {
        Self {
            reserved: evaluation.reservation().since().as_second(),
            config: Arc::clone(evaluation.parameters()),
        }
    }

    /// Returns true if the needs of the Workload are still the same for `evaluation`.
    fn is_of(&self, evaluation: &EvaluationRequest) -> bool {
        let managed = &evaluation.parameters().spec.managed_resources;
        self.reserved == evaluation.reservation().since().as_second()
            && self.config.spec.managed_resources == *managed
    }
}

impl Cache {
    /// Returns whether capacity is needed, if that was evaluated for the reservation and the
    /// managed resources of `evaluation`.
    fn known(&self, evaluation: &EvaluationRequest) -> Option<bool> {
        let known = self.needed.get(&key(evaluation.reservation()))?;
        known.basis.is_of(evaluation).then_some(known.yes)
    }

    /// Returns the requests that are large enough for `evaluation`, as far as that is known.
    pub(super) fn sufficient(&self, evaluation: &EvaluationRequest) -> Option<&BTreeSet<Uid>> {
        let known = self.sufficient.get(&key(evaluation.reservation()))?;
        known.basis.is_of(evaluation).then_some(&known.requests)
    }

    /// Records that `request` is large enough for `evaluation`.
    pub(super) fn add_sufficient(&mut self, evaluation: &EvaluationRequest, request: Uid) {
        let key = key(evaluation.reservation());
        let known = self.sufficient.remove(&key);
        let known = known.filter(|known| known.basis.is_of(evaluation));
        let mut requests = known.map(|known| known.requests).unwrap_or_default();
        requests.insert(request);
        let basis = Basis::of(evaluation);
        self.sufficient
            .insert(key, SufficientRequests { basis, requests });
    }
}

impl<B: Backend> CapacityCheck<B> {
    pub(super) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the Workload of `request`, which is not Ready, needs capacity. Sends one
    /// request, unless the result is cached or all resources are managed. The Workload that was
    /// read is stored in `whole`.
    pub(super) async fn needed(
        &self,
        request: &EvaluationRequest,
        whole: &mut Option<Value>,
    ) -> Result<bool, CheckError> {
        let workload = request.workload();
        let managed = &request.parameters().spec.managed_resources;
        if managed.is_empty() {
            let mut sets = workload.pod_sets().iter();
            // By the assigned count, as in Kueue's own check: pods that have ended do not end a
            // request.
            let assigned = |set: &PodSet| set.assigned_count().unwrap_or(set.spec_count());
            let family = request.family();
            let is_growth = *family.role() == FamilyRole::Growth;
            let more = |set: &PodSet| !is_growth || family.increase(set) > 0;
            return Ok(sets.any(|set| set.spec_count() > 0 && assigned(set) > 0 && more(set)));
        }
        if let Some(needed) = self.cache().known(request) {
            return Ok(needed);
        }
        let read = whole.insert(request.full_workload().await?);
        let needed =
            pods::is_needed(read, request.family(), managed).map_err(CheckError::permanent)?;
        let found = CapacityNeed {
            basis: Basis::of(request),
            yes: needed,
        };
        let key = key(request.reservation());
        self.cache().needed.insert(key, found);
        Ok(needed)
    }
}

pub(super) fn key(reservation: &Reservation) -> (Uid, Box<str>) {
    (
        reservation.uid().clone(),
        reservation.admission_check().into(),
    )
}
