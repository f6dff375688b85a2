//! Decisions: whether a run may start.
//!
//! Decision and commitment are one step, with nothing in between. A controller that first reads the
//! balance and then commits overspends.

use std::sync::Arc;

use jiff::Timestamp;

use super::budget_ledger::{ActiveRun, Approval, LastMessage};
use super::tally::{Place, Totals, place};
use super::{
    AdmitReason, Awaited, BudgetLedger, Commitment, CommitmentState, Decision, HoldReason, Run,
    RunState, committed,
};
use crate::config::Account;
use crate::money::{Amount, Rate};
use crate::period::Period;
use crate::resource::{
    AdmitOrder, Enforcement, HoldOrAdmit, OnTooLarge, OnUnpriced, Running, Takeover,
};

/// The number of later periods in which a long job must fit. A decision must not take longer for a
/// job of years.
const MOST_PERIODS: usize = 60;

#[expect(
    clippy::result_large_err,
    reason = "a reason is made once for each decision, and moved"
)]
impl BudgetLedger {
    /// Decides about `run`, and commits its estimate if it may start. The same facts yield the same
    /// decision.
    pub fn decide(&mut self, run: &Run, now: Timestamp) -> Decision {
        if let RunState::Running(_) = run.state {
            return self.about_running(run, now);
        }
        if let RunState::Approved(_) = run.state {
            self.observe_run(run, now);
            if let Some(reason) = self.taken_back(run, now) {
                return self.refuse(run, reason, now);
            }
            self.grown.remove(&run.uid);
            return Decision::Unchanged;
        }
        // An approved run stays approved: its verdict may be in flight. A verdict about a cheaper
        // version of the job cannot be written any more, because the write has a `resourceVersion`
        // precondition.
        self.observe_run(run, now);
        let grown = self.grown.remove(&run.uid).is_some();
        let given = self
            .live
            .get(&run.uid)
            .is_some_and(|live| live.approval == Approval::Unconfirmed && !grown);
        self.unlien(&run.uid);
        if !matches!(self.exemption(run), Ok(Some(_)))
            && self.terms.on_ungoverned == HoldOrAdmit::Admit
            && self.limits_of_are_known(&run.namespace).is_ok()
            && self.accounts(&run.namespace, now).is_empty()
        {
            self.approve(run, now);
            return Decision::NotGoverned;
        }
        match self.assess(run, now, &mut Totals::default()) {
            Ok(why) => {
                self.approve(run, now);
                Decision::Admit(self.after(why, run, now))
            }
            Err(reason) if given => {
                self.approve(run, now);
                Decision::Admit(self.after(
                    AdmitReason::Fits(reason.balance().cloned().into_iter().collect()),
                    run,
                    now,
                ))
            }
            Err(reason) => self.refuse(run, reason, now),
        }
    }

    /// Returns the reason to withdraw the approval of `run`, which is not admitted: it costs more
    /// than when it was approved, and does not fit. Spend that is unknown for some time withdraws
    /// nothing.
    pub(super) fn taken_back(&mut self, run: &Run, now: Timestamp) -> Option<HoldReason> {
        if !self.grown.contains_key(&run.uid) {
            return None;
        }
        // The run counts until the cluster shows that it may no longer start, but not against
        // itself.
        let approval =
            std::mem::replace(&mut self.live.get_mut(&run.uid)?.approval, Approval::None);
        let assessed = self.assess(run, now, &mut Totals::default());
        self.live.get_mut(&run.uid)?.approval = approval;
        assessed.err().filter(|reason| {
            matches!(
                reason,
                HoldReason::DoesNotFit { .. }
                    | HoldReason::Overspent(_)
                    | HoldReason::TooLarge { .. }
                    | HoldReason::Unpriced { .. }
            )
        })
    }

    fn refuse(&mut self, run: &Run, reason: HoldReason, now: Timestamp) -> Decision {
        let rejects = match reason {
            HoldReason::TooLarge { .. } => self.terms.on_too_large == OnTooLarge::Reject,
            HoldReason::Unpriced { .. } => self.terms.on_unpriced == OnUnpriced::Reject,
            _ => false,
        };
        if rejects {
            self.no_longer_held(&run.uid);
            return Decision::Reject(reason);
        }
        let held = self.hold(run);
        let untrue = Self::is_untrue(held, &reason, now);
        if let Some(last_message) = held.last_message.as_ref().filter(|_| !untrue) {
            return Decision::Hold(last_message.reason.clone());
        }
        let at = now.as_second();
        held.last_message = Some(LastMessage {
            reason: reason.clone(),
            at,
        });
        Decision::Hold(reason)
    }

    /// Returns `why` with balances that include `run`.
    fn after(&self, why: AdmitReason, run: &Run, now: Timestamp) -> AdmitReason {
        let (AdmitReason::Fits(_), Some(period)) = (&why, self.period(now)) else {
            return why;
        };
        AdmitReason::Fits(
            self.accounts(&run.namespace, now)
                .iter()
                .map(|account| self.balance(account, period, now))
                .collect(),
        )
    }

    /// Returns whether `run` may start, without a side effect.
    pub(super) fn assess(
        &self,
        run: &Run,
        now: Timestamp,
        tally: &mut Totals,
    ) -> Result<AdmitReason, HoldReason> {
        let unexempt = match self.exemption(run) {
            Ok(Some(exemption)) => return Ok(AdmitReason::Exempt(exemption)),
            Ok(None) => Ok(()),
            Err(unknown) => Err(unknown),
        };
        if self.terms.enforcement == Enforcement::ReportOnly {
            let strictly = unexempt.and_then(|()| self.strictly(run, now, tally));
            return Ok(AdmitReason::ReportOnly(strictly.err().map(Box::new)));
        }
        // Precedes every reason to reject it.
        unexempt?;
        if let Some((resource, flavor)) = &run.estimate.unpriced {
            let unpriced = HoldReason::Unpriced {
                resource: resource.clone(),
                flavor: flavor.clone(),
            };
            match self.terms.on_unpriced {
                OnUnpriced::Admit if run.estimate.rate == Rate::ZERO => {
                    return Ok(AdmitReason::Unpriced);
                }
                // The priced resources must fit.
                OnUnpriced::Admit => {}
                OnUnpriced::Reject => {
                    self.no_cold_start(run, now)?;
                    return Err(unpriced);
                }
                OnUnpriced::Hold => return Err(unpriced),
            }
        }
        match self.strictly(run, now, tally) {
            Ok(()) => Ok(AdmitReason::Fits(Vec::new())),
            Err(reason @ HoldReason::Stale { .. }) if self.terms.on_stale == HoldOrAdmit::Admit => {
                // The maximum cost of one job does not depend on spend.
                self.not_too_large(run, &self.accounts(&run.namespace, now), now)?;
                Ok(AdmitReason::Stale(Box::new(reason)))
            }
            Err(reason) => Err(reason),
        }
    }

    fn strictly(&self, run: &Run, now: Timestamp, tally: &mut Totals) -> Result<(), HoldReason> {
        let period = self.period(now).ok_or(HoldReason::NoPeriod)?;
        let accounts = self.all_is_known(run, now)?;
        if accounts.is_empty() {
            return Err(HoldReason::NotGoverned);
        }
        // A rejection is final, so limits and spend must be known first.
        self.not_too_large(run, &accounts, now)?;
        for account in &accounts {
            self.fits(run, account, period, now, tally)?;
        }
        Ok(())
    }

    fn not_too_large(
        &self,
        run: &Run,
        accounts: &[Account],
        now: Timestamp,
    ) -> Result<(), HoldReason> {
        let estimate = run.estimate.total();
        let too_large = |most, account| {
            Err(HoldReason::TooLarge {
                estimate,
                most,
                account,
            })
        };
        if let Some(most) = self.terms.max_per_workload.filter(|most| estimate > *most) {
            return too_large(most, None);
        }
        // A job that outlives its period is paid in two. The criterion is whether it could ever
        // start.
        let longest = self.period(now).map_or(0, |period| {
            period.end.as_second() - period.start.as_second()
        });
        let at_once = run.estimate.rate.cost(run.estimate.longest().min(longest));
        for account in accounts {
            let limit = self.limit(account, now);
            if at_once > limit {
                return too_large(limit, Some(account.clone()));
            }
        }
        Ok(())
    }

    /// Returns the accounts of `run`, once their limits and their spend are known.
    fn all_is_known(&self, run: &Run, now: Timestamp) -> Result<Vec<Account>, HoldReason> {
        self.limits_of_are_known(&run.namespace)?;
        let accounts = self.accounts(&run.namespace, now);
        for account in &accounts {
            self.is_known(account, now)?;
        }
        if !accounts.is_empty() {
            // A pool does not wait for each of its namespaces.
            self.is_known(&Account::Namespace(Arc::clone(&run.namespace)), now)?;
        }
        Ok(accounts)
    }

    /// Returns an error while limits or spend have not been known since this process began.
    fn no_cold_start(&self, run: &Run, now: Timestamp) -> Result<(), HoldReason> {
        match self.all_is_known(run, now) {
            Err(reason @ HoldReason::ColdStart { .. }) => Err(reason),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns an error unless the accounts of a namespace and their limits are known.
    pub(crate) fn limits_are_known(&self) -> Result<(), HoldReason> {
        let cold = |awaits, problem: Option<&str>| {
            Err(HoldReason::ColdStart {
                awaits,
                have: None,
                problem: problem.map(str::to_owned),
            })
        };
        if self.terms.limits_namespaces() && self.own.known().is_none() {
            return cold(Awaited::NamespaceBudgets, self.own.problem());
        }
        if !self.terms.pools.is_empty() && self.namespaces.known().is_none() {
            return cold(Awaited::Namespaces, self.namespaces.problem());
        }
        Ok(())
    }

    /// Returns the same for `namespace`. A namespace newer than the last observed list of
    /// Namespaces may have labels that pools select.
    fn limits_of_are_known(&self, namespace: &str) -> Result<(), HoldReason> {
        self.limits_are_known()?;
        let known = self.namespaces.known();
        let is_seen = known.is_none_or(|all| all.contains_key(namespace));
        if self.terms.pools.is_empty() || is_seen {
            return Ok(());
        }
        Err(HoldReason::ColdStart {
            awaits: Awaited::Namespaces,
            have: None,
            problem: None,
        })
    }

    /// Returns an error unless the spend of `account` is known, since this process watches, and
    /// recently enough.
    pub(crate) fn is_known(&self, account: &Account, now: Timestamp) -> Result<(), HoldReason> {
        let at = |second: i64| Timestamp::from_second(second).unwrap_or_default();
        let known = self.watermark(account).filter(|known| *known > i64::MIN);
        let cold = |awaits| HoldReason::ColdStart {
            awaits,
            have: known.map(at),
            problem: self.problem.clone(),
        };
        self.limits_are_known()?;
        let watched = self.watched_since.ok_or_else(|| cold(Awaited::Workloads))?;
        let known_at = known.ok_or_else(|| cold(Awaited::Spend(at(watched))))?;
        if known_at < watched && self.terms.takeover == Takeover::WaitForSource {
            return Err(cold(Awaited::Spend(at(watched))));
        }
        if !self.spend.is_covered() && self.terms.on_uncovered == HoldOrAdmit::Hold {
            return Err(HoldReason::NotCovered);
        }
        if now.as_second() - known_at > self.terms.staleness {
            return Err(HoldReason::Stale {
                account: account.clone(),
                since: at(known_at),
                problem: self.problem.clone(),
            });
        }
        Ok(())
    }

    fn fits(
        &self,
        run: &Run,
        account: &Account,
        period: Period,
        now: Timestamp,
        tally: &mut Totals,
    ) -> Result<(), HoldReason> {
        let of_job = self.claims_of_job(run);
        // The job's existing commitment is not needed twice.
        let own = |period: Period| {
            let claim = ActiveRun::of(run, Approval::Unconfirmed, now.as_second()).claim;
            let (watermarks, overrun) = (self.spend.watermarks(), self.terms.overrun);
            let total = |own: Option<&Commitment>| {
                let claims = of_job.iter().copied().chain(own);
                committed(claims, period, watermarks, now.as_second(), overrun).total()
            };
            total(Some(&claim)).less(total(None))
        };
        let balance = tally.balance(self, account, period, now);
        if balance.spent > balance.limit {
            return Err(HoldReason::Overspent(balance));
        }
        let need = own(period);
        let fits = |used: Amount, need: Amount, limit: Amount| match self.terms.enforcement {
            // While any money remains.
            Enforcement::Relaxed => used < limit,
            _ => used + need <= limit,
        };
        if !fits(balance.used(), need, balance.limit) {
            return Err(HoldReason::DoesNotFit { need, balance });
        }
        if self.terms.order == AdmitOrder::Strict && tally.is_preceded(self, run, account) {
            return Err(HoldReason::BlockedByOrder(balance));
        }
        let limit = balance.limit;
        let ends = now.as_second().saturating_add(run.estimate.longest());
        let mut next = self.terms.schedule.at(period.end);
        for _ in 0..MOST_PERIODS {
            // The next period must have the money too, since the job may start as late as in it;
            // the later ones must for as long as the job reaches into them.
            let Some(later) = next else { break };
            let need = own(later);
            if need == Amount::ZERO {
                break;
            }
            let until = ends.min(later.end.as_second());
            let part = until - later.start.as_second();
            let mut balance = tally.balance(self, account, later, now);
            let used = balance.committed.total();
            if part > 0 {
                // A top-up may end before the job does.
                let last = Timestamp::from_second(until - 1).unwrap_or(later.start);
                balance.limit = balance.limit.min(self.limit(account, last));
                let need = run.estimate.rate.cost(part).min(need);
                if !fits(used, need, balance.limit) {
                    return Err(HoldReason::DoesNotFit { need, balance });
                }
            }
            balance.limit = balance.limit.max(limit);
            if !fits(used, need, balance.limit) {
                return Err(HoldReason::DoesNotFit { need, balance });
            }
            next = self.terms.schedule.at(later.end);
            if later.end.as_second() >= ends {
                break;
            }
        }
        Ok(())
    }

    /// Returns the commitments of the job of `run` without `run` itself.
    fn claims_of_job(&self, run: &Run) -> Vec<&Commitment> {
        let Some(job) = &run.job else {
            return Vec::new();
        };
        let of_job = self.live.iter().filter(|(_, live)| {
            let of = live.claim.job.as_ref();
            of.is_some_and(|of| of.key == job.key)
        });
        // Of its own commitments, those for the pods to which it adds: it is not charged for them.
        let claims = of_job.flat_map(|(uid, live)| {
            let own = *uid == run.uid;
            live.claims()
                .filter(move |claim| !own || matches!(claim.state, CommitmentState::Running(_)))
        });
        claims.collect()
    }

    /// Returns the first of the runs that wait for money of `account`.
    pub(super) fn first_waiting(&self, account: &Account) -> Option<Place> {
        let members = self.members(account);
        // A run that waits for something else than money blocks no other. Nor does one that
        // requires more than a limit, such as that of the next period without a top-up.
        let waiting = self.held.values().filter(|held| {
            members.contain(&held.run.namespace)
                && held.waits_for_money()
                && (self.terms.enforcement == Enforcement::Relaxed || !held.exceeds_limit())
        });
        waiting.map(|held| place(&held.run)).min()
    }

    fn about_running(&mut self, run: &Run, now: Timestamp) -> Decision {
        self.observe_run(run, now);
        let (running, grace) = self.terms.overspent;
        if running == Running::Leave
            || self.terms.enforcement == Enforcement::ReportOnly
            || self.exemption(run) != Ok(None)
            || self.limits_are_known().is_err()
        {
            return Decision::Unchanged;
        }
        let Some(period) = self.period(now) else {
            return Decision::Unchanged;
        };
        for account in self.accounts(&run.namespace, now) {
            let balance = self.balance(&account, period, now);
            let long_enough = self
                .over_since
                .get(&account)
                .is_some_and(|since| now.as_second() - since >= grace);
            if balance.overspent().is_some()
                && long_enough
                && self.first_to_stop(&account) == Some(&run.uid)
            {
                return Decision::Stop(balance);
            }
        }
        Decision::Unchanged
    }
}
