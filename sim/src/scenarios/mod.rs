//! The scenarios of this crate: `explore` runs them by name, and the SDK is tested with them.
//!
//! Each is a small check and a scripted run. Together they cover every state, verdict and end of a
//! Workload.

mod builtin;
mod counter;
mod depot;
mod scripted;
mod seats;
mod vendor;
mod worded;

use std::fmt;

use futures::future::LocalBoxFuture;

use crate::apiserver::ApiRequest;
use crate::explore::{Exploration, Fault, FaultPlan, Progress, Run, sample_limit};
use crate::simulation::{Cluster, Simulation};

pub use builtin::all;
pub use counter::Counter;
pub use depot::Depot;
pub use scripted::Scripted;
pub use seats::Seats;
pub use vendor::LicenceVendor;
pub use worded::{Word, Worded};

/// A check and a scripted run.
///
/// ```
/// use kueue_check_sim::{FaultPlan, scenarios::Scenario};
///
/// let scenario = Scenario::named("reject").expect("`explore list` lists it");
/// assert_eq!(scenario.about, "a job is rejected, another is not");
/// let jobs = scenario.run(0, &FaultPlan::none()).outcome.jobs;
/// assert!(jobs["default/dwarf"].admitted);
/// assert!(!jobs["default/giant"].active); // Kueue deactivates what is rejected
/// ```
pub struct Scenario {
    /// The name, on the command line too.
    pub name: &'static str,
    /// A description of the run.
    pub about: &'static str,
    simulation: fn() -> Simulation,
    run_on: for<'a> fn(&'a Cluster) -> LocalBoxFuture<'a, ()>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scenario").field(&self.name).finish()
    }
}

impl Scenario {
    /// Returns the scenario with that name.
    pub fn named(name: &str) -> Option<Self> {
        all().into_iter().find(|scenario| scenario.name == name)
    }

    /// Runs it once, with random numbers from `seed` and the faults of `plan`.
    #[must_use = "the run may have failed"]
    pub fn run(&self, seed: u64, plan: &FaultPlan) -> Run {
        let simulation = (self.simulation)().seed(seed);
        simulation.run_with(&self.steps(), plan)
    }

    /// Runs it without a fault, and then once with each single fault at each point.
    #[must_use = "runs may have failed"]
    pub fn explore(&self, seed: u64) -> Exploration {
        let simulation = (self.simulation)().seed(seed);
        simulation.explore(self.steps())
    }

    /// Runs as [`explore`](Self::explore) does, with only the `wanted` faults. If
    /// `KUEUE_CHECK_SAMPLE` is set, it runs a sample of them.
    #[must_use = "runs may have failed"]
    pub fn explore_with(&self, seed: u64, wanted: impl Fn(Fault) -> bool) -> Exploration {
        let simulation = (self.simulation)().seed(seed);
        let unwanted = Fault::all().filter(|fault| !wanted(*fault));
        let simulation = unwanted.fold(simulation, Simulation::exclude_fault);
        let simulation = match sample_limit() {
            Some(faults) => simulation.sample(faults),
            None => simulation,
        };
        simulation.explore(self.steps())
    }

    /// Runs as [`explore`](Self::explore) does, with a bug in the runtime. `alter` changes the
    /// runtime's requests. It ends at the first run that fails.
    #[must_use = "runs may have failed"]
    pub fn explore_altered(&self, seed: u64, alter: fn(&mut ApiRequest)) -> Exploration {
        let simulation = (self.simulation)().seed(seed).altering(alter);
        simulation.explore_until_failure(self.steps())
    }

    /// Runs it without a fault, and then `runs` times with several faults at random.
    #[must_use = "runs may have failed"]
    pub fn explore_at_random(&self, seed: u64, runs: usize) -> Exploration {
        let simulation = (self.simulation)().seed(seed);
        simulation.explore_at_random(runs, self.steps())
    }

    /// Runs it without a fault, and then with pairs of single faults: all, or `limit` of them. It
    /// calls `progress` after each run.
    #[must_use = "runs may have failed"]
    pub fn explore_pairs(
        &self,
        seed: u64,
        limit: usize,
        progress: impl FnMut(Progress),
    ) -> Exploration {
        let simulation = (self.simulation)().seed(seed);
        simulation.explore_pairs(limit, progress, self.steps())
    }

    /// Returns the simulation of the scenario.
    pub fn simulation(&self) -> Simulation {
        (self.simulation)()
    }

    /// Runs the script on a cluster of its [simulation](Self::simulation).
    pub async fn run_on(&self, cluster: &Cluster) {
        (self.run_on)(cluster).await;
    }

    fn steps(&self) -> impl AsyncFn(&Cluster) + Sync {
        let run_on = self.run_on;
        async move |cluster: &Cluster| run_on(cluster).await
    }
}
