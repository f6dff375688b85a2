//! Planted bugs: the runtime with each of them is found out.

use kueue_check::runtime::{Defect, with_defect};
use kueue_check_sim::scenarios::Scenario;

/// Which scenario shows which defect, and the rule that it breaks.
const DEFECTS: [(Defect, &str, &str); 13] = [
    (Defect::WritesWhileEvicted, "slow-to-stop", "Pending for `low`"),
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
                println!("{defect:?} ({} runs): {}", explored.runs, text.lines().next().unwrap());
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

/// `KUEUE_CHECK_SCENARIO=wait KUEUE_CHECK_PLAN=…` shows one run of a scenario with a defect.
#[test]
fn show() {
    let Ok(name) = std::env::var("SHOW") else { return };
    let defect = DEFECTS.iter().find(|d| format!("{:?}", d.0) == name).unwrap();
    let plan = std::env::var("PLAN").unwrap_or_default().parse().unwrap_or_default();
    let run = with_defect(defect.0, || Scenario::named(defect.1).unwrap().run(0, &plan));
    println!("{run}");
    for change in run.history() {
        if change.resource.plural == "workloads" {
            println!("{} {} {} {}", change.at, change.agent, change.object["metadata"]["name"], change.object["status"]["conditions"]);
        }
    }
}
