//! The scenarios of the crate: the runtime under every single fault.

use kueue_check_sim::Simulation;
use kueue_check_sim::explore::{Fault, SAMPLE_ENV};
use kueue_check_sim::scenarios::{self, Scenario};

/// The faults that are left out.
const EXCEPT: [(&str, Fault); 3] = [
    // A race: either of the two checks may be first, so either may wait.
    ("two-zones", Fault::Hang),
    ("later-zones", Fault::Hang),
    // The check itself depends on the clock, and finds money again.
    ("two-an-hour", Fault::ClockBack),
];

/// Runs a scenario with the `wanted` faults; returns the number of failed runs.
fn failures(scenario: &Scenario, wanted: impl Fn(Fault) -> bool) -> usize {
    let unwanted = Fault::all().filter(|fault| !wanted(*fault));
    let mut simulation = unwanted.fold(scenario.simulation(), Simulation::exclude_fault);
    if let Ok(faults) = std::env::var(SAMPLE_ENV) {
        simulation = simulation.sample(faults.parse().unwrap());
    }
    let explored = simulation.explore(scenario.steps());
    println!("{:<15} {explored}", scenario.name);
    for run in explored.failed.iter().take(20) {
        println!("{run}");
    }
    explored.failed.len()
}

/// `KUEUE_CHECK_SCENARIO` runs one alone, with every fault.
#[test]
fn every_scenario_survives_every_single_fault() {
    if let Ok(only) = std::env::var("KUEUE_CHECK_SCENARIO") {
        return assert_eq!(failures(&Scenario::named(&only).unwrap(), |_| true), 0);
    }
    let mut failed = 0;
    for scenario in scenarios::all() {
        failed += failures(&scenario, |fault| !EXCEPT.contains(&(scenario.name, fault)));
    }
    assert_eq!(failed, 0);
}
