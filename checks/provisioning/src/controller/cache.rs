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

/// The state that this process keeps between evaluations. Only the number of requests to the API
/// server depends on it.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Whether capacity is needed, by Workload and AdmissionCheck.
    pub(super) needed: BTreeMap<(Uid, Box<str>), CapacityNeed>,
    /// The requests that were created or compared and are large enough, by Workload and
    /// AdmissionCheck. Their content never changes.
    pub(super) sufficient: BTreeMap<(Uid, Box<str>), BTreeSet<Uid>>,
    /// The number of consecutive failed creates.
    pub(super) failures: BTreeMap<(Uid, Box<str>), u32>,
    /// The reservations whose quota was lost while their request was kept.
    pub(super) orphans: BTreeSet<Reservation>,
    /// The reservations that growths have replaced, by the key of their family and AdmissionCheck.
    /// Their pods continue to run.
    pub(super) replaced: BTreeMap<(Uid, Box<str>), BTreeSet<Reservation>>,
    /// Whether all reservations were listed once.
    pub(super) listed_once: bool,
}

/// Whether capacity is needed, evaluated for one reservation and one config.
#[derive(Debug)]
pub(super) struct CapacityNeed {
    reserved: i64,
    /// The config itself, not its generation: another config may have the same generation.
    config: Arc<ProvisioningRequestConfig>,
    yes: bool,
}

impl Cache {
    /// Returns whether capacity is needed, if that was evaluated for the reservation of `reserved`
    /// and for these resources.
    fn known(&self, key: &(Uid, Box<str>), reserved: i64, managed: &[String]) -> Option<bool> {
        let known = self.needed.get(key)?;
        let same = known.reserved == reserved && known.config.spec.managed_resources == managed;
        same.then_some(known.yes)
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
        request: &CheckRequest<ProvisioningRequestConfig>,
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
        let key = key(request.reservation());
        let reserved = request.reservation().since().as_second();
        if let Some(needed) = self.cache().known(&key, reserved, managed) {
            return Ok(needed);
        }
        let read = whole.insert(request.full_workload().await?);
        let needed =
            pods::is_needed(read, request.family(), managed).map_err(CheckError::permanent)?;
        let config = Arc::clone(request.parameters());
        let found = CapacityNeed {
            reserved,
            config,
            yes: needed,
        };
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
