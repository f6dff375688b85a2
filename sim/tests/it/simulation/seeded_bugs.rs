//! The explorer finds seeded bugs. The runtime's requests arrive as a runtime with the bug would
//! send them.
//!
//! Seeded bugs of the runtime's decisions are in `src/interleavings/mutants.txt`.

use kueue_check_sim::apiserver::{ApiRequest, Patch, Verb};
use kueue_check_sim::scenarios::Scenario;
use serde_json::{Value, json};

/// Returns the entries of a Workload that `call` applies.
fn entries(call: &mut ApiRequest) -> Option<&mut Vec<Value>> {
    let writes = call.verb == Verb::Patch(Patch::Apply) && call.resource.plural == "workloads";
    let entries = call.body.pointer_mut("/status/admissionChecks");
    entries.filter(|_| writes)?.as_array_mut()
}

fn each_entry(call: &mut ApiRequest, change: impl Fn(&mut Value)) {
    if let Some(entries) = entries(call) {
        entries.iter_mut().for_each(change);
    }
}

fn sends_no_version(call: &mut ApiRequest) {
    if entries(call).is_some()
        && let Some(metadata) = call.body["metadata"].as_object_mut()
    {
        metadata.remove("resourceVersion");
    }
}

fn shares_its_manager(call: &mut ApiRequest) {
    for (name, value) in &mut call.query {
        if name == "fieldManager" {
            "kueue-check".clone_into(value);
        }
    }
}

fn drops_the_delay(call: &mut ApiRequest) {
    each_entry(call, |entry| {
        if entry["state"] == "Retry" {
            entry["requeueAfterSeconds"] = json!(0);
        }
    });
}

fn moves_the_time(call: &mut ApiRequest) {
    each_entry(call, |entry| {
        entry["lastTransitionTime"] = "2026-11-21T08:00:00Z".into();
    });
}

fn rejects_instead_of_waiting(call: &mut ApiRequest) {
    each_entry(call, |entry| {
        if entry["state"] == "Pending" {
            entry["state"] = "Rejected".into();
        }
    });
}

fn writes_two_entries(call: &mut ApiRequest) {
    if let Some(entries) = entries(call) {
        entries.push(json!({"name": "second", "state": "Ready", "message": "",
            "lastTransitionTime": "2026-11-21T09:00:00Z"}));
    }
}

type SeededBug = (&'static str, fn(&mut ApiRequest));

/// The bugs, each with the scenario that finds it and the rule that it violates.
const SEEDED_BUGS: [(SeededBug, &str, &str); 6] = [
    (("sends no version", sends_no_version), "preempted", ""),
    (("shares its manager", shares_its_manager), "two-checks", ""),
    (("drops the delay", drops_the_delay), "retry", ""),
    (("moves the time", moves_the_time), "wait", "transition"),
    (
        ("rejects instead of waiting", rejects_instead_of_waiting),
        "errors",
        "is admitted",
    ),
    (("writes two entries", writes_two_entries), "two-checks", ""),
];

#[test]
fn each_seeded_bug_is_found() {
    let mut missed = Vec::new();
    for ((bug, alter), name, rule) in SEEDED_BUGS {
        let scenario = Scenario::named(name).unwrap();
        let simulation = scenario.simulation().altering(alter);
        let explored = simulation.explore_until_failure(scenario.steps());
        let Some(run) = explored.failed.first() else {
            missed.push(bug);
            continue;
        };
        let text = run.to_string();
        println!(
            "{bug} ({} runs): {}",
            explored.runs,
            text.lines().next().unwrap()
        );
        if !text.contains(rule) {
            missed.push(bug);
            println!("by another rule than {rule}:\n{text}");
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
