//! The number of running jobs that a check evicts.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{RunRecord, condition, entry, is_true, of_workloads, text};
use crate::apiserver::Change;

/// Finds hours with more evictions than a check may cause.
pub(super) fn too_many(evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    let mut of_check: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for change in of_workloads(evidence) {
        for (name, _) in evidence.eviction_limits {
            if objected(change, name) {
                of_check.entry(name).or_default().push(change.at);
            }
        }
    }
    for (name, limit) in evidence.eviction_limits {
        let times = of_check.get(name).map_or(&[][..], Vec::as_slice);
        let within = |from: Timestamp| {
            let hour = SignedDuration::from_hours(1);
            let later = times.iter().filter(|at| **at >= from);
            later.filter(|at| at.duration_since(from) < hour).count()
        };
        let worst = times.iter().map(|from| (within(*from), from)).max();
        if let Some((count, from)) = worst
            && count > usize::try_from(*limit).unwrap_or(usize::MAX)
        {
            found.push(format!(
                "evictions: `{name}` stops {count} running jobs in the hour from {from}, of {limit} that it may stop"
            ));
        }
    }
}

/// Returns true if the change is the check's Retry or Rejected for a running job: Kueue evicts it.
fn objected(change: &Change, check: &str) -> bool {
    let Some(before) = change.previous.as_deref() else {
        return false;
    };
    let objects = |state: &str| matches!(state, "Retry" | "Rejected");
    let state = |object| entry(object, check).map_or("", |entry| text(&entry["state"]));
    let running = is_true(before, "Admitted") && !is_true(before, "Finished");
    let leaves = condition(before, "Evicted").is_some_and(|is| is["status"] == "True");
    running && !leaves && objects(state(&change.object)) && !objects(state(before))
}
