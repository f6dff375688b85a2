//! How long a Workload may run.

use jiff::SignedDuration;

use super::{EventRecord, Outcome, ReconcileInput, WORKLOAD_CONTROLLER};
use crate::kueue::objects::{Condition, True, Workload};

const REASON: &str = "MaximumExecutionTimeExceeded";

/// Deactivates what has run for too long, earlier runs included.
pub(super) fn execution_time(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let limit = workload.spec.maximum_execution_time_seconds?;
    let admitted = workload
        .status
        .conditions
        .get("Admitted")
        .filter(|c| c.is_true())?;
    if !workload.has_quota() {
        return None;
    }
    let before = workload
        .status
        .accumulated_past_execution_time_seconds
        .unwrap_or(0);
    let left = SignedDuration::from_secs(limit.saturating_sub(before));
    let end = admitted.last_transition_time.saturating_add(left).ok()?;
    if end > at.now {
        return Some(Outcome::wait_until(end));
    }
    if workload.status.conditions.is_true("DeactivationTarget") {
        return None;
    }
    let mut changed = workload.clone();
    let status = &mut changed.status;
    let message = "exceeding the maximum execution time";
    let target = Condition::new("DeactivationTarget", True(true), REASON, message, at.now);
    status.conditions.set(target);
    status.accumulated_past_execution_time_seconds = None;
    let text = format!("The maximum execution time ({limit}s) exceeded");
    Some(Outcome::admission(changed).note(EventRecord::warning(REASON, text, WORKLOAD_CONTROLLER)))
}
