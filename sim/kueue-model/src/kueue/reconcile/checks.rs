//! Which checks a Workload has, and what their states lead to.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{EventRecord, Outcome, ReconcileInput, WORKLOAD_CONTROLLER, Write, evict};
use crate::kueue::objects::{
    Admission, CheckEntry, CheckRule, ClusterQueue, Condition, State, True, Workload, whole_seconds,
};

/// The checks that a Workload needs: of its flavors if it has quota, else those for all flavors of
/// the ClusterQueue. One for no flavor in particular is for all that the ClusterQueue has now, so
/// that a Workload without a flavor has none (Kueue 0.19.2, `admissionChecksForAdmission` in
/// `pkg/workload/workload.go`). `early`: [`lists_checks_early`].
///
/// [`lists_checks_early`]: crate::kueue::KueueVersion::lists_checks_early
pub(crate) fn needed_checks<'a>(
    queue: &'a ClusterQueue,
    admission: Option<&Admission>,
    early: bool,
) -> BTreeSet<&'a str> {
    let all: BTreeSet<&str> = queue.flavors().collect();
    let assigned: Option<BTreeSet<&str>> = admission.map(|admission| {
        let sets = admission.pod_set_assignments.iter();
        sets.flat_map(|set| set.flavors.values().map(String::as_str))
            .collect()
    });
    let on = |rule: &CheckRule, flavor: &str| {
        let named = || rule.on_flavors.iter().any(|name| name == flavor);
        all.contains(flavor) && rule.on_flavors.is_empty() || named()
    };
    let on_all = |rule: &CheckRule| all.iter().all(|flavor| on(rule, flavor));
    let early = early || queue.checks().iter().all(on_all);
    let needed = queue.checks().iter().filter(|rule| match &assigned {
        Some(assigned) => assigned.iter().any(|flavor| on(rule, flavor)),
        None => early && on_all(rule),
    });
    needed.map(|rule| rule.name.as_str()).collect()
}

/// The entries as they should be, or `None` if they are: missing ones Pending, others gone, by
/// name.
pub(crate) fn synced_entries(
    entries: &[CheckEntry],
    needed: &BTreeSet<&str>,
    now: Timestamp,
) -> Option<Vec<CheckEntry>> {
    let have: BTreeSet<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    if have == *needed {
        return None;
    }
    let entry = |name: &&str| {
        let known = entries.iter().find(|e| e.name == **name);
        known.cloned().unwrap_or_else(|| CheckEntry {
            name: (*name).to_owned(),
            last_transition_time: whole_seconds(now),
            ..CheckEntry::default()
        })
    };
    Some(needed.iter().map(entry).collect())
}

/// Brings the list up to date.
pub(super) fn sync(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let queue = at.cluster_queue.filter(|_| !at.has_variants)?;
    let admission = workload.status.admission.as_ref();
    let needed = needed_checks(queue, admission, at.version.lists_checks_early);
    let entries = synced_entries(&workload.status.admission_checks, &needed, at.now)?;
    Some(Outcome::write(Write::Checks(entries)))
}

/// Evicts for Retry, deactivates for Rejected; both only with quota.
pub(super) fn act_on_states(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if at.has_variants || !workload.has_quota() || !workload.is_active() {
        return None;
    }
    let evicted = workload.is_evicted();
    let rejected: Vec<&CheckEntry> = workload.checks_in(State::Rejected).collect();
    if !rejected.is_empty() && (!evicted || at.version.rejects_while_evicted) {
        return Some(reject(workload, &rejected, at.now));
    }
    let retried: Vec<&CheckEntry> = workload.checks_in(State::Retry).collect();
    if retried.is_empty() || evicted {
        return None;
    }
    let message = format!("Evicted due to {}", describe(&retried, State::Retry));
    Some(evict(
        workload,
        "AdmissionCheck",
        &message,
        None,
        at.now,
        WORKLOAD_CONTROLLER,
    ))
}

fn reject(workload: &Workload, rejected: &[&CheckEntry], now: Timestamp) -> Outcome {
    let message = describe(rejected, State::Rejected);
    let mut changed = workload.clone();
    changed.status.conditions.set(Condition::new(
        "DeactivationTarget",
        True(true),
        "AdmissionCheck",
        message.clone(),
        now,
    ));
    let text = format!("Deactivated due to {message}");
    Outcome::admission(changed).note(EventRecord::warning(
        "AdmissionCheckRejected",
        text,
        WORKLOAD_CONTROLLER,
    ))
}

/// `AdmissionCheck in Retry state: "a" (why); "b"`, by name.
fn describe(checks: &[&CheckEntry], state: State) -> String {
    let mut checks = checks.to_vec();
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    let each = checks.iter().map(|check| {
        if check.message.is_empty() {
            format!("{:?}", check.name)
        } else {
            format!("{:?} ({})", check.name, check.message)
        }
    });
    let plural = if checks.len() > 1 { "s" } else { "" };
    let list = each.collect::<Vec<_>>().join("; ");
    format!("AdmissionCheck{plural} in {} state: {list}", state.as_str())
}
