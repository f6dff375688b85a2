//! Release of a reservation.

use jiff::Timestamp;
use kueue_check::api::Uid;
use kueue_check::{CheckError, ReleaseOutcome, ReleaseReason, Reservation};

use super::cache::key;
use super::{CapacityCheck, KUEUES_CONTROLLER_NAME};
use crate::backend::{Backend, OwnTemplate};
use crate::names::is_template_of;
use crate::request::{CapacityRequest, Phase};

/// Returns true if `request` outlives a reservation since `since` that ended because of `why`.
///
/// Quota that is lost without an eviction is reserved again, and the request is used again. A
/// failed request that is kept as a record stays until the next attempt. A request that was created
/// for a later reservation is not affected by an earlier eviction.
fn outlives(request: &CapacityRequest, since: Timestamp, why: &ReleaseReason) -> bool {
    let mark = request.mark.as_ref();
    let is_record =
        mark.is_some_and(|mark| mark.keep_failed) && matches!(request.phase, Phase::Failed { .. });
    let is_later = mark.is_some_and(|mark| mark.reserved > since.as_second());
    match why {
        ReleaseReason::QuotaLost => true,
        ReleaseReason::Evicted => is_record || is_later,
        _ => false,
    }
}

impl<B: Backend> CapacityCheck<B> {
    pub(super) async fn release_reservation(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.index.ready().await;
        if let ReleaseReason::Replaced { ran, .. } = why {
            self.discard_unused(reservation, ran).await?;
            // Its pods are now those of the growth; its request started them.
            let mut memory = self.cache();
            let replaced = memory.replaced.entry(of_family(reservation)).or_default();
            replaced.insert(reservation.clone());
            return Ok(ReleaseOutcome::Done);
        }
        self.release_requests(reservation, &why, None).await?;
        let family = of_family(reservation);
        // The job may go on without it.
        let ends = !matches!(why, ReleaseReason::QuotaLost | ReleaseReason::CheckInactive);
        if ends {
            let replaced = self.cache().replaced.get(&family).cloned();
            let mut replaced = replaced.unwrap_or_default();
            if why == ReleaseReason::Finished {
                replaced.extend(self.earlier_slices(reservation));
            }
            for replaced in &replaced {
                self.release_requests(replaced, &why, Some(&family.0))
                    .await?;
            }
            self.cache().replaced.remove(&family);
        }
        Ok(ReleaseOutcome::Done)
    }

    /// Returns the reservations of earlier slices of the job of `reservation` that still have
    /// requests. A restarted process may have no record of their replacement.
    fn earlier_slices(&self, reservation: &Reservation) -> Vec<Reservation> {
        let (namespace, key) = (reservation.namespace(), reservation.family_key());
        let of_job = self.index.of_family(namespace, key);
        let earlier = of_job
            .iter()
            .filter_map(|request| self::reservation(request));
        earlier
            .filter(|own| {
                own.admission_check() == reservation.admission_check()
                    && own.since() < reservation.since()
            })
            .collect()
    }

    /// Deletes those requests of `reservation`, which another slice has replaced, that have started
    /// no pods: their growth was replaced while it waited. `ran`: whether it may have been admitted.
    async fn discard_unused(&self, reservation: &Reservation, ran: bool) -> Result<(), CheckError> {
        let (workload, check) = (reservation.name(), reservation.admission_check());
        for request in self
            .index
            .requests(reservation.namespace(), reservation.uid())
        {
            let is_ours = request.attempt_of(workload, check).is_some();
            let used = ran && request.phase.was_provisioned();
            if is_ours && !request.deleting && !used {
                self.delete(&request).await?;
            }
        }
        Ok(())
    }

    /// Deletes the requests and templates of `reservation`. With `family` only requests that were
    /// made for a job with this key: the reservation was found by the annotations of a request,
    /// which any user may write.
    async fn release_requests(
        &self,
        reservation: &Reservation,
        why: &ReleaseReason,
        family: Option<&Uid>,
    ) -> Result<(), CheckError> {
        let (uid, check) = (reservation.uid(), reservation.admission_check());
        let of_check = |request: &CapacityRequest| {
            let of_family = request.mark.is_none() || request.family() == family;
            *request.workload_name == *reservation.name()
                && request.attempt_of(reservation.name(), check).is_some()
                && (family.is_none() || of_family)
        };
        let lost = *why == ReleaseReason::QuotaLost;
        let namespace = reservation.namespace();
        let all = self.index.requests(namespace, uid);
        if !lost {
            // As long as a request exists, a restarted process finds the leftover templates.
            self.delete_templates(reservation, &all).await?;
        }
        for request in all {
            let outlives = outlives(&request, reservation.since(), why);
            if of_check(&request) && !request.deleting && !outlives {
                if let Some(mark) = request.mark.as_ref().filter(|mark| mark.keep_failed) {
                    let tally = mark.tally.plus(request.phase.failure());
                    let known = (mark.attempt, tally);
                    self.cache().tallies.insert(key(reservation), known);
                }
                self.delete(&request).await?;
            }
        }
        let kept = self.index.requests(namespace, uid).into_iter();
        let kept: Vec<_> = kept.filter(|request| !request.deleting).collect();
        if !lost {
            self.delete_templates(reservation, &kept).await?;
        }
        let key = key(reservation);
        let mut memory = self.cache();
        memory.needed.remove(&key);
        if !matches!(why, ReleaseReason::Evicted | ReleaseReason::QuotaLost) {
            memory.tallies.remove(&key);
        }
        if !lost {
            memory.sufficient.remove(&key);
        }
        memory.failures.remove(&key);
        // The record of a later reservation finds what is kept.
        let orphan = memory.orphans.get(&key);
        if orphan.is_some_and(|orphan| orphan.since() > reservation.since()) {
            return Ok(());
        }
        if lost && kept.iter().any(|request| of_check(request)) {
            memory.orphans.insert(key, reservation.clone());
        } else {
            memory.orphans.remove(&key);
        }
        Ok(())
    }

    /// Deletes the PodTemplates of this check's requests that were never created or are deleted.
    /// `kept` are all requests of the Workload.
    async fn delete_templates(
        &self,
        reservation: &Reservation,
        kept: &[std::sync::Arc<CapacityRequest>],
    ) -> Result<(), kube::Error> {
        let (workload, check) = (reservation.name(), reservation.admission_check());
        let wanted = |name: &str| {
            kept.iter()
                .any(|own| own.pods.iter().any(|pods| *pods.template == *name))
        };
        let namespace = reservation.namespace();
        let is_ours = |template: &OwnTemplate| match &template.check {
            _ if *template.namespace != *namespace => false,
            Some(made_for) => **made_for == *check,
            // Kueue's own check does not annotate its templates.
            None => is_template_of(&template.name, workload, check),
        };
        let all = self.index.templates(reservation.uid());
        let unwanted = all
            .iter()
            .filter(|template| is_ours(template) && !wanted(&template.name))
            .map(|template| &*template.name);
        let owner = (namespace, reservation.uid());
        self.templates.delete(owner, unwanted).await
    }

    /// Returns the reservations of requests whose Workloads may be gone. The first call returns all
    /// of them, later calls those whose quota was lost while the request was kept.
    pub(super) fn orphaned(&self) -> Vec<Reservation> {
        let mut memory = self.cache();
        if std::mem::replace(&mut memory.listed_once, true) {
            return memory.orphans.values().cloned().collect();
        }
        drop(memory);
        let all = self.index.all();
        let name = self.name.as_str();
        let own = all.iter().filter(|request| is_made_by(request, name));
        own.filter_map(|request| reservation(request)).collect()
    }
}

/// Returns the key that the reservations of one job for one AdmissionCheck share.
fn of_family(reservation: &Reservation) -> (Uid, Box<str>) {
    let check = reservation.admission_check();
    (reservation.family_key().clone(), check.into())
}

/// Returns true if the check of the controller name `name` made `request`. A request without
/// annotations was made by Kueue's own check, which a check of that name replaces.
fn is_made_by(request: &CapacityRequest, name: &str) -> bool {
    match &request.mark {
        Some(mark) => &*mark.controller == name,
        None => name == KUEUES_CONTROLLER_NAME,
    }
}

/// Returns the reservation for which `request` was created. A request without annotations was
/// created after the beginning of its reservation, and before any later eviction.
fn reservation(request: &CapacityRequest) -> Option<Reservation> {
    let since = match &request.mark {
        Some(mark) => Timestamp::from_second(mark.reserved).ok()?,
        None => request.created,
    };
    let reservation = Reservation::new(
        &request.namespace,
        &request.workload_name,
        request.workload.clone(),
        request.check()?,
        since,
    );
    Some(reservation.in_family(request.family().unwrap_or(&request.workload)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kueue_check::api::ResourceVersion;

    use super::*;
    use crate::request::{FailureCounts, RequestAnnotations};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns a request that was created at 20 s for the reservation that began at `reserved`;
    /// `None` is one that Kueue created.
    fn request(reserved: Option<i64>) -> CapacityRequest {
        CapacityRequest {
            namespace: "ns".into(),
            name: "wl-pr-2".into(),
            uid: Uid::new("r"),
            version: ResourceVersion::new("1"),
            workload: Uid::new("w"),
            workload_name: "wl".into(),
            mark: reserved.map(|reserved| RequestAnnotations {
                controller: "example.com/capacity".into(),
                check: "pr".into(),
                attempt: 2,
                reserved,
                family: None,
                tally: FailureCounts::default(),
                keep_failed: false,
                merged: BTreeMap::new(),
            }),
            created: at(20),
            deleting: false,
            class: "class1".into(),
            parameters: BTreeMap::new(),
            pods: Box::new([]),
            phase: Phase::New,
            details: BTreeMap::new(),
        }
    }

    #[test]
    fn an_eviction_ends_no_request_of_a_later_reservation() {
        // The reservation for which a request was created, and whether it outlives one that began
        // at 9 s.
        for (reserved, expected) in [
            (None, false),
            (Some(8), false),
            (Some(9), false),
            (Some(10), true),
        ] {
            let request = request(reserved);
            let outlives = |why| outlives(&request, at(9), &why);
            assert_eq!(outlives(ReleaseReason::Evicted), expected, "{reserved:?}");
            assert!(outlives(ReleaseReason::QuotaLost));
            assert!(!outlives(ReleaseReason::Deactivated));
        }
    }

    #[test]
    fn the_reservation_of_a_request_that_kueue_made_began_before_its_creation() {
        for (reserved, since) in [(None, 20), (Some(9), 9)] {
            let found = reservation(&request(reserved)).unwrap();
            assert_eq!((found.admission_check(), found.since()), ("pr", at(since)));
        }
    }
}
