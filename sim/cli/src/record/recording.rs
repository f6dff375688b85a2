//! What was seen, as a trace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::calls::{Version, calls};
use super::cleaned::{cleaned, cleaned_event, job_of};
use super::kinds::Kind;
use super::pseudonyms::Pseudonyms;
use crate::replay::{full_projection, is_compared, list};

/// A change of an object or a new event.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// When it was seen.
    pub(super) at: Timestamp,
    pub(super) what: What,
    /// The object after it, or as it was last.
    pub(super) object: Arc<Value>,
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An object of this kind has come or changed.
    Is(Kind),
    /// An object of this kind has gone.
    Gone(Kind),
    /// An event.
    Event,
}

/// An object, by its kind and its name in the cluster.
type Key = (Kind, String, String);

fn key(kind: Kind, object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (kind, text("namespace").to_owned(), text("name").to_owned())
}

/// The trace of what was seen since `began`, given the objects that were there then.
pub(super) fn trace(began: Timestamp, there: &[(Kind, Arc<Value>)], seen: Vec<Seen>) -> Value {
    let mut there: Vec<&(Kind, Arc<Value>)> = there.iter().filter(|o| !is_over(o)).collect();
    // What others name comes first, and what came first.
    there.sort_by_key(|(kind, object)| {
        let came = object["metadata"]["creationTimestamp"].as_str();
        (*kind, came.unwrap_or_default().to_owned())
    });
    let seen = in_order(seen);
    // All names have to be known before they can be numbered in order.
    let mut first = Recording::new(began, Pseudonyms::default());
    first.take(&there, &seen);
    let mut recording = Recording::new(began, first.names.in_order());
    let objects = recording.take(&there, &seen);
    json!({
        "scenario": format!("recorded {began:.0}"),
        "began": began.to_string(),
        "workloadNames": recording.workload_names,
        "objects": objects,
        "steps": recording.steps,
    })
}

/// Whether nothing more will come of it.
fn is_over((kind, object): &(Kind, Arc<Value>)) -> bool {
    let ends: &[&str] = match kind {
        Kind::Workload => &["Finished"],
        Kind::Job => &["Complete", "Failed"],
        _ => &[],
    };
    let mut conditions = list(&object["status"]["conditions"]);
    conditions.any(|c| c["status"] == "True" && ends.iter().any(|end| c["type"] == *end))
}

/// As the API server did it: watches of different kinds are not in step. An object whose version is
/// no number is taken to have come first.
fn in_order(mut seen: Vec<Seen>) -> Vec<Seen> {
    let version = |seen: &Seen| -> u64 {
        let version = seen.object["metadata"]["resourceVersion"].as_str();
        version.and_then(|v| v.parse().ok()).unwrap_or_default()
    };
    seen.sort_by_key(version);
    seen
}

struct Recording {
    began: Timestamp,
    /// The time of the last thing that was seen, in milliseconds since it began.
    t: i128,
    /// That of the last request.
    last: i128,
    names: Pseudonyms,
    /// The objects as they are, and as the trace has them.
    live: BTreeMap<Key, (Arc<Value>, Value)>,
    /// The generated names of the Workloads of Jobs, and those of the Jobs.
    workload_names: BTreeMap<String, String>,
    steps: Vec<Value>,
}

impl Recording {
    fn new(began: Timestamp, names: Pseudonyms) -> Self {
        Self {
            began,
            t: 0,
            last: -1,
            names,
            live: BTreeMap::new(),
            workload_names: BTreeMap::new(),
            steps: Vec::new(),
        }
    }

    /// Takes all that was there and was seen, and returns the former as the trace has it.
    fn take(&mut self, there: &[&(Kind, Arc<Value>)], seen: &[Seen]) -> Vec<Value> {
        // A Job names its Workload.
        for (kind, object) in there {
            if *kind == Kind::Workload {
                self.name_workload(&key(*kind, object), object);
            }
        }
        let objects = there.iter().map(|(kind, object)| self.put(*kind, object));
        let objects = objects.collect();
        for seen in seen {
            self.add(seen);
        }
        objects
    }

    /// Takes an object as it is, and returns it as the trace has it.
    fn put(&mut self, kind: Kind, object: &Arc<Value>) -> Value {
        let key = key(kind, object);
        if kind == Kind::Workload {
            self.name_workload(&key, object);
        }
        let cleaned = cleaned(kind, object, &mut self.names);
        let entry = (Arc::clone(object), cleaned.clone());
        self.live.insert(key, entry);
        cleaned
    }

    /// The Workload of a Job has a name that Kueue makes of the Job's and a hash; the replay's will
    /// have another hash, and the trace says for which Job it is.
    fn name_workload(&mut self, (_, namespace, name): &Key, object: &Value) {
        let Some(job) = job_of(object).and_then(|owner| owner["name"].as_str()) else {
            return;
        };
        let job = self.names.name("job", namespace, job);
        let hash = name.rsplit_once('-').map_or("", |(_, hash)| hash);
        let generated = format!("job-{job}-{hash}");
        if self.workload_names.contains_key(&generated) {
            return;
        }
        let slice = format!("{job}#");
        let slices = self.workload_names.values();
        let slices = slices.filter(|short| short.starts_with(&slice)).count();
        let annotations = &object["metadata"]["annotations"];
        let short = if annotations["kueue.x-k8s.io/elastic-job"].is_null() {
            job
        } else {
            format!("{slice}{}", slices + 1)
        };
        self.names
            .insert_workload(namespace, name, generated.clone());
        self.workload_names.insert(generated, short);
    }

    fn add(&mut self, seen: &Seen) {
        // Watches are not in step, the API server is.
        self.t = self.t.max(seen.at.duration_since(self.began).as_millis());
        match seen.what {
            What::Is(kind) => self.changed(kind, &seen.object),
            What::Gone(kind) => self.gone(kind, &seen.object),
            What::Event => {
                let event = cleaned_event(&seen.object, &self.names);
                let state = full_projection("Event", &event);
                self.observe(json!({"kind": "Event", "name": "", "type": "ADDED", "state": state}));
            }
        }
    }

    fn changed(&mut self, kind: Kind, object: &Arc<Value>) {
        let key = key(kind, object);
        let before = self.live.get(&key).cloned();
        let cleaned = self.put(kind, object);
        let after = Version {
            raw: object,
            cleaned: &cleaned,
        };
        self.done(kind, before.as_ref(), Some(after));
        let state = shown(kind, &cleaned);
        let old = before.as_ref().map(|(_, cleaned)| shown(kind, cleaned));
        if is_compared(kind.name()) && old.as_ref() != Some(&state) {
            let change = if old.is_none() { "ADDED" } else { "MODIFIED" };
            let name = &cleaned["metadata"]["name"];
            self.observe(
                json!({"kind": kind.name(), "name": name, "type": change, "state": state}),
            );
        }
    }

    fn gone(&mut self, kind: Kind, object: &Value) {
        let Some(before) = self.live.remove(&key(kind, object)) else {
            return;
        };
        self.done(kind, Some(&before), None);
        if is_compared(kind.name()) {
            let (_, cleaned) = &before;
            let name = &cleaned["metadata"]["name"];
            let state = shown(kind, cleaned);
            self.observe(
                json!({"kind": kind.name(), "name": name, "type": "DELETED", "state": state}),
            );
        }
    }

    /// One step for each request.
    fn done(
        &mut self,
        kind: Kind,
        before: Option<&(Arc<Value>, Value)>,
        after: Option<Version<'_>>,
    ) {
        let before = before.map(|(raw, cleaned)| Version { raw, cleaned });
        for call in calls(kind, before, after) {
            // Kueue takes some time between two of them, however little.
            self.t = self.t.max(self.last + 1);
            self.last = self.t;
            let (_, about) = call.path.rsplit_once("v1").unwrap_or_default();
            let about = about.trim_start_matches("beta2").trim_start_matches('/');
            let about = about.split('?').next().unwrap_or_default();
            self.steps.push(json!({
                "step": format!("{} {about}", call.method), "t": seconds(self.t), "observed": [],
                "calls": [{
                    "method": call.method, "path": call.path, "contentType": call.content_type,
                    "body": call.body, "code": call.code,
                }],
            }));
        }
    }

    /// Adds what was seen to the last step.
    fn observe(&mut self, mut observed: Value) {
        observed["t"] = json!(seconds(self.t));
        if self.steps.is_empty() {
            self.steps
                .push(json!({"step": "it begins", "t": 0.0, "calls": [], "observed": []}));
        }
        let last = self.steps.last_mut();
        if let Some(all) = last.and_then(|step| step["observed"].as_array_mut()) {
            all.push(observed);
        }
    }
}

/// Milliseconds as seconds.
fn seconds(milliseconds: i128) -> f64 {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default()).as_secs_f64()
}

/// The state that a trace shows. That of a Job is without its Pods: its status is sent by requests.
fn shown(kind: Kind, cleaned: &Value) -> Value {
    full_projection(kind.name(), cleaned)
}

/// The parts of Kueue whose events the model has.
const REPORTERS: [&str; 4] = [
    "batch/job-kueue-controller",
    "concurrent-admission-controller",
    "kueue-admission",
    "kueue-workload-controller",
];

/// Whether the model has this event too.
pub(super) fn is_of_model(event: &Value) -> bool {
    let reporter = event["reportingController"].as_str();
    reporter.is_some_and(|reporter| REPORTERS.contains(&reporter))
}
