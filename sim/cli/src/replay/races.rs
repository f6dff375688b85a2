//! Outcomes of Kueue's races, which vary from run to run of the same requests.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use kueue_check_sim::kueue::KueueVersion;

use super::Replay;

/// The maximum number of steps of Kueue before a request that follows another at once.
const STEPS_BETWEEN: u64 = 12;

/// Delays of the start against that of the trace, in milliseconds. A request sent at the end of a
/// delay comes before or after that end.
const SHIFTS: [i64; 2] = [-300, 300];

/// The Workloads that miss a change of their ClusterQueue: all, then smaller sets of the first three.
const MISSES: [u8; 7] = [u8::MAX, 1, 2, 3, 4, 5, 6];

/// The numbers of changes after which the scheduler may write.
const LATES: [u8; 3] = [1, 2, u8::MAX];

/// The delays of each step of Kueue's own controllers and of those of jobs, in milliseconds. Either
/// act when the others have done all that they can, or those of jobs are a step behind.
const LAGS: [[u64; 2]; 3] = [[0, 1], [1, 0], [2, 3]];

/// The delays, and the sets of Workloads, that are tried in the step with the first difference.
const ALL_LAGS: [u64; 4] = [0, 1, 2, 3];
const ALL_MISSES: std::ops::Range<u8> = 1..128;

const SLOW: u16 = 1;
const QUICK: u16 = 2;
const HASTY: u16 = 4;
const NAMELESS: u16 = 8;
const REVERSED: u16 = 16;
const REPLACEMENT: u16 = 32;
const RETRIES: u16 = 64;
const PUT_BACK: u16 = 128;
const EVICTIONS: u16 = 256;

/// The outcomes of all races of a replay. A race may have one outcome in one step and another in
/// the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Races {
    /// The delay of the start against that of the trace.
    pub(super) shift: SignedDuration,
    of_all: Outcome,
    /// The outcomes in single steps, by their numbers, instead of `of_all`.
    of_steps: BTreeMap<usize, Outcome>,
}

/// One outcome of the races.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// One of [`LAGS`], or none.
    pub(super) lags: [u64; 2],
    /// The number of steps of Kueue before a request that follows another at once, if not all.
    pub(super) steps_between: Option<u64>,
    /// Whether these are for all requests of a step together: Kueue finds the first one done, and
    /// next all of them.
    pub(super) in_total: bool,
    /// [`KueueVersion::misses_stop`].
    misses_stop: u8,
    /// [`KueueVersion::late_scheduler`].
    late_scheduler: u8,
    /// The other switches of [`KueueVersion`] that are races: [`SLOW`], [`QUICK`], [`HASTY`],
    /// [`NAMELESS`], [`REVERSED`], [`REPLACEMENT`], [`RETRIES`], [`PUT_BACK`] and [`EVICTIONS`].
    bits: u16,
}

impl Outcome {
    const fn bits(bits: u16) -> Self {
        Self {
            bits,
            misses_stop: 0,
            late_scheduler: 0,
            lags: [0; 2],
            steps_between: None,
            in_total: false,
        }
    }

    fn misses(misses_stop: u8, bits: u16) -> Self {
        Self {
            misses_stop,
            ..Self::bits(bits)
        }
    }

    fn late(changes: u8) -> Self {
        Self {
            late_scheduler: changes,
            ..Self::default()
        }
    }

    fn lags(lags: [u64; 2]) -> Self {
        Self {
            lags,
            ..Self::default()
        }
    }

    fn hasty(steps_between: u64, bits: u16) -> Self {
        Self {
            steps_between: Some(steps_between),
            ..Self::bits(bits)
        }
    }

    fn hasty_in_total(steps: u64) -> Self {
        Self {
            in_total: true,
            ..Self::hasty(steps, 0)
        }
    }

    /// Returns the version with the switches of this outcome.
    pub(super) fn version(self, known: KueueVersion) -> KueueVersion {
        let has = |bit: u16| self.bits & bit != 0;
        KueueVersion {
            misses_stop: self.misses_stop ^ known.misses_stop,
            slow_scheduler: has(SLOW) ^ known.slow_scheduler,
            quick_scheduler: has(QUICK) ^ known.quick_scheduler,
            late_scheduler: self.late_scheduler ^ known.late_scheduler,
            late_replacement: has(REPLACEMENT) ^ known.late_replacement,
            slow_retries: has(RETRIES) ^ known.slow_retries,
            requeues_inactive: has(PUT_BACK) ^ known.requeues_inactive,
            nameless_queue: has(NAMELESS) ^ known.nameless_queue,
            hasty_variants: has(HASTY) ^ known.hasty_variants,
            reversed_ties: has(REVERSED) ^ known.reversed_ties,
            reversed_evictions: has(EVICTIONS) ^ known.reversed_evictions,
            ..known
        }
    }
}

impl Races {
    pub(super) fn of_all(&self) -> Outcome {
        self.of_all
    }

    pub(super) fn of_step(&self, step: usize) -> Outcome {
        self.of_steps.get(&step).copied().unwrap_or(self.of_all)
    }

    fn with_all(&self, of_all: Outcome) -> Self {
        Self {
            of_all,
            ..self.clone()
        }
    }

    fn with_step(&self, step: usize, outcome: Outcome) -> Self {
        let mut races = self.clone();
        races.of_steps.insert(step, outcome);
        races
    }

    /// Returns these races with each of the outcomes in a step that is not its outcome, once.
    fn others_of_step(&self, step: usize, outcomes: Vec<Outcome>) -> Vec<Self> {
        let mut tried = vec![self.of_step(step)];
        let mut others = Vec::new();
        for outcome in outcomes {
            if !tried.contains(&outcome) {
                tried.push(outcome);
                others.push(self.with_step(step, outcome));
            }
        }
        others
    }
}

impl Replay {
    /// Returns the races with one other outcome than `races` in the step with the first difference,
    /// or in one that follows it at once.
    pub(super) fn races_near(&self, races: &Races, first: usize) -> Vec<Races> {
        let near = first..self.end_of_run(first);
        let others = near.flat_map(|step| races.others_of_step(step, self.outcomes_near(step)));
        others.collect()
    }

    /// Returns the number of the step after the run of steps that follow `first` at once.
    fn end_of_run(&self, first: usize) -> usize {
        let count = self.trace.steps.len();
        let next = (first.saturating_add(1)..count).find(|step| !self.trace.follows_at_once(*step));
        next.unwrap_or(count)
    }

    /// Returns the races with one other outcome than `races`: in all steps, of the timers, or in a
    /// step before the first difference.
    pub(super) fn races_before(&self, races: &Races, first: usize) -> Vec<Races> {
        let all = self.outcomes().into_iter();
        let all = all.filter(|outcome| *outcome != races.of_all);
        let mut others: Vec<Races> = all.map(|outcome| races.with_all(outcome)).collect();
        if self.trace.has_timers() {
            for shift in SHIFTS.map(SignedDuration::from_millis) {
                for bits in [0, QUICK] {
                    let of_all = Outcome::bits(bits);
                    others.push(Races {
                        shift,
                        ..races.with_all(of_all)
                    });
                }
            }
        }
        for step in 0..first.min(self.trace.steps.len()) {
            others.extend(races.others_of_step(step, self.outcomes_of_step(step)));
        }
        others
    }

    /// Returns the outcomes that may hold for all steps.
    fn outcomes(&self) -> Vec<Outcome> {
        let hasty = if self.version.concurrent_admission {
            HASTY
        } else {
            0
        };
        let mut all = Vec::new();
        for misses_stop in [0, u8::MAX] {
            all.extend((0..=SLOW | QUICK | hasty).map(|bits| Outcome::misses(misses_stop, bits)));
        }
        all.extend(MISSES[1..].iter().map(|some| Outcome::misses(*some, 0)));
        all.extend(MISSES.map(|misses_stop| Outcome::misses(misses_stop, NAMELESS)));
        all.extend(LAGS.map(Outcome::lags));
        if self.trace.has_elastic_jobs() {
            all.push(Outcome::bits(REPLACEMENT));
        }
        if self.trace.is_hasty() {
            for steps in 0..=STEPS_BETWEEN {
                let bits = [0, QUICK, REVERSED, REVERSED | QUICK];
                all.extend(bits.map(|bits| Outcome::hasty(steps, bits)));
            }
            all.extend([REVERSED, REVERSED | QUICK].map(Outcome::bits));
        }
        all.extend(self.outcomes_of_writes());
        all
    }

    /// Returns the outcomes of the scheduler's writes, and before 0.18 of its retries.
    fn outcomes_of_writes(&self) -> impl Iterator<Item = Outcome> {
        let retries: &[u16] = if self.version.counts_messages {
            &[RETRIES, PUT_BACK]
        } else {
            &[]
        };
        let late = LATES.into_iter().map(Outcome::late);
        late.chain(retries.iter().copied().map(Outcome::bits))
    }

    /// Returns the outcomes that are tried in the step with the first difference.
    fn outcomes_near(&self, step: usize) -> Vec<Outcome> {
        let mut all = self.outcomes_of_step(step);
        let calls = &self.trace.steps[step].calls;
        if calls.iter().any(|call| call.path.contains("queues")) {
            for misses_stop in ALL_MISSES {
                all.extend([0, NAMELESS].map(|bits| Outcome::misses(misses_stop, bits)));
            }
        }
        if self.trace.is_followed(step) {
            for steps in 0..=STEPS_BETWEEN {
                all.extend(LATES.map(|late_scheduler| Outcome {
                    late_scheduler,
                    ..Outcome::hasty(steps, 0)
                }));
            }
        }
        let mut of_scheduler = vec![0, QUICK, SLOW];
        if self.trace.preempts_several(step) {
            of_scheduler.extend([EVICTIONS, EVICTIONS | QUICK, EVICTIONS | SLOW]);
        }
        for bits in of_scheduler {
            for of_kueue in ALL_LAGS {
                all.extend(ALL_LAGS.map(|of_jobs| Outcome {
                    lags: [of_kueue, of_jobs],
                    ..Outcome::bits(bits)
                }));
            }
            all.extend(LATES.map(|late_scheduler| Outcome {
                late_scheduler,
                ..Outcome::bits(bits)
            }));
        }
        all
    }

    /// Returns the outcomes that may hold for one step.
    fn outcomes_of_step(&self, step: usize) -> Vec<Outcome> {
        let mut all = Vec::new();
        let changes = !self.trace.steps[step].observed.is_empty();
        if changes {
            all.extend([0, QUICK, SLOW].map(Outcome::bits));
            all.push(Outcome::misses(u8::MAX, 0));
            all.extend(LAGS.map(Outcome::lags));
        }
        if self.trace.is_followed(step) {
            for steps in 0..=STEPS_BETWEEN {
                all.extend([0, QUICK].map(|bits| Outcome::hasty(steps, bits)));
            }
        }
        if self.trace.steps[step].calls.len() > 2 {
            all.extend((1..=STEPS_BETWEEN).map(Outcome::hasty_in_total));
        }
        if changes {
            all.extend(self.outcomes_of_writes());
        }
        all
    }
}
