//! The scenarios that come with the crate: the runtime under every single fault.

use kueue_check_sim::explore::Fault;
use kueue_check_sim::scenarios::{self, Scenario};

/// Faults that the runtime does not survive yet in a scenario; none means that it fails without one.
/// Each line has an ignored test below, which names the finding.
const RED: [(&str, &[Fault]); 16] = [
    ("reject", &[Fault::LateReply]),
    ("two-checks", &[Fault::LateReply]),
    ("preempted", &[Fault::LateReply]),
    ("delete-written", &[Fault::LateReply]),
    ("no-parameters", &[Fault::LateReply]),
    ("no-check", &[Fault::Break, Fault::Late, Fault::Expire]),
    ("flap", &CRASHES),
    ("switched", &[]),
    ("panics", &[]),
    ("objects-anew", &[]),
    ("two-zones", &[]),
    ("upgrade", &[]),
    ("led-again", &[]),
    ("taken-over", &[]),
    ("kept-ready", &[]),
    ("two-an-hour", &[]),
];

/// The faults after which another process goes on.
const CRASHES: [Fault; 6] = [
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::CrashOnEvent,
    Fault::SecondLeader,
    Fault::ClockForward,
    Fault::ClockBack,
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
    for (number, run) in explored.failed.iter().enumerate() {
        if number < 3 {
            println!("{run}");
        } else {
            println!("also with {}", run.plan);
        }
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
#[ignore = "red: finding 1.2 (runtime)"]
fn what_was_deleted_stays_deleted_when_a_reply_is_late() {
    for name in [
        "reject",
        "two-checks",
        "preempted",
        "no-parameters",
        "delete-written",
    ] {
        survives(name);
    }
}

#[test]
#[ignore = "red: finding 1.1 (runtime)"]
fn two_checks_never_give_one_key_two_values() {
    survives("two-zones");
}

#[test]
#[ignore = "red: finding 1.3 (runtime)"]
fn two_replicas_never_evaluate_one_workload_at_a_time() {
    survives("taken-over");
}

#[test]
#[ignore = "red: finding 1.4 (runtime)"]
fn a_replica_that_leads_again_knows_what_ended_meanwhile() {
    survives("led-again");
}

#[test]
#[ignore = "red: finding 1.5 (runtime)"]
fn a_panic_at_the_parameters_of_one_check_is_no_end_of_the_process() {
    survives("panics");
}

#[test]
#[ignore = "red: finding 1.6 (runtime)"]
fn an_activation_that_failed_after_a_switch_is_tried_again() {
    survives("switched");
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
#[ignore = "red: finding 1.10 (runtime)"]
fn a_replacement_of_the_api_loses_no_release() {
    survives("upgrade");
}

#[test]
#[ignore = "red: finding 1.12 (runtime)"]
fn of_several_reservations_of_a_workload_each_is_released() {
    survives("flap");
}

/// The condition `Active` is written to a deleted AdmissionCheck again and again, without a pause,
/// until the event of the deletion arrives.
#[test]
#[ignore = "red: no finding yet, `announced` of `manager/activations.rs` (runtime)"]
fn a_deleted_admission_check_is_not_written_to_in_a_loop() {
    survives("no-check");
}

#[test]
#[ignore = "red: finding 7.1 (runtime)"]
fn a_ready_that_outlives_an_eviction_is_withdrawn() {
    survives("kept-ready");
}
