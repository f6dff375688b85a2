//! The lifecycle of runs: they are observed, end, or lose their quota.

use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::Uid;

use super::{ActiveRun, Approval, BudgetLedger};
use crate::ledger::{Commitment, CommitmentState, Run, RunState};
use crate::money::Rate;

impl BudgetLedger {
    /// Reconciles a run with its current state. It is counted once, however often it is observed.
    pub fn observe_run(&mut self, run: &Run, now: Timestamp) {
        let known = self.live.get(&run.uid);
        let is_unconfirmed = known
            .is_some_and(|live| live.approval == Approval::Unconfirmed && live.since == run.since);
        if let Some(live) = known.filter(|live| live.since != run.since) {
            // The end of the earlier run was not observed; it was before this reservation.
            self.stop(&run.uid, run.since.max(live.since).min(now.as_second()));
        }
        self.follow_price(run);
        let approval = match run.state {
            RunState::Approved(_) | RunState::Running(_) => Approval::Confirmed,
            RunState::Evaluated if is_unconfirmed => Approval::Unconfirmed,
            RunState::Evaluated => Approval::None,
        };
        let unasked = self
            .live
            .get(&run.uid)
            .is_some_and(|live| live.since == run.since && live.approval == Approval::None);
        if approval == Approval::Confirmed && unasked {
            self.unapproved_starts += 1;
        }
        if approval != Approval::None {
            self.held.remove(&run.uid);
        }
        // The ledger's own time of the approval is more exact than the time that the cluster shows.
        let given = self
            .live
            .get(&run.uid)
            .and_then(|live| match live.claim.state {
                CommitmentState::Approved(given)
                    if live.since == run.since && live.approval != Approval::None =>
                {
                    Some(given)
                }
                _ => None,
            });
        self.settle_shrunk(run, now.as_second());
        let mut live = ActiveRun::of(run, approval, now.as_second());
        self.follow_base(run, &mut live, now.as_second());
        live.claim.namespace = self.name(&live.claim.namespace);
        if let (CommitmentState::Approved(since), Some(given)) = (&mut live.claim.state, given) {
            *since = given.min(*since);
        }
        self.live.insert(run.uid.clone(), live);
    }

    /// Records resources without a price, and whether an approved run costs more than at its
    /// approval.
    fn follow_price(&mut self, run: &Run) {
        self.unpriced.extend(run.estimate.unpriced.clone());
        let known = self.live.get(&run.uid).filter(|live| {
            live.since == run.since
                && matches!(live.approval, Approval::Unconfirmed | Approval::Confirmed)
        });
        let grows = known.is_some_and(|live| {
            let approved = live.claim.rate.cost(live.claim.longest());
            run.estimate.total() > approved
        });
        let may_start = known.is_some() && !matches!(run.state, RunState::Running(_));
        if may_start && (grows || self.grown.contains_key(&run.uid)) {
            self.grown.insert(run.uid.clone(), run.clone());
        } else {
            self.grown.remove(&run.uid);
        }
    }

    /// Settles the part that ran until now and no longer runs, because pods have finished or the
    /// job was scaled down.
    fn settle_shrunk(&mut self, run: &Run, now: i64) {
        let Some(live) = self.live.get(&run.uid) else {
            return;
        };
        let (claim, less) = (&live.claim, live.claim.rate.less(run.estimate.rate));
        if matches!(claim.state, CommitmentState::Running(_)) && less != Rate::ZERO {
            let gone = Commitment {
                rate: less,
                ..claim.clone()
            };
            let terminated = now + i64::from(gone.grace);
            self.end_commitment(gone, terminated);
        }
    }

    /// Follows the running pods that a growth commits because their Workload was deleted. They are
    /// its own once it is admitted. An eviction stops them, and they are gone when the quota is.
    pub(super) fn follow_base(&mut self, run: &Run, live: &mut ActiveRun, now: i64) {
        let known = self
            .live
            .get(&run.uid)
            .filter(|known| known.since == run.since);
        let Some(base) = known.and_then(|known| known.base.clone()) else {
            return;
        };
        if let CommitmentState::Running(_) = live.claim.state {
            self.end_commitment(*base, now);
        } else {
            live.base = Some(base);
        }
    }

    /// Returns the one copy of a name that all runs share.
    fn name(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        self.names.insert(Arc::clone(name));
        Arc::clone(name)
    }

    /// Ends a run whose last pod had terminated by `at`.
    pub fn finished(&mut self, uid: &Uid, at: i64) {
        if let Some(live) = self.drop_run(uid) {
            self.settle_all(live, at);
        }
    }

    /// Ends a run that was evicted or deleted. Its pods received the signal to stop at `at`, and
    /// spend until they have terminated.
    pub fn stop(&mut self, uid: &Uid, at: i64) {
        if let Some(live) = self.drop_run(uid) {
            let terminated = at + i64::from(live.claim.grace);
            self.settle_all(live, terminated);
        }
    }

    /// Returns true if `uid` was stopped with the growth that had replaced it.
    ///
    /// It ran until now, and its pods did not become those of another Workload: an eviction of the
    /// growth has stopped them.
    pub(in crate::ledger) fn is_stopped_with_its_growth(&self, uid: &Uid) -> bool {
        let runs = |live: &ActiveRun| matches!(live.claim.state, CommitmentState::Running(_));
        let Some(live) = self
            .live
            .get(uid)
            .filter(|live| runs(live) && !live.running)
        else {
            return false;
        };
        let key = |live: &ActiveRun| live.claim.job.as_ref().map(|job| job.key.clone());
        let mut others = self.live.iter().filter(|(other, _)| *other != uid);
        !others.any(|(_, other)| key(other) == key(live) && runs(other))
    }

    fn drop_run(&mut self, uid: &Uid) -> Option<ActiveRun> {
        self.held.remove(uid);
        self.grown.remove(uid);
        self.live.remove(uid)
    }

    fn settle_all(&mut self, live: ActiveRun, at: i64) {
        self.end_commitment(live.claim, at);
        if let Some(base) = live.base {
            self.end_commitment(*base, at);
        }
    }

    fn end_commitment(&mut self, claim: Commitment, at: i64) {
        if let CommitmentState::Running(since) = claim.state {
            let ran = u32::try_from((at - since).max(0)).unwrap_or(u32::MAX);
            let known = self.spend.watermarks().of(&claim.namespace);
            if known.is_none_or(|known| known < at) {
                self.ended.push(Commitment {
                    state: CommitmentState::Ended(since, ran),
                    ..claim
                });
            }
        }
    }

    /// Suspends a run that has lost its quota or was removed; the ledger cannot distinguish the
    /// two. An approval is kept until [`released`](Self::released), because Kueue keeps it
    /// (measured on 0.19.2).
    pub fn quota_lost(&mut self, uid: &Uid, at: i64) {
        let Some(mut live) = self.drop_run(uid) else {
            return;
        };
        let terminated = at + i64::from(live.claim.grace);
        self.end_commitment(live.claim.clone(), terminated);
        if let Some(base) = live.base.take() {
            self.end_commitment(*base, terminated);
        }
        if live.approval != Approval::None {
            live.approval = Approval::Suspended;
            live.running = false;
            live.claim.state = CommitmentState::Approved(at);
            if let Some(job) = &mut live.claim.job {
                // Not before it has quota again.
                job.starts_at_once = false;
            }
            self.live.insert(uid.clone(), live);
        }
    }

    /// Records that the approval for the reservation that began at `since` no longer applies.
    pub fn released(&mut self, uid: &Uid, since: i64) {
        let Some(live) = self.live.get_mut(uid).filter(|live| live.since == since) else {
            return;
        };
        match live.approval {
            Approval::Suspended => {
                self.live.remove(uid);
            }
            Approval::Unconfirmed => live.approval = Approval::None,
            Approval::Confirmed | Approval::None => {}
        }
    }

    /// Returns the approved runs that lost their quota and were not [released](Self::released),
    /// each with the time of its reservation.
    pub fn suspended(&self) -> impl Iterator<Item = (&Uid, i64)> {
        self.live
            .iter()
            .filter(|(_, live)| live.approval == Approval::Suspended)
            .map(|(uid, live)| (uid, live.since))
    }

    /// Returns true if `uid` is one of the [suspended](Self::suspended) runs.
    pub fn is_suspended(&self, uid: &Uid) -> bool {
        let live = self.live.get(uid);
        live.is_some_and(|live| live.approval == Approval::Suspended)
    }

    /// Removes a [suspended](Self::suspended) run.
    pub fn drop_suspended(&mut self, uid: &Uid) {
        if self.is_suspended(uid) {
            self.live.remove(uid);
        }
    }

    /// Returns true if a job has run for this many seconds.
    pub fn has_run_for(&self, seconds: i64, now: Timestamp) -> bool {
        self.live.values().any(|live| matches!(live.claim.state, CommitmentState::Running(since) if now.as_second() - since >= seconds))
    }
}
