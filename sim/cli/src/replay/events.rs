//! Comparison of events: the set of events in each step.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Difference;
use super::family::is_about_replacement;
use super::trace::{Step, Trace};

/// The events of each step, with the time of each recorded event.
pub(super) type Events = Vec<BTreeMap<String, f64>>;

/// The maximum distance of a timer event from a request sent at about the same time, in seconds.
///
/// Such an event may be observed before or after the request.
const JITTER: f64 = 0.6;

/// The compared length of a note that Kueue has cut at 1,024 bytes, and marked with ` ...`. Names in
/// it were longer on the recording cluster, which moves the cut.
const CUT: usize = 800;

/// Removes events on different sides of a step's request in recording and replay.
///
/// Only events that were recorded close to the request are removed.
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

/// Removes the repeats of events that have a time of waiting. A Kueue that counts messages makes a
/// new event of a repeat only if the number of seconds differs.
pub(super) fn without_repeated_waits(steps: &mut [BTreeMap<String, f64>]) {
    let mut seen = BTreeSet::new();
    for step in steps {
        step.retain(|line, _| !line.contains("wait time since ") || seen.insert(line.clone()));
    }
}

/// Groups the steps into runs, each with its first and last step. A step that follows at once
/// belongs to the run of the one before, whose effects may have been observed after it.
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

/// Adds an event to a step.
///
/// Left out are events about replaced slices, `ErrWorkloadCompose` and repeated `Pending` events.
pub(super) fn add_event(
    (step, at): (&mut BTreeMap<String, f64>, f64),
    seen: &mut BTreeSet<String>,
    event: &Value,
    note: &str,
    regarding: &str,
) {
    if is_about_replacement(event) {
        return;
    }
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    // It varies which Pod of a group is reconciled first, and whether all exist by then.
    let of_group = ["CreatedWorkload", "FinishedWorkload"].contains(&text("reason"));
    let regarding = if of_group && regarding.starts_with("Pod/") {
        "Pod"
    } else {
        regarding
    };
    if text("reason") == "ErrWorkloadCompose" {
        return;
    }
    let note = match note.strip_suffix(" ...") {
        Some(cut) => &cut[..cut.floor_char_boundary(CUT)],
        None => note,
    };
    let line = format!("{} {} {note} ({regarding})", text("type"), text("reason"));
    let again = !seen.insert(line.clone());
    if !(again && text("reason") == "Pending") {
        step.entry(line).or_insert(at);
    }
}

/// Returns the difference between the events of a step, if there is one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_with_a_time_of_waiting_are_removed() {
        let wait = "Normal Admitted Admitted, wait time since reservation was Ns (Workload/w1)";
        let other = "Normal Stopped Not admitted (Job/w1)";
        let step = BTreeMap::from([(wait.to_owned(), 1.0), (other.to_owned(), 1.0)]);
        let mut steps = [step.clone(), step.clone()];
        without_repeated_waits(&mut steps);
        let rest = BTreeMap::from([(other.to_owned(), 1.0)]);
        assert_eq!(steps, [step, rest]);
    }
}
