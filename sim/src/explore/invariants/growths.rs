//! Growths of running jobs: a failing verdict must not stop the running pods.

use std::collections::BTreeSet;

use super::{RunRecord, entry, history, is_replica, is_true, of_workloads, place, text};
use crate::apiserver::Change;

/// The annotation of a slice with the key of the one that it replaces.
const REPLACES: &str = "kueue.x-k8s.io/workload-slice-replacement-for";

/// Finds Retry and Rejected of a growth: Kueue stops the whole job, with its running pods.
pub(super) fn refused(evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    let evicting = evicting(evidence);
    let mut ran: BTreeSet<String> = BTreeSet::new();
    for change in of_workloads(evidence) {
        let workload = &change.object;
        let key = place(workload);
        let replaces = text(&workload["metadata"]["annotations"][REPLACES]);
        if is_true(workload, "Admitted") || ran.contains(replaces) {
            ran.insert(key.clone());
        }
        if is_true(workload, "Evicted") {
            // The job is stopped, by any actor.
            ran.remove(&key);
        }
        let grows = !is_true(workload, "Admitted") && ran.contains(replaces);
        if !grows || !is_replica(&change.agent) {
            continue;
        }
        for name in evidence
            .checks
            .iter()
            .filter(|name| !evicting.contains(*name))
        {
            if let Some(state) = refusal(change, name) {
                let at = change.at;
                found.push(format!(
                    "growth: {key} `{name}` {state} at {at}: the job runs, and Kueue stops it"
                ));
            }
        }
    }
}

/// Returns the state that the change gives the check's entry, if it is a new Retry or Rejected.
fn refusal<'a>(change: &'a Change, check: &str) -> Option<&'a str> {
    let before = change.previous.as_deref()?;
    let state = text(&entry(&change.object, check)?["state"]);
    let was = entry(before, check).map_or("", |entry| text(&entry["state"]));
    (matches!(state, "Retry" | "Rejected") && state != was).then_some(state)
}

/// Returns the checks whose administrator set `onFailure: Evict`.
fn evicting<'a>(evidence: &RunRecord<'a>) -> BTreeSet<&'a str> {
    let checks = history(evidence).filter(|change| change.resource.plural == "admissionchecks");
    let orders = checks.filter(|change| {
        let annotations = change.object["metadata"]["annotations"].as_object();
        let mut values = annotations
            .into_iter()
            .flatten()
            .map(|(_, value)| text(value));
        values.any(|value| value.contains("Evict"))
    });
    orders
        .map(|change| text(&change.object["metadata"]["name"]))
        .collect()
}
