//! Retry delays, deactivation and requeuing.

use jiff::{SignedDuration, Timestamp};

use super::{Outcome, ReconcileInput, WORKLOAD_CONTROLLER, Write, evict};
use crate::kueue::objects::{Condition, RequeueState, State, True, Workload, whole_seconds};

/// Returns the latest end of the delays of all checks in Retry.
fn end_of_delays(workload: &Workload) -> Option<Timestamp> {
    let delayed = workload.checks_in(State::Retry).filter_map(|check| {
        let delay = SignedDuration::from_secs(check.requeue_after_seconds?);
        check.last_transition_time.saturating_add(delay).ok()
    });
    delayed.max()
}

/// Stores the delay of a Retry as `requeueAt`, which never gets shorter. For an inactive Workload,
/// Kueue sets and clears it in turn, as fast as the API server responds, and does nothing else
/// until the delay is over. The model does that once.
pub(super) fn delay_of_retries(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if !at.version.delays_retries {
        return None;
    }
    let end = whole_seconds(end_of_delays(workload)?);
    if end <= at.now || workload.requeue_at().is_some_and(|known| known >= end) {
        return None;
    }
    if !workload.is_active() && at.delay_written == Some(end) {
        return Some(Outcome::wait_until(end));
    }
    let mut changed = workload.clone();
    let state = changed.status.requeue_state.get_or_insert_default();
    state.requeue_at = Some(end);
    Some(Outcome::admission(changed))
}

/// Deactivates a Workload with the condition `DeactivationTarget`.
pub(super) fn deactivation_target(workload: &Workload, _: &ReconcileInput<'_>) -> Option<Outcome> {
    let target = workload.status.conditions.is_true("DeactivationTarget");
    (workload.is_active() && target).then(|| Outcome::write(Write::Deactivate))
}

/// Ends the pass before `requeueAt`: the quota stays reserved, a running job continues.
pub(super) fn waiting(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let until = workload
        .requeue_at()
        .filter(|until| *until > at.now && workload.is_active())?;
    Some(Outcome::wait_until(until))
}

/// Removes a past `requeueAt` from an active Workload without quota.
pub(super) fn waited(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let state = workload.status.requeue_state.as_ref()?;
    let over = state.requeue_at.is_some_and(|until| until <= at.now);
    if !over || !workload.is_active() || workload.has_quota() {
        return None;
    }
    let mut changed = workload.clone();
    let left = RequeueState {
        requeue_at: None,
        ..state.clone()
    };
    changed.status.requeue_state = Some(left).filter(|left| *left != RequeueState::default());
    Some(Outcome::admission(changed))
}

/// Sets Requeued to `True` after the delay or a reactivation.
pub(super) fn backoff_over(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let requeued = workload.status.conditions.get("Requeued")?;
    if !workload.is_active() || !requeued.is_false() {
        return None;
    }
    let (reason, message) = match requeued.reason.as_str() {
        "Deactivated" => ("Reactivated", "The workload was reactivated"),
        "AdmissionCheck" | "PodsReadyTimeout" => {
            ("BackoffFinished", "The workload backoff was finished")
        }
        other if other.starts_with("DeactivatedDueTo") && at.version.reactivates_rejected => {
            ("Reactivated", "The workload was reactivated")
        }
        _ => return None,
    };
    let mut changed = workload.clone();
    if let Some(state) = &mut changed.status.requeue_state {
        state.requeue_at = None;
    }
    let condition = Condition::new("Requeued", True(true), reason, message, at.now);
    changed.set_condition(condition);
    Some(Outcome::admission(changed))
}

/// Evicts an inactive Workload and clears its requeue state.
pub(super) fn deactivated(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if workload.is_active() {
        return None;
    }
    let conditions = &workload.status.conditions;
    let target = conditions.get("DeactivationTarget");
    let evicts = !workload.is_evicted();
    if !evicts && workload.status.requeue_state.is_none() {
        return None;
    }
    let cause = target.map(|t| t.reason.clone());
    let message = match target {
        Some(target) => format!("The workload is deactivated due to {}", target.message),
        None => "The workload is deactivated".to_owned(),
    };
    let mut changed = workload.clone();
    changed.status.conditions.remove("DeactivationTarget");
    changed.status.requeue_state = None;
    Some(if evicts {
        evict(
            &changed,
            "Deactivated",
            &message,
            cause.as_deref(),
            at.now,
            WORKLOAD_CONTROLLER,
        )
    } else {
        Outcome::admission(changed)
    })
}
