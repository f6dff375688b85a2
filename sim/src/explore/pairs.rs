//! Pairs of faults: two faults in one run, all pairs or a sample of them.

use std::ops::ControlFlow;
use std::time::Instant;

use super::random::Random;
use super::run::Steps;
use super::{
    Exploration, Fault, FaultPlan, InjectionPoint, alone, parallel, plan_of_environment,
    representative, single_faults, tried, without_faults,
};
use crate::simulation::Simulation;

/// The progress of an exploration: runs done, all runs, and runs that failed.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::explore::Progress;
/// use kueue_check_sim::{Job, Simulation};
///
/// let mut last = Progress::default();
/// let explored = Simulation::new(|| open).explore_pairs(20, |progress| last = progress, async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// });
/// assert_eq!((last.done, last.of), (20, 20));
/// assert_eq!(explored.runs, 21); // and the one without faults
/// assert!(explored.not_in_sample > 0, "{explored}");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are done.
    pub done: usize,
    /// The number of all runs.
    pub of: usize,
    /// Runs that failed.
    pub failed: usize,
}

/// Runs `scenario` without a fault, and then with pairs of single faults. It tries all pairs, or
/// `limit` of them, chosen by the seed.
#[expect(clippy::disallowed_methods, reason = "the time that a person waits")]
pub(crate) fn explore_pairs(
    simulation: &Simulation,
    scenario: &(dyn Steps + Sync),
    limit: usize,
    mut progress: impl FnMut(Progress),
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
    let singles = single_faults(points, simulation.replicas);
    let singles: Vec<(InjectionPoint, Fault)> = singles
        .filter(|(_, fault)| !simulation.excluded.contains(fault))
        .collect();
    let pairs = pairs(&singles);
    let chosen = chosen(&pairs, limit, simulation.seed);
    explored.not_in_sample = pairs.len() - chosen.len();
    let plans = chosen.iter().map(|(one, other)| {
        let (one, other) = (&singles[*one], &singles[*other]);
        FaultPlan::of(one.0.clone(), one.1).and(other.0.clone(), other.1)
    });
    let plans: Vec<FaultPlan> = plans.collect();
    parallel::run_each(&plans, tried(simulation, scenario, &without), |done| {
        explored.add(done);
        progress(Progress {
            done: explored.runs - 1,
            of: plans.len(),
            failed: explored.failed.len(),
        });
        ControlFlow::Continue(())
    });
    explored.took = began.elapsed();
    explored
}

/// Returns all pairs of faults at two points, in the order of the points.
fn pairs(singles: &[(InjectionPoint, Fault)]) -> Vec<(usize, usize)> {
    let all = (0..singles.len()).flat_map(|one| {
        let others = one + 1..singles.len();
        others.map(move |other| (one, other))
    });
    all.filter(|(one, other)| singles[*one].0 != singles[*other].0)
        .collect()
}

/// Returns `limit` of them, in the same order.
pub(super) fn chosen<T: Clone>(all: &[T], limit: usize, seed: u64) -> Vec<T> {
    if all.len() <= limit {
        return all.to_vec();
    }
    let mut random = Random::new(seed);
    let mut places: Vec<usize> = (0..all.len()).collect();
    for at in 0..limit {
        let other = at + random.index(places.len() - at);
        places.swap(at, other);
    }
    places.truncate(limit);
    places.sort_unstable();
    places.into_iter().map(|at| all[at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_no_pair_twice_and_is_the_same_for_a_seed() {
        let pairs: Vec<(usize, usize)> = (0..100).map(|at| (at, at + 1)).collect();
        assert_eq!(chosen(&pairs, 200, 0), pairs);
        let mut sample = chosen(&pairs, 30, 7);
        assert_eq!(sample, chosen(&pairs, 30, 7));
        assert_ne!(sample, chosen(&pairs, 30, 8));
        sample.dedup();
        assert_eq!(sample.len(), 30);
    }

    #[test]
    fn two_faults_of_one_point_are_no_pair() {
        let point = |number| InjectionPoint {
            agent: "check-0".to_owned(),
            event: true,
            number,
            what: "MODIFIED workloads".to_owned(),
        };
        let singles = [
            (point(0), Fault::DelayEvent),
            (point(0), Fault::Close),
            (point(1), Fault::DelayEvent),
        ];
        assert_eq!(pairs(&singles), [(0, 2), (1, 2)]);
    }
}
