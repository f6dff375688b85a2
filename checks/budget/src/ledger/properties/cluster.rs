//! The cluster: jobs wait, reserve quota, run, stop and end.

use super::plan::Injected;
use super::{Event, Model, Mutant, NAMES, Phase, START, STEP};

impl Model<'_> {
    /// Moves the cluster by one step.
    pub(super) fn cluster(&mut self) {
        let mut bill = *self.bills.last().unwrap_or(&[0; NAMES.len()]);
        let mut pays = |job: usize, rate: u32| {
            let plan = &self.plan.jobs[job];
            bill[plan.namespace] +=
                i128::from(rate) * i128::from(plan.real_percent) * 10_000_000 * i128::from(STEP)
                    / 3600;
        };
        for (job, rate, _) in &self.terminating {
            pays(*job, *rate);
        }
        for job in 0..self.phases.len() {
            if let Phase::Running { .. } | Phase::Stopping { .. } = self.phases[job] {
                pays(job, self.rates[job]);
                self.ran[job] += 1;
            }
        }
        self.bills.push(bill);
        self.now += STEP;
        let now = self.now;
        self.terminating.retain(|(.., until)| *until > now);
        for job in 0..self.phases.len() {
            self.job(job);
        }
    }

    fn job(&mut self, job: usize) {
        let (plan, now) = (self.plan.jobs[job].clone(), self.now);
        let befalls = |since: i64, model: &Self| {
            let happens = |after: i64| !model.interrupted[job] && now >= since + after * STEP;
            let (_, injected) = plan.injected.filter(|(after, _)| happens(*after))?;
            // A replaced Workload is stopped only by its growth. Without the growth, and without
            // its own Workload, no object shows that its pods run.
            let base = plan.grows.filter(|_| model.is_growth(job));
            let last = base.is_some_and(|base| model.deleted[base]);
            let happens = !last || injected == Injected::Evicted;
            (happens && !model.is_replaced(job)).then_some(injected)
        };
        let base = plan.grows.filter(|_| self.is_growth(job));
        match (base.map(|base| self.phases[base]), self.phases[job]) {
            (None | Some(Phase::Running { .. }), _) => {}
            (_, Phase::Reserved { .. } | Phase::Evicting { .. } | Phase::Parked { .. }) => {
                // The job has ended.
                self.phases[job] = Phase::Over;
                return self.notify(&Event::Ended(self.uids[job].clone(), now));
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
                self.notify_run(job);
                self.notify_base(job);
            }
            Phase::Reserved {
                since,
                ready,
                ready_at,
            } => match befalls(since, self) {
                Some(Injected::Deleted) => {
                    self.delete(job, since);
                    self.notify_base(job);
                }
                Some(Injected::Evicted) if self.is_growth(job) => {
                    self.interrupted[job] = true;
                    let until = now + self.random.below(3) * STEP;
                    self.phases[job] = Phase::Evicting {
                        since,
                        ready,
                        until,
                    };
                    self.notify_run(job);
                }
                Some(Injected::QuotaLost | Injected::Evicted) => {
                    self.interrupted[job] = true;
                    // Kueue keeps the verdict, and may admit with it, unless it is withdrawn in
                    // time.
                    let until = now + (1 + self.random.below(4)) * STEP;
                    self.phases[job] = Phase::Parked {
                        since,
                        ready,
                        until,
                    };
                    self.notify(&Event::Gone(self.uids[job].clone()));
                    self.releases.push((
                        now + (1 + self.random.below(3)) * STEP,
                        self.uids[job].clone(),
                        since,
                    ));
                }
                None if ready && now >= ready_at + plan.admitted_after * STEP => {
                    self.admit(job, since);
                }
                None => self.retention(job, since),
            },
            Phase::Evicting { until, .. } if now >= until => self.evict_growth(job),
            Phase::Running { since, at } => match befalls(since, self) {
                _ if self.ran[job] >= plan.real => {
                    for job in [vec![job], self.siblings(job)].concat() {
                        self.phases[job] = Phase::Over;
                        self.notify(&Event::Ended(self.uids[job].clone(), now));
                    }
                }
                Some(Injected::Deleted) => {
                    self.terminate(job);
                    self.delete(job, since);
                }
                Some(Injected::Evicted) => {
                    self.interrupted[job] = true;
                    let until = now + self.random.below(3) * STEP;
                    self.phases[job] = Phase::Stopping { since, at, until };
                    if self.mutant == Mutant::OverWhenEvicted {
                        self.notify(&Event::Ended(self.uids[job].clone(), now));
                    }
                }
                _ => self.shrink(job, at),
            },
            Phase::Stopping { until, .. } if now >= until || self.ran[job] >= plan.real => {
                // It is requeued, behind the others, while it has time left.
                if self.ran[job] < plan.real {
                    self.terminate(job);
                }
                if self.mutant != Mutant::OverWhenEvicted {
                    self.notify(&Event::Stopped(self.uids[job].clone(), now));
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
                self.notify_run(job);
            }
            _ => {}
        }
    }

    /// Starts the job, and ends the Workload that it grows, and the variants that are no better.
    pub(super) fn admit(&mut self, job: usize, since: i64) {
        let base = self.plan.jobs[job].grows.filter(|_| self.is_growth(job));
        self.grown[job] = true;
        self.phases[job] = Phase::Running {
            since,
            at: self.now,
        };
        self.admitted += 1;
        self.notify_run(job);
        if let Some(base) = base {
            self.phases[base] = Phase::Over;
            self.notify(&Event::Ended(self.uids[base].clone(), self.now));
        }
        for sibling in self.siblings(job) {
            let runs = matches!(
                self.phases[sibling],
                Phase::Running { .. } | Phase::Stopping { .. }
            );
            if runs {
                self.terminate(sibling);
            }
            if runs || sibling < job {
                self.phases[sibling] = Phase::Over;
                self.notify(&Event::Stopped(self.uids[sibling].clone(), self.now));
            }
        }
    }

    /// Evicts the growth, which stops the pods of the job. The growth waits for quota as a whole.
    fn evict_growth(&mut self, job: usize) {
        if let Some(base) = self.plan.jobs[job].grows {
            self.terminate(base);
            self.phases[base] = Phase::Over;
            self.notify(&Event::Stopped(self.uids[base].clone(), self.now));
        }
        self.notify(&Event::Stopped(self.uids[job].clone(), self.now));
        self.grown[job] = true;
        self.phases[job] = Phase::Parked {
            since: 0,
            ready: false,
            until: self.now + STEP,
        };
    }

    /// Deletes the Workload that `job` grows. Its pods continue to run.
    fn retention(&mut self, job: usize, since: i64) {
        let plan = &self.plan.jobs[job];
        let base = plan
            .grows
            .filter(|base| self.is_growth(job) && !self.deleted[*base]);
        let due = |after: i64| self.now >= since + after * STEP;
        let (Some(base), true) = (base, plan.retention.is_some_and(due)) else {
            return;
        };
        if let Phase::Running { .. } = self.phases[base] {
            self.deleted[base] = true;
            // The runtime reports both at once.
            self.notify_run(job);
            self.notify(&Event::Stopped(self.uids[base].clone(), self.now));
        }
    }

    /// Shrinks the job: some of its pods have finished, or its owner has scaled it down.
    fn shrink(&mut self, job: usize, at: i64) {
        let plan = &self.plan.jobs[job];
        let due = |(after, _): &(i64, u32)| self.now >= at + after * STEP;
        // A replaced Workload does not change any more.
        let Some((_, percent)) = plan.shrinks.filter(due).filter(|_| !self.is_replaced(job)) else {
            return;
        };
        let smaller = (plan.rate * (100 - percent) / 100).max(1);
        let (grace, less) = (plan.grace, self.rates[job].saturating_sub(smaller));
        if less == 0 {
            return;
        }
        self.rates[job] = smaller;
        let until = self.now + self.random.below(grace + 1) * STEP;
        self.terminating.push((job, less, until));
        self.terminating.retain(|(.., until)| *until > self.now);
        self.notify_run(job);
    }

    /// Reports the Workload that it grows again: it is replaced, or no longer.
    fn notify_base(&mut self, job: usize) {
        let Some(base) = self.plan.jobs[job].grows.filter(|_| self.is_growth(job)) else {
            return;
        };
        if self.run(base).is_some() {
            self.notify_run(base);
        } else {
            self.notify(&Event::Ended(self.uids[base].clone(), self.now));
        }
    }

    /// Sends its pods the signal to stop, which they do within their grace period. No event reports
    /// when.
    fn terminate(&mut self, job: usize) {
        let grace = self.plan.jobs[job].grace;
        let until = self.now + self.random.below(grace + 1) * STEP;
        self.terminating.push((job, self.rates[job], until));
        self.terminating.retain(|(.., until)| *until > self.now);
    }

    fn delete(&mut self, job: usize, since: i64) {
        self.phases[job] = Phase::Over;
        self.notify(&Event::Gone(self.uids[job].clone()));
        self.releases.push((
            self.now + self.random.below(2) * STEP,
            self.uids[job].clone(),
            since,
        ));
    }
}
