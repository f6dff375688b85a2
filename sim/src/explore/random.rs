//! Random plans of several faults, shrunk to the fewest that still fail.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::{Exploration, Fault, FaultPlan, InjectionPoint, Run, parallel, tried};
use crate::simulation::{Cluster, Simulation};

/// The maximum number of faults in one run.
const FAULTS: u64 = 4;

/// Runs `scenario` without a fault, and then `runs` times with random faults. Each run has two to
/// four faults at random points. A failing plan is shrunk.
#[expect(clippy::disallowed_methods, reason = "the time that a person waits")]
pub(crate) fn explore_random(
    simulation: &Simulation,
    scenario: &(impl AsyncFn(&Cluster) + Sync),
    runs: usize,
) -> Exploration {
    let began = Instant::now();
    let without = simulation.run_with(scenario, &FaultPlan::none());
    let mut explored = Exploration {
        runs: 1,
        points: without.points.len(),
        left_out: 0,
        not_in_sample: 0,
        took: Duration::ZERO,
        failed: Vec::new(),
    };
    if without.failed() || without.points.is_empty() {
        explored.failed.extend(Some(without).filter(Run::failed));
        explored.took = began.elapsed();
        return explored;
    }
    let mut random = Random::new(simulation.seed);
    let plans = std::iter::repeat_with(|| plan(&mut random, &without.points, simulation.replicas));
    let plans: Vec<FaultPlan> = plans.take(runs).collect();
    let tried = tried(simulation, scenario, &without);
    parallel::run_each(&plans, &tried, |failed| {
        explored.runs += 1;
        let shrunk = failed.map(|run| shrunk(run, &mut explored.runs, &tried));
        explored.failed.extend(shrunk);
        ControlFlow::Continue(())
    });
    explored.took = began.elapsed();
    explored
}

fn plan(random: &mut Random, points: &[InjectionPoint], replicas: usize) -> FaultPlan {
    let faults = 2 + random.below(FAULTS - 1);
    (0..faults).fold(FaultPlan::none(), |plan, _| {
        let point = &points[random.index(points.len())];
        let possible = Fault::at(point, replicas);
        let fault = possible[random.index(possible.len())];
        plan.and(point.clone(), fault)
    })
}

/// Removes one fault after another, as long as the rest still fails.
fn shrunk(failed: Run, runs: &mut usize, tried: &impl Fn(&FaultPlan) -> Run) -> Run {
    let mut smallest = failed;
    let mut at = 0;
    while at < smallest.plan.len() && smallest.plan.len() > 1 {
        *runs += 1;
        let run = tried(&smallest.plan.without(at));
        if run.failed() {
            smallest = run;
        } else {
            at += 1;
        }
    }
    smallest
}

/// The generator `SplitMix64`: small, and the same on all platforms.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }
}
