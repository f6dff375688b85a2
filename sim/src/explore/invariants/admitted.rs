//! Admissions by verdicts for another reservation.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::api::CheckState;

use super::{RequiredVerdict, has_verdict};
use super::{RunRecord, by_policy, condition, entry, is_true, of_workloads, place, text};

/// Finds Workloads admitted by a Ready of an earlier reservation. The check had 1 min to withdraw
/// it.
pub(super) fn by_an_earlier_ready(evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    let mut lost: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for change in of_workloads(evidence) {
        let Some(before) = change.previous.as_deref() else {
            continue;
        };
        let (after, at) = (&*change.object, change.at);
        let uid = text(&after["metadata"]["uid"]);
        if is_true(before, "QuotaReserved") && !is_true(after, "QuotaReserved") {
            lost.insert(uid, at);
        }
        if is_true(before, "Admitted") || !is_true(after, "Admitted") {
            continue;
        }
        let reserved = condition(after, "QuotaReserved")
            .and_then(|reserved| text(&reserved["lastTransitionTime"]).parse().ok());
        let reserved: Timestamp = reserved.unwrap_or(at);
        let Some(lost) = lost.get(uid) else { continue };
        // Condition times have a resolution of 1 s.
        if reserved.duration_since(*lost) < evidence.late() {
            continue;
        }
        for name in evidence.checks {
            let ready = entry(after, name).filter(|entry| entry["state"] == "Ready");
            let other = ready.is_some_and(|entry| {
                let required = RequiredVerdict {
                    state: &CheckState::Ready,
                    at,
                };
                !by_policy(text(&entry["message"]))
                    && !has_verdict(after, name, required, evidence.verdicts)
            });
            if other && !evidence.outliving.contains(name) {
                let job = place(after);
                found.push(format!(
                    "earlier: {job} is admitted at {at} by a Ready of `{name}` for a reservation that ended at {lost}"
                ));
            }
        }
    }
}
