//! Planted bugs: the runtime with each of them is found out.

use kueue_check::runtime::{Defect, with_defect};
use kueue_check_sim::scenarios::Scenario;

/// Which scenario shows which defect, and the rule that it breaks.
const DEFECTS: [(Defect, &str, &str); 13] = [
    (Defect::WritesWhileEvicted, "preempted", "guard"),
    (Defect::SendsNoVersion, "preempted", ""),
    (Defect::SharesItsManager, "two-checks", ""),
    (Defect::KeepsLateAnswers, "preempted", "reservation"),
    (Defect::IgnoresTheLease, "failover", "one writer"),
    (Defect::ForgetsConflicts, "approve", "not within"),
    (Defect::ForgetsTimers, "wait", "not within"),
    (Defect::TakesLossForDeletion, "hold", "not within"),
    (Defect::NeverReasserts, "overwritten", "not within"),
    (Defect::DropsTheDelay, "retry", ""),
    (Defect::TouchesTheTime, "wait", "transition"),
    (Defect::RejectsOnErrors, "errors", "verdict"),
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
                assert!(
                    text.contains(rule),
                    "{defect:?} is found by another rule than {rule}:\n{text}"
                );
            }
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
