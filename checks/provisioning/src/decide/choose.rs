//! The choice of the request that counts among those of a Workload.

use super::Facts;
use crate::request::CapacityRequest;

/// The request that counts, and those that do not.
pub(super) struct Chosen<'a> {
    /// The highest attempt of this check that requests what the Workload needs; for a running job
    /// the first that was provisioned.
    pub(super) kept: Option<(&'a CapacityRequest, u32)>,
    /// Unneeded requests: each requests something else for a job that waits, is of an earlier
    /// attempt, or of a check that the Workload does not need.
    pub(super) discard: Vec<Box<str>>,
}

pub(super) fn choose<'a>(facts: &Facts<'a>) -> Chosen<'a> {
    let class = facts.config.spec.provisioning_class_name.as_str();
    let present = facts.requests.iter().filter(|request| !request.deleting);
    let mut kept: Option<(&CapacityRequest, u32)> = None;
    let mut discard = Vec::new();
    for request in present {
        let Some(attempt) = request.attempt_of(facts.workload, facts.check) else {
            if !is_of_other_check(facts, request) {
                discard.push(request.name.clone());
            }
            continue;
        };
        let insufficient = facts.insufficient.contains_key(&request.name);
        // A running job got its capacity by the class and parameters of its time.
        let fits = facts.is_running() || request.matches(class, facts.parameters);
        // What a running job uses was provisioned first; users may have created others since.
        let is_used =
            |request: &CapacityRequest| facts.is_running() && request.phase.was_provisioned();
        let is_better =
            |(best, number): (&CapacityRequest, u32)| match (is_used(request), is_used(best)) {
                (true, true) => request.created < best.created,
                (false, false) => attempt > number,
                (used, _) => used,
            };
        if insufficient || !fits {
            discard.push(request.name.clone());
        } else if kept.is_none_or(is_better) {
            let replaced = kept.replace((request, attempt));
            discard.extend(replaced.map(|(earlier, _)| earlier.name.clone()));
        } else {
            discard.push(request.name.clone());
        }
    }
    Chosen { kept, discard }
}

/// Returns true if the request belongs to another check of the Workload.
fn is_of_other_check(facts: &Facts<'_>, request: &CapacityRequest) -> bool {
    let mut others = facts.checks.iter().filter(|check| **check != facts.check);
    others.any(|check| request.attempt_of(facts.workload, check).is_some())
}
