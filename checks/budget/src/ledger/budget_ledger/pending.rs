//! Pending runs, and the allocation pass that approves them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kueue_check::api::Uid;

use super::{ActiveRun, Approval, BudgetLedger};
use crate::ledger::tally::Totals;
use crate::ledger::{CommitmentState, HoldReason, Run};
use crate::resource::Quota;

/// A run that waits for money.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct PendingRun {
    pub(in crate::ledger) run: Run,
    /// Its last message.
    pub(in crate::ledger) last_message: Option<LastMessage>,
}

impl PendingRun {
    /// Returns true if it waits for money, and not for the source or a price.
    pub(in crate::ledger) fn waits_for_money(&self) -> bool {
        self.last_message
            .as_ref()
            .is_none_or(|last_message| last_message.reason.is_about_money())
    }

    /// Returns true if it may give its quota back for others: it waits for money, as its message
    /// says, and grows no job, which would keep its pods and try again at once.
    fn may_yield(&self) -> bool {
        self.last_message.is_some() && self.waits_for_money() && self.run.grows.is_none()
    }

    /// Returns true if it requires more than the limit for which it waits.
    pub(in crate::ledger) fn exceeds_limit(&self) -> bool {
        let message = self.last_message.as_ref();
        message.is_some_and(|message| message.reason.exceeds_limit())
    }
}

/// The message of a held run. It stays the same until it is no longer true: a message that was
/// lost is returned again, and several checks return the same.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::ledger) struct LastMessage {
    pub(in crate::ledger) reason: HoldReason,
    pub(in crate::ledger) at: i64,
}

/// The runs to evaluate again after an allocation pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllocationPass {
    /// Runs that were just approved.
    pub(crate) granted: Vec<Uid>,
    /// Runs whose message is no longer true.
    pub(crate) outdated_messages: Vec<Uid>,
}

/// The seconds after which a message with numbers may be returned again. The numbers must also have
/// moved by a tenth of the limit.
const MESSAGE_INTERVAL: i64 = 600;
/// The seconds between evaluations of whether held runs release their quota.
const RECHECK: i64 = 30;
/// The seconds after which an approval that is not confirmed is evaluated again.
const OVERDUE: i64 = 30;

impl BudgetLedger {
    /// Returns the held runs of `namespace`.
    pub fn waiting(&self, namespace: &str) -> impl Iterator<Item = &Uid> {
        self.held
            .iter()
            .filter(move |(_, held)| *held.run.namespace == *namespace)
            .map(|(uid, _)| uid)
    }

    /// Returns the time at which the held run `uid` last had a new message.
    pub(crate) fn message_changed_at(&self, uid: &Uid) -> Option<i64> {
        self.held
            .get(uid)?
            .last_message
            .as_ref()
            .map(|last_message| last_message.at)
    }

    /// Returns the used resources without a price, each with its flavor.
    pub fn unpriced(&self) -> impl Iterator<Item = &(String, String)> {
        self.unpriced.iter()
    }

    /// Removes a run from the pending runs: it has another verdict.
    pub(in crate::ledger) fn no_longer_held(&mut self, uid: &Uid) {
        self.held.remove(uid);
    }

    pub(in crate::ledger) fn hold(&mut self, run: &Run) -> &mut PendingRun {
        let held = self
            .held
            .entry(run.uid.clone())
            .or_insert_with(|| PendingRun {
                run: run.clone(),
                last_message: None,
            });
        if held.run.since != run.since {
            *held = PendingRun {
                run: run.clone(),
                last_message: None,
            };
        }
        held.run = run.clone();
        held
    }

    /// Runs an allocation pass over the held runs, in the order of the Budget: approves those that
    /// fit, and returns the runs whose message changes.
    pub(crate) fn allocate(&mut self, now: Timestamp) -> AllocationPass {
        let mut order: Vec<(i32, i64, Uid)> = self
            .held
            .values()
            .map(|held| (-held.run.priority, held.run.since, held.run.uid.clone()))
            .collect();
        order.sort_unstable();
        let mut pass = AllocationPass::default();
        let mut tally = Totals::default();
        for (_, _, uid) in order {
            let Some(held) = self.held.get(&uid).cloned() else {
                continue;
            };
            if let Err(reason) = self.assess(&held.run, now, &mut tally) {
                if Self::is_untrue(&held, &reason, now) {
                    pass.outdated_messages.push(uid);
                }
            } else {
                self.approve(&held.run, now);
                tally = Totals::default();
                pass.granted.push(uid);
            }
        }
        for run in self.grown.values().cloned().collect::<Vec<_>>() {
            if self.taken_back(&run, now).is_some() {
                pass.outdated_messages.push(run.uid);
            }
        }
        pass
    }

    /// Returns true if `reason` differs so much from the message of `held` that it is returned
    /// again.
    pub(in crate::ledger) fn is_untrue(
        held: &PendingRun,
        reason: &HoldReason,
        now: Timestamp,
    ) -> bool {
        let Some(last_message) = &held.last_message else {
            return true;
        };
        if std::mem::discriminant(&last_message.reason) != std::mem::discriminant(reason)
            || reason.awaits_other_than(&last_message.reason)
            || reason.exceeds_limit() != last_message.reason.exceeds_limit()
        {
            return true;
        }
        let (Some(balance), Some(before)) = (reason.balance(), last_message.reason.balance())
        else {
            return false;
        };
        let (now_left, then_left) = (balance.remaining(), before.remaining());
        let (more, less) = (now_left.max(then_left), now_left.min(then_left));
        let at = now.as_second();
        at - last_message.at >= MESSAGE_INTERVAL && more.less(less).percent_of(balance.limit) >= 10
    }

    /// Records the approval of `run`, before its verdict is written.
    pub(in crate::ledger) fn approve(&mut self, run: &Run, now: Timestamp) {
        self.held.remove(&run.uid);
        let approval = match self.live.get(&run.uid) {
            Some(live) if live.since == run.since && live.approval == Approval::Confirmed => {
                Approval::Confirmed
            }
            _ => Approval::Unconfirmed,
        };
        let mut live = ActiveRun::of(run, approval, now.as_second());
        self.follow_base(run, &mut live, now.as_second());
        self.live.insert(run.uid.clone(), live);
    }

    /// Withdraws an approval that is not confirmed, before its verdict could be written.
    pub(in crate::ledger) fn unlien(&mut self, uid: &Uid) {
        if let Some(live) = self.live.get_mut(uid)
            && live.approval == Approval::Unconfirmed
        {
            live.approval = Approval::None;
        }
    }

    /// Returns runs that were approved some time ago and whose verdict is not on the cluster.
    pub(crate) fn overdue_approvals(&self, now: Timestamp) -> impl Iterator<Item = &Uid> {
        let late = move |live: &ActiveRun| match live.claim.state {
            CommitmentState::Approved(given) => {
                live.approval == Approval::Unconfirmed && now.as_second() - given >= OVERDUE
            }
            _ => false,
        };
        self.live
            .iter()
            .filter(move |(_, live)| late(live))
            .map(|(uid, _)| uid)
    }

    /// Returns true if the held run `uid` may release its quota in `queue` now. Then no other may
    /// for an interval that doubles with each `attempt`.
    pub fn try_yield(&mut self, uid: &Uid, queue: &str, attempt: u32, now: Timestamp) -> bool {
        let Some(held) = self.held.get(uid) else {
            return false;
        };
        let (first, longest) = self.terms.yields;
        let pause = first
            .saturating_mul(1 << attempt.saturating_sub(1).min(20))
            .min(longest);
        let now = now.as_second();
        let since = self
            .last_yield
            .get(queue)
            .copied()
            .unwrap_or(held.run.since);
        if !held.may_yield() || now - since < pause || now - held.run.since < pause {
            return false;
        }
        self.last_yield.insert(queue.to_owned(), now);
        true
    }

    /// Returns held runs to evaluate for a release of their quota: those of a ClusterQueue
    /// together, after the shortest interval, at most twice a minute.
    ///
    /// `queue_of` returns the ClusterQueue in which a run has quota, if another Workload waits for
    /// it there.
    pub(crate) fn due_to_yield(
        &mut self,
        now: Timestamp,
        queue_of: impl Fn(&Uid) -> Option<String>,
    ) -> Vec<Uid> {
        if self.terms.quota != Quota::Yield {
            return Vec::new();
        }
        let (now, pause) = (now.as_second(), self.terms.yields.0);
        let over = |at: Option<&i64>, pause| at.is_none_or(|at| now - at >= pause);
        let (mut due, mut queues) = (Vec::new(), BTreeSet::new());
        for (uid, held) in &self.held {
            if !held.may_yield() || now - held.run.since < pause {
                continue;
            }
            let Some(queue) = queue_of(uid) else { continue };
            if over(self.last_yield.get(&queue), pause)
                && over(self.yield_evaluations.get(&queue), RECHECK)
            {
                due.push(uid.clone());
                queues.insert(queue);
            }
        }
        let evaluated = queues.into_iter().map(|queue| (queue, now));
        self.yield_evaluations.extend(evaluated);
        due
    }
}
