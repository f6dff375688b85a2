//! Random histories: the limit holds for any events in any order.
//!
//! A history is a plan made from a seed: jobs that cost at most their estimate, and faults. A plan
//! that fails is reduced before it is shown.

mod cluster;
mod controller;
mod debug;
mod end;
mod plan;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::Uid;
use serde_json::json;

use super::*;
use crate::config::{Account, BudgetConfig};
use crate::estimate::Estimate;
use crate::money::{Amount, Rate};
pub(super) use plan::Plan;
use plan::{Random, smaller};

/// The step of time: all events occur at its multiples, so that real spend is an exact sum.
pub(super) const STEP: i64 = 300;
const START: i64 = 1_795_219_200;
const PERIOD: i64 = 12 * 3600;
/// The namespaces.
const NAMES: [&str; 2] = ["vision", "nlp"];
const STEPS: i64 = 2 * PERIOD / STEP + PERIOD / STEP / 2;

/// A change of the ledger's behaviour that a history must detect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mutant {
    None,
    /// A commitment is recorded after other runs were evaluated.
    CommitLater,
    /// Ended runs are dropped at once.
    NoTombstones,
    /// A new process does not wait until the watermark has passed its start.
    NoWait,
    /// A run counts as over when its pods get the signal to stop.
    OverWhenEvicted,
    /// The last figure counts, not the highest.
    LastFigure,
    /// A run that lost its quota without an eviction is dropped.
    NoParking,
    /// A Workload that a growth has replaced counts as over, while its pods run.
    OverWhenReplaced,
    /// A running Workload that a growth will end is set off, even if the growth may start much
    /// later.
    SetOffAnyway,
    /// A run counts as over when its quota is released, while its pods terminate.
    OverWithoutQuota,
    /// A job that shrank is counted as if it had always been as small.
    AlwaysAsSmall,
    /// Of variants that wait for other checks only one counts, as if they started at once.
    VariantsStartAtOnce,
    /// A variant that a better one ends costs nothing while its pods terminate.
    VariantsEndAtOnce,
    /// Pods whose Workload was deleted while a growth waits count as gone.
    GoneWithTheirWorkload,
}

/// The real phase of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Waiting,
    Reserved {
        since: i64,
        ready: bool,
        ready_at: i64,
    },
    Running {
        since: i64,
        at: i64,
    },
    Stopping {
        since: i64,
        at: i64,
        until: i64,
    },
    /// A growth that was evicted: it holds quota until the pods of the job are gone.
    Evicting {
        since: i64,
        ready: bool,
        until: i64,
    },
    /// It lost its quota, with or without an approval, until this time.
    Parked {
        since: i64,
        ready: bool,
        until: i64,
    },
    Over,
}

/// An event that a process observes.
#[derive(Clone, Debug)]
enum Event {
    Seen(Run),
    Ended(Uid, i64),
    Stopped(Uid, i64),
    Gone(Uid),
}

struct Process {
    ledger: BudgetLedger,
    inbox: VecDeque<(i64, Event)>,
}

/// The simulated cluster, source and processes.
pub(super) struct Model<'a> {
    plan: &'a Plan,
    terms: Arc<BudgetConfig>,
    mutant: Mutant,
    random: Random,
    now: i64,
    phases: Vec<Phase>,
    ran: Vec<i64>,
    /// The part of `ran` in earlier runs, which counts against the maximum.
    past: Vec<i64>,
    interrupted: Vec<bool>,
    /// Whether the growth was admitted, or an eviction has stopped the Workload that it grew.
    grown: Vec<bool>,
    /// The current cost of each job, in units per hour.
    rates: Vec<u32>,
    /// Whether the Workload was deleted while its pods run.
    deleted: Vec<bool>,
    /// The real spend up to the end of each step, by namespace, in billionths of the unit.
    bills: Vec<[i128; NAMES.len()]>,
    uids: Vec<Uid>,
    names: [Arc<str>; NAMES.len()],
    /// When to check invariants: those of each step are checked after one step in eight.
    check_choice: Random,
    leader: Process,
    standby: Process,
    releases: Vec<(i64, Uid, i64)>,
    /// Jobs whose pods terminate: the job, its cost, and the end.
    terminating: Vec<(usize, u32, i64)>,
    source_dead: i64,
    /// Decisions that the mutant has not recorded yet.
    late: Vec<Run>,
    pub(super) admitted: usize,
}

fn uid(job: usize) -> Uid {
    Uid::new(&format!("00000000-0000-0000-0000-{job:012x}"))
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn terms(plan: &Plan) -> Arc<BudgetConfig> {
    let spec = json!({
        "unit": "USD", "period": {"every": "12h", "anchor": time(START).to_string()}, "source": {"fixed": {}, "stalenessBound": "8h"},
        "namespaceLimits": {"default": plan.limit.to_string()},
        "pools": [{"name": "all", "limit": plan.pool.to_string(), "namespaceSelector": {}}],
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}],
        "enforcement": plan.enforcement, "admitOrder": plan.order,
    });
    Arc::new(BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap())
}

/// Returns the accounts, each with the namespaces for which it pays.
fn accounts() -> [(Account, &'static [usize]); 3] {
    [
        (Account::Namespace(NAMES[0].into()), &[0]),
        (Account::Namespace(NAMES[1].into()), &[1]),
        (Account::Pool("all".into()), &[0, 1]),
    ]
}

impl<'a> Model<'a> {
    fn new(plan: &'a Plan, mutant: Mutant) -> Self {
        let terms = terms(plan);
        let mut model = Self {
            plan,
            mutant,
            random: Random(plan.noise),
            now: START,
            phases: vec![Phase::Waiting; plan.jobs.len()],
            ran: vec![0; plan.jobs.len()],
            past: vec![0; plan.jobs.len()],
            interrupted: vec![false; plan.jobs.len()],
            grown: vec![false; plan.jobs.len()],
            rates: plan.jobs.iter().map(|job| job.rate).collect(),
            deleted: vec![false; plan.jobs.len()],
            bills: Vec::new(),
            uids: (0..plan.jobs.len()).map(uid).collect(),
            names: NAMES.map(Into::into),
            check_choice: Random(plan.noise ^ 1),
            leader: Process {
                ledger: BudgetLedger::new(Arc::clone(&terms)),
                inbox: VecDeque::new(),
            },
            standby: Process {
                ledger: BudgetLedger::new(Arc::clone(&terms)),
                inbox: VecDeque::new(),
            },
            terms,
            releases: Vec::new(),
            terminating: Vec::new(),
            source_dead: 0,
            late: Vec::new(),
            admitted: 0,
        };
        model.leader = model.process();
        model.standby = model.process();
        model
    }

    /// Returns a process that has just read the list.
    fn process(&self) -> Process {
        let mut ledger = BudgetLedger::new(Arc::clone(&self.terms));
        let labels = NAMES.map(|name| (name.to_owned(), BTreeMap::new()));
        ledger.set_namespaces(labels.into());
        ledger.set_own_limits(BTreeMap::new());
        ledger.watched_since(time(if self.mutant == Mutant::NoWait {
            0
        } else {
            self.now
        }));
        for job in 0..self.phases.len() {
            if let Some(run) = self.run(job) {
                ledger.observe_run(&run, time(self.now));
            }
        }
        Process {
            ledger,
            inbox: VecDeque::new(),
        }
    }

    /// Returns the job as the API shows it, if it has quota.
    fn run(&self, job: usize) -> Option<Run> {
        let plan = &self.plan.jobs[job];
        let replaced = self.is_replaced(job);
        if self.deleted[job] || replaced && self.mutant == Mutant::OverWhenReplaced {
            return None;
        }
        let (since, state) = match self.phases[job] {
            Phase::Reserved {
                since,
                ready: true,
                ready_at,
            } => (since, RunState::Approved(ready_at)),
            Phase::Evicting { since, ready, .. } if ready => (since, RunState::Approved(since)),
            Phase::Reserved { since, .. } | Phase::Evicting { since, .. } => {
                (since, RunState::Evaluated)
            }
            Phase::Running { since, at } | Phase::Stopping { since, at, .. } => {
                (since, RunState::Running(at))
            }
            Phase::Waiting | Phase::Parked { .. } | Phase::Over => return None,
        };
        Some(Run {
            uid: self.uids[job].clone(),
            since,
            namespace: Arc::clone(&self.names[plan.namespace]),
            priority: plan.priority,
            estimate: Estimate {
                rate: Rate::of(i128::from(self.rates[job]) * 1000, Amount::units(1), 1),
                seconds: u32::try_from((plan.longest - self.past[job]).max(0) * STEP).unwrap(),
                bounded: true,
                grace: u32::try_from(plan.grace * STEP).unwrap(),
                unpriced: None,
            },
            state,
            class: None,
            job: self.family(job),
            grows: self.is_growth(job).then(|| self.running_pods(job)),
            replaced,
        })
    }

    /// Returns the number of pods to which the growth `job` adds, as far as Workloads show it.
    fn running_pods(&self, job: usize) -> RunningPods {
        let base = self.plan.jobs[job].grows.filter(|base| self.deleted[*base]);
        let evicted = matches!(self.phases[job], Phase::Evicting { .. });
        let seen = base.is_none() || evicted || self.mutant == Mutant::GoneWithTheirWorkload;
        if seen {
            RunningPods::Known(1)
        } else {
            RunningPods::Unknown
        }
    }

    fn family(&self, job: usize) -> Option<Job> {
        let plan = &self.plan.jobs[job];
        let mut jobs = self.plan.jobs.iter();
        let has_others = jobs.any(|plan| plan.grows == Some(job) || plan.variant_of == Some(job));
        let first = plan.grows.or(plan.variant_of);
        let first = first.or_else(|| has_others.then_some(job))?;
        let is_variant = self.is_variant(job);
        let pretends = match self.mutant {
            Mutant::SetOffAnyway => !is_variant,
            Mutant::VariantsStartAtOnce => is_variant,
            _ => false,
        };
        Some(Job {
            key: self.uids[first].clone(),
            is_variant,
            starts_at_once: plan.admitted_after == 0 || pretends,
        })
    }

    fn is_variant(&self, job: usize) -> bool {
        self.plan.is_variant(job)
    }

    /// Returns the other variants of the job of `job`.
    fn siblings(&self, job: usize) -> Vec<usize> {
        if !self.is_variant(job) {
            return Vec::new();
        }
        let first = |job: usize| self.plan.jobs[job].variant_of.unwrap_or(job);
        let others = (0..self.phases.len()).filter(|other| *other != job);
        others.filter(|other| first(*other) == first(job)).collect()
    }

    /// Returns true if it requests more for a running job.
    fn is_growth(&self, job: usize) -> bool {
        self.plan.jobs[job].grows.is_some() && !self.grown[job]
    }

    /// Returns the growth of `job` that has quota and was not admitted.
    fn growth_of(&self, job: usize) -> Option<usize> {
        let mut growths = (0..self.phases.len())
            .filter(|growth| self.plan.jobs[*growth].grows == Some(job) && !self.grown[*growth]);
        growths.find(|growth| {
            matches!(
                self.phases[*growth],
                Phase::Reserved { .. } | Phase::Evicting { .. } | Phase::Parked { .. }
            )
        })
    }

    fn is_replaced(&self, job: usize) -> bool {
        self.growth_of(job).is_some()
    }

    fn notify(&mut self, event: &Event) {
        let delays = [self.random.below(2), self.random.below(3)];
        for (process, delay) in [&mut self.leader, &mut self.standby]
            .into_iter()
            .zip(delays)
        {
            let due = process
                .inbox
                .back()
                .map_or(0, |(due, _)| *due)
                .max(self.now + delay * STEP);
            process.inbox.push_back((due, event.clone()));
        }
    }

    fn notify_run(&mut self, job: usize) {
        if let Some(run) = self.run(job) {
            self.notify(&Event::Seen(run));
        }
    }

    /// Returns the real spend of `namespaces` in the steps from `from` to `to`, rounded down.
    fn spent(&self, namespaces: &[usize], from: i64, to: i64) -> i128 {
        let until = |second: i64| {
            let steps = usize::try_from(((second - START) / STEP).max(0)).unwrap();
            let bills = steps.min(self.bills.len()).checked_sub(1)?;
            Some(self.bills[bills])
        };
        let (before, after) = (
            until(from).unwrap_or_default(),
            until(to).unwrap_or_default(),
        );
        let spent = namespaces.iter().map(|name| after[*name] - before[*name]);
        spent.sum::<i128>() / 1000
    }

    fn job_of(&self, uid: &Uid) -> usize {
        self.uids.iter().position(|known| known == uid).unwrap()
    }
}

fn take(ledger: &mut BudgetLedger, event: &Event, now: Timestamp, mutant: Mutant, closely: bool) {
    match event {
        Event::Seen(run) => {
            let known = ledger.live.get_mut(&run.uid);
            if let Some(known) = known.filter(|_| mutant == Mutant::AlwaysAsSmall) {
                known.claim.rate = run.estimate.rate;
            }
            ledger.observe_run(run, now);
            if !closely {
                return;
            }
            let before = ledger.clone();
            ledger.observe_run(run, now);
            let period = ledger.period(now).unwrap();
            for (account, _) in accounts() {
                assert_eq!(
                    before.balance(&account, period, now),
                    ledger.balance(&account, period, now),
                    "seen twice is seen once"
                );
            }
        }
        Event::Ended(uid, at) => ledger.finished(uid, *at),
        Event::Stopped(uid, at) if mutant == Mutant::OverWithoutQuota => ledger.finished(uid, *at),
        Event::Stopped(uid, at) => ledger.stop(uid, *at),
        Event::Gone(uid) => {
            ledger.quota_lost(uid, now.as_second());
            if mutant == Mutant::NoParking {
                ledger.drop_suspended(uid);
            }
        }
    }
}

/// Returns by how much a limit was exceeded in the history of `plan`, and how many jobs started.
pub(super) fn run(plan: &Plan, mutant: Mutant) -> (i128, usize) {
    let mut model = Model::new(plan, mutant);
    for _ in 0..STEPS {
        model.cluster();
        let fault = model.faults();
        model.receive();
        model.source(fault);
        model.decide(fault);
    }
    let (over, admitted) = (model.over(), model.admitted);
    if mutant == Mutant::None {
        model.rebuilt_is_the_same();
        model.nothing_leaks();
    }
    (over, admitted)
}

/// Returns the number of histories: 2,000, or the value of `BUDGET_CHECK_HISTORIES`.
fn histories() -> u64 {
    std::env::var("BUDGET_CHECK_HISTORIES")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(2_000)
}

/// Returns the result of `run` for each seed below `seeds`, on all cores.
fn of_seeds<T: Send>(seeds: u64, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..cores)
            .map(|core| {
                let own = (core..seeds).step_by(usize::try_from(cores).unwrap());
                scope.spawn(move || own.map(run).collect::<Vec<T>>())
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn no_history_passes_a_limit() {
    let started: usize = of_seeds(histories(), |seed| {
        let plan = Plan::random(seed);
        let (over, started) = run(&plan, Mutant::None);
        if over > 0 {
            let plan = smaller(plan, &|plan| run(plan, Mutant::None).0 > 0);
            let (over, _) = run(&plan, Mutant::None);
            panic!("seed {seed}: a limit was passed by {over} millionths: {plan:#?}");
        }
        started
    })
    .into_iter()
    .sum();
    println!("{} histories, {started} jobs started", histories());
    assert!(
        started > usize::try_from(histories()).unwrap() * 5,
        "jobs do start: {started}"
    );
}

#[test]
fn relaxed_passes_a_limit_by_at_most_one_estimate() {
    let mut passed = 0;
    for seed in 0..histories() / 10 {
        let plan = Plan::random(seed).relaxed();
        let (over, _) = run(&plan, Mutant::None);
        let largest = plan
            .jobs
            .iter()
            .map(|job| {
                let longest = (job.longest + job.grace) * STEP;
                i128::from(job.rate) * i128::from(longest) * 1_000_000 / 3600
            })
            .max();
        assert!(
            over <= largest.unwrap_or(0) + 10,
            "seed {seed}: {over} millionths, of {largest:?}"
        );
        passed += usize::from(over > 0);
    }
    assert!(passed > 0, "or this shows nothing");
}
