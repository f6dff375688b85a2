//! The run of one target.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::execution::{Failure, MemoryMeter, execute};
use crate::minimise::minimise;
use crate::targets::{Outcome, Target};
use crate::{corpus, mutate};

/// The maximum number of inputs that later inputs are made from.
const POOL: usize = 4_096;
/// The number of distinct failure places that ends a run.
const PLACES: usize = 8;
/// The time limit of the search for a smaller input.
const MINIMISED: Duration = Duration::from_secs(60);

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// After this number of executions, which is the same in each run.
    Executions(u64),
    /// After this time.
    Time(Duration),
}

/// A run of one target.
#[derive(Debug)]
pub struct Campaign<'t> {
    /// The target.
    pub target: &'t Target,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The end of the run.
    pub bound: Bound,
    /// The memory measurement, if there is one.
    pub memory: Option<MemoryMeter>,
    /// The file with the current input, for an input that ends the process.
    pub current: Option<PathBuf>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of executions.
    pub executions: u64,
    /// The duration of all executions.
    pub took: Duration,
    /// The number of different outcomes.
    pub outcomes: usize,
    /// The findings by place: the failure, and the smallest input.
    pub found: BTreeMap<String, (Failure, Vec<u8>)>,
}

impl Campaign<'_> {
    /// Runs the target: first the corpus, then inputs that are made from it.
    ///
    /// # Errors
    /// The corpus cannot be read.
    #[expect(
        clippy::disallowed_methods,
        reason = "the bound of a run may be a time"
    )]
    pub fn run(&self) -> io::Result<Report> {
        let start = Instant::now();
        let mut pool: Vec<Vec<u8>> = corpus::read(self.target.name)?
            .into_iter()
            .map(|(_, input)| input)
            .collect();
        let kept = pool.len();
        let current = self.current.as_ref().map(File::create).transpose()?;
        let mut random = Rng::with_seed(self.seed);
        let mut outcomes: HashSet<Outcome> = HashSet::new();
        let mut report = Report::default();
        let mut number = 0;
        loop {
            let over = match self.bound {
                Bound::Executions(most) => report.executions >= most,
                Bound::Time(most) => start.elapsed() >= most,
            };
            if (over && number >= kept) || report.found.len() >= PLACES {
                break;
            }
            let input = if number < kept {
                pool[number].clone()
            } else {
                mutate::next(&mut random, self.target, &pool)
            };
            number += 1;
            report.executions += 1;
            if let Some(file) = &current {
                file.set_len(0)?;
                file.write_all_at(&input, 0)?;
            }
            match execute(self.target, &input, self.memory) {
                Ok(outcome) => {
                    if outcomes.insert(outcome) && number > kept {
                        if pool.len() < POOL {
                            pool.push(input);
                        } else {
                            let at = random.usize(kept..pool.len());
                            pool[at] = input;
                        }
                    }
                }
                Err(failure) => {
                    if report.found.contains_key(&failure.place) {
                        continue;
                    }
                    let until = Instant::now() + MINIMISED;
                    let fails = |smaller: &[u8]| {
                        Instant::now() < until && self.fails_like(smaller, &failure)
                    };
                    let smallest = minimise(&input, fails);
                    report
                        .found
                        .insert(failure.place.clone(), (failure, smallest));
                }
            }
        }
        report.outcomes = outcomes.len();
        report.took = start.elapsed();
        Ok(report)
    }

    fn fails_like(&self, input: &[u8], failure: &Failure) -> bool {
        execute(self.target, input, self.memory)
            .is_err_and(|smaller| smaller.place == failure.place)
    }
}
