//! The methods of [`Simulation`] that return a [`Run`] or an [`Exploration`].

use super::pairs::{Progress, explore_pairs};
use super::random::explore_random;
use super::run::{Run, Steps};
use super::{Exploration, explore, sample_limit};
use crate::faults::FaultPlan;
use crate::simulation::{Cluster, Simulation, failure};

impl Simulation {
    /// Runs `scenario` once.
    ///
    /// # Panics
    /// If an expectation fails or an invariant is violated, with the timeline; if an initial object
    /// is rejected; if two checks have the same controller name.
    pub fn run(&self, scenario: impl AsyncFn(&Cluster)) -> Run {
        let mut run = self.run_with(&scenario, &FaultPlan::none());
        run.loops();
        run.or_panic();
        run
    }

    /// Runs `scenario` without a fault, and then once with each single fault at each point. The
    /// runs use all processors.
    ///
    /// ```
    /// # use kueue_check::{Verdict, admission_check};
    /// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
    /// # use kueue_check_sim::{Job, Simulation};
    /// let explored = Simulation::new(|| open).run_with_each_fault(async |cluster| {
    ///     cluster.submit(Job::new("train"));
    ///     cluster.expect_admitted("train").await;
    /// });
    /// println!("{explored}"); // how many runs, with which faults
    /// ```
    ///
    /// # Panics
    /// If an expectation fails or an invariant is violated, with the fault and the timeline.
    pub fn run_with_each_fault(&self, scenario: impl AsyncFn(&Cluster) + Sync) -> Exploration {
        let mut simulation = self.clone();
        simulation.sample = sample_limit().or(simulation.sample);
        let explored = simulation.explore(scenario);
        explored.or_panic();
        explored
    }

    /// Runs as [`run_with_each_fault`](Self::run_with_each_fault) does, but returns failures.
    #[must_use = "runs may have failed"]
    pub fn explore(&self, scenario: impl AsyncFn(&Cluster) + Sync) -> Exploration {
        explore(self, &scenario, false)
    }

    /// Runs as [`explore`](Self::explore) does, but ends at the first run that fails.
    #[must_use = "runs may have failed"]
    pub fn explore_until_failure(&self, scenario: impl AsyncFn(&Cluster) + Sync) -> Exploration {
        explore(self, &scenario, true)
    }

    /// Runs `scenario` without a fault, and then `runs` times with random faults. Each run has two
    /// to four faults at random points, chosen by the [seed](Self::seed). A plan that fails is
    /// shrunk to the fewest faults that still fail.
    #[must_use = "runs may have failed"]
    pub fn explore_at_random(
        &self,
        runs: usize,
        scenario: impl AsyncFn(&Cluster) + Sync,
    ) -> Exploration {
        explore_random(self, &scenario, runs)
    }

    /// Runs `scenario` without a fault, and then with each pair of single faults. If there are more than `limit` pairs, it tries `limit` of them,
    /// chosen by the [seed](Self::seed). It calls `progress` after each run.
    #[must_use = "runs may have failed"]
    pub fn explore_pairs(
        &self,
        limit: usize,
        progress: impl FnMut(Progress),
        scenario: impl AsyncFn(&Cluster) + Sync,
    ) -> Exploration {
        explore_pairs(self, &scenario, limit, progress)
    }

    /// Runs `scenario` once with the faults of `plan`.
    #[must_use = "the run may have failed"]
    pub fn run_with(&self, scenario: &impl AsyncFn(&Cluster), plan: &FaultPlan) -> Run {
        self.run_steps(scenario, plan)
    }

    pub(super) fn run_steps(&self, scenario: &dyn Steps, plan: &FaultPlan) -> Run {
        let runtime = failure::runtime();
        let run = runtime.block_on(async {
            let cluster = failure::or_panic(|| Cluster::start(self, plan));
            let failed = failure::caught(async {
                cluster.begin().await;
                scenario.on(&cluster).await;
            })
            .await;
            cluster.finish(failed).await
        });
        runtime.shutdown_background();
        run
    }
}
