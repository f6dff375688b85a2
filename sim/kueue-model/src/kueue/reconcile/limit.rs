//! The limits of an admitted Workload: its maximum execution time, and the time until its Pods are
//! ready.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{EventRecord, Outcome, ReconcileInput, WORKLOAD_CONTROLLER, evict};
use crate::kueue::objects::{Condition, RequeueState, True, Workload, whole_seconds};
use crate::kueue::pods_ready::WaitForPodsReady;

const REASON: &str = "MaximumExecutionTimeExceeded";

/// Returns the consequence of a limit that an admitted Workload exceeds, or the time at which it
/// exceeds the next one.
pub(super) fn exceeded(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if !workload.has_quota() {
        return None;
    }
    let admitted = workload.status.conditions.get("Admitted");
    let since = admitted.filter(|c| c.is_true())?.last_transition_time;
    let ready = pods_ready(workload, since, at);
    let (ready, time) = match (ready, execution_time(workload, since, at)) {
        (Some(ready), Some(time)) => (ready, time),
        (ready, time) => return ready.or(time),
    };
    // One write for each pass, and the timer that is due first.
    Some(match (ready.again, time.again) {
        (Some(first), Some(second)) => Outcome::wait_until(first.min(second)),
        (Some(_), None) => time,
        (None, _) => ready,
    })
}

/// Deactivates a Workload that exceeds its maximum execution time, earlier runs included.
fn execution_time(
    workload: &Workload,
    since: Timestamp,
    at: &ReconcileInput<'_>,
) -> Option<Outcome> {
    let limit = workload.spec.maximum_execution_time_seconds?;
    let before = workload
        .status
        .accumulated_past_execution_time_seconds
        .unwrap_or(0);
    let left = SignedDuration::from_secs(limit.saturating_sub(before));
    let end = since.saturating_add(left).ok()?;
    if end > at.now {
        return Some(Outcome::wait_until(end));
    }
    if workload.status.conditions.is_true("DeactivationTarget") {
        return None;
    }
    let message = "exceeding the maximum execution time";
    let mut changed = targeted(workload, REASON, message, at.now);
    changed.status.accumulated_past_execution_time_seconds = None;
    let text = format!("The maximum execution time ({limit}s) exceeded");
    Some(Outcome::admission(changed).note(EventRecord::warning(REASON, text, WORKLOAD_CONTROLLER)))
}

fn targeted(workload: &Workload, reason: &str, message: &str, now: Timestamp) -> Workload {
    let mut changed = workload.clone();
    let target = Condition::new("DeactivationTarget", True(true), reason, message, now);
    changed.set_condition(target);
    changed
}

/// Evicts a Workload whose Pods are not ready in time, or deactivates it after too many such
/// evictions (Kueue 0.19.2, `reconcileNotReadyTimeout` in
/// `pkg/controller/core/workload_controller.go`).
fn pods_ready(workload: &Workload, since: Timestamp, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let setting = at.version.wait_for_pods_ready?;
    let is_variant = at.version.concurrent_admission && workload.parent_uid().is_some();
    if !workload.is_active() || workload.is_evicted() || is_variant {
        return None;
    }
    let (cause, end) = not_ready(workload, since, &setting)?;
    if end > at.now {
        return Some(Outcome::wait_until(end));
    }
    let state = workload.status.requeue_state.clone().unwrap_or_default();
    let count = u32::try_from(state.count.unwrap_or(0)).unwrap_or(u32::MAX);
    let count = count.saturating_add(1);
    if setting
        .backoff_limit_count
        .is_some_and(|limit| count > limit)
    {
        let message = "exceeding the maximum number of re-queuing retries";
        let changed = targeted(workload, "RequeuingLimitExceeded", message, at.now);
        return Some(Outcome::admission(changed));
    }
    let end = whole_seconds(after(at.now, setting.backoff(count)));
    let mut changed = workload.clone();
    changed.status.requeue_state = Some(RequeueState {
        count: Some(i64::from(count)),
        requeue_at: state.requeue_at.max(Some(end)),
    });
    let message = format!("Exceeded the PodsReady timeout {}", workload.metadata.key());
    Some(evict(
        &changed,
        "PodsReadyTimeout",
        &message,
        Some(cause),
        at.now,
        WORKLOAD_CONTROLLER,
    ))
}

/// Returns what the Pods of a Workload wait for, and the end of the time that they have for it.
/// Returns `None` if they are ready or have no limit.
fn not_ready(
    workload: &Workload,
    since: Timestamp,
    setting: &WaitForPodsReady,
) -> Option<(&'static str, Timestamp)> {
    match workload.status.conditions.get("PodsReady") {
        Some(condition) if condition.is_true() => None,
        Some(condition) if condition.reason == "WaitForRecovery" => {
            let end = after(condition.last_transition_time, setting.recovery_timeout?);
            Some(("WaitForRecovery", end))
        }
        Some(condition) if !matches!(&*condition.reason, "WaitForStart" | "PodsReady") => None,
        _ => Some(("WaitForStart", after(since, setting.timeout))),
    }
}

fn after(start: Timestamp, delay: Duration) -> Timestamp {
    start.saturating_add(delay).unwrap_or(Timestamp::MAX)
}
