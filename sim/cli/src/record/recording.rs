//! Conversion of observed changes to a trace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::infer::{Version, calls};
use super::kinds::Kind;
use super::pseudonyms::Pseudonyms;
use super::redact::{job_of, redacted, redacted_event};
use crate::replay::{full_projection, is_compared, list};

/// An observed change of an object, or a new event.
#[derive(Clone, Debug)]
pub(super) struct ObservedChange {
    /// When it was observed.
    pub(super) at: Timestamp,
    pub(super) what: What,
    /// The object after the change, or its last state.
    pub(super) object: Arc<Value>,
}

/// The type of an observed change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An object of this kind was added or modified.
    Is(Kind),
    /// An object of this kind was deleted.
    Gone(Kind),
    /// An event.
    Event,
}

/// The kind, namespace and name of an object of the cluster.
type Key = (Kind, String, String);

fn key(kind: Kind, object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (kind, text("namespace").to_owned(), text("name").to_owned())
}

/// Returns the trace of the changes since `began`, given the objects that existed then.
pub(super) fn trace(
    began: Timestamp,
    initial: &[(Kind, Arc<Value>)],
    seen: Vec<ObservedChange>,
) -> Value {
    let (over, mut initial): (Vec<_>, Vec<_>) = initial.iter().partition(|o| is_over(o));
    // By kind, so that references point back, and by creation.
    initial.sort_by_key(|(kind, object)| {
        let came = object["metadata"]["creationTimestamp"].as_str();
        (*kind, came.unwrap_or_default().to_owned())
    });
    let seen = in_order(seen);
    // The first pass collects the names, which are then numbered in order.
    let mut first = Recording::new(began, Pseudonyms::default());
    first.name(&initial, &seen, &over);
    first.take(&initial, &seen);
    let mut recording = Recording::new(began, first.names.in_order());
    recording.name(&initial, &seen, &over);
    let objects = recording.take(&initial, &seen);
    json!({
        "scenario": format!("recorded {began:.0}"),
        "began": began.to_string(),
        "workloadNames": recording.workload_names,
        "objects": objects,
        "steps": recording.steps,
    })
}

/// Returns true if the object is finished.
fn is_over((kind, object): &(Kind, Arc<Value>)) -> bool {
    let ends: &[&str] = match kind {
        Kind::Workload => &["Finished"],
        Kind::Job => &["Complete", "Failed"],
        _ => &[],
    };
    let mut conditions = list(&object["status"]["conditions"]);
    conditions.any(|c| c["status"] == "True" && ends.iter().any(|end| c["type"] == *end))
}

/// Sorts by resource version, because watches of different kinds are not synchronized. An object
/// whose version is not a number comes first.
fn in_order(mut seen: Vec<ObservedChange>) -> Vec<ObservedChange> {
    let version = |seen: &ObservedChange| -> u64 {
        let version = seen.object["metadata"]["resourceVersion"].as_str();
        version.and_then(|v| v.parse().ok()).unwrap_or_default()
    };
    seen.sort_by_key(version);
    seen
}

/// The number of digits of the hash at the end of a generated name of a Workload (Kueue 0.19.2,
/// `pkg/controller/jobframework/workload_names.go`).
const HASH: usize = 5;

/// Returns the hash in the generated name of a Workload; digits of the UID for a name that a user
/// has chosen.
fn hash(name: &str, object: &Value) -> String {
    let is_hash = |text: &&str| text.len() == HASH && text.chars().all(|c| c.is_ascii_hexdigit());
    let end = name.rsplit_once('-').map(|(_, end)| end).filter(is_hash);
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let of_uid = || uid.chars().filter(char::is_ascii_hexdigit).take(HASH);
    end.map_or_else(|| of_uid().collect(), str::to_owned)
}

struct Recording {
    began: Timestamp,
    /// The time of the last change, in milliseconds since the beginning.
    t: i128,
    /// The time of the last request, in milliseconds since the beginning.
    last: i128,
    names: Pseudonyms,
    /// The existing objects, with their redacted forms.
    live: BTreeMap<Key, (Arc<Value>, Value)>,
    /// The generated names of the Workloads of Jobs, with the names of the Jobs.
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

    /// Adds the names that may occur before their objects. An annotation of a Job contains the name
    /// of its Workload. An event may come before its Workload: their resource versions are not
    /// comparable if events are in an etcd of their own. Messages contain names of finished jobs,
    /// too; these are last, because slices of a job are counted.
    fn name(
        &mut self,
        initial: &[&(Kind, Arc<Value>)],
        seen: &[ObservedChange],
        over: &[&(Kind, Arc<Value>)],
    ) {
        let of_changes = seen.iter().filter_map(|seen| match seen.what {
            What::Is(kind) => Some((kind, &seen.object)),
            What::Gone(_) | What::Event => None,
        });
        let all = initial.iter().map(|(kind, object)| (*kind, object));
        let finished = over.iter().map(|(kind, object)| (*kind, object));
        for (kind, object) in all.chain(of_changes) {
            if kind == Kind::Workload {
                self.name_workload(&key(kind, object), object);
            }
        }
        for (kind, object) in finished {
            if kind == Kind::Workload {
                self.generated_name(&key(kind, object), object);
            }
        }
        for (kind, object) in over {
            redacted(*kind, object, &mut self.names);
        }
    }

    /// Adds initial objects and changes, and returns the redacted initial objects.
    fn take(&mut self, initial: &[&(Kind, Arc<Value>)], seen: &[ObservedChange]) -> Vec<Value> {
        let objects = initial.iter().map(|(kind, object)| self.put(*kind, object));
        let objects = objects.collect();
        for seen in seen {
            self.add(seen);
        }
        objects
    }

    /// Stores an object and returns its redacted form.
    fn put(&mut self, kind: Kind, object: &Arc<Value>) -> Value {
        let key = key(kind, object);
        if kind == Kind::Workload {
            self.name_workload(&key, object);
        }
        let redacted = redacted(kind, object, &mut self.names);
        let entry = (Arc::clone(object), redacted.clone());
        self.live.insert(key, entry);
        redacted
    }

    /// Adds the pseudonym of the Workload of a Job, and returns it with that of the Job.
    fn generated_name(
        &mut self,
        (_, namespace, name): &Key,
        object: &Value,
    ) -> Option<(String, String)> {
        let job = job_of(object).and_then(|owner| owner["name"].as_str())?;
        let job = self.names.name("job", namespace, job);
        let generated = format!("job-{job}-{}", hash(name, object));
        self.names
            .insert_workload(namespace, name, generated.clone());
        Some((generated, job))
    }

    /// Names the Workload of a Job. Kueue generates its name from the Job's name and a hash that
    /// differs in a replay, so the trace maps it to the Job.
    fn name_workload(&mut self, key: &Key, object: &Value) {
        let Some((generated, job)) = self.generated_name(key, object) else {
            return;
        };
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
        self.workload_names.insert(generated, short);
    }

    fn add(&mut self, seen: &ObservedChange) {
        // Watches are not synchronized; resource versions are.
        self.t = self.t.max(seen.at.duration_since(self.began).as_millis());
        match seen.what {
            What::Is(kind) => self.changed(kind, &seen.object),
            What::Gone(kind) => self.observe_removed(kind, &seen.object),
            What::Event => {
                let event = redacted_event(&seen.object, &mut self.names);
                let state = full_projection("Event", &event);
                self.observe(json!({"kind": "Event", "name": "", "type": "ADDED", "state": state}));
            }
        }
    }

    fn changed(&mut self, kind: Kind, object: &Arc<Value>) {
        let key = key(kind, object);
        let before = self.live.remove(&key);
        let redacted = self.put(kind, object);
        let after = Version {
            raw: object,
            redacted: &redacted,
        };
        self.done(kind, before.as_ref(), Some(after));
        let state = |redacted: &Value| full_projection(kind.name(), redacted);
        let old = before.as_ref().map(|(_, redacted)| state(redacted));
        if old.as_ref() != Some(&state(&redacted)) {
            let change = if old.is_none() { "ADDED" } else { "MODIFIED" };
            self.observe_object(kind, change, &redacted);
        }
    }

    fn observe_removed(&mut self, kind: Kind, object: &Value) {
        let Some(before) = self.live.remove(&key(kind, object)) else {
            return;
        };
        self.done(kind, Some(&before), None);
        self.observe_object(kind, "DELETED", &before.1);
    }

    /// Adds the state of an object of a compared kind to the last step.
    fn observe_object(&mut self, kind: Kind, change: &str, redacted: &Value) {
        let kind = kind.name();
        if is_compared(kind) {
            let name = &redacted["metadata"]["name"];
            let state = full_projection(kind, redacted);
            self.observe(json!({"kind": kind, "name": name, "type": change, "state": state}));
        }
    }

    /// Adds a step for each inferred request.
    fn done(
        &mut self,
        kind: Kind,
        before: Option<&(Arc<Value>, Value)>,
        after: Option<Version<'_>>,
    ) {
        let before = before.map(|(raw, redacted)| Version { raw, redacted });
        for call in calls(kind, before, after) {
            // Kueue needs time between two requests.
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

    /// Adds an observed state to the last step.
    fn observe(&mut self, mut observed: Value) {
        observed["t"] = json!(seconds(self.t));
        if self.steps.is_empty() {
            self.steps
                .push(json!({"step": "start", "t": 0.0, "calls": [], "observed": []}));
        }
        let last = self.steps.last_mut();
        if let Some(all) = last.and_then(|step| step["observed"].as_array_mut()) {
            all.push(observed);
        }
    }
}

/// Converts milliseconds to seconds.
fn seconds(milliseconds: i128) -> f64 {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default()).as_secs_f64()
}

/// The reporting controllers of the events that the model records.
const REPORTERS: [&str; 4] = [
    "batch/job-kueue-controller",
    "concurrent-admission-controller",
    "kueue-admission",
    "kueue-workload-controller",
];

/// Returns true if the model records this event.
pub(super) fn is_of_model(event: &Value) -> bool {
    let reporter = event["reportingController"].as_str();
    reporter.is_some_and(|reporter| REPORTERS.contains(&reporter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(what: What, object: Value) -> ObservedChange {
        ObservedChange {
            at: Timestamp::UNIX_EPOCH,
            what,
            object: Arc::new(object),
        }
    }

    fn workload(name: &str, version: &str) -> Value {
        json!({
            "metadata": {
                "name": name, "namespace": "team-a", "resourceVersion": version,
                "uid": "abcdef00-1111",
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "alice", "controller": true,
                }],
            },
            "spec": {"queueName": "vault"}, "status": {},
        })
    }

    fn event(about: &str, note: &str) -> Value {
        json!({
            "metadata": {"resourceVersion": "1"}, "type": "Normal", "reason": "Pending",
            "reportingController": "kueue-admission", "note": note,
            "regarding": {"kind": "Workload", "namespace": "team-a", "name": about},
        })
    }

    /// Events may be in an etcd of their own.
    #[test]
    fn names_are_replaced_in_an_event_before_its_workload() {
        let mut over = workload("job-alice-00000", "5");
        over["status"] = json!({"conditions": [{"type": "Finished", "status": "True"}]});
        let initial = [(Kind::Workload, Arc::new(over))];
        for (name, expected) in [
            ("job-alice-1a2b3", "job-job-1-1a2b3"),
            // Names that a user has chosen.
            ("job-alice-secret", "job-job-1-abcde"),
            ("alice", "job-job-1-abcde"),
        ] {
            let note = format!("team-a/{name} follows job-alice-00000");
            let changes = vec![
                seen(What::Event, event(name, &note)),
                seen(What::Event, event("alice-unknown", "")),
                seen(What::Is(Kind::Workload), workload(name, "10")),
            ];
            let trace = trace(Timestamp::UNIX_EPOCH, &initial, changes);
            let text = trace.to_string();
            assert!(text.contains(expected), "{text}");
            for secret in ["alice", "secret", "team-a", "vault"] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
    }
}
