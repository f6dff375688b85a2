//! The order in which jobs are evicted when a limit is overspent.

use jiff::Timestamp;
use kueue_check::api::Uid;

use super::BudgetLedger;
use crate::config::Account;
use crate::ledger::CommitmentState;
use crate::resource::Enforcement;

impl BudgetLedger {
    /// Returns the running job of `account` to evict first: of the lowest priority, and of those
    /// the youngest.
    pub(in crate::ledger) fn first_to_stop(&self, account: &Account) -> Option<&Uid> {
        let members = self.members(account);
        // A job that may be exempt is not evicted, even while that is unknown.
        let running = self.live.iter().filter(|(_, live)| {
            let namespace = &live.claim.namespace;
            live.running
                && members.contain(namespace)
                && self.exemption_in(namespace, live.class.as_deref()) == Ok(None)
        });
        running
            .min_by_key(|(uid, live)| match live.claim.state {
                CommitmentState::Running(since) => (live.priority, -since, (*uid).clone()),
                _ => (i32::MAX, 0, (*uid).clone()),
            })
            .map(|(uid, _)| uid)
    }

    /// Returns, for each account that has spent more than its limit, the running job to evict
    /// first.
    pub(crate) fn overspenders(&self, now: Timestamp) -> Vec<Uid> {
        let enforces = self.terms.enforcement != Enforcement::ReportOnly;
        let enforces = enforces && self.limits_are_known().is_ok();
        let Some(period) = self.period(now).filter(|_| enforces) else {
            return Vec::new();
        };
        let accounts = self.known_accounts(now);
        let over = accounts
            .iter()
            .filter(|account| self.spent(account, period) > self.limit(account, now));
        over.filter_map(|account| self.first_to_stop(account).cloned())
            .collect()
    }
}
