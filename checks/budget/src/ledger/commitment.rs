//! Commitments: what approved jobs may still spend. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use kueue_check::api::Uid;

use crate::money::{Amount, Rate, Spending};
use crate::period::Period;

/// One run's claim on money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commitment {
    /// The namespace that pays.
    pub namespace: Arc<str>,
    /// What it spends in an hour.
    pub rate: Rate,
    /// For how many seconds it is expected to.
    pub seconds: u32,
    /// Whether Kueue ends it then.
    pub bounded: bool,
    /// For how many seconds more its pods may spend after the signal to stop.
    pub grace: u32,
    /// How far it is.
    pub state: CommitmentState,
    /// The job, if it may have several Workloads.
    pub job: Option<Box<Job>>,
}

/// A job that may have several Workloads.
///
/// What its Workloads claim together is not the sum: a growth of an elastic job, and a variant that
/// takes the place of another one, end what runs when they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The key of its [`Family`](kueue_check::Family).
    pub key: Uid,
    /// Whether the Workload is a variant, of which only one starts.
    pub is_variant: bool,
    /// Whether it starts as soon as it is approved here: no check of another Budget or controller
    /// is awaited.
    pub starts_at_once: bool,
}

/// How far a claim's run is. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitmentState {
    /// It may start at any moment, and may have started at any since then without our having seen
    /// it.
    Approved(i64),
    /// It runs since then.
    Running(i64),
    /// It ran from then on for so many seconds at most, and that is not all known to the source
    /// yet.
    Ended(i64, u32),
}

/// Up to when spending is known, of each namespace. Seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Of every namespace that is not named; `None` while nothing is known.
    pub common: Option<i64>,
    /// Of those of which the last answers were unusable.
    pub behind: BTreeMap<Arc<str>, i64>,
}

impl Watermarks {
    /// That of `namespace`.
    pub fn of(&self, namespace: &str) -> Option<i64> {
        self.behind.get(namespace).copied().or(self.common)
    }
}

/// What is committed, by what kind of claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// By runs that go on.
    pub running: Amount,
    /// By those that may start.
    pub reserved: Amount,
    /// By those that have ended.
    pub settling: Amount,
    /// How many run or may start.
    pub jobs: u32,
    /// What those without a limit spend in an hour.
    pub unbounded: Amount,
    /// What all that run spend in an hour.
    pub rate: Rate,
}

impl Committed {
    /// All of it.
    pub fn total(&self) -> Amount {
        self.running + self.reserved + self.settling
    }
}

impl Commitment {
    /// For how many seconds it may spend, from its start.
    pub fn longest(&self) -> i64 {
        i64::from(self.seconds) + i64::from(self.grace)
    }

    /// When it is expected to spend, from and to, seen at `now`.
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

    /// What of `seconds` that it claims it spends, if it started as soon as it was approved and ends
    /// now.
    fn begun(&self, seconds: i64, now: i64) -> Amount {
        let since = match self.state {
            CommitmentState::Approved(since) => since,
            CommitmentState::Running(_) | CommitmentState::Ended(..) => now,
        };
        let ran = now - since + i64::from(self.grace);
        self.rate.cost(ran.clamp(0, seconds))
    }

    /// For how many seconds it claims money of `period` beyond the watermark.
    fn seconds_in(&self, period: Period, watermark: Option<i64>, now: i64, overrun: i64) -> i64 {
        let longest = self.longest();
        if matches!(self.state, CommitmentState::Approved(_)) && period.start.as_second() > now {
            // It may start as late as that.
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

/// What `claims` may still spend in `period`, seen at `now`.
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
            // The pods of a variant terminate; those that a growth adds to are its own.
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

/// What the Workloads of one job claim.
#[derive(Default)]
struct OfJob {
    /// What of each that runs is not spent if another one starts now.
    running: Vec<Amount>,
    /// What the variants that start at once spend if they have started and end now.
    begun: Amount,
    /// The largest of what they may spend beyond it: a better one ends what runs.
    variant: Amount,
    /// All else that may start: growths, of which Kueue finishes the one that another one has
    /// replaced, so that a job that is what it says has one; and variants for which another check
    /// is awaited, because each may start when the others have spent their whole claim.
    others: Amount,
    /// Whether one of those does not start as soon as it is approved here.
    waits: bool,
}

impl OfJob {
    /// What is claimed beyond what runs. That ends when another one starts; but if that may be any
    /// time later, what runs may have spent all of its claim by then. With several that run it is
    /// not known which ends, and none is set off.
    fn reserved(&self) -> Amount {
        let ends = match *self.running.as_slice() {
            [one] if !self.waits => one,
            _ => Amount::ZERO,
        };
        (self.begun + self.variant + self.others).less(ends)
    }
}
