//! The jobs that a rule has let start, and that have not run for long.
//!
//! A figure of another system, such as free licences, includes a job only when it has begun to use
//! them. Until then a rule counts the job itself. It counts by the Workloads: the state Ready of
//! the AdmissionCheck, and when the job was admitted. So the count survives a restart. Only a Ready
//! that was returned and is not yet in the Workload is stored here.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kueue_check::api::{CheckState, Uid, Workload};
use kueue_check::{Family, Reservation, WorkloadEvent};

use super::scope;
use crate::cel::Value;

/// The Workloads that hold quota, and the Ready verdicts that were returned for them.
#[derive(Debug, Default)]
pub(super) struct StartingJobs {
    workloads: BTreeMap<Uid, CachedWorkload>,
    /// The Workloads in a list that is not complete yet.
    listed: Option<BTreeSet<Uid>>,
    /// The AdmissionChecks whose rule counts jobs.
    users: BTreeSet<String>,
}

#[derive(Debug)]
struct CachedWorkload {
    workload: Workload,
    family: Family,
    /// The AdmissionChecks for which a Ready was returned for this reservation.
    ready: BTreeSet<String>,
    /// The AdmissionChecks that counted it when their rule was last evaluated.
    counted: BTreeSet<String>,
    /// The value for expressions, once one has been evaluated.
    value: Option<Value>,
}

impl CachedWorkload {
    /// Returns true if `check` let it start, and it was not admitted longer than `window` ago.
    fn is_starting(&self, check: &str, window: SignedDuration, now: Timestamp) -> bool {
        let entry = self.workload.check(check);
        let is_ready = entry.is_some_and(|entry| *entry.state() == CheckState::Ready);
        if !is_ready && !self.ready.contains(check) {
            return false;
        }
        let admitted = self.workload.conditions().admitted();
        match admitted.last_transition_time() {
            Some(at) if admitted.is_true() => now.duration_since(at) < window,
            _ => true,
        }
    }

    fn value(&mut self) -> Value {
        let (workload, family) = (&self.workload, &self.family);
        let value = &mut self.value;
        value
            .get_or_insert_with(|| scope::workload(workload, family))
            .clone()
    }
}

impl StartingJobs {
    /// Records that the rule of `check` counts jobs.
    pub(super) fn used_by(&mut self, check: &str) {
        self.users.insert(check.to_owned());
    }

    /// Returns the AdmissionChecks whose rule counts jobs.
    pub(super) fn users(&self) -> impl Iterator<Item = String> {
        self.users.iter().cloned()
    }

    /// Handles a Workload event. Returns the AdmissionChecks that counted the Workload and no
    /// longer do.
    pub(super) fn observe(&mut self, event: WorkloadEvent<'_>) -> Vec<String> {
        match event {
            WorkloadEvent::Applied(workload, family) if may_run(workload) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(workload.uid().clone());
                }
                self.apply(workload, family);
                Vec::new()
            }
            WorkloadEvent::Applied(workload, _) | WorkloadEvent::Removed(workload) => {
                self.remove(workload.uid())
            }
            WorkloadEvent::ListStarted => {
                self.listed = Some(BTreeSet::new());
                Vec::new()
            }
            WorkloadEvent::ListCompleted { .. } => {
                let listed = self.listed.take().unwrap_or_default();
                let known = self.workloads.keys().cloned();
                let gone: Vec<Uid> = known.filter(|uid| !listed.contains(uid)).collect();
                let freed = gone.iter().flat_map(|uid| self.remove(uid));
                freed.collect()
            }
            _ => Vec::new(),
        }
    }

    fn apply(&mut self, workload: &Workload, family: &Family) {
        let before = self.workloads.remove(workload.uid());
        let (mut ready, mut counted) = Default::default();
        if let Some(before) = before {
            // A Ready was returned for the reservation, and ends with it.
            if reserved(&before.workload) == reserved(workload) {
                ready = before.ready;
            }
            counted = before.counted;
        }
        let known = CachedWorkload {
            workload: workload.clone(),
            family: family.clone(),
            ready,
            counted,
            value: None,
        };
        self.workloads.insert(workload.uid().clone(), known);
    }

    fn remove(&mut self, uid: &Uid) -> Vec<String> {
        let known = self.workloads.remove(uid);
        known.map_or_else(Vec::new, |known| known.counted.into_iter().collect())
    }

    /// Records the verdict of `check` for the Workload of `reservation`. A verdict for a
    /// reservation that is over is ignored: the runtime does not write it.
    pub(super) fn decided(&mut self, check: &str, reservation: &Reservation, is_ready: bool) {
        let Some(known) = self.workloads.get_mut(reservation.uid()) else {
            return;
        };
        if reserved(&known.workload) != Some(reservation.since()) {
            return;
        }
        if is_ready {
            known.ready.insert(check.to_owned());
        } else if !known.workload.is_admitted() {
            known.ready.remove(check);
        }
    }

    /// Returns the Workloads that `check` let start and that were not admitted longer than `window`
    /// before `now`, except `own`.
    pub(super) fn starting(
        &mut self,
        check: &str,
        own: &Uid,
        window: SignedDuration,
        now: Timestamp,
    ) -> Vec<Value> {
        let mut values = Vec::new();
        for (uid, known) in &mut self.workloads {
            if known.is_starting(check, window, now) {
                if uid != own {
                    known.counted.insert(check.to_owned());
                    values.push(known.value());
                }
            } else {
                known.counted.remove(check);
                known.value = None;
            }
        }
        values
    }
}

/// Returns true if the Workload holds quota and has not finished; a finished one may still hold its
/// reservation.
fn may_run(workload: &Workload) -> bool {
    workload.holds_quota() && !workload.conditions().finished().is_true()
}

fn reserved(workload: &Workload) -> Option<Timestamp> {
    workload
        .conditions()
        .quota_reserved()
        .last_transition_time()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    const CHECK: &str = "licences";

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_795_251_600 + 60 * minute).unwrap()
    }

    /// Returns a Workload with quota since `reserved`, this check's state, and its admission time.
    fn workload(name: &str, reserved: i64, state: &str, admitted: Option<i64>) -> Workload {
        let mut conditions = vec![
            json!({"type": "QuotaReserved", "status": "True", "lastTransitionTime": at(reserved).to_string()}),
        ];
        conditions.extend(admitted.map(
            |minute| json!({"type": "Admitted", "status": "True", "lastTransitionTime": at(minute).to_string()}),
        ));
        let object: Json = json!({
            "metadata": {"namespace": "n", "name": name, "uid": name, "labels": {"seats": "2"}},
            "status": {"conditions": conditions, "admission": {"clusterQueue": "c", "podSetAssignments": []},
                "admissionChecks": [{"name": CHECK, "state": state}]},
        });
        Workload::from_json(object).unwrap()
    }

    fn lost(name: &str) -> Workload {
        Workload::from_json(json!({"metadata": {"namespace": "n", "name": name, "uid": name}}))
            .unwrap()
    }

    struct Scenario(StartingJobs);

    impl Scenario {
        fn new() -> Self {
            let mut jobs = StartingJobs::default();
            jobs.used_by(CHECK);
            Self(jobs)
        }

        fn shows(&mut self, workload: &Workload) -> Vec<String> {
            let family = Family::of(workload, []);
            self.0.observe(WorkloadEvent::Applied(workload, &family))
        }

        fn decides(&mut self, workload: &Workload, is_ready: bool) {
            let reservation = Reservation::of(workload, CHECK).unwrap();
            self.0.decided(CHECK, &reservation, is_ready);
        }

        /// Returns the names of those that count for `own` at `minute`.
        fn counted(&mut self, own: &str, minute: i64) -> Vec<String> {
            let own: Uid = workload(own, 0, "Pending", None).uid().clone();
            let window = SignedDuration::from_mins(10);
            let values = self.0.starting(CHECK, &own, window, at(minute));
            let names = values
                .iter()
                .map(|value| value.get("name").unwrap().to_string());
            names
                .map(|name| name.trim_matches('"').to_owned())
                .collect()
        }
    }

    #[test]
    fn a_job_counts_until_a_while_after_its_admission() {
        let mut scenario = Scenario::new();
        for workload in [
            workload("waits", 0, "Pending", None),
            workload("unadmitted", 0, "Ready", None),
            workload("new", 0, "Ready", Some(5)),
            workload("old", 0, "Ready", Some(-6)),
        ] {
            scenario.shows(&workload);
        }
        assert_eq!(scenario.counted("other", 5), ["new", "unadmitted"]);
        assert_eq!(scenario.counted("new", 5), ["unadmitted"]);
        assert_eq!(scenario.counted("other", 14), ["new", "unadmitted"]);
        assert_eq!(scenario.counted("other", 15), ["unadmitted"]);
    }

    #[test]
    fn a_ready_counts_before_it_is_written_until_its_reservation_is_over() {
        let mut scenario = Scenario::new();
        let none: [&str; 0] = [];
        let job = workload("job", 0, "Pending", None);
        // No watch has delivered it: its reservation is over.
        scenario.decides(&job, true);
        assert_eq!(scenario.counted("other", 1), none);
        scenario.shows(&job);
        scenario.decides(&job, true);
        assert_eq!(scenario.counted("other", 1), ["job"]);
        assert_eq!(scenario.counted("job", 1), none);
        // Another field of it changes, and the write is still in flight.
        scenario.shows(&job);
        assert_eq!(scenario.counted("other", 1), ["job"]);
        // The write was rejected, and the next evaluation does not return Ready.
        scenario.decides(&job, false);
        assert_eq!(scenario.counted("other", 1), none);
        scenario.decides(&job, true);
        // Another reservation without a verdict yet; a late verdict belongs to the first.
        let again = workload("job", 3, "Pending", None);
        scenario.shows(&again);
        scenario.decides(&job, true);
        assert_eq!(scenario.counted("other", 4), none);
        scenario.decides(&again, true);
        assert_eq!(scenario.counted("other", 4), ["job"]);
        assert_eq!(scenario.shows(&lost("job")), [CHECK]);
        assert_eq!(scenario.counted("other", 4), none);
        assert_eq!(scenario.shows(&lost("job")), none);
        let mut finished = json!({"metadata": {"uid": "job"}, "status": {"admission": {"clusterQueue": "c", "podSetAssignments": []}}});
        let times = json!({"status": "True", "lastTransitionTime": at(0).to_string()});
        let conditions = ["QuotaReserved", "Admitted", "Finished"].map(|kind| {
            let mut condition = times.clone();
            condition["type"] = json!(kind);
            condition
        });
        finished["status"]["conditions"] = json!(conditions);
        finished["status"]["admissionChecks"] = json!([{"name": CHECK, "state": "Ready"}]);
        scenario.shows(&Workload::from_json(finished).unwrap());
        assert_eq!(scenario.counted("other", 4), none);
    }

    #[test]
    fn what_a_list_does_not_show_is_gone() {
        let mut scenario = Scenario::new();
        let (kept, gone) = (
            workload("kept", 0, "Ready", None),
            workload("gone", 0, "Ready", None),
        );
        scenario.shows(&kept);
        scenario.shows(&gone);
        assert_eq!(scenario.counted("other", 1), ["gone", "kept"]);
        scenario.0.observe(WorkloadEvent::ListStarted);
        scenario.shows(&kept);
        let freed = scenario
            .0
            .observe(WorkloadEvent::ListCompleted { continuous: true });
        assert_eq!(freed, [CHECK]);
        assert_eq!(scenario.counted("other", 1), ["kept"]);
    }
}
