//! A job starts only when a licence is free: a check with state, release and a watch of its own.
//!
//! Licences are counted in memory. That is safe across restarts: a new leader evaluates approved
//! Workloads before any new one. A replica that loses leadership ends its process, so it never
//! leads again with its earlier count.
//!
//! A job has one licence, whatever Workloads it has: an elastic job that grows has two for some
//! time, and with concurrent admission a job has one for each flavor.
//!
//! The pods of an evicted job use the licence until they have ended. Kueue releases their quota
//! when the Job controller has requested their termination. So a licence is held for the time that
//! they may take after that (`terminationGracePeriodSeconds`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use kueue_check::api::Uid;
use kueue_check::prelude::*;
use kueue_check::tokio::sync::broadcast;
use kueue_check::tokio::time::Instant;
use kueue_check::{FamilyRole, WorkloadEvent};

/// How many licences there are.
#[kueue_check::parameters(group = "example.com", version = "v1alpha1", kind = "LicencePool")]
struct LicencePoolSpec {
    total: usize,
    #[serde(flatten)]
    policy: Policy,
}

/// The licences that are held.
struct Licences {
    /// The reservations of the jobs that hold one, of all pools.
    held: Mutex<BTreeMap<Reservation, HeldLicence>>,
    returned: broadcast::Sender<String>,
}

/// How a licence is held.
#[derive(Clone, Copy, Default)]
struct HeldLicence {
    /// How long the pods take to end at most, if they were started.
    grace: Option<Duration>,
    /// When they will have ended, if they are being stopped.
    until: Option<Instant>,
}

/// The time that the kubelet may take beyond the grace period of a pod.
const MARGIN: Duration = Duration::from_secs(2);

impl Licences {
    /// Returns the licences that are held now.
    fn held(&self) -> MutexGuard<'_, BTreeMap<Reservation, HeldLicence>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        held.retain(|_, held| held.until.is_none_or(|until| until > now));
        held
    }

    /// Records that the job of `reservation` has lost its quota. Its pods, if there are any, will
    /// end.
    fn ends(&self, reservation: &Reservation) {
        let mut held = self.held();
        let Some(of_job) = held.get_mut(reservation) else {
            return;
        };
        match of_job.grace {
            Some(grace) => of_job.until = Some(Instant::now() + grace + MARGIN),
            None => drop(held.remove(reservation)),
        }
    }
}

impl AdmissionCheckController for Licences {
    type Parameters = LicencePool;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/licences") }
    }

    async fn evaluate(&self, request: CheckRequest<LicencePool>) -> Result<Verdict, CheckError> {
        let total = request.parameters().spec.total;
        let pool = request.admission_check();
        let job = request.family();
        let approved = request
            .workload()
            .check(pool)
            .is_some_and(|entry| entry.state().as_str() == "Ready");
        // A job that was approved or runs has one, even if this process has no record of it.
        let has_one = approved || *job.role() == FamilyRole::Growth || job.running(pool).is_some();
        let mut held = self.held();
        let of_pool = held
            .iter()
            .filter(|(reservation, _)| reservation.admission_check() == pool);
        let jobs: BTreeSet<&Uid> = of_pool.clone().map(|(own, _)| own.family_key()).collect();
        if !has_one && !jobs.contains(job.key()) && jobs.len() >= total {
            let waits = Verdict::pending(format!("all {total} licences are in use"));
            let next = of_pool.filter_map(|(_, held)| held.until).min();
            return Ok(match next {
                Some(next) => waits.recheck_in(next - Instant::now()),
                None => waits,
            });
        }
        held.entry(request.reservation().clone()).or_default();
        let names = request.workload().pod_sets().iter().map(PodSet::name);
        let licence = job.key().to_string();
        let updates = PodSetUpdates::builder()
            .pod_sets(names, |pods| {
                pods.annotation("example.com/licence", &licence)
            })
            .build()?;
        Ok(Verdict::ready("has a licence").with_updates(updates))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        match why {
            // The job goes on by another Workload.
            ReleaseReason::Replaced { by, .. } | ReleaseReason::VariantAdmitted { by } => {
                let mut held = self.held();
                held.remove(reservation);
                held.entry(by).or_default();
            }
            // All pods have ended.
            ReleaseReason::Finished => drop(self.held().remove(reservation)),
            _ => self.ends(reservation),
        }
        // There is no receiver while nothing waits.
        let _ = self.returned.send(reservation.admission_check().to_owned());
        Ok(ReleaseOutcome::Done)
    }

    fn configure(self: &Arc<Self>, check: Check<LicencePool>) -> Check<LicencePool> {
        let (observer, returned) = (Arc::clone(self), self.returned.clone());
        check
            .observe(move |event| observer.observe(event))
            .watches_stream("returned licences", move || pools(returned.subscribe()))
    }
}

impl Licences {
    fn observe(&self, event: WorkloadEvent<'_>) {
        match event {
            // Its pods run, also during an eviction. A check is not evaluated for such a job, so
            // after a restart the licence is counted here.
            WorkloadEvent::Applied(workload, _) if workload.is_admitted() => {
                let graces = workload.pod_sets().iter().map(PodSet::termination_grace);
                let grace = graces.max().unwrap_or_default();
                let mut held = self.held();
                for entry in workload.checks() {
                    if let Some(reservation) = Reservation::of(workload, entry.name()) {
                        let evicted = workload.conditions().evicted().is_true();
                        if evicted || held.contains_key(&reservation) {
                            held.entry(reservation).or_default().grace = Some(grace);
                        }
                    }
                }
            }
            WorkloadEvent::Removed(workload) => {
                let held: Vec<Reservation> = self.held().keys().cloned().collect();
                let of_workload = held.iter().filter(|own| own.uid() == workload.uid());
                of_workload.for_each(|reservation| self.ends(reservation));
            }
            _ => {}
        }
    }
}

/// Returns the pools in which a licence became free.
fn pools(returned: broadcast::Receiver<String>) -> impl Stream<Item = Trigger> {
    futures::stream::unfold(returned, async |mut returned| {
        loop {
            match returned.recv().await {
                Ok(pool) => return Some((Trigger::AdmissionCheck(pool), returned)),
                // Some were missed; the next one triggers the same Workloads.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })
}

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    let licences = Licences {
        held: Mutex::default(),
        returned: broadcast::channel(64).0,
    };
    kueue_check::main(licences).await
}

#[cfg(test)]
mod tests {
    use kueue_check::{Family, RequestBuilder};
    use serde_json::{Value, json};

    use super::*;

    fn licences() -> Licences {
        Licences {
            held: Mutex::default(),
            returned: broadcast::channel(64).0,
        }
    }

    /// Makes a Workload of the job `job`, with quota, admitted or evicted by `conditions`.
    fn workload(job: &str, name: &str, replaces: Option<&str>, conditions: &[&str]) -> Workload {
        let annotation = "kueue.x-k8s.io/workload-slice-replacement-for";
        let conditions = conditions.iter().chain(&["QuotaReserved"]);
        let conditions: Vec<Value> = conditions
            .map(|kind| json!({"type": kind, "status": "True"}))
            .collect();
        let mut object = json!({
            "metadata": {"namespace": "n", "name": name, "uid": name,
                "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": true}]},
            "spec": {"podSets": [{"name": "main", "count": 1}]},
            "status": {
                "conditions": conditions,
                "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 1}]},
                "admissionChecks": [{"name": "pool", "state": "Pending"}],
            },
        });
        if let Some(replaces) = replaces {
            object["metadata"]["annotations"][annotation] = json!(format!("n/{replaces}"));
        }
        Workload::from_json(object).unwrap()
    }

    /// Returns true if the Workload gets a licence, of which there is one.
    async fn gets_one(licences: &Licences, workload: &Workload, others: &[Workload]) -> bool {
        let pool = LicencePoolSpec {
            total: 1,
            policy: Policy::default(),
        };
        let request = RequestBuilder::new(workload.clone(), "pool")
            .family(Family::of(workload, others))
            .build(LicencePool::new("pool", pool));
        licences.evaluate(request).await.unwrap().is_ready()
    }

    fn reservation(workload: &Workload) -> Reservation {
        Reservation::of(workload, "pool").unwrap()
    }

    #[tokio::test]
    async fn an_elastic_job_has_one_licence_while_it_grows() {
        let first = workload("el", "el-1", None, &["Admitted"]);
        let growth = workload("el", "el-2", Some("el-1"), &[]);
        let other = workload("other", "other-1", None, &[]);
        let licences = licences();
        assert!(gets_one(&licences, &first, &[]).await);
        assert!(gets_one(&licences, &growth, std::slice::from_ref(&first)).await);
        assert!(!gets_one(&licences, &other, &[]).await);
        let by = reservation(&growth);
        let why = ReleaseReason::Replaced { by, ran: true };
        licences.release(&reservation(&first), why).await.unwrap();
        assert!(!gets_one(&licences, &other, &[]).await);
        let why = ReleaseReason::Finished;
        licences.release(&reservation(&growth), why).await.unwrap();
        assert!(gets_one(&licences, &other, &[]).await);
    }

    #[tokio::test]
    async fn a_growth_keeps_the_licence_of_its_job_after_a_restart() {
        let first = workload("el", "el-1", None, &["Admitted"]);
        let growth = workload("el", "el-2", Some("el-1"), &[]);
        let other = workload("other", "other-1", None, &[]);
        let licences = licences();
        assert!(gets_one(&licences, &growth, &[first]).await);
        assert!(!gets_one(&licences, &other, &[]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_job_uses_its_licence_until_its_pods_have_ended() {
        let runs = workload("el", "el-1", None, &["Admitted"]);
        let other = workload("other", "other-1", None, &[]);
        let licences = licences();
        assert!(gets_one(&licences, &runs, &[]).await);
        licences.observe(WorkloadEvent::Applied(&runs, &Family::of(&runs, [])));
        // Kueue releases the quota while the pods end, which takes them 30 s at most.
        licences.observe(WorkloadEvent::Removed(&runs));
        let why = ReleaseReason::Evicted;
        licences.release(&reservation(&runs), why).await.unwrap();
        assert!(!gets_one(&licences, &other, &[]).await);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(!gets_one(&licences, &other, &[]).await);
        tokio::time::advance(MARGIN).await;
        assert!(gets_one(&licences, &other, &[]).await);
    }

    #[tokio::test]
    async fn a_job_that_was_not_started_returns_its_licence_at_once() {
        let waits = workload("waits", "waits-1", None, &[]);
        let other = workload("other", "other-1", None, &[]);
        let licences = licences();
        assert!(gets_one(&licences, &waits, &[]).await);
        licences.observe(WorkloadEvent::Removed(&waits));
        assert!(gets_one(&licences, &other, &[]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_evicted_job_uses_its_licence_until_its_pods_have_ended_also_after_a_restart() {
        let evicted = workload("el", "el-1", None, &["Admitted", "Evicted"]);
        let other = workload("other", "other-1", None, &[]);
        let licences = licences();
        licences.observe(WorkloadEvent::Applied(&evicted, &Family::of(&evicted, [])));
        assert!(!gets_one(&licences, &other, &[]).await);
        licences.observe(WorkloadEvent::Removed(&evicted));
        assert!(!gets_one(&licences, &other, &[]).await);
        tokio::time::advance(Duration::from_secs(32)).await;
        assert!(gets_one(&licences, &other, &[]).await);
    }
}
