//! One run of a scenario and its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use kueue_check::api::CheckState;

use super::{FaultPlan, InjectionPoint, PLAN_ENV};
use crate::apiserver::{ApiServer, Change};
use crate::simulation::Cluster;
use crate::timeline::{Timeline, condition, is_true};

/// The final states of a run.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Job, Simulation};
///
/// let run = Simulation::new(|| open).run(async |cluster| cluster.submit(Job::new("train").namespace("team-a")));
/// // A scenario may end early: what is in flight still completes.
/// assert!(run.outcome.jobs["team-a/train"].admitted);
/// assert!(run.outcome.active["check"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The Workloads, by `namespace/job`.
    pub jobs: BTreeMap<String, JobOutcome>,
    /// The AdmissionChecks, and whether each is active.
    pub active: BTreeMap<String, bool>,
}

/// The final states of one job.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/no")] async fn no() -> Verdict { Verdict::rejected("no") }
/// use kueue_check::api::CheckState;
/// use kueue_check_sim::{Job, Simulation};
///
/// let run = Simulation::new(|| no).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_deactivated("train").await;
/// });
/// let train = &run.outcome.jobs["default/train"];
/// assert!(!train.admitted && !train.active);
/// assert_eq!(train.states["check"], CheckState::Pending); // Kueue resets what it evicts
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a Workload"
)]
pub struct JobOutcome {
    /// Whether Kueue has admitted it.
    pub admitted: bool,
    /// Whether it holds quota.
    pub reserved: bool,
    /// Whether it has finished.
    pub finished: bool,
    /// Whether it has not been deactivated.
    pub active: bool,
    /// The states of its admission checks, by name.
    pub states: BTreeMap<String, CheckState>,
}

impl Outcome {
    /// Returns the differences from the outcome without the fault.
    fn differences(&self, without: &Self) -> Vec<String> {
        let jobs = different(&self.jobs, &without.jobs).map(|(job, here, there)| {
            let state = |outcome: Option<&JobOutcome>| {
                outcome.map_or_else(|| "nothing".to_owned(), |outcome| format!("{outcome:?}"))
            };
            let (here, there) = (state(here), state(there));
            format!("converges: `{job}` ends as {here}, without the fault as {there}")
        });
        let active = different(&self.active, &without.active).map(|(check, here, there)| {
            let state = |active: Option<&bool>| match active {
                None => "deleted",
                Some(true) => "active",
                Some(false) => "inactive",
            };
            let (here, there) = (state(here), state(there));
            format!("converges: AdmissionCheck `{check}` is {here}, without the fault {there}")
        });
        jobs.chain(active).collect()
    }
}

/// Returns the keys of both maps with different values.
fn different<'a, V: PartialEq>(
    here: &'a BTreeMap<String, V>,
    there: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = (&'a str, Option<&'a V>, Option<&'a V>)> {
    let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let both = keys.into_iter();
    let both = both.map(|key| (key.as_str(), here.get(key), there.get(key)));
    both.filter(|(_, here, there)| here != there)
}

/// A scenario of any type. One generic function for each scenario would be a third of the time that
/// tests with forty scenarios take to compile.
pub(super) trait Steps {
    fn on<'run>(&'run self, cluster: &'run Cluster) -> LocalBoxFuture<'run, ()>;
}

impl<F: AsyncFn(&Cluster)> Steps for F {
    fn on<'run>(&'run self, cluster: &'run Cluster) -> LocalBoxFuture<'run, ()> {
        self(cluster).boxed_local()
    }
}

/// One run of a scenario.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Cluster, Job, FaultPlan, Simulation};
///
/// async fn admitted(cluster: &Cluster) {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// }
/// let plan: FaultPlan = "check-0/request/0/503".parse()?;
/// let run = Simulation::new(|| open).seed(7).run_with(&admitted, &plan);
/// assert!(!run.failed() && run.not_injected.is_none());
/// // As it is printed where it fails.
/// assert!(run.to_string().starts_with("seed 7, to see it again: KUEUE_CHECK_PLAN='check-0/request/0/503'\n"));
/// # Ok::<(), kueue_check_sim::explore::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    /// The faults of the run.
    pub plan: FaultPlan,
    /// The faults of the plan that were not injected: the run has no such point, or the fault is
    /// impossible there.
    pub not_injected: FaultPlan,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The points at which a fault was possible.
    pub points: Vec<InjectionPoint>,
    /// The reason why the scenario ended early.
    pub failure: Option<String>,
    /// The invariants that were violated.
    pub violations: Vec<String>,
    /// The final states.
    pub outcome: Outcome,
    /// The number of the replicas' requests.
    pub requests: usize,
    /// The number of writes without a cause: in the 2 min after the scenario's end and a rest.
    pub restless: usize,
    pub(crate) until: Timestamp,
    pub(crate) server: ApiServer,
}

/// The limit for writes without a cause in 2 min; more are a loop.
const LOOP: usize = 24;
/// Columns of the timeline.
const WIDTH: usize = 160;
/// The number of requests that a start, or a client's repeats after a fault, may add.
const REQUESTS: usize = 60;

impl Run {
    /// Returns true if an expectation failed or an invariant was violated.
    pub fn failed(&self) -> bool {
        self.failure.is_some() || !self.violations.is_empty()
    }

    /// Returns all writes, oldest first.
    pub fn history(&self) -> Vec<Arc<Change>> {
        self.server.history()
    }

    /// Returns the Workloads over time.
    pub fn timeline(&self) -> Timeline {
        Timeline::of(&self.server, self.until)
    }

    /// Adds the differences from the run without faults as violations.
    pub(crate) fn compare(&mut self, without: &Self) {
        if self.failure.is_some() {
            return;
        }
        let (here, there) = (&self.outcome, &without.outcome);
        let mut differences = here.differences(there);
        let faults = self.plan.len().max(1);
        if self.restless > without.restless + 2 {
            differences.push(format!(
                "quiet: {} writes while nothing happens, without the fault {}",
                self.restless, without.restless
            ));
        }
        let bound = without.requests * 2 + REQUESTS * faults;
        if self.requests > bound {
            differences.push(format!(
                "cheap: {} requests, without the fault {}",
                self.requests, without.requests
            ));
        }
        let (here, there) = (self.evictions(), without.evictions());
        if here > there {
            differences.push(format!("never evicts: {here} running jobs were evicted for a check, without the fault {there}"));
        }
        self.violations.extend(differences);
    }

    /// Adds the faults that were not injected as a violation.
    pub(crate) fn require_injected(&mut self) {
        if !self.not_injected.is_none() {
            self.violations.push(format!(
                "not injected: `{}`: the run has no such point, or the fault is impossible there; if an exploration chose it, two runs of the check differ (random numbers, the order of a hash map, real time)",
                self.not_injected
            ));
        }
    }

    /// Counts the evictions of running jobs for a check.
    fn evictions(&self) -> usize {
        let history = self.server.history();
        let ends = history.iter().filter(|change| {
            let Some(before) = change.previous.as_deref() else {
                return false;
            };
            let evicted = |object| condition(object, "Evicted");
            let by_check = evicted(&change.object)
                .is_some_and(|now| now["status"] == "True" && now["reason"] == "AdmissionCheck");
            let before_evicted = evicted(before).is_some_and(|was| was["status"] == "True");
            let ran = is_true(before, "Admitted");
            by_check && !before_evicted && ran
        });
        ends.count()
    }

    pub(crate) fn loops(&mut self) {
        if self.restless > LOOP {
            let writes = self.restless;
            self.violations.push(format!(
                "quiet: {writes} writes in two minutes in which nothing happens"
            ));
        }
    }

    pub(crate) fn or_panic(&self) {
        assert!(!self.failed(), "{self}");
    }
}

/// Prints the failures, the plan that repeats the run, and the timeline.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            writeln!(f, "{failure}")?;
        }
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        if self.plan.is_none() {
            writeln!(f, "without a fault, seed {}", self.seed)?;
        } else {
            writeln!(
                f,
                "seed {}, to see it again: {PLAN_ENV}='{}'",
                self.seed, self.plan
            )?;
        }
        writeln!(f, "\n{}", self.timeline().table(WIDTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_compared_in_both_directions() {
        let job = |reserved| JobOutcome {
            reserved,
            active: true,
            ..JobOutcome::default()
        };
        let outcome = |jobs: &[(&str, bool)], active: &[(&str, bool)]| Outcome {
            jobs: jobs
                .iter()
                .map(|(name, reserved)| ((*name).to_owned(), job(*reserved)))
                .collect(),
            active: active
                .iter()
                .map(|(name, active)| ((*name).to_owned(), *active))
                .collect(),
        };
        let without = outcome(&[("a", true)], &[("check", true)]);
        let table = [
            (without.clone(), ""),
            (
                outcome(&[("a", false)], &[("check", true)]),
                "`a` ends as JobOutcome",
            ),
            (outcome(&[], &[("check", true)]), "`a` ends as nothing"),
            (
                outcome(&[("a", true), ("b", true)], &[("check", true)]),
                "`b` ends as JobOutcome",
            ),
            (
                outcome(&[("a", true)], &[("check", false)]),
                "`check` is inactive, without the fault active",
            ),
            (
                outcome(&[("a", true)], &[]),
                "`check` is deleted, without the fault active",
            ),
            (
                outcome(&[("a", true)], &[("check", true), ("other", true)]),
                "`other` is active, without the fault deleted",
            ),
        ];
        for (here, expected) in table {
            let found = here.differences(&without).join("; ");
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
            assert!(found.contains(expected), "{found}");
        }
    }
}
