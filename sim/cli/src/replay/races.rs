//! Outcomes of Kueue's races, which vary from run to run of the same requests.

use std::sync::Arc;

use jiff::SignedDuration;
use kueue_check_sim::kueue::KueueVersion;

use super::{Controllers, Replay, StepOutcome};

/// The maximum number of steps of Kueue before a request that follows another at once.
const STEPS_BETWEEN: u64 = 12;

/// Delays of the start against that of the trace, in milliseconds. A request sent at the end of a
/// delay comes before or after that end.
const SHIFTS: [i64; 2] = [-300, 300];

/// The Workloads that miss the stop of a ClusterQueue: all, or a smaller set of the first three.
const MISSES: [u8; 7] = [u8::MAX, 1, 2, 3, 4, 5, 6];

/// The controllers that may be the last to act.
const LASTS: [Controllers; 2] = [Controllers::Jobs, Controllers::Kueue];

const SLOW: u8 = 1;
const QUICK: u8 = 2;
const HASTY: u8 = 4;
const NAMELESS: u8 = 8;
const REQUESTS: u8 = 16;

/// One outcome of the races.
#[derive(Clone, Copy, Debug, Default)]
struct RaceOutcome {
    /// [`KueueVersion::misses_stop`].
    misses_stop: u8,
    /// The other switches of [`KueueVersion`] that are races: [`SLOW`], [`QUICK`], [`HASTY`],
    /// [`NAMELESS`] and [`REQUESTS`].
    bits: u8,
    reversed: bool,
    steps_between: Option<u64>,
    shift: SignedDuration,
    /// The only step of the trace in which the switches of the version are set.
    only_in: Option<usize>,
    last: Option<Controllers>,
}

impl Replay {
    /// Returns the same replay with each other outcome of Kueue's races.
    pub(super) fn other_outcomes(&self) -> Vec<Self> {
        let hasty = if self.version.concurrent_admission {
            HASTY
        } else {
            0
        };
        let of_all = [0, u8::MAX].into_iter().flat_map(|misses_stop| {
            (0..=SLOW | QUICK | hasty).map(move |bits| (misses_stop, bits))
        });
        let of_some = [0, NAMELESS]
            .into_iter()
            .flat_map(|bits| MISSES.map(|misses_stop| (misses_stop, bits)));
        // The first of each is played already.
        let mut all: Vec<RaceOutcome> = of_all
            .skip(1)
            .chain(of_some.skip(1))
            .map(|(misses_stop, bits)| RaceOutcome {
                misses_stop,
                bits,
                ..RaceOutcome::default()
            })
            .collect();
        all.extend(LASTS.map(|last| RaceOutcome {
            last: Some(last),
            ..RaceOutcome::default()
        }));
        if self.trace.is_hasty() {
            let steps = (0..=STEPS_BETWEEN).map(Some).chain([None]);
            for steps_between in steps {
                for reversed in [false, true] {
                    all.extend([0, QUICK].map(|bits| RaceOutcome {
                        bits,
                        reversed,
                        steps_between,
                        ..RaceOutcome::default()
                    }));
                }
            }
        }
        if self.trace.has_timers() {
            for shift in SHIFTS {
                all.extend([0, QUICK].map(|bits| RaceOutcome {
                    bits,
                    shift: SignedDuration::from_millis(shift),
                    ..RaceOutcome::default()
                }));
            }
        }
        if !self.version.sorts_requests {
            all.extend([0, SLOW, QUICK].map(|bits| RaceOutcome {
                bits: bits | REQUESTS,
                ..RaceOutcome::default()
            }));
        }
        all.extend(self.outcomes_of_one_step());
        all.into_iter()
            .map(|outcome| self.with_outcome(outcome))
            .collect()
    }

    /// A race may have one outcome in one step and another in the next.
    fn outcomes_of_one_step(&self) -> impl Iterator<Item = RaceOutcome> {
        let steps = self.trace.steps.iter().enumerate();
        let changed = steps.filter(|(_, step)| !step.observed.is_empty());
        let mut switches = vec![(0, QUICK), (0, SLOW), (u8::MAX, 0)];
        if !self.version.sorts_requests {
            switches.push((0, REQUESTS));
        }
        changed.flat_map(move |(number, _)| {
            let only_in = Some(number);
            let switched = switches.clone().into_iter();
            let switched = switched.map(move |(misses_stop, bits)| RaceOutcome {
                misses_stop,
                bits,
                only_in,
                ..RaceOutcome::default()
            });
            let lagging = LASTS.map(|last| RaceOutcome {
                last: Some(last),
                only_in,
                ..RaceOutcome::default()
            });
            switched.chain(lagging)
        })
    }

    fn with_outcome(&self, outcome: RaceOutcome) -> Self {
        let known = self.version;
        let RaceOutcome {
            misses_stop,
            bits,
            reversed,
            steps_between,
            shift,
            only_in,
            last,
        } = outcome;
        let switched = KueueVersion {
            misses_stop: misses_stop ^ known.misses_stop,
            slow_scheduler: (bits & SLOW != 0) ^ known.slow_scheduler,
            quick_scheduler: (bits & QUICK != 0) ^ known.quick_scheduler,
            nameless_queue: (bits & NAMELESS != 0) ^ known.nameless_queue,
            hasty_variants: (bits & HASTY != 0) ^ known.hasty_variants,
            reversed_ties: reversed ^ known.reversed_ties,
            reversed_requests: (bits & REQUESTS != 0) ^ known.reversed_requests,
            ..known
        };
        Self {
            trace: Arc::clone(&self.trace),
            kinds: self.kinds.clone(),
            version: if only_in.is_some() { known } else { switched },
            last: last.filter(|_| only_in.is_none()),
            of_step: only_in.map(|step| StepOutcome {
                step,
                version: switched,
                last,
            }),
            steps_between,
            shift,
            beside: Vec::new(),
            overlook: None,
        }
    }
}
