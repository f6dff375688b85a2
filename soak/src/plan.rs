//! Random jobs that a seed determines.

use crate::random::Random;
use crate::scene::{BUDGET, CPU_PER_SECOND, NAMESPACES, QUEUES, Queue};

/// A planned event of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// Kueue preempts it.
    Preempt,
    /// It loses its quota before it is admitted, without an eviction: its queue was stopped.
    LoseQuota,
    /// Its user deletes it.
    Delete,
    /// Its user stops it.
    Deactivate,
}

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    /// The name of its Workload.
    pub(crate) name: String,
    /// Its namespace.
    pub(crate) namespace: &'static str,
    /// Its ClusterQueue.
    pub(crate) queue: &'static Queue,
    /// The CPUs of its one pod.
    pub(crate) cpus: u32,
    /// Its `maximumExecutionTimeSeconds`.
    pub(crate) longest: u32,
    /// How many seconds its pod works.
    pub(crate) work: f64,
    /// Its priority.
    pub(crate) priority: u32,
    /// The event, and how many seconds after the quota reservation it happens.
    pub(crate) interruption: Option<(f64, Interruption)>,
    /// How many seconds its pod takes to stop.
    pub(crate) stops: f64,
    /// How many seconds its Workload stays after it has finished.
    pub(crate) stays: f64,
    /// How many seconds it waits before it is submitted, and for quota after it has lost it.
    pub(crate) waits: f64,
}

impl JobPlan {
    /// Returns the cost of its pod per second: 0 if no Budget applies to it.
    pub(crate) fn rate(&self) -> f64 {
        if self.queue.checks.contains(&BUDGET) {
            f64::from(self.cpus) * CPU_PER_SECOND
        } else {
            0.0
        }
    }

    /// Draws the job with this number.
    pub(crate) fn draw(seed: u64, number: u32) -> Self {
        let name = format!("job-{number:05}");
        let mut random = Random::new(seed, &name);
        let all = [
            Interruption::Preempt,
            Interruption::LoseQuota,
            Interruption::Delete,
            Interruption::Deactivate,
        ];
        let interruption = random.weighted(&[(4, all[0]), (3, all[1]), (3, all[2]), (1, all[3])]);
        let after = random.between(0.0, 60.0);
        let queue = random
            .weighted(&[(3, 0), (1, 1), (1, 2)])
            .unwrap_or_default();
        let namespace = random
            .weighted(&[(1, 0), (1, 1), (1, 2)])
            .unwrap_or_default();
        let longest = 15 + random.below(75);
        Self {
            name,
            namespace: NAMESPACES[namespace].0,
            queue: &QUEUES[queue],
            cpus: 1 + random.below(4),
            longest,
            work: f64::from(longest) * random.between(0.2, 1.0),
            priority: random.below(3),
            interruption: interruption
                .filter(|_| random.chance(350))
                .map(|what| (after, what)),
            stops: random.between(0.0, 4.0),
            stays: random.between(5.0, 40.0),
            waits: random.between(2.0, 8.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_jobs_and_all_kinds_are_drawn() {
        let jobs = |seed| (0..200).map(move |number| JobPlan::draw(seed, number));
        let texts =
            |seed| jobs(seed).map(|plan| format!("{} {} {}", plan.name, plan.cpus, plan.work));
        assert_eq!(texts(1).collect::<Vec<_>>(), texts(1).collect::<Vec<_>>());
        assert_ne!(texts(1).collect::<Vec<_>>(), texts(2).collect::<Vec<_>>());
        for interruption in [
            Interruption::Preempt,
            Interruption::LoseQuota,
            Interruption::Delete,
            Interruption::Deactivate,
        ] {
            let drawn = jobs(1)
                .filter_map(|plan| plan.interruption)
                .filter(|(_, one)| *one == interruption);
            assert!(drawn.count() > 1, "{interruption:?}");
        }
        for plan in jobs(1) {
            assert!(plan.work <= f64::from(plan.longest), "{plan:?}");
        }
    }
}
