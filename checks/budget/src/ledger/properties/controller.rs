//! The controller's processes: their events, queries, decisions and faults.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kueue_check::api::Uid;

use super::plan::Fault;
use super::{Model, Mutant, Phase, START, STEP, take, time};
use crate::ledger::budget_ledger::Approval;
use crate::ledger::{AllocationPass, Decision, Observation, Run, RunState, Spend};
use crate::money::Amount;

impl Model<'_> {
    pub(super) fn faults(&mut self) -> Option<Fault> {
        let step = (self.now - START) / STEP;
        let due: Vec<Fault> = self
            .plan
            .faults
            .iter()
            .filter(|(at, _)| *at == step)
            .map(|(_, fault)| *fault)
            .collect();
        let mut of_source = None;
        for fault in due {
            match fault {
                Fault::Crash => {
                    self.late.clear();
                    self.leader = self.process();
                }
                Fault::Failover => {
                    // The new leader reads the list before it decides anything.
                    self.late.clear();
                    std::mem::swap(&mut self.leader, &mut self.standby);
                    self.relist();
                    self.standby = self.process();
                }
                Fault::SourceDead(steps) => self.source_dead = self.now + steps * STEP,
                other => of_source = Some(other),
            }
        }
        of_source
    }

    pub(super) fn relist(&mut self) {
        let now = time(self.now);
        let inbox = std::mem::take(&mut self.leader.inbox);
        for (_, event) in inbox {
            take(&mut self.leader.ledger, &event, now, self.mutant, true);
        }
        let runs: Vec<Run> = (0..self.phases.len())
            .filter_map(|job| self.run(job))
            .collect();
        let listed: BTreeSet<&Uid> = runs.iter().map(|run| &run.uid).collect();
        let vanished: Vec<Uid> = self
            .leader
            .ledger
            .live
            .iter()
            .filter(|(uid, live)| !listed.contains(uid) && live.approval != Approval::Suspended)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in vanished {
            self.leader.ledger.quota_lost(&uid, self.now);
        }
        for run in &runs {
            self.leader.ledger.observe_run(run, now);
        }
        // Cleanup: the approval of a run without quota is withdrawn.
        let suspended: Vec<(Uid, i64)> = self
            .leader
            .ledger
            .suspended()
            .map(|(uid, since)| (uid.clone(), since))
            .collect();
        self.releases.extend(
            suspended
                .into_iter()
                .map(|(uid, since)| (self.now, uid, since)),
        );
    }

    pub(super) fn receive(&mut self) {
        let now = time(self.now);
        let (mutant, closely) = (self.mutant, self.check_choice.one_in(8));
        for process in [&mut self.leader, &mut self.standby] {
            while process
                .inbox
                .front()
                .is_some_and(|(due, _)| *due <= self.now)
                && let Some((_, event)) = process.inbox.pop_front()
            {
                take(&mut process.ledger, &event, now, mutant, closely);
                if mutant == Mutant::NoTombstones {
                    process.ledger.ended.clear();
                }
            }
        }
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.releases)
            .into_iter()
            .partition(|(at, ..)| *at <= self.now);
        self.releases = later;
        for (_, uid, since) in due {
            self.withdraw(&uid);
            // The runtime reads the Workload before it reports that a reservation is over, and
            // reports what it has read.
            let job = self.job_of(&uid);
            if let Some(run) = self.run(job) {
                self.leader.ledger.observe_run(&run, now);
            }
            self.leader.ledger.released(&uid, since);
        }
    }

    /// Withdraws the approval of a Workload without quota, as the runtime does.
    fn withdraw(&mut self, of: &Uid) {
        let job = self.job_of(of);
        if let Phase::Parked { ready, .. } = &mut self.phases[job] {
            *ready = false;
        }
    }

    pub(super) fn source(&mut self, fault: Option<Fault>) {
        if self.now < self.source_dead {
            self.leader.ledger.failed("dead");
            return;
        }
        let at = self.now - self.plan.lag * STEP;
        let Some(period) = self.terms.schedule.at(time(self.now)) else {
            return;
        };
        let mut observation = Observation::of(period, time(at.max(START)));
        for (number, name) in self.names.iter().enumerate() {
            let spent = self.spent(&[number], period.start.as_second(), at);
            observation
                .spent
                .insert(name.clone(), Amount::millionths(spent + 1));
        }
        match fault {
            // Less than it reported before. A process that never received more cannot distinguish
            // that from the truth.
            Some(Fault::Less) => {
                for (name, spent) in &mut observation.spent {
                    let known = self.leader.ledger.spend.spent(name, period).in_millionths();
                    if known > 100_000 {
                        *spent = Amount::millionths(known / 3);
                    }
                }
            }
            Some(Fault::Nonsense) => {
                observation.spent.remove("vision");
                observation.unknown.insert("vision".into());
            }
            _ => {}
        }
        let known = |model: &Self| {
            let spend = &model.leader.ledger.spend;
            model.names.each_ref().map(|name| spend.spent(name, period))
        };
        let before = known(self);
        if self.mutant == Mutant::LastFigure {
            self.leader.ledger.spend = Spend::default();
        }
        self.leader.ledger.observe(&observation, time(self.now));
        if self.check_choice.one_in(8) {
            let again = self.leader.ledger.spend.clone();
            self.leader.ledger.observe(&observation, time(self.now));
            assert_eq!(
                again, self.leader.ledger.spend,
                "a repeated observation changes nothing"
            );
        }
        let never_less = before
            .iter()
            .zip(known(self))
            .all(|(before, after)| *before <= after);
        assert!(
            never_less || self.mutant != Mutant::None,
            "spending never decreases in a period"
        );
    }

    /// Evaluates all waiting runs on the leader, in any order.
    pub(super) fn decide(&mut self, fault: Option<Fault>) {
        let skew = if let Some(Fault::Clock(steps)) = fault {
            steps * STEP
        } else {
            0
        };
        let now = time(self.now + skew.min(self.plan.lag * STEP));
        for run in std::mem::take(&mut self.late) {
            self.leader.ledger.approve(&run, now);
        }
        let waiting: Vec<usize> = (0..self.phases.len())
            .filter(|job| {
                self.leader
                    .ledger
                    .live
                    .get(&self.uids[*job])
                    .is_some_and(|live| live.approval == Approval::None)
            })
            .collect();
        let evaluated: Vec<usize> = waiting
            .into_iter()
            .filter(|_| !self.random.one_in(5))
            .collect();
        let snapshot = (self.mutant == Mutant::CommitLater).then(|| self.leader.ledger.clone());
        for job in evaluated {
            let Some(run) = self.run(job).filter(|run| run.state == RunState::Evaluated) else {
                continue;
            };
            if self
                .leader
                .ledger
                .live
                .get(&run.uid)
                .is_none_or(|live| live.since != run.since)
            {
                continue;
            }
            self.mutate();
            let decision = match &snapshot {
                Some(before) => before.clone().decide(&run, now),
                None => self.leader.ledger.decide(&run, now),
            };
            if let Decision::Admit(_) = decision {
                if self.mutant == Mutant::CommitLater {
                    self.late.push(run);
                }
                self.write(job);
            }
        }
        let pass = self.leader.ledger.allocate(now);
        for uid_of in pass.granted {
            let job = self.job_of(&uid_of);
            let Some(run) = self.run(job).filter(|run| run.state == RunState::Evaluated) else {
                continue;
            };
            let decision = self.leader.ledger.decide(&run, now);
            assert!(
                matches!(decision, Decision::Admit(_)),
                "what was granted is admitted: {decision:?}"
            );
            self.write(job);
        }
        if self.check_choice.one_in(8) {
            self.quiet(now);
        }
    }

    fn mutate(&mut self) {
        let variants = self.leader.ledger.live.values_mut().filter(|live| {
            let job = live.claim.job.as_ref();
            job.is_some_and(|job| job.is_variant)
        });
        for live in variants.filter(|_| self.mutant == Mutant::VariantsEndAtOnce) {
            live.claim.grace = 0;
        }
    }

    /// Writes a verdict: the write succeeds, is lost, or succeeds without a response. A run whose
    /// write was lost is evaluated again.
    fn write(&mut self, job: usize) {
        let lands = !self.random.one_in(8);
        if let Phase::Reserved { since, .. } = self.phases[job]
            && lands
        {
            self.approved(job, since);
        } else {
            // Evaluated again: it was approved, and stays approved.
            if let Some(run) = self.run(job).filter(|run| run.state == RunState::Evaluated) {
                let decision = self.leader.ledger.decide(&run, time(self.now));
                assert!(
                    matches!(decision, Decision::Admit(_)) || self.mutant != Mutant::None,
                    "{decision:?}"
                );
                if let Phase::Reserved { since, .. } = self.phases[job] {
                    self.approved(job, since);
                }
            }
        }
    }

    /// Records that its Ready is written. A growth or a variant that waits for nothing else starts
    /// at once, since Kueue takes milliseconds; other jobs spend nothing meanwhile.
    fn approved(&mut self, job: usize, since: i64) {
        let of_several = self.is_growth(job) || self.is_variant(job);
        if of_several && self.plan.jobs[job].admitted_after == 0 {
            return self.admit(job, since);
        }
        self.phases[job] = Phase::Reserved {
            since,
            ready: true,
            ready_at: self.now,
        };
        self.notify_run(job);
    }

    /// Checks that another allocation pass changes nothing and returns no message.
    fn quiet(&mut self, now: Timestamp) {
        // The order of waiting runs may take two rounds to settle.
        for _ in 0..2 {
            for uid in self.leader.ledger.held.keys().cloned().collect::<Vec<_>>() {
                let run = self.leader.ledger.held[&uid].run.clone();
                self.leader.ledger.decide(&run, now);
            }
        }
        if self.mutant == Mutant::None {
            let pass = self.leader.ledger.allocate(now);
            assert_eq!(pass, AllocationPass::default(), "nothing has changed");
        }
    }
}
