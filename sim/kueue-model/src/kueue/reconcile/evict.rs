//! Eviction: marks a Workload as evicted and resets its checks.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::quota::BLOCKED;
use super::{EventRecord, Outcome};
use crate::kueue::objects::{AdmissionCheckState, Condition, State, True, Workload, whole_seconds};

/// Marks a Workload as evicted and resets its checks. Its quota stays reserved until its job has
/// stopped. `cause` is counted, and is the second part of the reason of a deactivation, such as
/// `DeactivatedDueToAdmissionCheck`.
pub(crate) fn evict(
    workload: &Workload,
    reason: &str,
    message: &str,
    cause: Option<&str>,
    now: Timestamp,
    reporter: &'static str,
) -> Outcome {
    let full_reason = match cause {
        Some(cause) if reason == "Deactivated" => format!("{reason}DueTo{cause}"),
        _ => reason.to_owned(),
    };
    let had_admission = workload.status.admission.is_some();
    let mut changed = workload.clone();
    changed.set_condition(Condition::new(
        "Evicted",
        True(true),
        full_reason.clone(),
        message,
        now,
    ));
    let status = &mut changed.status;
    for check in &mut status.admission_checks {
        reset(check, now);
    }
    count(&mut status.scheduling_stats, reason, cause);
    if status.conditions.is_true(BLOCKED) {
        let over = Condition::new(BLOCKED, True(false), full_reason.clone(), message, now);
        changed.set_condition(over);
    }
    changed.close_gates(now);
    let outcome = Outcome::admission(changed);
    if had_admission {
        outcome.note(EventRecord::normal(
            format!("EvictedDueTo{full_reason}"),
            message,
            reporter,
        ))
    } else {
        outcome
    }
}

/// Resets an entry to Pending, keeping its delay. A Pending entry does not change. Retry increments
/// the count; any other state clears it.
fn reset(check: &mut AdmissionCheckState, now: Timestamp) {
    if check.state == State::Pending {
        return;
    }
    let previously = check.state.as_str();
    check.retry_count = (check.state == State::Retry).then(|| check.retry_count.unwrap_or(0) + 1);
    check.message = format!("Reset to Pending after eviction. Previously: {previously}");
    check.state = State::Pending;
    check.last_transition_time = whole_seconds(now);
    check.pod_set_updates.clear();
}

fn count(stats: &mut Option<Value>, reason: &str, cause: Option<&str>) {
    let cause = cause.unwrap_or_default();
    let stats = stats.get_or_insert_with(|| json!({}));
    if !stats["evictions"].is_array() {
        stats["evictions"] = json!([]);
    }
    let Some(evictions) = stats["evictions"].as_array_mut() else {
        return;
    };
    let same = |e: &&mut Value| e["reason"] == reason && e["underlyingCause"] == cause;
    if let Some(known) = evictions.iter_mut().find(same) {
        known["count"] = json!(known["count"].as_i64().unwrap_or(0) + 1);
    } else {
        evictions.push(json!({"reason": reason, "underlyingCause": cause, "count": 1}));
    }
}
