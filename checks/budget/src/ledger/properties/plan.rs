//! Plans of histories: the jobs, and the events injected into them.

use super::STEPS;

/// A random number generator: splitmix64.
pub(in crate::ledger) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    pub(super) fn one_in(&mut self, n: i64) -> bool {
        self.below(n) == 0
    }
}

/// A job, and the events injected into it.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) submitted: i64,
    /// An index of [`NAMES`](super::NAMES).
    pub(super) namespace: usize,
    pub(super) priority: i32,
    /// The estimated units per hour, and the real part of them in percent.
    pub(super) rate: u32,
    pub(super) real_percent: i64,
    /// The estimated and the real duration, in steps.
    pub(super) longest: i64,
    pub(super) real: i64,
    /// An injected event, and its number of steps after the quota reservation.
    pub(super) injected: Option<(i64, Injected)>,
    /// The time that Kueue takes to admit it.
    pub(super) admitted_after: i64,
    /// The job that it is a growth of. It requests quota once that job runs, with the quota of that
    /// job, and ends it when it is admitted.
    pub(super) grows: Option<usize>,
    /// The job of which it is a variant: one of them runs, and ends when a later one is admitted.
    pub(super) variant_of: Option<usize>,
    /// The number of steps after its start when it is scaled down, and by how many percent.
    pub(super) shrinks: Option<(i64, u32)>,
    /// The number of steps after its quota reservation when the Workload that it grows is deleted.
    pub(super) retention: Option<i64>,
    /// The grace period of its pods, in steps.
    pub(super) grace: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Injected {
    Evicted,
    QuotaLost,
    Deleted,
}

/// A fault of the controller or the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The leader dies, and a process without any data takes over.
    Crash,
    /// The standby takes over.
    Failover,
    /// The source is down for this many steps.
    SourceDead(i64),
    /// The source reports less than before.
    Less,
    /// The source reports nonsense for one namespace.
    Nonsense,
    /// The local clock is off by this many steps, for one step.
    Clock(i64),
}

#[derive(Clone, Debug)]
pub(in crate::ledger) struct Plan {
    pub(super) limit: u32,
    pub(super) pool: u32,
    pub(super) lag: i64,
    pub(super) jobs: Vec<Job>,
    pub(super) faults: Vec<(i64, Fault)>,
    pub(super) enforcement: &'static str,
    pub(super) order: &'static str,
    /// The seed of everything outside the plan: lost writes, delays of events.
    pub(super) noise: u64,
}

impl Plan {
    pub(in crate::ledger) fn random(seed: u64) -> Self {
        let mut random = Random(seed);
        let stress = random.one_in(3);
        let lag = if stress {
            12 + random.below(7)
        } else {
            1 + random.below(6)
        };
        let burst = random.below(STEPS / 2);
        let jobs: Vec<Job> = (0..12 + random.below(30))
            .map(|_| Self::job(&mut random, burst))
            .collect();
        let jobs = Self::with_growths(&mut random, jobs);
        let mut jobs = Self::with_variants(&mut random, jobs);
        let faults = (0..random.below(if stress { 10 } else { 4 })).map(|_| {
            let at = random.below(STEPS);
            let fault = match random.below(8) {
                0..=2 => Fault::Crash,
                3 => Fault::Failover,
                4 => Fault::SourceDead(1 + random.below(40)),
                5 => Fault::Less,
                6 => Fault::Nonsense,
                _ => Fault::Clock(1 - 2 * random.below(2)),
            };
            (at, fault)
        });
        let mut faults: Vec<(i64, Fault)> = faults.collect();
        // The amount that a variant may have spent before a better one ended it depends on the
        // clock.
        if jobs.iter().any(|job| job.variant_of.is_some()) {
            faults.retain(|(_, fault)| !matches!(fault, Fault::Clock(_)));
        }
        // A process that starts has no record of terminating pods until the source reports them.
        let begun = |(_, fault): &&(i64, Fault)| matches!(fault, Fault::Crash | Fault::Failover);
        if faults.iter().filter(begun).count() == 0 {
            for job in &mut jobs {
                job.grace = random.below(3) * random.below(20);
            }
            for growth in 0..jobs.len() {
                if let Some(base) = jobs[growth].grows {
                    jobs[growth].grace = jobs[base].grace;
                }
            }
        }
        Self {
            limit: 60 + u32::try_from(random.below(200)).unwrap(),
            pool: 100 + u32::try_from(random.below(300)).unwrap(),
            lag,
            faults,
            jobs,
            enforcement: "Strict",
            order: if random.one_in(3) {
                "Strict"
            } else {
                "Backfill"
            },
            noise: random.next(),
        }
    }

    fn job(random: &mut Random, burst: i64) -> Job {
        let longest = 1 + random.below(60);
        let injected = random.one_in(3).then(|| {
            let what = match random.below(3) {
                0 => Injected::Evicted,
                1 => Injected::QuotaLost,
                _ => Injected::Deleted,
            };
            (random.below(30), what)
        });
        Job {
            submitted: if random.one_in(2) {
                burst
            } else {
                random.below(STEPS)
            },
            namespace: usize::from(random.one_in(3)),
            priority: i32::try_from(random.below(3)).unwrap(),
            rate: 1 + u32::try_from(random.below(30)).unwrap(),
            real_percent: if random.one_in(2) {
                100
            } else {
                30 + random.below(71)
            },
            longest,
            real: if random.one_in(3) {
                longest
            } else {
                1 + random.below(longest)
            },
            injected,
            admitted_after: random.below(4),
            grows: None,
            variant_of: None,
            shrinks: random.one_in(4).then(|| {
                (
                    random.below(20),
                    10 + u32::try_from(random.below(90)).unwrap(),
                )
            }),
            retention: random.one_in(3).then(|| random.below(10)),
            grace: 0,
        }
    }

    /// Makes some of `jobs` growths of earlier ones, of which none grows twice.
    fn with_growths(random: &mut Random, mut jobs: Vec<Job>) -> Vec<Job> {
        for growth in 1..jobs.len() {
            let base = usize::try_from(random.below(i64::try_from(growth).unwrap())).unwrap();
            let grown = jobs.iter().any(|job| job.grows == Some(base));
            if !random.one_in(4) || grown || jobs[base].grows.is_some() {
                continue;
            }
            let (namespace, rate) = (jobs[base].namespace, jobs[base].rate);
            let longest = jobs[base].longest;
            let job = &mut jobs[growth];
            // It belongs to the same job, and restarts its time.
            job.longest = job.longest.max(longest);
            job.grows = Some(base);
            job.namespace = namespace;
            job.rate += rate;
            job.admitted_after = (job.admitted_after - 1).max(0);
        }
        jobs
    }

    /// Makes some of `jobs` variants of earlier ones.
    fn with_variants(random: &mut Random, mut jobs: Vec<Job>) -> Vec<Job> {
        for variant in 1..jobs.len() {
            let first = usize::try_from(random.below(i64::try_from(variant).unwrap())).unwrap();
            let grows = |job: usize| {
                jobs[job].grows.is_some() || jobs.iter().any(|other| other.grows == Some(job))
            };
            let is_first = jobs[first].variant_of.is_none();
            let has_others = jobs.iter().any(|job| job.variant_of == Some(variant));
            if !random.one_in(4) || !is_first || has_others || grows(variant) || grows(first) {
                continue;
            }
            let (namespace, submitted) = (jobs[first].namespace, jobs[first].submitted);
            let delay = random.below(2) * random.below(12);
            let job = &mut jobs[variant];
            job.variant_of = Some(first);
            (job.namespace, job.submitted) = (namespace, submitted + delay);
            for job in [first, variant] {
                // Another check may delay the admission.
                jobs[job].admitted_after = if random.one_in(3) {
                    random.below(20)
                } else {
                    0
                };
                jobs[job].injected = jobs[job]
                    .injected
                    .filter(|(_, injected)| *injected != Injected::Deleted);
            }
        }
        jobs
    }

    pub(super) fn is_variant(&self, job: usize) -> bool {
        let mut jobs = self.jobs.iter();
        self.jobs[job].variant_of.is_some() || jobs.any(|other| other.variant_of == Some(job))
    }

    pub(super) fn relaxed(mut self) -> Self {
        self.enforcement = "Relaxed";
        self
    }

    fn without_job(&self, at: usize) -> Self {
        let mut plan = self.clone();
        plan.jobs.remove(at);
        let moved = |job: Option<usize>| match job {
            Some(base) if base == at => None,
            Some(base) if base > at => Some(base - 1),
            base => base,
        };
        for job in &mut plan.jobs {
            job.grows = moved(job.grows);
            job.variant_of = moved(job.variant_of);
        }
        plan
    }

    fn without_fault(&self, at: usize) -> Self {
        let mut plan = self.clone();
        plan.faults.remove(at);
        plan
    }
}

/// Returns the smallest plan that still fails, of those with fewer jobs and faults.
pub(super) fn smaller(plan: Plan, fails: &dyn Fn(&Plan) -> bool) -> Plan {
    let mut plan = plan;
    'again: loop {
        let jobs = (0..plan.jobs.len()).map(|at| plan.without_job(at));
        let faults = (0..plan.faults.len()).map(|at| plan.without_fault(at));
        for candidate in jobs.chain(faults) {
            if fails(&candidate) {
                plan = candidate;
                continue 'again;
            }
        }
        return plan;
    }
}
