//! Comparison of events: in each step, the set of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Difference;
use super::family::is_about_replacement;
use super::trace::{Step, Trace};

/// The events of each step, with the time of those that were recorded.
pub(super) type Events = Vec<BTreeMap<String, f64>>;

/// An event that comes by a timer of Kueue may be seen so many seconds before or after a request
/// that was sent at about the same time.
const JITTER: f64 = 0.6;

/// Leaves out events that came on the two sides of a step's request, if they were recorded close to
/// it.
pub(super) fn forgive_jitter(
    then: &mut [BTreeMap<String, f64>],
    now: &mut [BTreeMap<String, f64>],
    at: usize,
    boundary: f64,
) {
    for (recorded, simulated) in [(at, at - 1), (at - 1, at)] {
        let lines: Vec<String> = then[recorded]
            .iter()
            .filter(|(_, seen)| (*seen - boundary).abs() < JITTER)
            .filter(|(line, _)| {
                let missing = !now[recorded].contains_key(*line);
                missing && now[simulated].contains_key(*line)
            })
            .filter(|(line, _)| !then[simulated].contains_key(*line))
            .map(|(line, _)| line.clone())
            .collect();
        for line in lines {
            then[recorded].remove(&line);
            now[simulated].remove(&line);
        }
    }
}

/// The steps in runs, each of the first and the last: one that follows at once belongs to the one
/// before, because what came of that may have been seen after it.
pub(super) fn close_steps(trace: &Trace) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in 0..trace.steps.len() {
        match runs.last_mut() {
            Some((_, last)) if trace.follows_at_once(at) => *last = at,
            _ => runs.push((at, at)),
        }
    }
    runs
}

/// Takes an event into a step, unless it says once more that something is pending.
pub(super) fn tell(
    (step, at): (&mut BTreeMap<String, f64>, f64),
    told: &mut BTreeSet<String>,
    event: &Value,
    note: &str,
    regarding: &str,
) {
    if is_about_replacement(event) {
        return;
    }
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    // Which Pod of a group is reconciled first, and whether all are there by then, varies.
    let of_group = ["CreatedWorkload", "FinishedWorkload"].contains(&text("reason"));
    let regarding = if of_group && regarding.starts_with("Pod/") {
        "Pod"
    } else {
        regarding
    };
    if text("reason") == "ErrWorkloadCompose" {
        return;
    }
    let line = format!("{} {} {note} ({regarding})", text("type"), text("reason"));
    let again = !told.insert(line.clone());
    if !(again && text("reason") == "Pending") {
        step.entry(line).or_insert(at);
    }
}

/// How the events of a step differ, if they do.
pub(super) fn event_difference(
    step: &Step,
    then: &BTreeMap<String, f64>,
    now: &BTreeMap<String, f64>,
) -> Option<Difference> {
    let join = |a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>| {
        let only = a.keys().filter(|line| !b.contains_key(*line));
        let only: Vec<&str> = only.map(String::as_str).collect();
        if only.is_empty() {
            "-".to_owned()
        } else {
            only.join(" | ")
        }
    };
    let same = then.keys().eq(now.keys());
    (!same).then(|| Difference {
        at: format!("events of {:?}", step.name),
        recorded: join(then, now),
        simulated: join(now, then),
    })
}
