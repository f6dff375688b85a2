//! Exhaustive fault injection: a run without faults, then one with each fault at each point.
//!
//! The runs are compared with the run without faults: they must end in the same states and violate
//! no invariant ([`violations`]). Runs with faults are independent. They use all processors and are
//! reported in the order of their faults. A failing run names its fault as a [`FaultPlan`], which
//! `KUEUE_CHECK_PLAN=…` in the environment runs alone.

mod finish;
mod invariants;
mod methods;
mod pairs;
mod parallel;
mod random;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::simulation::Simulation;

pub use crate::faults::{Fault, FaultPlan, InjectionPoint, PausedReplica, PlanError};
pub use invariants::{RunRecord, violations};
pub use pairs::Progress;
use pairs::chosen;
use parallel::Done;
use run::Steps;
pub use run::{JobOutcome, Outcome, Run};

/// The environment variable with the one plan to run.
pub const PLAN_ENV: &str = "KUEUE_CHECK_PLAN";

/// The variable with the number of single faults that are tried in each scenario, instead of all.
pub const SAMPLE_ENV: &str = "KUEUE_CHECK_SAMPLE";

/// Returns the plan of [`PLAN_ENV`].
///
/// # Panics
/// If it is no plan.
fn plan_of_environment() -> Option<FaultPlan> {
    let text = std::env::var(PLAN_ENV).ok()?;
    match text.parse() {
        Ok(plan) => Some(plan),
        Err(error) => panic!("{PLAN_ENV}: {error}"),
    }
}

/// Returns the value of [`SAMPLE_ENV`].
///
/// # Panics
/// If it is not a number.
pub(crate) fn sample_limit() -> Option<usize> {
    let text = std::env::var(SAMPLE_ENV).ok()?;
    let number = text.parse();
    assert!(
        number.is_ok(),
        "{SAMPLE_ENV} is `{text}`: expected a number"
    );
    number.ok()
}

/// The result of an exploration.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use std::time::Duration;
/// use kueue_check_sim::{Job, Simulation};
///
/// // A scenario that does not wait as long as a fault may last.
/// let explored = Simulation::new(|| open).explore_until_failure(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.advance(Duration::from_secs(1)).await;
///     assert!(cluster.is_admitted("train"), "not within a second");
/// });
/// let failed = &explored.failed[0];
/// assert_eq!(failed.failure.as_deref(), Some("not within a second"));
/// assert!(explored.to_string().contains("1 failed"), "{explored}\n{failed}");
/// ```
#[derive(Debug)]
pub struct Exploration {
    /// The number of runs, including the one without faults.
    pub runs: usize,
    /// The number of injection points.
    pub points: usize,
    /// The number of points that were left out: because they repeat others or, with random faults,
    /// because no fault is possible there.
    pub left_out: usize,
    /// The number of single faults that were left out of the [sample](Simulation::sample), or of
    /// pairs that were left out because of their limit.
    pub not_in_sample: usize,
    /// The number of runs in which a fault was not injected, because an earlier one had removed its
    /// point. With single faults, such a run has failed.
    pub not_injected: usize,
    /// The duration in real time.
    pub took: Duration,
    /// The runs that failed.
    pub failed: Vec<Run>,
}

impl Exploration {
    /// Returns the exploration after the run without faults.
    fn begun(points: usize, left_out: usize) -> Self {
        Self {
            runs: 1,
            points,
            left_out,
            not_in_sample: 0,
            not_injected: 0,
            took: Duration::ZERO,
            failed: Vec::new(),
        }
    }

    /// Returns the number of runs in a second of real time.
    pub fn runs_per_second(&self) -> f64 {
        let runs = u32::try_from(self.runs).unwrap_or(u32::MAX);
        f64::from(runs) / self.took.as_secs_f64()
    }

    /// Adds a run with faults.
    fn add(&mut self, done: Done) {
        self.runs += 1;
        self.not_injected += usize::from(!done.injected);
        self.failed.extend(done.failed);
    }

    pub(crate) fn or_panic(&self) {
        if let Some(first) = self.failed.first() {
            let others = self.failed.len() - 1;
            assert!(
                self.failed.is_empty(),
                "{first}\n{others} other runs of {} failed too\nto run this one alone: {PLAN_ENV}='{}'",
                self.runs,
                first.plan
            );
        }
    }
}

impl fmt::Display for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} runs at {} points ({} like them left out): {} failed; {:.0} runs a second",
            self.runs,
            self.points,
            self.left_out,
            self.failed.len(),
            self.runs_per_second()
        )?;
        if self.not_in_sample > 0 {
            write!(
                f,
                "; a sample: {} others were not tried",
                self.not_in_sample
            )?;
        }
        if self.not_injected > 0 {
            write!(
                f,
                "; {} runs in which a fault was not injected",
                self.not_injected
            )?;
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the time that a person waits")]
fn explore(
    simulation: &Simulation,
    scenario: &(dyn Steps + Sync),
    stop_at_first: bool,
) -> Exploration {
    let began = Instant::now();
    let without = without_faults(simulation, scenario);
    if let Some(plan) = plan_of_environment() {
        return alone(simulation, scenario, &plan, without, began);
    }
    let (points, left_out) = representative(&without.points, simulation.of_a_kind);
    let mut explored = Exploration::begun(points.len(), left_out);
    if without.failed() {
        explored.failed.push(without);
        explored.took = began.elapsed();
        return explored;
    }
    let spared = |fault: &Fault| simulation.excluded.contains(fault);
    let singles = single_faults(points, simulation.replicas);
    let singles: Vec<_> = singles.filter(|(_, fault)| !spared(fault)).collect();
    let limit = simulation.sample.unwrap_or(usize::MAX);
    let sample = chosen(&singles, limit, simulation.seed);
    explored.not_in_sample = singles.len() - sample.len();
    let plans = sample.into_iter();
    let plans: Vec<FaultPlan> = plans
        .map(|(point, fault)| FaultPlan::of(point, fault))
        .collect();
    let tried = tried(simulation, scenario, &without);
    let tried = |plan: &FaultPlan| {
        let mut run = tried(plan);
        run.require_injected();
        run
    };
    parallel::run_each(&plans, tried, |done| {
        explored.add(done);
        if stop_at_first && !explored.failed.is_empty() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    explored.took = began.elapsed();
    explored
}

/// Runs `scenario` without a fault.
fn without_faults(simulation: &Simulation, scenario: &dyn Steps) -> Run {
    let mut without = simulation.run_steps(scenario, &FaultPlan::none());
    without.loops();
    without
}

/// Returns a function that makes one run with faults and compares it with `without`.
fn tried(
    simulation: &Simulation,
    scenario: &(dyn Steps + Sync),
    without: &Run,
) -> impl Fn(&FaultPlan) -> Run + Sync {
    move |plan| {
        let mut run = simulation.run_steps(scenario, plan);
        run.compare(without);
        run
    }
}

fn single_faults(
    points: Vec<InjectionPoint>,
    replicas: usize,
) -> impl Iterator<Item = (InjectionPoint, Fault)> {
    points.into_iter().flat_map(move |point| {
        let faults = Fault::at(&point, replicas);
        faults.into_iter().map(move |fault| (point.clone(), fault))
    })
}

fn alone(
    simulation: &Simulation,
    scenario: &(dyn Steps + Sync),
    plan: &FaultPlan,
    without: Run,
    began: Instant,
) -> Exploration {
    let mut explored =
        Exploration::begun(plan.len(), without.points.len().saturating_sub(plan.len()));
    if without.failed() {
        explored.failed.push(without);
    } else {
        let mut run = tried(simulation, scenario, &without)(plan);
        run.require_injected();
        explored.add(Done::of(run));
    }
    explored.took = began.elapsed();
    explored
}

/// Returns the first points of each kind, and the number of other points.
fn representative(points: &[InjectionPoint], of_a_kind: usize) -> (Vec<InjectionPoint>, usize) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let chosen: Vec<InjectionPoint> = points
        .iter()
        .filter(|point| {
            let count = seen.entry(point.kind()).or_default();
            *count += 1;
            *count <= of_a_kind
        })
        .cloned()
        .collect();
    let left_out = points.len() - chosen.len();
    (chosen, left_out)
}
