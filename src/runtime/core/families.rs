//! Families: effects of a change of one Workload on the others of its job.

use super::cache::Key;
use super::{Core, ObserverEvent};
use crate::api::{Uid, Workload};
use crate::check::{Families, Family, Lifetime, PodsState, ReleaseReason};
use crate::runtime::decide::{CheckPhase, check_phase, reason_to_stop};

/// The place of a Workload among the others of its job.
#[derive(PartialEq)]
struct Place {
    family: Family,
    pods_state: Option<PodsState>,
}

impl Core {
    /// Carries out a change of the records of the Workloads `affected` of a job. Shows and
    /// reconciles those whose place in their job is another one then.
    pub(super) fn change_families(&mut self, affected: Vec<Uid>, change: impl FnOnce(&mut Self)) {
        let present = |uid: Uid| {
            let workload = self.workloads.workload(&uid)?;
            Some((uid, self.place(workload)))
        };
        let before: Vec<(Uid, Place)> = affected.into_iter().filter_map(present).collect();
        change(self);
        for (uid, before) in before {
            self.place_changed(&uid, &before);
        }
    }

    fn place_changed(&mut self, uid: &Uid, before: &Place) {
        let Some(workload) = self.workloads.workload(uid).cloned() else {
            return;
        };
        let place = self.place(&workload);
        if place == *before {
            return;
        }
        let same_inputs = place.family.decides_like(&before.family);
        if place.family != before.family {
            self.show_workload(&workload);
        }
        if same_inputs && place.pods_state == before.pods_state {
            return;
        }
        self.reconcile(&workload, None);
        if !self.is_held(&workload) {
            self.workloads.remove(uid, Some(&workload));
        } else if !workload.is_admitted() {
            for check in self.checks_of(&workload) {
                self.enqueue_recheck(&Key::new(uid, &check));
            }
        }
        self.remove_idle_workload(uid);
    }

    /// Records the state of a Workload without quota: the events that determine what became of its
    /// pods may have been missed.
    pub(super) fn apply_unselected(&mut self, workload: &Workload) {
        if self.workloads.workload(workload.uid()).is_none() {
            self.change_families(self.families.relatives(workload), |core| {
                core.families.apply_unselected(workload);
            });
        }
    }

    fn place(&self, workload: &Workload) -> Place {
        Place {
            family: self.families.of(workload),
            pods_state: self.families.pods_state(workload),
        }
    }

    /// Returns the phase of `workload` for the check `check`, given the others of its job.
    pub(super) fn phase(&self, workload: &Workload, check: &str, lifetime: Lifetime) -> CheckPhase {
        let key = workload.family_key();
        match check_phase(workload, check, lifetime) {
            CheckPhase::Ended {
                why: ReleaseReason::Finished,
                withdraw,
            } => {
                let why = match self.families.pods_state(workload) {
                    Some(PodsState::Runs) => return CheckPhase::PodsRemain,
                    Some(PodsState::Replaced(by)) => ReleaseReason::Replaced {
                        by: by.reservation(check, key),
                        ran: Families::ran(workload),
                    },
                    Some(PodsState::Evicted) => ReleaseReason::Evicted,
                    Some(PodsState::Finished) | None => ReleaseReason::Finished,
                };
                CheckPhase::Ended { why, withdraw }
            }
            CheckPhase::Ended { why, withdraw } => CheckPhase::Ended {
                why: self.or_variant_admitted(workload, check, why),
                withdraw,
            },
            phase => phase,
        }
    }

    /// Returns why the reservation of `workload` ended, which has left the watch in this state.
    /// `None` if that is unknown, because the Workload may have been deleted.
    pub(super) fn end_reason(&self, workload: &Workload, check: &str) -> Option<ReleaseReason> {
        let why = reason_to_stop(workload)?;
        (why != ReleaseReason::Deleted).then(|| self.or_variant_admitted(workload, check, why))
    }

    fn or_variant_admitted(
        &self,
        workload: &Workload,
        check: &str,
        why: ReleaseReason,
    ) -> ReleaseReason {
        let stopped = matches!(why, ReleaseReason::Evicted | ReleaseReason::Deactivated);
        let winner = self.families.winner(workload).filter(|_| stopped);
        winner.map_or(why, |winner| ReleaseReason::VariantAdmitted {
            by: winner.reservation(check, workload.family_key()),
        })
    }

    /// Returns true if quota is held for `workload`, or if its pods run although it is finished,
    /// because another slice has replaced it.
    pub(super) fn is_held(&self, workload: &Workload) -> bool {
        let finished = workload.conditions().finished().is_true();
        workload.holds_quota()
            && (!finished || self.families.pods_state(workload) == Some(PodsState::Runs))
    }

    /// Returns the number of Workloads that hold quota. A replaced slice does not, although its
    /// pods run.
    pub(crate) fn workloads_with_quota(&self) -> usize {
        let present = self.workloads.present();
        let with_quota =
            present.filter(|(workload, _)| !workload.conditions().finished().is_true());
        with_quota.count()
    }

    /// Returns true if checks decide about `workload`: it is neither finished nor being stopped.
    pub(crate) fn is_decided_about(workload: &Workload) -> bool {
        !workload.conditions().finished().is_true() && reason_to_stop(workload).is_none()
    }

    pub(super) fn show_workload(&mut self, workload: &Workload) {
        let family = Box::new(self.families.of(workload));
        self.notify_observers(ObserverEvent::Applied(workload.clone(), family));
    }
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
