//! The cluster: jobs wait, get quota, run, stop and end.

use super::plan::Injected;
use super::{Event, Mutant, NAMES, Phase, START, STEP, World};

impl World<'_> {
    /// The cluster moves by one step.
    pub(super) fn cluster(&mut self) {
        let mut bill = *self.bills.last().unwrap_or(&[0; NAMES.len()]);
        let mut pays = |job: usize| {
            let plan = &self.plan.jobs[job];
            bill[plan.namespace] += i128::from(plan.rate)
                * i128::from(plan.real_percent)
                * 10_000_000
                * i128::from(STEP)
                / 3600;
        };
        for (job, _) in &self.terminating {
            pays(*job);
        }
        for job in 0..self.phases.len() {
            if let Phase::Running { .. } | Phase::Stopping { .. } = self.phases[job] {
                pays(job);
                self.ran[job] += 1;
            }
        }
        self.bills.push(bill);
        self.now += STEP;
        let now = self.now;
        self.terminating.retain(|(_, until)| *until > now);
        for job in 0..self.phases.len() {
            self.job(job);
        }
    }

    fn job(&mut self, job: usize) {
        let (plan, now) = (self.plan.jobs[job].clone(), self.now);
        let befalls = |since: i64, world: &Self| {
            let happens = |after: i64| !world.mishaps[job] && now >= since + after * STEP;
            let (_, injected) = plan.injected.filter(|(after, _)| happens(*after))?;
            // A growth that waits is only taken back: an eviction would stop the job, which is
            // another history. What it has replaced is stopped by nobody.
            let stays = world.is_growth(job) && injected != Injected::Deleted;
            (!stays && !world.is_replaced(job)).then_some(injected)
        };
        let base = plan.grows.filter(|_| self.is_growth(job));
        match (base.map(|base| self.phases[base]), self.phases[job]) {
            (None | Some(Phase::Running { .. }), _) => {}
            (_, Phase::Reserved { .. }) => {
                // The job has ended.
                self.phases[job] = Phase::Over;
                return self.tell(&Event::Ended(self.uids[job].clone(), now));
            }
            _ => return,
        }
        match self.phases[job] {
            Phase::Waiting if now >= START + plan.submitted * STEP => {
                self.phases[job] = Phase::Reserved {
                    since: now,
                    ready: false,
                    ready_at: 0,
                };
                self.tell_run(job);
                self.tell_base(job);
            }
            Phase::Reserved {
                since,
                ready,
                ready_at,
            } => match befalls(since, self) {
                Some(Injected::Deleted) => {
                    self.delete(job, since);
                    self.tell_base(job);
                }
                Some(Injected::QuotaLost | Injected::Evicted) => {
                    self.mishaps[job] = true;
                    // Kueue keeps the word, and may admit with it, unless it is withdrawn in time.
                    let until = now + (1 + self.random.below(4)) * STEP;
                    self.phases[job] = Phase::Parked {
                        since,
                        ready,
                        until,
                    };
                    self.tell(&Event::Gone(self.uids[job].clone()));
                    self.releases.push((
                        now + (1 + self.random.below(3)) * STEP,
                        self.uids[job].clone(),
                        since,
                    ));
                }
                None if ready && now >= ready_at + plan.admitted_after * STEP => {
                    self.admit(job, since);
                }
                None => {}
            },
            Phase::Running { since, at } => match befalls(since, self) {
                _ if self.ran[job] >= plan.real => {
                    self.phases[job] = Phase::Over;
                    self.tell(&Event::Ended(self.uids[job].clone(), now));
                }
                Some(Injected::Deleted) => {
                    self.terminate(job);
                    self.delete(job, since);
                }
                Some(Injected::Evicted) => {
                    self.mishaps[job] = true;
                    let until = now + self.random.below(3) * STEP;
                    self.phases[job] = Phase::Stopping { since, at, until };
                    if self.mutant == Mutant::OverWhenEvicted {
                        self.tell(&Event::Ended(self.uids[job].clone(), now));
                    }
                }
                _ => {}
            },
            Phase::Stopping { until, .. } if now >= until || self.ran[job] >= plan.real => {
                // It is queued again, behind the others, as long as it has time left.
                if self.ran[job] < plan.real {
                    self.terminate(job);
                }
                if self.mutant != Mutant::OverWhenEvicted {
                    self.tell(&Event::Stopped(self.uids[job].clone(), now));
                }
                self.past[job] = self.ran[job];
                self.phases[job] = if self.ran[job] < plan.real {
                    Phase::Parked {
                        since: 0,
                        ready: false,
                        until: now + STEP,
                    }
                } else {
                    Phase::Over
                };
            }
            Phase::Parked { ready, until, .. } if now >= until => {
                self.phases[job] = Phase::Reserved {
                    since: now,
                    ready,
                    ready_at: now,
                };
                self.tell_run(job);
            }
            _ => {}
        }
    }

    /// It starts, and ends what it grows.
    pub(super) fn admit(&mut self, job: usize, since: i64) {
        let base = self.plan.jobs[job].grows.filter(|_| self.is_growth(job));
        self.grown[job] = true;
        self.phases[job] = Phase::Running {
            since,
            at: self.now,
        };
        self.admitted += 1;
        self.tell_run(job);
        if let Some(base) = base {
            self.phases[base] = Phase::Over;
            self.tell(&Event::Ended(self.uids[base].clone(), self.now));
        }
    }

    /// What it grows is seen again: it is replaced, or no longer.
    fn tell_base(&mut self, job: usize) {
        let Some(base) = self.plan.jobs[job].grows.filter(|_| self.is_growth(job)) else {
            return;
        };
        if self.run(base).is_some() {
            self.tell_run(base);
        } else {
            self.tell(&Event::Ended(self.uids[base].clone(), self.now));
        }
    }

    /// Its pods are told to stop, and do so within their grace. Nobody is told when.
    fn terminate(&mut self, job: usize) {
        let grace = self.plan.jobs[job].grace;
        let until = self.now + self.random.below(grace + 1) * STEP;
        self.terminating.push((job, until));
        self.terminating.retain(|(_, until)| *until > self.now);
    }

    fn delete(&mut self, job: usize, since: i64) {
        self.phases[job] = Phase::Over;
        self.tell(&Event::Gone(self.uids[job].clone()));
        self.releases.push((
            self.now + self.random.below(2) * STEP,
            self.uids[job].clone(),
            since,
        ));
    }
}
