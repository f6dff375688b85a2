//! Commitments: the amounts that approved jobs may still spend, as pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use kueue_check::api::Uid;

use crate::money::{Amount, Rate, Spending};
use crate::period::Period;

/// The commitment of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commitment {
    /// The namespace that pays.
    pub namespace: Arc<str>,
    /// The cost per hour.
    pub rate: Rate,
    /// The expected duration, in seconds.
    pub seconds: u32,
    /// Whether Kueue enforces the duration.
    pub bounded: bool,
    /// The termination grace period of its pods, in seconds.
    pub grace: u32,
    /// The state of its run.
    pub state: CommitmentState,
    /// The job, if it may have several Workloads.
    pub job: Option<Box<Job>>,
}

/// A job that may have several Workloads.
///
/// The commitment of a job is not the sum of those of its Workloads. A growth of an elastic job,
/// and a variant that replaces another one, end the running Workload when they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The key of its [`Family`](kueue_check::Family).
    pub key: Uid,
    /// Whether the Workload is a variant, of which only one starts.
    pub is_variant: bool,
    /// Whether it starts as soon as this check approves it: no check of another Budget or
    /// controller is pending.
    pub starts_at_once: bool,
}

/// The state of a commitment's run. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitmentState {
    /// It may start at any moment, and may have started unobserved at any moment since this time.
    Approved(i64),
    /// It has been running since this time.
    Running(i64),
    /// It ran since this time for at most this many seconds. The source has not reported all of it
    /// yet.
    Ended(i64, u32),
}

/// Watermarks: the times up to which spend is known, by namespace, in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// The watermark of every namespace that is not in `behind`; `None` while nothing is known.
    pub common: Option<i64>,
    /// The watermarks of namespaces whose last figures were unusable.
    pub behind: BTreeMap<Arc<str>, i64>,
}

impl Watermarks {
    /// Returns the watermark of `namespace`.
    pub fn of(&self, namespace: &str) -> Option<i64> {
        self.behind.get(namespace).copied().or(self.common)
    }
}

/// Committed amounts, by the state of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// By jobs that run.
    pub running: Amount,
    /// By jobs that may start.
    pub reserved: Amount,
    /// By jobs that have ended.
    pub settling: Amount,
    /// The number of jobs that run or may start.
    pub jobs: u32,
    /// The hourly cost of running jobs without a maximum execution time.
    pub unbounded: Amount,
    /// The rate of all running jobs.
    pub rate: Rate,
}

impl Committed {
    /// Returns the total.
    pub fn total(&self) -> Amount {
        self.running + self.reserved + self.settling
    }
}

impl Commitment {
    /// Returns the seconds for which it may spend, from its start.
    pub fn longest(&self) -> i64 {
        i64::from(self.seconds) + i64::from(self.grace)
    }

    /// Returns the expected start and end of its spending, evaluated at `now`.
    pub fn window(&self, now: i64, overrun: i64) -> (i64, i64) {
        let (length, grace) = (i64::from(self.seconds), i64::from(self.grace));
        match self.state {
            CommitmentState::Approved(since) => (since.min(now), now + length + grace),
            CommitmentState::Running(since) => {
                let end = since + length;
                let late = if self.bounded { now } else { now + overrun };
                (since, grace + if now < end { end } else { late })
            }
            CommitmentState::Ended(since, ran) => (since, since + i64::from(ran)),
        }
    }

    /// Returns the cost of the part of `seconds` that is spent if the run started when it was
    /// approved and ends now.
    fn begun(&self, seconds: i64, now: i64) -> Amount {
        let since = match self.state {
            CommitmentState::Approved(since) => since,
            CommitmentState::Running(_) | CommitmentState::Ended(..) => now,
        };
        let ran = now - since + i64::from(self.grace);
        self.rate.cost(ran.clamp(0, seconds))
    }

    /// Returns the seconds of `period` beyond the watermark that it commits.
    fn seconds_in(&self, period: Period, watermark: Option<i64>, now: i64, overrun: i64) -> i64 {
        let longest = self.longest();
        if matches!(self.state, CommitmentState::Approved(_)) && period.start.as_second() > now {
            // It may start as late as in that period.
            return longest.min(period.end.as_second() - period.start.as_second());
        }
        let (start, end) = self.window(now, overrun);
        let known = watermark.unwrap_or(i64::MIN).max(period.start.as_second());
        let seconds = end.min(period.end.as_second()) - start.max(known);
        if matches!(self.state, CommitmentState::Approved(_)) {
            seconds.min(longest)
        } else {
            seconds
        }
    }
}

/// Returns the amounts that `claims` may still spend in `period`, evaluated at `now`.
pub fn committed<'a>(
    claims: impl Iterator<Item = &'a Commitment>,
    period: Period,
    watermarks: &Watermarks,
    now: i64,
    overrun: i64,
) -> Committed {
    let (mut running, mut reserved, mut settling) = (
        Spending::default(),
        Spending::default(),
        Spending::default(),
    );
    let mut jobs: BTreeMap<&Uid, OfJob> = BTreeMap::new();
    let mut sum = Committed::default();
    let mut unbounded = Rate::ZERO;
    for claim in claims {
        let seconds = claim
            .seconds_in(period, watermarks.of(&claim.namespace), now, overrun)
            .max(0);
        if let CommitmentState::Ended(..) = claim.state {
            settling = settling.and(claim.rate, seconds);
            continue;
        }
        let runs = matches!(claim.state, CommitmentState::Running(_));
        if runs {
            running = running.and(claim.rate, seconds);
            sum.rate = sum.rate + claim.rate;
            if !claim.bounded {
                unbounded = unbounded + claim.rate;
            }
        }
        let Some(job) = &claim.job else {
            sum.jobs = sum.jobs.saturating_add(1);
            if !runs {
                reserved = reserved.and(claim.rate, seconds);
            }
            continue;
        };
        let of_job = jobs.entry(&job.key).or_default();
        let cost = claim.rate.cost(seconds);
        if runs {
            let from_now = claim.seconds_in(period, Some(now), now, overrun);
            // The pods of a variant terminate. The pods to which a growth adds become its own.
            let grace = if job.is_variant { claim.grace } else { 0 };
            let ends = (from_now - i64::from(grace)).max(0);
            of_job.running.push(claim.rate.cost(ends));
            continue;
        }
        of_job.waits |= !job.starts_at_once;
        if job.is_variant && job.starts_at_once {
            let begun = claim.begun(seconds, now);
            of_job.begun = of_job.begun + begun;
            of_job.variant = of_job.variant.max(cost.less(begun));
        } else {
            of_job.others = of_job.others + cost;
        }
    }
    sum.jobs = sum
        .jobs
        .saturating_add(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
    let of_jobs: Amount = jobs.values().map(OfJob::reserved).sum();
    Committed {
        running: running.total(),
        reserved: reserved.total() + of_jobs,
        settling: settling.total(),
        unbounded: unbounded.per_hour(),
        ..sum
    }
}

/// The commitments of the Workloads of one job.
#[derive(Default)]
struct OfJob {
    /// For each running Workload, the amount that is not spent if another one starts now.
    running: Vec<Amount>,
    /// The cost of the variants that start at once, if they have started and end now.
    begun: Amount,
    /// The largest amount that one of them may spend beyond it: a better variant ends the running
    /// one.
    variant: Amount,
    /// The amounts of all others that may start: growths, and variants for which another check is
    /// pending. Kueue finishes a growth that another one has replaced, so a correctly annotated job
    /// has one. Each of these variants may start when the others have spent their whole commitment.
    others: Amount,
    /// Whether one of those does not start as soon as this check approves it.
    waits: bool,
}

impl OfJob {
    /// Returns the amount committed beyond the running Workload, which ends when another one
    /// starts.
    ///
    /// If that may be any time later, the running Workload may have spent its whole commitment by
    /// then. If several Workloads run, it is unknown which one ends. In both cases none is set off.
    fn reserved(&self) -> Amount {
        let ends = match *self.running.as_slice() {
            [one] if !self.waits => one,
            _ => Amount::ZERO,
        };
        (self.begun + self.variant + self.others).less(ends)
    }
}
