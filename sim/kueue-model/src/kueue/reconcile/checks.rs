//! The admission checks of a Workload, and the consequences of their states.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{EventRecord, Outcome, ReconcileInput, WORKLOAD_CONTROLLER, Write, evict};
use crate::kueue::objects::{
    Admission, AdmissionCheckState, CheckRule, ClusterQueue, Condition, State, True, Workload,
    whole_seconds,
};

/// Returns the checks that a Workload needs: those of its flavors if it has quota, otherwise those
/// for all flavors of the ClusterQueue. A check without `onFlavors` applies to all flavors that the
/// ClusterQueue has now, so an admission without flavors has none (Kueue 0.19.2,
/// `admissionChecksForAdmission` in `pkg/workload/workload.go`). `early`: [`lists_checks_early`].
/// Without it, a Workload needs all checks if each is for exactly the flavors of the ClusterQueue,
/// whatever its admission (0.15.0 and 0.17.0, `AdmissionChecksForWorkload`).
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
    let on_these = |rule: &CheckRule| {
        on_all(rule) && rule.on_flavors.iter().all(|flavor| all.contains(&**flavor))
    };
    if !early && queue.checks().iter().all(on_these) {
        let names = queue.checks().iter().map(|rule| rule.name.as_str());
        return names.collect();
    }
    let needed = queue.checks().iter().filter(|rule| match &assigned {
        Some(assigned) => assigned.iter().any(|flavor| on(rule, flavor)),
        None => early && on_all(rule),
    });
    needed.map(|rule| rule.name.as_str()).collect()
}

/// Returns the desired entries, sorted by name, or `None` if their names are already right. Missing
/// entries are added as Pending, superfluous ones removed.
pub(crate) fn synced_entries(
    entries: &[AdmissionCheckState],
    needed: &BTreeSet<&str>,
    now: Timestamp,
) -> Option<Vec<AdmissionCheckState>> {
    let have: BTreeSet<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    if have == *needed {
        return None;
    }
    let entry = |name: &&str| {
        let known = entries.iter().find(|e| e.name == **name);
        known.cloned().unwrap_or_else(|| AdmissionCheckState {
            name: (*name).to_owned(),
            last_transition_time: whole_seconds(now),
            ..AdmissionCheckState::default()
        })
    };
    Some(needed.iter().map(entry).collect())
}

/// Updates the list of entries.
pub(super) fn sync(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    let queue = at.cluster_queue.filter(|_| !at.has_variants)?;
    let admission = workload.status.admission.as_ref();
    let needed = needed_checks(queue, admission, at.version.lists_checks_early);
    let entries = synced_entries(&workload.status.admission_checks, &needed, at.now)?;
    Some(Outcome::write(Write::Checks(entries)))
}

/// Evicts for Retry and deactivates for Rejected, both only with quota.
pub(super) fn act_on_states(workload: &Workload, at: &ReconcileInput<'_>) -> Option<Outcome> {
    if at.has_variants || !workload.has_quota() || !workload.is_active() {
        return None;
    }
    let evicted = workload.is_evicted();
    let rejected: Vec<&AdmissionCheckState> = workload.checks_in(State::Rejected).collect();
    if !rejected.is_empty() && (!evicted || at.version.rejects_while_evicted) {
        return Some(reject(workload, &rejected, at));
    }
    let retried: Vec<&AdmissionCheckState> = workload.checks_in(State::Retry).collect();
    if retried.is_empty() || evicted {
        return None;
    }
    let message = if at.version.explains_evictions {
        format!("Evicted due to {}", describe(&retried, State::Retry))
    } else {
        "At least one admission check is false".to_owned()
    };
    Some(evict(
        workload,
        "AdmissionCheck",
        &message,
        None,
        at.now,
        WORKLOAD_CONTROLLER,
    ))
}

fn reject(
    workload: &Workload,
    rejected: &[&AdmissionCheckState],
    at: &ReconcileInput<'_>,
) -> Outcome {
    let (message, text) = if at.version.explains_evictions {
        let message = describe(rejected, State::Rejected);
        let text = format!("Deactivated due to {message}");
        (message, text)
    } else {
        let names: Vec<&str> = rejected.iter().map(|check| &*check.name).collect();
        let first = rejected[0];
        (
            format!("Admission check(s): {}, were rejected", names.join(",")),
            format!(
                "Deactivating workload because AdmissionCheck for {} was Rejected: {}",
                first.name, first.message
            ),
        )
    };
    let mut changed = workload.clone();
    changed.set_condition(Condition::new(
        "DeactivationTarget",
        True(true),
        "AdmissionCheck",
        message,
        at.now,
    ));
    Outcome::admission(changed).note(EventRecord::warning(
        "AdmissionCheckRejected",
        text,
        WORKLOAD_CONTROLLER,
    ))
}

/// Returns `AdmissionChecks in Retry state: "a" (why); "b"`, sorted by name.
fn describe(checks: &[&AdmissionCheckState], state: State) -> String {
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
