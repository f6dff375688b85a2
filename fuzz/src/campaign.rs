//! The run of one target.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::execution::{Failure, Memory, execute};
use crate::minimise::minimise;
use crate::targets::{Outcome, Target};
use crate::{corpus, mutate};

/// How many inputs later ones are made of, at most.
const POOL: usize = 4_096;
/// How many places of failure end a run.
const PLACES: usize = 8;
/// For how long a smaller input is looked for.
const MINIMISED: Duration = Duration::from_secs(60);

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// After so many executions, which is the same at each run.
    Executions(u64),
    /// After this time.
    Time(Duration),
}

/// A run of one target.
#[derive(Debug)]
pub struct Campaign<'t> {
    /// The target.
    pub target: &'t Target,
    /// Where random numbers begin.
    pub seed: u64,
    /// When it ends.
    pub bound: Bound,
    /// How memory is measured, if it is.
    pub memory: Option<Memory>,
    /// The file that holds the input that runs now, for one that ends the process.
    pub current: Option<PathBuf>,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// How many executions.
    pub executions: u64,
    /// How long they took.
    pub took: Duration,
    /// How many different outcomes were seen.
    pub outcomes: usize,
    /// What was found, by place: the failure, and the smallest input.
    pub found: BTreeMap<String, (Failure, Vec<u8>)>,
}

impl Campaign<'_> {
    /// Runs it: first the corpus, then inputs that are made of it.
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
