//! The scenarios that come with the crate: the runtime under every single fault.

use kueue_check_sim::explore::Fault;
use kueue_check_sim::scenarios::{self, Scenario};

/// Faults that the runtime does not survive yet in a scenario; none means that it fails without one.
/// Each line has an ignored test below, which names the finding.
const RED: [(&str, &[Fault]); 12] = [
    // Mended in the runtime, and not yet run to their end with it.
    ("reject", &[Fault::LateReply]),
    ("two-checks", &[Fault::LateReply]),
    ("preempted", &[Fault::LateReply]),
    ("no-parameters", &[Fault::LateReply]),
    ("delete-asked", &[Fault::LateReply]),
    ("delete-written", &[Fault::LateReply]),
    ("delete-stopping", &[Fault::LateReply]),
    ("no-check", &[Fault::Break, Fault::Late, Fault::Expire]),
    // Which of the two checks is first, and so which one waits, is a race.
    ("two-zones", &[Fault::Hang]),
    ("objects-anew", &[]),
    ("two-an-hour", &[]),
    ("led-again", &[]),
];

/// Whether the runtime does not get through a scenario yet although nothing goes wrong.
pub(super) fn fails_without_a_fault(name: &str) -> bool {
    RED.iter()
        .any(|(red, faults)| *red == name && faults.is_empty())
}

/// Runs a scenario with those faults that are `wanted`, and says how many runs failed.
fn failures(scenario: &Scenario, wanted: impl Fn(Fault) -> bool) -> usize {
    let explored = scenario.explore_with(0, wanted);
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
        match RED.iter().find(|(name, _)| *name == scenario.name) {
            Some((_, [])) => println!("{:<15} is known to fail", scenario.name),
            Some((_, faults)) => failed += failures(&scenario, |fault| !faults.contains(&fault)),
            None => failed += failures(&scenario, |_| true),
        }
    }
    assert_eq!(failed, 0);
}

/// Runs a scenario with the faults that it does not survive yet, or with all.
fn survives(name: &str) {
    let scenario = Scenario::named(name).unwrap();
    let known = RED.iter().find(|(red, _)| *red == name);
    let faults = known.map_or(&[][..], |(_, faults)| faults);
    let wanted = |fault| faults.is_empty() || faults.contains(&fault);
    assert_eq!(failures(&scenario, wanted), 0);
}

#[test]
#[ignore = "red: finding 1.4 (runtime)"]
fn a_replica_that_leads_again_knows_what_ended_meanwhile() {
    survives("led-again");
}

#[test]
#[ignore = "red: finding 1.8 (runtime)"]
fn a_check_stops_no_more_running_jobs_in_an_hour_than_it_may() {
    survives("two-an-hour");
}

#[test]
#[ignore = "red: finding 1.9 (runtime)"]
fn a_new_process_watches_running_jobs_as_the_last_one_did() {
    survives("objects-anew");
}

#[test]
#[ignore = "finding 1.2 (runtime): mended, and not yet run to its end"]
fn what_was_deleted_stays_deleted_when_a_reply_is_late() {
    for name in [
        "reject",
        "two-checks",
        "preempted",
        "no-parameters",
        "delete-asked",
        "delete-written",
        "delete-stopping",
        "no-check",
    ] {
        survives(name);
    }
}
