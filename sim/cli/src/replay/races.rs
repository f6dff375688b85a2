//! The outcomes of races whose outcome varies from run to run of the same requests.

use jiff::SignedDuration;
use kueue_check_sim::kueue::KueueVersion;

use super::Replay;

/// Up to so many steps Kueue may have taken before a request that follows another at once.
const STEPS_BETWEEN: u64 = 12;

/// How many milliseconds later it may be than the trace says: a request that is sent when a delay
/// ends is before or after that.
const SHIFTS: [i64; 2] = [-300, 300];

/// Which Workloads of a ClusterQueue miss its stop: all, and each smaller set of the first three.
const MISSES: [u8; 7] = [u8::MAX, 1, 2, 3, 4, 5, 6];

const SLOW: u8 = 1;
const QUICK: u8 = 2;
const HASTY: u8 = 4;
const NAMELESS: u8 = 8;

/// One outcome of races whose outcome varies.
#[derive(Clone, Copy, Debug, Default)]
struct RaceOutcome {
    /// [`KueueVersion::misses_stop`].
    misses_stop: u8,
    /// The other switches of [`KueueVersion`] that are races: [`SLOW`], [`QUICK`], [`HASTY`] and
    /// [`NAMELESS`].
    bits: u8,
    reversed: bool,
    steps_between: Option<u64>,
    shift: SignedDuration,
}

impl Replay {
    /// The same with each other outcome of Kueue's races.
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
        all.into_iter()
            .map(|outcome| self.with_outcome(outcome))
            .collect()
    }

    fn with_outcome(&self, outcome: RaceOutcome) -> Self {
        let known = self.version;
        let RaceOutcome {
            misses_stop,
            bits,
            reversed,
            steps_between,
            shift,
        } = outcome;
        Self {
            trace: self.trace.clone(),
            kinds: self.kinds.clone(),
            version: KueueVersion {
                misses_stop: misses_stop ^ known.misses_stop,
                slow_scheduler: (bits & SLOW != 0) ^ known.slow_scheduler,
                quick_scheduler: (bits & QUICK != 0) ^ known.quick_scheduler,
                nameless_queue: (bits & NAMELESS != 0) ^ known.nameless_queue,
                hasty_variants: (bits & HASTY != 0) ^ known.hasty_variants,
                reversed_ties: reversed ^ known.reversed_ties,
                ..known
            },
            steps_between,
            shift,
            beside: Vec::new(),
            overlook: None,
        }
    }
}
