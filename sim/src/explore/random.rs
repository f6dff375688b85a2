//! Random plans of several faults, shrunk to the fewest that still fail.

use std::ops::ControlFlow;
use std::time::Instant;

use super::parallel::Done;
use super::run::Steps;
use super::{
    Exploration, Fault, FaultPlan, InjectionPoint, Run, alone, parallel, plan_of_environment,
    tried, without_faults,
};
use crate::simulation::Simulation;

/// The maximum number of faults in one run.
const FAULTS: u64 = 4;

/// Runs `scenario` without a fault, and then `runs` times with random faults. Each run has two to
/// four faults at random points. A failing plan is shrunk.
#[expect(clippy::disallowed_methods, reason = "the time that a person waits")]
pub(crate) fn explore_random(
    simulation: &Simulation,
    scenario: &(dyn Steps + Sync),
    runs: usize,
) -> Exploration {
    let began = Instant::now();
    let without = without_faults(simulation, scenario);
    if let Some(plan) = plan_of_environment() {
        return alone(simulation, scenario, &plan, without, began);
    }
    let candidates = candidates(&without.points, simulation.replicas, &simulation.excluded);
    let mut explored = Exploration::begun(candidates.len(), 0);
    explored.left_out = without.points.len() - candidates.len();
    if without.failed() || candidates.is_empty() {
        explored.failed.extend(Some(without).filter(Run::failed));
        explored.took = began.elapsed();
        return explored;
    }
    let mut random = Random::new(simulation.seed);
    let plans = std::iter::repeat_with(|| plan(&mut random, &candidates));
    let plans: Vec<FaultPlan> = plans.take(runs).collect();
    let tried = tried(simulation, scenario, &without);
    parallel::run_each(&plans, &tried, |Done { failed, injected }| {
        let failed = failed.map(|run| shrunk(run, &mut explored.runs, &tried));
        explored.add(Done { failed, injected });
        ControlFlow::Continue(())
    });
    explored.took = began.elapsed();
    explored
}

/// A point with the faults that are possible there.
type Candidate = (InjectionPoint, Vec<Fault>);

/// Returns the points at which a fault is possible that is not excluded.
fn candidates(points: &[InjectionPoint], replicas: usize, excluded: &[Fault]) -> Vec<Candidate> {
    let all = points.iter().map(|point| {
        let mut possible = Fault::at(point, replicas);
        possible.retain(|fault| !excluded.contains(fault));
        (point.clone(), possible)
    });
    all.filter(|(_, possible)| !possible.is_empty()).collect()
}

/// Returns a plan with two to four faults, each at another point; fewer if there are fewer points.
fn plan(random: &mut Random, candidates: &[Candidate]) -> FaultPlan {
    let faults = 2 + random.below(FAULTS - 1);
    let mut rest: Vec<&Candidate> = candidates.iter().collect();
    let mut plan = FaultPlan::none();
    for _ in 0..faults {
        if rest.is_empty() {
            break;
        }
        let (point, possible) = rest.swap_remove(random.index(rest.len()));
        let fault = possible[random.index(possible.len())];
        plan = plan.and(point.clone(), fault);
    }
    plan
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_each_point_once_and_no_excluded_fault() {
        let point = |number, what: &str| InjectionPoint {
            agent: "check-0".to_owned(),
            event: what.starts_with(char::is_uppercase),
            number,
            what: what.to_owned(),
        };
        let points = [
            point(0, "list workloads"),
            point(0, "MODIFIED workloads"),
            point(1, "apply workloads/status"),
        ];
        // At an event, only one fault remains.
        let events = Fault::at(&points[1], 1);
        let excluded: Vec<Fault> = events.into_iter().filter(|f| *f != Fault::Close).collect();
        let candidates = candidates(&points, 1, &excluded);
        let mut random = Random::new(0);
        for _ in 0..200 {
            let plan = plan(&mut random, &candidates).to_string();
            let of_point = |text: &str| text.rsplit_once('/').unwrap().0.to_owned();
            let mut used: Vec<String> = plan.split(',').map(of_point).collect();
            used.sort();
            let faults = used.len();
            used.dedup();
            assert_eq!(used.len(), faults, "{plan}");
            assert!((2..=3).contains(&faults), "{plan}");
            for fault in &excluded {
                assert!(!plan.contains(&format!("/{}", fault.as_str())), "{plan}");
            }
        }
        let none: Vec<Fault> = Fault::all().collect();
        assert!(super::candidates(&points, 1, &none).is_empty());
    }
}
