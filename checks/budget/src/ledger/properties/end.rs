//! The invariants at the end of a history.

use super::{Model, PERIOD, Phase, START, accounts, time};
use crate::config::Account;
use crate::ledger::{Committed, Observation};
use crate::money::Amount;

impl Model<'_> {
    /// Returns by how much any limit has been exceeded, in millionths; negative while none is.
    pub(super) fn over(&self) -> i128 {
        let all = accounts();
        let mut worst = i128::MIN;
        let periods = (self.now - START + PERIOD - 1) / PERIOD;
        for number in 0..periods {
            let (from, to) = (START + number * PERIOD, START + (number + 1) * PERIOD);
            for (account, namespaces) in &all {
                let limit = if matches!(account, Account::Pool(_)) {
                    self.plan.pool
                } else {
                    self.plan.limit
                };
                worst = worst.max(self.spent(namespaces, from, to) - i128::from(limit) * 1_000_000);
            }
        }
        worst
    }

    /// Checks that a ledger rebuilt from the cluster equals the one that never stopped, once
    /// everything is known.
    pub(super) fn rebuilt_is_the_same(&mut self) {
        let now = time(self.now);
        let Some(period) = self.terms.schedule.at(now) else {
            return;
        };
        let mut observation = Observation::of(period, now);
        for (number, name) in self.names.iter().enumerate() {
            let spent = self.spent(&[number], period.start.as_second(), self.now);
            observation
                .spent
                .insert(name.clone(), Amount::millionths(spent + 1));
        }
        self.relist();
        self.receive();
        let mut fresh = self.process().ledger;
        for ledger in [&mut fresh, &mut self.leader.ledger] {
            ledger.observe(&observation, now);
        }
        for (account, _) in accounts() {
            let (rebuilt, kept) = (
                fresh.balance(&account, period, now),
                self.leader.ledger.balance(&account, period, now),
            );
            // Only a process that has observed a run has its pods that terminate, or whose Workload
            // was deleted. Only it has the time since which a variant may have been running.
            let jobs = &self.plan.jobs;
            let knows_more = self.deleted.contains(&true)
                || jobs
                    .iter()
                    .any(|job| job.grace > 0 || job.variant_of.is_some());
            assert!(
                rebuilt.used() == kept.used() || knows_more && rebuilt.used() < kept.used(),
                "{account}: rebuilt {rebuilt:?}, kept {kept:?}"
            );
            assert!(kept.remaining() <= kept.limit);
            let indexed = self.leader.ledger.index().balance(&account, period, now);
            assert_eq!(indexed, kept, "an index changes nothing");
        }
    }

    /// Checks that nothing is committed when everything is over and known.
    pub(super) fn nothing_leaks(&mut self) {
        let now = time(self.now + 10 * PERIOD);
        for job in 0..self.phases.len() {
            self.phases[job] = Phase::Over;
        }
        self.relist();
        self.receive();
        let Some(period) = self.terms.schedule.at(now) else {
            return;
        };
        let observation = Observation::of(period, now);
        self.leader.ledger.observe(&observation, now);
        for (account, _) in accounts() {
            assert_eq!(
                self.leader.ledger.balance(&account, period, now).committed,
                Committed::default(),
                "{account}"
            );
        }
        assert!(self.leader.ledger.ended.is_empty() && self.leader.ledger.live.is_empty());
    }
}
