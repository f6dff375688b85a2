//! Comparison of a replay with its recording.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::events::{
    Events, add_event, close_steps, event_difference, forgive_jitter, without_repeated_waits,
};
use super::family::{without_nodes, without_who_replaced};
use super::names::{has_generated_name, normal, normal_value};
use super::play::ReplayResult;
use super::project::{Form, comparable, is_compared, kind_of, project, state_of};
use super::reasons::Reasons;
use super::trace::{Step, Trace};
use super::{Difference, IgnoreRule};
use kueue_check_sim::apiserver::ChangeVerb;

/// A state, with the step in which it was observed.
type ObservedState = (usize, Value);

/// The states of each object, in order.
type States = BTreeMap<(String, String), Vec<ObservedState>>;

/// A replay beside its recording.
pub(super) struct Comparison {
    /// The first difference of each response, object and step.
    pub(super) differences: Vec<Difference>,
    /// The number of equal responses, of states before the first difference of each object, and of
    /// steps with equal events.
    pub(super) equal: usize,
    /// The first step with a difference.
    pub(super) first: usize,
}

impl Comparison {
    fn new(differences: Vec<Difference>) -> Self {
        Self {
            differences,
            equal: 0,
            first: usize::MAX,
        }
    }

    /// Adds the result of one comparison in a step.
    fn add(&mut self, step: usize, difference: Option<Difference>) {
        match difference {
            Some(difference) => {
                self.first = self.first.min(step);
                self.differences.push(difference);
            }
            None => self.equal += 1,
        }
    }
}

/// A recording to which replays are compared.
pub(super) struct Recording<'a> {
    trace: &'a Trace,
    reasons: Reasons,
    observed: (States, Events),
    overlook: Option<IgnoreRule>,
}

impl<'a> Recording<'a> {
    pub(super) fn of(trace: &'a Trace, overlook: Option<IgnoreRule>) -> Self {
        let reasons = Reasons::of(trace);
        Self {
            trace,
            reasons,
            observed: overlooked(recorded(trace, reasons), overlook.as_ref()),
            overlook,
        }
    }

    /// Compares the responses, then figures, then states, then events.
    pub(super) fn compare(&self, played: &ReplayResult) -> Comparison {
        let trace = self.trace;
        let mut compared = responses(trace, played);
        compared.differences.extend(played.looks.iter().cloned());
        let simulated = overlooked(
            simulated(played, trace, self.reasons),
            self.overlook.as_ref(),
        );
        // The model has kinds that were not watched.
        let kinds = kinds(&self.observed.0).collect();
        states_and_events(trace, &kinds, &self.observed, &simulated, &mut compared);
        compared
    }
}

/// Returns the differences between two recordings of the same steps.
pub(super) fn between(one: &Trace, other: &Trace) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (step, there) in one.steps.iter().zip(&other.steps) {
        let codes = |step: &Step| -> Vec<u16> { step.calls.iter().map(|call| call.code).collect() };
        let message = |step: &Step, trace: &Trace| {
            let refusal = step.response.as_ref().filter(|r| r.code >= 400);
            refusal.map(|r| normal(&r.message, &trace.workload_names))
        };
        let then = (codes(step), message(step, one));
        let now = (codes(there), message(there, other));
        if then != now {
            differences.push(Difference {
                at: format!("response to {:?}", step.name),
                recorded: format!("{then:?}"),
                simulated: format!("{now:?}"),
            });
        }
    }
    if one.steps.len() != other.steps.len() {
        differences.push(Difference {
            at: "steps".to_owned(),
            recorded: one.steps.len().to_string(),
            simulated: other.steps.len().to_string(),
        });
        return differences;
    }
    differences.extend(super::figures::between(one, other));
    let mut compared = Comparison::new(differences);
    let reasons = Reasons::of(one);
    let (then, now) = (recorded(one, reasons), recorded(other, reasons));
    let kinds = kinds(&then.0).chain(kinds(&now.0)).collect();
    states_and_events(one, &kinds, &then, &now, &mut compared);
    compared.differences
}

/// Returns the kinds of the observed objects.
fn kinds(states: &States) -> impl Iterator<Item = &str> {
    states.keys().map(|(kind, _)| kind.as_str())
}

/// Compares the states of objects of these kinds, and events.
fn states_and_events(
    trace: &Trace,
    kinds: &BTreeSet<&str>,
    (recorded, recorded_events): &(States, Events),
    (simulated, simulated_events): &(States, Events),
    compared: &mut Comparison,
) {
    let runs = close_steps(trace);
    let initial = initial_objects(trace);
    let objects: BTreeSet<&(String, String)> = recorded.keys().chain(simulated.keys()).collect();
    for object in objects
        .into_iter()
        .filter(|(kind, _)| kinds.contains(kind.as_str()))
    {
        let none = Vec::new();
        let raw = simulated.get(object).unwrap_or(&none);
        let of_runs = |all: &[ObservedState]| states(&in_runs(all, &runs), trace);
        let then = of_runs(recorded.get(object).unwrap_or(&none));
        let now = of_runs(raw);
        let flaps = flaps(&then) && now.iter().any(is_inactive_with_delay);
        let without_turns = |states| {
            if flaps {
                without_delays(states)
            } else {
                states
            }
        };
        let (mut then, now) = (without_turns(then), without_turns(now));
        if initial.contains_key(object) {
            // The model of Kueue starts earlier and may be ahead.
            let initial = now.first().map(|(_, state)| state);
            let reached = then.iter().position(|(_, state)| initial == Some(state));
            then.drain(..reached.unwrap_or_default());
        }
        let (kind, name) = object;
        let equal = then.iter().zip(&now);
        let equal = equal
            .take_while(|((_, then), (_, now))| then == now)
            .count();
        compared.equal += equal;
        // What comes after the last recorded state of a change without end is not known.
        let is_cut = trace.endless && equal == then.len() && {
            let last = runs.last().map_or(0, |(first, _)| *first);
            let before = raw.iter().take_while(|(step, _)| *step < last);
            let before: Vec<_> = before.cloned().collect();
            without_turns(of_runs(&before)).len() <= equal
        };
        if equal < then.len().max(now.len()) && !is_cut {
            let before = equal.checked_sub(1).map(|at| &then[at].1);
            let show = |seen: Option<&ObservedState>| match seen {
                Some((_, state)) => changes(before, state),
                None => "nothing more".to_owned(),
            };
            let (then, now) = (then.get(equal), now.get(equal));
            let steps = then.into_iter().chain(now).map(|(step, _)| *step);
            let difference = Difference {
                at: format!("{kind}/{name}, state {}", equal + 1),
                recorded: show(then),
                simulated: show(now),
            };
            compared.add(steps.min().unwrap_or_default(), Some(difference));
        }
    }
    let together = |events: &Events| -> Vec<BTreeMap<String, f64>> {
        let of_run = |(first, last): &(usize, usize)| {
            let all = events[*first..=*last].iter().flatten();
            all.map(|(line, at)| (line.clone(), *at)).collect()
        };
        runs.iter().map(of_run).collect()
    };
    let mut then = together(recorded_events);
    let mut now = together(simulated_events);
    if trace.version().counts_messages {
        without_repeated_waits(&mut then);
        without_repeated_waits(&mut now);
    }
    for (at, (first, _)) in runs.iter().enumerate().skip(1) {
        let boundary = trace.steps[*first].t;
        forgive_jitter(&mut then, &mut now, at, boundary);
    }
    if trace.endless
        && let (Some(then), Some(now)) = (then.last(), now.last_mut())
    {
        now.retain(|event, _| then.contains_key(event));
    }
    for ((first, last), (then, now)) in runs.iter().zip(then.iter().zip(&now)) {
        compared.add(*first, event_difference(&trace.steps[*last], then, now));
    }
}

/// Returns the states with the first step of the run in which each was observed.
fn in_runs(all: &[ObservedState], runs: &[(usize, usize)]) -> Vec<ObservedState> {
    let first_of = |step: usize| {
        let run = runs
            .iter()
            .find(|(first, last)| (*first..=*last).contains(&step));
        run.map_or(step, |(first, _)| *first)
    };
    let each = all.iter();
    each.map(|(step, state)| (first_of(*step), state.clone()))
        .collect()
}

/// Applies the ignore rule to states and events.
fn overlooked(
    (mut states, mut events): (States, Events),
    overlook: Option<&IgnoreRule>,
) -> (States, Events) {
    let Some(overlook) = overlook else {
        return (states, events);
    };
    for ((kind, _), states) in &mut states {
        for (_, state) in states.iter_mut() {
            overlook(kind, state);
        }
    }
    for step in &mut events {
        step.retain(|line, _| {
            let mut line = Value::String(line.clone());
            overlook("Event", &mut line);
            !line.is_null()
        });
    }
    (states, events)
}

fn responses(trace: &Trace, played: &ReplayResult) -> Comparison {
    let mut compared = Comparison::new(Vec::new());
    let mut made: BTreeSet<String> = BTreeSet::new();
    for (number, (step, (_, responses))) in trace.steps.iter().zip(&played.steps).enumerate() {
        let calls = step.calls.iter().filter(|call| !call.is_look());
        for (at, (call, reply)) in calls.zip(responses).enumerate() {
            let name = format!("{} {}", call.path, call.body["metadata"]["name"]);
            // The recording cluster had objects of earlier recordings.
            let left_over = call.method == "POST" && call.code == 409 && !made.contains(&name);
            made.insert(name);
            if left_over && reply.code == 201 {
                continue;
            }
            let mut then = call.code.to_string();
            let mut now = reply.code.to_string();
            let last = at + 1 == step.calls.len();
            if let Some(response) = step.response.as_ref().filter(|r| last && r.code >= 400) {
                then = format!(
                    "{then} {}",
                    normal(&response.message, &trace.workload_names)
                );
                let message = reply.body["message"].as_str().unwrap_or_default();
                now = format!("{now} {}", normal(message, &played.names));
            }
            let difference = (then != now).then(|| Difference {
                at: format!("response to {:?}", step.name),
                recorded: then,
                simulated: now,
            });
            compared.add(number, difference);
        }
    }
    compared
}

fn recorded(trace: &Trace, reasons: Reasons) -> (States, Events) {
    let names = &trace.workload_names;
    let mut states = States::new();
    let mut events = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for ((kind, name), object) in initial_objects(trace) {
        known.insert(format!("{kind}/{name}"));
        if is_compared(&kind) {
            let state = normal_value(&state_of(&kind, object, form_of(trace)), names);
            let state = without_who_replaced(without_nodes(&kind, state));
            states.insert((kind, name), vec![(0, reasons.in_state(state))]);
        }
    }
    let mut seen = BTreeSet::new();
    for (at, step) in trace.steps.iter().enumerate() {
        let mut of_step = BTreeMap::new();
        for observed in &step.observed {
            if observed.kind == "Event" {
                continue;
            }
            let name = normal(&observed.name, names);
            known.insert(format!("{}/{name}", observed.kind));
            let state = match observed.change.as_str() {
                "DELETED" => Value::Null,
                _ => normal_value(&observed.state, names),
            };
            let state = without_who_replaced(without_nodes(&observed.kind, state));
            states
                .entry((observed.kind.clone(), name))
                .or_default()
                .push((at, reasons.in_state(state)));
        }
        for observed in step.observed.iter().filter(|o| o.kind == "Event") {
            let event = &observed.state;
            let regarding = normal(event["regarding"].as_str().unwrap_or_default(), names);
            let note = normal(event["note"].as_str().unwrap_or_default(), names);
            let note = reasons.in_message(&note);
            if known.contains(&regarding) && !has_generated_name(&note) {
                let at = observed.t;
                add_event((&mut of_step, at), &mut seen, event, &note, &regarding);
            }
        }
        events.push(of_step);
    }
    (states, events)
}

fn simulated(played: &ReplayResult, trace: &Trace, reasons: Reasons) -> (States, Events) {
    let form = form_of(trace);
    let steps = trace.steps.len();
    let mut states = States::new();
    let mut events: Events = vec![BTreeMap::new(); steps];
    let mut seen = BTreeSet::new();
    for change in &played.history {
        let Some(kind) = kind_of(change) else {
            continue;
        };
        let before = played
            .steps
            .iter()
            .take_while(|(v, _)| *v < change.resource_version);
        let step = before.count().saturating_sub(1);
        let object = &change.object;
        if kind == "Event" {
            if change.verb != ChangeVerb::Added {
                continue;
            }
            let text = |field: &str| object["regarding"][field].as_str().unwrap_or_default();
            let regarding = normal(&format!("{}/{}", text("kind"), text("name")), &played.names);
            let note = normal(object["note"].as_str().unwrap_or_default(), &played.names);
            let note = reasons.in_message(&note);
            if let Some(events) = events.get_mut(step) {
                add_event((events, 0.0), &mut seen, object, &note, &regarding);
            }
            continue;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let state = normal_value(&project(kind, change, form), &played.names);
        let state = reasons.in_state(without_who_replaced(state));
        let key = (kind.to_owned(), normal(name, &played.names));
        states.entry(key).or_default().push((step, state));
    }
    (states, events)
}

/// Returns the objects that existed when the recording began, by kind and normal name.
fn initial_objects(trace: &Trace) -> BTreeMap<(String, String), &Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let keyed = trace.objects.iter().map(|object| {
        let name = normal(&text(&object["metadata"]["name"]), &trace.workload_names);
        ((text(&object["kind"]), name), object)
    });
    keyed.collect()
}

fn form_of(trace: &Trace) -> Form {
    if trace.is_of_families() {
        Form::Families
    } else {
        Form::Plain
    }
}

/// Returns the distinct states in order. The first check entries are also added to the earlier
/// states, because Kueue adds them just before or just after the quota reservation.
fn states(all: &[ObservedState], trace: &Trace) -> Vec<ObservedState> {
    let pods_ready = trace.sets_pods_ready();
    let each = all.iter();
    let each = each.map(|(step, state)| (*step, comparable(state, pods_ready)));
    let mut each: Vec<ObservedState> = each.collect();
    dedup(&mut each);
    without_deletion_under_way(&mut each);
    let (steps, mut states): (Vec<usize>, Vec<Value>) = each.into_iter().unzip();
    let has_checks = |state: &Value| state["checks"].as_array().is_some_and(|c| !c.is_empty());
    let are_fresh = |state: &Value| {
        let mut entries = state["checks"].as_array().into_iter().flatten();
        entries.all(|e| e["state"] == "Pending" && e["message"] == "")
    };
    let first = states.iter().position(has_checks);
    // Entries for specific flavors follow right after the quota reservation, if there are any.
    let quota = states
        .iter()
        .position(|state| !state["admission"].is_null());
    let after = quota.map(|quota| match states.get(quota + 1) {
        Some(next)
            if steps[quota + 1] == steps[quota] && same_but("checks", next, &states[quota]) =>
        {
            quota + 1
        }
        _ => quota,
    });
    let with_quota = after
        .filter(|at| states[..=*at].iter().all(are_fresh))
        .filter(|at| has_checks(&states[*at]));
    if let Some(at) = with_quota.or(first).filter(|at| are_fresh(&states[*at])) {
        let entries = states[at]["checks"].clone();
        for state in &mut states[..at] {
            state["checks"] = entries.clone();
        }
    }
    let mut seen: Vec<ObservedState> = steps.into_iter().zip(states).collect();
    dedup(&mut seen);
    without_last_finalizer(&mut seen);
    without_returns(seen)
}

fn dedup(states: &mut Vec<ObservedState>) {
    states.dedup_by(|(_, later), (_, earlier)| later == earlier);
}

/// Removes the condition of a Workload that Kueue writes while its ClusterQueue is being deleted,
/// if it writes another one in the same step after the deletion: whether it reconciles the Workload
/// in between varies.
fn without_deletion_under_way(each: &mut Vec<ObservedState>) {
    fn queue<'a>(state: &'a Value, what: &str) -> Option<&'a str> {
        let message = state["conditions"]["QuotaReserved"]["message"].as_str()?;
        message.strip_prefix("ClusterQueue ")?.strip_suffix(what)
    }
    each.dedup_by(|(next, later), (step, earlier)| {
        let inactive = queue(earlier, " is inactive");
        if step != next || inactive.is_none() || inactive != queue(later, " doesn't exist") {
            return false;
        }
        let mut same = earlier.clone();
        same["conditions"]["QuotaReserved"] = later["conditions"]["QuotaReserved"].clone();
        let is_between = same == *later;
        if is_between {
            std::mem::swap(earlier, later);
        }
        is_between
    });
}

/// Removes the state without a finalizer before a deletion: the order of both writes varies.
fn without_last_finalizer(states: &mut Vec<ObservedState>) {
    let [.., (_, before), (_, last), (_, Value::Null)] = states.as_slice() else {
        return;
    };
    let mut same = before.clone();
    if let Some(map) = same.as_object_mut() {
        map.remove("finalizers");
    }
    if same == *last {
        states.remove(states.len() - 2);
    }
}

/// Returns true if the states are equal except for `field`.
fn same_but(field: &str, one: &Value, other: &Value) -> bool {
    without(field, one) == without(field, other)
}

fn without(field: &str, state: &Value) -> Value {
    let mut state = state.clone();
    if let Some(map) = state.as_object_mut() {
        map.remove(field);
    }
    state
}

/// Returns true if Kueue sets and clears `requeueAt` in turn, as often as it can, because the Retry
/// of an inactive Workload has a delay. The model does that once.
fn flaps(states: &[ObservedState]) -> bool {
    states.windows(5).any(|turns| {
        let [(_, one), (_, other), (_, third), (_, fourth), (_, fifth)] = turns else {
            return false;
        };
        let again = third == one && fourth == other && fifth == one;
        again && one["active"] == false && same_but("requeueState", one, other)
    })
}

fn is_inactive_with_delay((_, state): &ObservedState) -> bool {
    state["active"] == false && !state["requeueState"].is_null()
}

/// Removes `requeueAt` from the states of an inactive Workload: how often it is set and cleared in
/// turn has no meaning, nor has what the last turn leaves.
fn without_delays(mut states: Vec<ObservedState>) -> Vec<ObservedState> {
    for (_, state) in &mut states {
        if state["active"] == false {
            *state = without("requeueState", state);
        }
    }
    dedup(&mut states);
    states
}

/// Removes the turns in which one controller activates a variant and another one deactivates it,
/// until the eviction has been written.
fn without_returns(states: Vec<ObservedState>) -> Vec<ObservedState> {
    let mut kept: Vec<ObservedState> = Vec::new();
    for (step, state) in states {
        let returns = match kept.as_slice() {
            [.., (_, before), (_, last)] => state == *before && differs_in_active(last, &state),
            _ => false,
        };
        if returns {
            kept.pop();
        } else {
            kept.push((step, state));
        }
    }
    kept
}

fn differs_in_active(one: &Value, other: &Value) -> bool {
    let is_variant = !other["preemptionGates"].is_null();
    is_variant && *one != *other && same_but("active", one, other)
}

/// Returns the changes of a state, field by field.
fn changes(before: Option<&Value>, state: &Value) -> String {
    let (Some(old @ Value::Object(_)), Value::Object(fields)) = (before, state) else {
        return state.to_string();
    };
    let mut parts: Vec<String> = Vec::new();
    for (field, value) in fields.iter().filter(|(field, _)| *field != "conditions") {
        if old[field] != *value {
            parts.push(format!("{field}={value}"));
        }
    }
    let fields_of = |of: &Value| of.as_object().cloned().unwrap_or_default();
    for (kind, condition) in fields_of(&state["conditions"]) {
        if old["conditions"][&kind] != condition {
            parts.push(condition.to_string());
        }
    }
    let gone = fields_of(old)
        .into_iter()
        .filter(|(field, _)| state[field].is_null());
    parts.extend(gone.map(|(field, _)| format!("no {field}")));
    let gone = fields_of(&old["conditions"]).into_iter();
    let gone = gone.filter(|(kind, _)| state["conditions"][kind].is_null());
    parts.extend(gone.map(|(kind, _)| format!("no condition {kind}")));
    parts.join("; ")
}
