//! Planted bugs: the runtime with each of them is found out.

use kueue_check::runtime::{Defect, with_defect};
use kueue_check_sim::Plan;
use kueue_check_sim::explore::Fault;
use kueue_check_sim::scenarios::Scenario;

/// Which scenario shows which defect, and the rule that it breaks.
const DEFECTS: [(Defect, &str, &str); 13] = [
    (
        Defect::WritesWhileEvicted,
        "slow-to-stop",
        "Pending for `low`",
    ),
    (Defect::SendsNoVersion, "preempted", ""),
    (Defect::SharesItsManager, "two-checks", ""),
    (Defect::KeepsLateAnswers, "preempted", "reservation"),
    (Defect::IgnoresTheLease, "failover", "one writer"),
    (Defect::ForgetsConflicts, "approve", "not within"),
    (Defect::ForgetsTimers, "wait", "not within"),
    (Defect::TakesLossForDeletion, "hold", "should wait"),
    (Defect::NeverReasserts, "overwritten", "not within"),
    (Defect::DropsTheDelay, "retry", ""),
    (Defect::TouchesTheTime, "wait", "transition"),
    (Defect::RejectsOnErrors, "errors", "is admitted"),
    (Defect::SaysPendingLate, "objection", "admitted"),
];

#[test]
fn each_planted_bug_is_found() {
    let mut missed = Vec::new();
    for (defect, name, rule) in DEFECTS {
        let scenario = Scenario::named(name).unwrap();
        let explored = with_defect(defect, || scenario.explore_until_failure(0));
        match explored.failed.first() {
            Some(run) => {
                let text = run.to_string();
                println!(
                    "{defect:?} ({} runs): {}",
                    explored.runs,
                    text.lines().next().unwrap()
                );
                if !text.contains(rule) {
                    missed.push(defect);
                    println!("by another rule than {rule}:\n{text}");
                }
            }
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// What is no error of any request shows bugs too: a fault of this kind alone, and without it nothing is wrong.
#[test]
fn a_watch_that_is_behind_and_a_second_process_show_bugs_too() {
    let table = [
        (Defect::TouchesTheTime, Fault::LaggingView, "watch"),
        (Defect::ForgetsTimers, Fault::SecondLeader, "apply"),
    ];
    let scenario = Scenario::named("wait").unwrap();
    for (defect, fault, what) in table {
        with_defect(defect, || {
            let without = scenario.run(0, &Plan::none());
            assert!(!without.failed(), "{without}");
            let points = without.points.iter();
            let mut plans = points
                .filter(|point| !point.event && point.what.starts_with(what))
                .map(|point| Plan::of(point.clone(), fault));
            let found = plans.any(|plan| scenario.run(0, &plan).failed());
            assert!(found, "{defect:?} is not shown by {fault:?}");
        });
    }
}
