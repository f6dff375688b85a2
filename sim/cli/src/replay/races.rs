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

/// One outcome of races whose outcome varies.
#[derive(Clone, Copy, Debug, Default)]
struct RaceOutcome {
    /// [`KueueVersion::misses_stop`].
    misses_stop: u8,
    /// [`KueueVersion::nameless_queue`].
    nameless: bool,
    /// One for each of the other switches of [`KueueVersion`] that are races.
    bits: u8,
    reversed: bool,
    steps_between: Option<u64>,
    shift: SignedDuration,
}

impl Replay {
    /// The same with each other outcome of Kueue's races.
    pub(super) fn other_outcomes(&self) -> Vec<Self> {
        let switches = if self.version.concurrent_admission {
            8
        } else {
            4
        };
        let mut all: Vec<RaceOutcome> = [0, u8::MAX]
            .into_iter()
            .flat_map(|misses_stop| (0..switches).map(move |bits| (misses_stop, bits)))
            .skip(1)
            .map(|(misses_stop, bits)| RaceOutcome {
                misses_stop,
                bits,
                ..RaceOutcome::default()
            })
            .collect();
        for nameless in [false, true] {
            all.extend(MISSES.map(|misses_stop| RaceOutcome {
                misses_stop,
                nameless,
                ..RaceOutcome::default()
            }));
        }
        if self.trace.is_hasty() {
            let steps = (0..=STEPS_BETWEEN).map(Some).chain([None]);
            for steps_between in steps {
                for reversed in [false, true] {
                    all.extend([0, 2].map(|bits| RaceOutcome {
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
                all.extend([0, 2].map(|bits| RaceOutcome {
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
            nameless,
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
                slow_scheduler: (bits & 1 != 0) ^ known.slow_scheduler,
                quick_scheduler: (bits & 2 != 0) ^ known.quick_scheduler,
                nameless_queue: nameless ^ known.nameless_queue,
                hasty_variants: (bits & 4 != 0) ^ known.hasty_variants,
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
