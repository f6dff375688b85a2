//! The admission gate annotation, which keeps a Workload from being scheduled.

use super::{EventRecord, Outcome, ReconcileInput, WORKLOAD_CONTROLLER, unset_quota};
use crate::kueue::objects::Workload;

const REASON: &str = "AdmissionGated";

/// Records that a Workload is gated, and that it no longer is.
pub(super) fn gated(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if !at.version.admission_gates {
        return None;
    }
    let reserved = workload.status.conditions.get("QuotaReserved");
    let is_recorded = reserved.is_some_and(|condition| condition.reason == REASON);
    let (reason, message, note) = match (workload.gated_by(), is_recorded) {
        (Some(gates), false) => (
            REASON,
            format!("Admission is gated by: {gates}"),
            (REASON, format!("Workload admission is gated by: {gates}")),
        ),
        (None, true) => (
            at.version.reason_while_pending(),
            "AdmissionGatedBy cleared, waiting for quota reservation".to_owned(),
            (
                "AdmissionGateCleared",
                "Admission gate cleared, workload is now admissible".to_owned(),
            ),
        ),
        _ => return None,
    };
    let mut changed = workload.clone();
    unset_quota(&mut changed, reason, &message, at.version, at.now);
    let (event, text) = note;
    Some(Outcome::admission(changed).note(EventRecord::normal(event, text, WORKLOAD_CONTROLLER)))
}
