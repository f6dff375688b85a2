//! The conditions of quota reservation and admission.

use jiff::{SignedDuration, Timestamp};

use super::{EventRecord, Outcome, ReconcileInput, WORKLOAD_CONTROLLER};
use crate::kueue::KueueVersion;
use crate::kueue::objects::{Admission, Condition, True, Workload};

/// Reserves quota. Sets Evicted, Preempted and [`BLOCKED`] to `False` where they are `True`.
pub(crate) fn reserve(workload: &mut Workload, admission: Admission, now: Timestamp) {
    let message = format!("Quota reserved in ClusterQueue {}", admission.cluster_queue);
    workload.status.admission = Some(admission);
    let reserved = Condition::new("QuotaReserved", True(true), "QuotaReserved", message, now);
    workload.set_condition(reserved);
    for kind in ["Evicted", "Preempted", BLOCKED] {
        let known = workload.status.conditions.get(kind);
        let Some(old) = known.filter(|c| c.is_true()) else {
            continue;
        };
        let message = format!("Previously: {}", old.message);
        let over = Condition::new(kind, True(false), "QuotaReserved", message, now);
        workload.set_condition(over);
    }
}

/// The condition of a Workload that needs preemptions while its gate is closed.
pub(crate) const BLOCKED: &str = "BlockedOnPreemptionGates";

/// Releases quota, or records why there is none. Returns true if anything changed.
pub(crate) fn unset_quota(
    workload: &mut Workload,
    reason: &str,
    message: &str,
    version: KueueVersion,
    now: Timestamp,
) -> bool {
    let gone = workload.status.admission.take().is_some();
    let changed = workload.set_condition(Condition::new(
        "QuotaReserved",
        True(false),
        reason,
        message,
        now,
    ));
    sync_admitted(workload, version, now) || gone || changed
}

/// Finishes a Workload.
pub(crate) fn finish(
    workload: &mut Workload,
    (reason, message): (&str, &str),
    version: KueueVersion,
    now: Timestamp,
) {
    workload.set_condition(Condition::new("Finished", True(true), reason, message, now));
    if version.releases_at_end {
        let (reason, message) = FINISHED;
        unset_quota(workload, reason, message, version, now);
    }
}

/// The reason and message of the conditions of a finished Workload that holds no quota.
const FINISHED: (&str, &str) = ("Finished", "Workload has finished");

/// Sets the condition Admitted from quota and checks. Returns true if it changed.
pub(crate) fn sync_admitted(
    workload: &mut Workload,
    version: KueueVersion,
    now: Timestamp,
) -> bool {
    let reserved = workload.has_quota();
    let ready = workload.all_checks_ready();
    if workload.is_admitted() == (reserved && ready) {
        return false;
    }
    let finer = version.observability_reasons;
    let (admitted, reason, message) = match (reserved, ready) {
        _ if version.releases_at_end && workload.is_finished() => (false, FINISHED.0, FINISHED.1),
        (true, true) => (true, "Admitted", "The workload is admitted"),
        (true, false) if finer => (
            false,
            "UnsatisfiedAdmissionChecks",
            "The workload has not all checks ready",
        ),
        (true, false) => (
            false,
            "UnsatisfiedChecks",
            "The workload has not all checks ready",
        ),
        (false, false) if !finer => (
            false,
            "NoReservationUnsatisfiedChecks",
            "The workload has no reservation and not all checks ready",
        ),
        (false, _) => (false, "NoReservation", "The workload has no reservation"),
    };
    if !admitted {
        record_execution_time(workload, now);
    }
    let condition = Condition::new("Admitted", True(admitted), reason, message, now);
    workload.set_condition(condition)
}

/// Adds the last run to the past execution time (Kueue 0.19.2, `SyncAdmittedCondition` in
/// `pkg/workload/admissionchecks.go`).
fn record_execution_time(workload: &mut Workload, now: Timestamp) {
    let admitted = workload.status.conditions.get("Admitted");
    let Some(since) = admitted
        .filter(|c| c.is_true())
        .map(|c| c.last_transition_time)
    else {
        return;
    };
    let known = &mut workload.status.accumulated_past_execution_time_seconds;
    let ran = now.duration_since(since).as_secs();
    *known = Some(known.unwrap_or(0).saturating_add(ran));
}

/// Admits a Workload with quota and all checks Ready.
pub(super) fn admit(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if !workload.has_quota() || workload.is_admitted() || !workload.all_checks_ready() {
        return None;
    }
    // Under KEP-993, the scheduler checks the assignment once more before it admits.
    if at.version.kep993 && at.cluster_queue.is_some_and(|q| !q.checks().is_empty()) {
        return None;
    }
    let mut changed = workload.clone();
    sync_admitted(&mut changed, at.version, at.now);
    let since = changed.status.conditions.get("QuotaReserved")?;
    let waited = at.now.duration_since(since.last_transition_time);
    let note = admitted_event(&changed, waited, WORKLOAD_CONTROLLER)?;
    Some(Outcome::admission(changed).note(note))
}

/// Returns the event of an admission after the Workload has had quota for a time. That of the
/// scheduler has no time (Kueue 0.15.0 to 0.19.2, `recordWorkloadAdmissionEvents` in
/// `pkg/scheduler/scheduler.go`).
pub(crate) fn admitted_event(
    workload: &Workload,
    waited: SignedDuration,
    reporter: &'static str,
) -> Option<EventRecord> {
    let queue = &workload.status.admission.as_ref()?.cluster_queue;
    let waited = waited.as_secs_f64();
    let text =
        format!("Admitted by ClusterQueue {queue}, wait time since reservation was {waited:.0}s");
    Some(EventRecord::normal("Admitted", text, reporter))
}
