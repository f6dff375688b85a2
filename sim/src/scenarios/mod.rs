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

use crate::explore::{FaultPlan, Run};
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

    /// Returns the simulation of the scenario.
    pub fn simulation(&self) -> Simulation {
        (self.simulation)()
    }

    /// Runs the script on a cluster of its [simulation](Self::simulation).
    pub async fn run_on(&self, cluster: &Cluster) {
        (self.run_on)(cluster).await;
    }

    /// Returns the script, for a method of its [simulation](Self::simulation).
    ///
    /// ```
    /// use kueue_check_sim::scenarios::Scenario;
    ///
    /// let scenario = Scenario::named("reject").expect("`explore list` lists it");
    /// let explored = scenario.simulation().explore_at_random(3, scenario.steps());
    /// assert!(explored.failed.is_empty(), "{explored}");
    /// ```
    pub fn steps(&self) -> impl AsyncFn(&Cluster) + Sync {
        let run_on = self.run_on;
        async move |cluster: &Cluster| run_on(cluster).await
    }
}
