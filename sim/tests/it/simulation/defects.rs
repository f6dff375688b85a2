//! Planted bugs: the runtime with each of them is found out.

use kueue_check::runtime::{Defect, with_defect};
use kueue_check_sim::Plan;
use kueue_check_sim::explore::{Fault, Point};
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

/// Which faults, of those that are no error, show which defects.
#[test]
fn what_is_behind_and_who_acts_beside_another_shows_bugs_too() {
    let only = |fault: Fault, point: &Point| match fault {
        Fault::StaleList => point.what.starts_with("list"),
        Fault::LaggingView => point.what.starts_with("watch"),
        _ => point.event || point.what.starts_with("apply"),
    };
    for (defect, name, _) in DEFECTS {
        let scenario = Scenario::named(name).unwrap();
        let found = with_defect(defect, || {
            let without = scenario.run(0, &Plan::none());
            if without.failed() {
                return vec!["no fault at all".to_owned()];
            }
            let mut found = Vec::new();
            for fault in [Fault::StaleList, Fault::LaggingView, Fault::SecondLeader] {
                let points = without.points.iter().filter(|point| only(fault, point));
                let plans = points.take(40).map(|point| Plan::of(point.clone(), fault));
                let mut failed = plans.filter(|plan| scenario.run(0, plan).failed());
                if let Some(plan) = failed.next() {
                    found.push(plan.to_string());
                }
            }
            found
        });
        println!("{defect:?} in `{name}`: {found:?}");
    }
}
