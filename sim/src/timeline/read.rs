//! Phase and check states of a Workload object.

use std::fmt::Write;

use kueue_check::api::CheckState;
use serde_json::Value;

use super::Phase;

/// Returns the phase, with the message of the condition that determines it.
///
/// Kueue evicts in several writes. `Evicted` comes first. Then the quota is released, with
/// `Requeued=False`. `Requeued=True` requeues the Workload, while `Evicted` stays true until the
/// next reservation. It also stays true when a person reactivates the Workload, with
/// `Requeued=False` until Kueue has requeued it.
pub(super) fn phase(workload: &Value) -> (Phase, String) {
    let is_set = |name| is_true(workload, name);
    let (phase, condition) = if is_set("Finished") {
        (Phase::Finished, "Finished")
    } else if is_set("Evicted") && is_set("QuotaReserved") {
        (Phase::Evicted, "Evicted")
    } else if is_set("QuotaReserved") && is_set("Admitted") {
        (Phase::Running, "Admitted")
    } else if is_set("QuotaReserved") {
        (Phase::QuotaReserved, "QuotaReserved")
    } else if workload["spec"]["active"] == Value::Bool(false) {
        (Phase::Deactivated, "Evicted")
    } else if is_set("Evicted") && !is_set("Requeued") && !is_deactivation(workload) {
        (Phase::Evicted, "Evicted")
    } else {
        (Phase::Waiting, "QuotaReserved")
    };
    (phase, message(workload, condition))
}

/// Returns name, state and message of the relevant entries of `status.admissionChecks`.
pub(super) fn checks(workload: &Value) -> Vec<(String, CheckState, String)> {
    if is_true(workload, "Finished") {
        return Vec::new();
    }
    let holds_quota = is_true(workload, "QuotaReserved");
    items(&workload["status"]["admissionChecks"])
        .map(|entry| {
            (
                text(&entry["name"]),
                CheckState::new(entry["state"].as_str().unwrap_or_default()),
                text(&entry["message"]),
            )
        })
        .filter(|(_, state, _)| holds_quota || *state != CheckState::Pending)
        .collect()
}

/// Returns a string field; empty if it is none.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns whether an object has a condition that is true.
pub(crate) fn is_true(object: &Value, name: &str) -> bool {
    condition(object, name).is_some_and(|condition| condition["status"] == "True")
}

/// Returns true if the last eviction was a deactivation (Kueue 0.19.2, `WorkloadDeactivated` in
/// `apis/kueue/v1beta2/workload_types.go`; the cause may follow).
fn is_deactivation(workload: &Value) -> bool {
    let reason = condition(workload, "Evicted").and_then(|evicted| evicted["reason"].as_str());
    reason.is_some_and(|reason| reason.starts_with("Deactivated"))
}

fn message(workload: &Value, name: &str) -> String {
    condition(workload, name).map_or_else(String::new, |condition| text(&condition["message"]))
}

/// Returns a condition of an object.
pub(crate) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    items(&object["status"]["conditions"]).find(|condition| condition["type"] == name)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns a Workload in one line: its phase, and the state and message of each check.
///
/// ```
/// use kueue_check_sim::timeline::summary;
/// use serde_json::json;
///
/// let mut workload = json!({"status": {
///     "conditions": [{"type": "QuotaReserved", "status": "True"}],
///     "admissionChecks": [{"name": "licence", "state": "Pending", "message": "waits for 2 licences"}],
/// }});
/// assert_eq!(summary(&workload), "quota reserved; licence Pending: waits for 2 licences");
/// // Without quota no check is evaluated, and the entry means nothing.
/// workload["status"]["conditions"][0]["status"] = json!("False");
/// assert_eq!(summary(&workload), "waiting");
/// ```
pub fn summary(workload: &Value) -> String {
    let (phase, _) = phase(workload);
    let mut line = phase.as_str().to_owned();
    for (name, state, message) in checks(workload) {
        let _ = write!(line, "; {name} {state}");
        if !message.is_empty() {
            let _ = write!(line, ": {}", super::format::one_line(&message));
        }
    }
    line
}
