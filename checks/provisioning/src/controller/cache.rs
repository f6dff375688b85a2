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

/// What is remembered in this process. Nothing depends on it but the number of requests to the API
/// server.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Whether capacity is needed, by Workload and AdmissionCheck.
    pub(super) needed: BTreeMap<(Uid, Box<str>), CapacityNeed>,
    /// The requests that ask for enough, as they were created or compared, by Workload and
    /// AdmissionCheck. What they ask for never changes.
    pub(super) sufficient: BTreeMap<(Uid, Box<str>), BTreeSet<Uid>>,
    /// Creates that failed in a row.
    pub(super) failures: BTreeMap<(Uid, Box<str>), u32>,
    /// Those whose quota was lost while their request was kept.
    pub(super) orphans: BTreeSet<Reservation>,
    /// The reservations that growths have replaced, by the key of their family and AdmissionCheck:
    /// their pods run on.
    pub(super) replaced: BTreeMap<(Uid, Box<str>), BTreeSet<Reservation>>,
    /// Whether everything has been asked for once.
    pub(super) listed_once: bool,
}

/// Whether capacity is needed, as it was found out for one reservation and one config.
#[derive(Debug)]
pub(super) struct CapacityNeed {
    reserved: i64,
    /// Not its generation: another config may have the same one.
    config: Arc<ProvisioningRequestConfig>,
    yes: bool,
}

impl Cache {
    /// Whether capacity is needed, if that was found out for the reservation of `reserved` and for
    /// these resources.
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

    /// Whether capacity is needed for the Workload in question, which is not Ready. One request,
    /// unless it is known or all resources are managed; what was read for it is put into `whole`.
    pub(super) async fn needed(
        &self,
        request: &CheckRequest<ProvisioningRequestConfig>,
        whole: &mut Option<Value>,
    ) -> Result<bool, CheckError> {
        let workload = request.workload();
        let managed = &request.parameters().spec.managed_resources;
        if managed.is_empty() {
            let mut sets = workload.pod_sets().iter();
            // By what is assigned, as for Kueue's own check: pods that have ended do not end a
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
