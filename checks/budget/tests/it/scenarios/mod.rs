//! The check in a simulated cluster, with single faults.

mod close_local_queues;
mod families;
mod features;
mod idle;
mod limits;
mod pod_annotations;
mod queried_sources;
mod shared_budget;
mod single;
mod slow;
mod unreadable;
mod yielding;

use kube::CustomResourceExt;
use kueue_check::api::CheckState;
use kueue_check_budget::controller::{BudgetCheck, Feature};
use kueue_check_budget::resource::NamespaceBudget;
use kueue_check_budget::source::Credentials;
use kueue_check_sim::explore::{Fault, FaultPlan, InjectionPoint};
use kueue_check_sim::{Cluster, Simulation};
use serde_json::{Value, json};

use super::harness::budget;

/// Returns the spec of a Budget of `limit` a day. A CPU costs 1 for an hour, and each job of a CPU
/// is expected to run for one.
fn spec(limit: &str) -> Value {
    json!({
        "unit": "USD", "period": {"calendar": "Day"}, "source": {"fixed": {}, "settleDelay": "1s", "interval": "15s"},
        "namespaceLimits": {"default": limit},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "estimate": {"safetyFactor": "1", "defaultDuration": "59m30s", "overrunHorizon": "1h"},
    })
}

fn simulation(limit: &str) -> Simulation {
    of_spec(&spec(limit))
}

fn of_spec(spec: &Value) -> Simulation {
    with_features(spec, &[Feature::CloseLocalQueues, Feature::ClusterQueues])
}

fn with_features(spec: &Value, features: &'static [Feature]) -> Simulation {
    let check = || BudgetCheck::new(Credentials::default());
    Simulation::new(move || check().with(features.iter().copied()))
        .parameters(&budget("budget", spec))
        .object(&NamespaceBudget::crd())
}

/// Returns how many jobs are approved or run.
fn approved(cluster: &Cluster, jobs: &[&str]) -> usize {
    jobs.iter()
        .filter(|job| {
            cluster.is_admitted(job) || cluster.state_of("check", job) == Some(CheckState::Ready)
        })
        .count()
}

/// The approximate number of runs of each scenario, unless all are requested.
const RUNS: usize = 20;

/// The faults with which a response is lost.
const LOST: [Fault; 4] = [
    Fault::InternalError,
    Fault::Conflict,
    Fault::Disconnect,
    Fault::LoseReply,
];

/// Runs the scenario with every single fault in a release build or where `KUEUE_CHECK_EXPLORE` is
/// set, which takes minutes in a debug build. Otherwise runs it with some, spread over the
/// scenario, each kind of fault in turn.
fn try_out(name: &str, simulation: &Simulation, scenario: impl AsyncFn(&Cluster) + Sync) {
    if !cfg!(debug_assertions) || std::env::var_os("KUEUE_CHECK_EXPLORE").is_some() {
        let explored = simulation.explore(&scenario);
        println!("{name}: {explored}");
        for run in explored.failed.iter().take(12) {
            println!("{run}");
        }
        assert!(explored.failed.is_empty(), "{name}: {explored}");
        return;
    }
    let without = simulation.run(&scenario);
    let points = || without.points.iter().enumerate();
    let spread = points().map(|(number, point)| (point, possible(point)[number % 5]));
    let step = without.points.len().div_ceil(RUNS).max(1);
    // A lost response is the most frequent cause of failures.
    let lost_responses =
        points().filter(|(_, point)| point.what.ends_with("workloads/status") && !point.event);
    let lost_responses = lost_responses
        .take(6)
        .map(|(number, point)| (point, LOST[number % LOST.len()]));
    let mut runs = 0;
    for (point, fault) in lost_responses.chain(spread.step_by(step)) {
        let run = simulation.run_with(&scenario, &FaultPlan::of(point.clone(), fault));
        assert!(!run.failed(), "{name}: {run}");
        assert!(run.not_injected.is_none(), "{name}: {run}");
        assert_eq!(run.outcome, without.outcome, "{name}: {run}");
        runs += 1;
    }
    println!(
        "{name}: {runs} single faults at {} points",
        without.points.len()
    );
}

/// Returns five faults that can happen at `point`.
fn possible(point: &InjectionPoint) -> [Fault; 5] {
    let reads = ["get", "list", "watch"];
    let verb = point.what.split(' ').next().unwrap_or_default();
    if point.event {
        use Fault::{Break, Close, CrashOnEvent, Duplicate, Expire};
        [CrashOnEvent, Close, Break, Duplicate, Expire]
    } else if reads.contains(&verb) {
        use Fault::{CrashBefore, Disconnect, Gone, InternalError, Unavailable};
        [CrashBefore, Disconnect, Gone, InternalError, Unavailable]
    } else {
        use Fault::{Conflict, CrashAfter, CrashBefore, GatewayTimeout, LoseReply};
        [CrashAfter, LoseReply, CrashBefore, Conflict, GatewayTimeout]
    }
}
