//! Histories, drawn from a seed.

mod actions;
mod queues;

use crate::bodies::Pods;
use crate::history::{History, Step};
use crate::random::Random;

/// What may be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// In how many of 100 histories the ClusterQueues are in cohorts.
    pub(crate) cohorts: usize,
}

/// What there is in a history so far.
#[derive(Debug, Default)]
struct World {
    jobs: bool,
    one_manager: bool,
    flavors: Vec<String>,
    checks: Vec<String>,
    queues: Vec<queues::Queue>,
    local_queues: Vec<(String, usize)>,
    workloads: Vec<Submitted>,
    inactive_checks: Vec<String>,
    delay: u64,
}

/// A Workload that was submitted.
#[derive(Clone, Debug)]
struct Submitted {
    name: String,
    active: bool,
    gone: bool,
}

/// The history of this number.
pub(crate) fn history(seed: u64, number: u64, scope: Scope) -> History {
    let mut random = Random::new(seed, number);
    let mut world = World {
        jobs: random.chance(45),
        one_manager: random.chance(20),
        ..World::default()
    };
    let mut steps = queues::setup(&mut random, &mut world, scope);
    let count = 4 + random.below(9);
    steps.push(actions::submit(&mut random, &mut world));
    for _ in 0..count {
        steps.push(actions::one(&mut random, &mut world));
    }
    if world.delay > 0 {
        let seconds = u32::try_from(world.delay).unwrap_or(1);
        steps.push(Step::Wait(f64::from(seconds) + 1.5));
    }
    History {
        name: format!("{seed}-{number}"),
        steps,
    }
}

fn pods(random: &mut Random, world: &World, count: u64) -> Pods {
    let cpu = *random.of(&["1", "1", "2", "2", "3", "500m"]);
    let mut requests = serde_json::json!({"cpu": cpu});
    if world.queues.iter().any(|queue| queue.memory) && random.chance(60) {
        requests["memory"] = (*random.of(&["1Gi", "2Gi"])).into();
    }
    let two = world.flavors.len() > 1;
    let selector = (two && random.chance(20))
        .then(|| serde_json::json!({"pool": random.of(&["a", "b"]).to_owned()}));
    let tolerations = (two && random.chance(35)).then(
        || serde_json::json!([{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]),
    );
    Pods {
        count,
        requests,
        selector,
        tolerations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_a_history() {
        let scope = Scope { cohorts: 50 };
        assert_eq!(history(3, 4, scope), history(3, 4, scope));
        assert_ne!(history(3, 4, scope).steps, history(3, 5, scope).steps);
    }

    #[test]
    fn cohorts_are_drawn_only_if_asked_for() {
        let has_cohorts = |percent| {
            let scope = Scope { cohorts: percent };
            let all = (0..100).map(|number| format!("{:?}", history(1, number, scope)));
            all.filter(|text| text.contains("cohortName")).count()
        };
        assert_eq!(has_cohorts(0), 0);
        assert!(has_cohorts(50) > 20);
    }
}
