//! Numbers and amounts in queues, cohorts and Workloads at the end of a trace.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Difference;
use super::object::only;
use super::project::conditions;
use super::trace::Trace;
use kueue_check_sim::apiserver::ApiServer;
use kueue_check_sim::kueue;

/// The kinds of these objects, with their plurals.
const KINDS: [(&str, &str); 4] = [
    ("ClusterQueue", "clusterqueues"),
    ("LocalQueue", "localqueues"),
    ("Cohort", "cohorts"),
    ("Workload", "workloads"),
];

/// Returns what a trace has in `figures` of a `ClusterQueue`, `LocalQueue`, `Cohort` or `Workload`:
/// numbers of Workloads, amounts of quota, shares, priorities, and the conditions of a `LocalQueue`.
/// Zeros are left out.
///
/// ```
/// use kueue_check_sim_cli::replay::figures;
/// use serde_json::json;
///
/// let queue = json!({"kind": "ClusterQueue", "status": {"pendingWorkloads": 2, "admittedWorkloads": 0}});
/// assert_eq!(figures(&queue), json!({"pendingWorkloads": 2}));
/// ```
#[must_use]
pub fn figures(object: &Value) -> Value {
    const FIELDS: [&str; 9] = [
        "pendingWorkloads",
        "reservingWorkloads",
        "admittedWorkloads",
        "flavorsReservation",
        "flavorsUsage",
        "fairSharing",
        "admission",
        "reclaimablePods",
        "resourceRequests",
    ];
    let status = &object["status"];
    let of_field = |field: &&str| ((*field).to_owned(), without_zeros(&status[*field]));
    let mut all: Map<String, Value> = FIELDS.iter().map(of_field).collect();
    if object["kind"] == "LocalQueue" {
        all.insert("conditions".to_owned(), conditions(object));
    }
    if object["kind"] == "Workload" {
        let spec = only(&object["spec"], &["priority", "priorityClassRef"]);
        all.insert("spec".to_owned(), without_zeros(&spec));
    }
    all.retain(|_, value| !value.is_null());
    all.into()
}

/// Returns `value` without zeros, and without what has nothing else.
fn without_zeros(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => Value::Null,
        Value::String(text) if text == "0" => Value::Null,
        Value::Object(map) => {
            let mut kept: Map<String, Value> = map
                .iter()
                .map(|(key, value)| (key.clone(), without_zeros(value)))
                .collect();
            kept.retain(|_, value| !value.is_null());
            if kept.keys().all(|key| key == "name") {
                return Value::Null;
            }
            kept.into()
        }
        Value::Array(all) => {
            let mut kept: Vec<Value> = all.iter().map(without_zeros).collect();
            kept.retain(|value| !value.is_null());
            if kept.is_empty() {
                return Value::Null;
            }
            kept.into()
        }
        other => other.clone(),
    }
}

/// Returns the differences between the recorded figures and those of `server`. `names`: the short
/// names of Workloads, by generated name.
pub(super) fn differences(
    trace: &Trace,
    server: &ApiServer,
    names: &BTreeMap<String, String>,
) -> Vec<Difference> {
    compare(trace, |kind, name| {
        let (_, plural) = KINDS.into_iter().find(|(known, _)| *known == kind)?;
        let mut objects = server.objects(&kueue::resource(plural), "").into_iter();
        let found = objects.find(|object| {
            let full = object["metadata"]["name"].as_str().unwrap_or_default();
            names.get(full).map_or(full, String::as_str) == name
        });
        let found = found.as_deref();
        found.map(figures)
    })
}

/// Returns the differences between the figures of two recordings.
pub(super) fn between(one: &Trace, other: &Trace) -> Vec<Difference> {
    compare(one, |kind, name| {
        other.figures.get(&format!("{kind}/{name}")).cloned()
    })
}

fn compare(trace: &Trace, other: impl Fn(&str, &str) -> Option<Value>) -> Vec<Difference> {
    let compared = trace.figures.iter().filter_map(|(object, recorded)| {
        let (kind, name) = object.split_once('/')?;
        let simulated = other(kind, name).unwrap_or_default();
        let pending = |figures: &Value| figures["pendingWorkloads"].as_u64().unwrap_or(0);
        // A LocalQueue does not count the head that the scheduler is about to try (Kueue 0.19.2,
        // `heads` in `pkg/cache/queue/manager.go`).
        let one_less = kind == "LocalQueue" && pending(&simulated) == pending(recorded) + 1;
        let mut expected = recorded.clone();
        if one_less {
            expected["pendingWorkloads"] = json!(pending(&simulated));
        }
        (simulated != expected).then(|| Difference {
            at: format!("{object}, figures at the end"),
            recorded: recorded.to_string(),
            simulated: simulated.to_string(),
        })
    });
    compared.collect()
}
