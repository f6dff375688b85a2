//! The file format of a trace.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use kueue_check_sim::kueue::{KueueVersion, QueueUsage};

use super::ReplayError;
use super::object::list;

/// Steps that are less than this apart, in seconds, are close: a recording waits longer for what
/// comes of a step.
const CLOSE: f64 = 0.2;

/// A recorded scenario.
///
/// ```
/// use kueue_check_sim_cli::replay::{Replay, Trace};
///
/// let trace: Trace = serde_json::from_str(r#"{"scenario": "new-check", "steps": [
///     {"step": "make the check", "t": 0.5, "calls": [{
///         "method": "POST", "path": "/apis/kueue.x-k8s.io/v1beta2/admissionchecks", "code": 201,
///         "body": {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
///                  "metadata": {"name": "licence"}, "spec": {"controllerName": "example.com/licences"}}
///     }], "observed": [{"t": 0.5, "kind": "AdmissionCheck", "name": "licence", "type": "ADDED", "state": {"conditions": []}}]}
/// ]}"#)?;
/// // Kueue says nothing about a check that is another controller's; neither does the model.
/// assert_eq!(Replay::new(trace).run()?, []);
/// # Ok::<(), kueue_check_sim_cli::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// Its name.
    pub scenario: String,
    /// Generated names of Workloads, and the short ones that stand for them.
    #[serde(default)]
    pub workload_names: BTreeMap<String, String>,
    /// The release of Kueue that was recorded, such as `v0.18.3`.
    #[serde(default)]
    pub(super) kueue: Option<String>,
    /// When the recording began, if the recorder says so.
    #[serde(default)]
    pub(super) began: Option<Timestamp>,
    /// Objects that existed when the recording began, with status and creation time.
    #[serde(default)]
    pub(super) objects: Vec<Value>,
    /// What was done, one after the other.
    pub(super) steps: Vec<Step>,
}

/// One thing that was done, and what came of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Step {
    /// What it is.
    #[serde(rename = "step")]
    pub(super) name: String,
    /// Seconds from the start.
    pub(super) t: f64,
    /// The answer to its last request.
    #[serde(default)]
    pub(super) response: Option<Response>,
    /// Its requests.
    #[serde(default)]
    pub(super) calls: Vec<RecordedCall>,
    /// What changed.
    #[serde(default)]
    pub(super) observed: Vec<Observed>,
}

/// An answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    /// The HTTP status code.
    pub(super) code: u16,
    /// Of a refusal.
    pub(super) message: String,
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedCall {
    /// The HTTP method.
    pub(super) method: String,
    /// The path, with its query.
    #[serde(default)]
    pub(super) path: String,
    /// What the body is.
    #[serde(default)]
    pub(super) content_type: String,
    /// The body.
    #[serde(default)]
    pub(super) body: Value,
    /// The answer's code.
    #[serde(default)]
    pub(super) code: u16,
    /// What the status of the ClusterQueue said, if this is no request but a look at it.
    #[serde(flatten)]
    pub(super) look: QueueUsage,
}

impl RecordedCall {
    /// The method of a look at the figures of the ClusterQueue.
    const LOOK: &'static str = "LOOK";

    /// Whether this is a look at the figures of the ClusterQueue, not a request.
    pub(super) fn is_look(&self) -> bool {
        self.method == Self::LOOK
    }
}

/// A change of an object.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Observed {
    /// Seconds from the start.
    #[serde(default)]
    pub(super) t: f64,
    /// The kind of object.
    pub(super) kind: String,
    /// Its name, short if it was generated.
    pub(super) name: String,
    /// `ADDED`, `MODIFIED`, `DELETED`.
    #[serde(rename = "type")]
    pub(super) change: String,
    /// What of it is compared.
    #[serde(default)]
    pub(super) state: Value,
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// If it can't be read, or is not a trace.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Returns the model of the recorded Kueue; default: 0.19.
    pub(super) fn version(&self) -> KueueVersion {
        let release = self.kueue.as_deref().and_then(KueueVersion::of_release);
        KueueVersion {
            // Recordings with such a policy were made with the gate, and without it there are none.
            concurrent_admission: self.has_variants(),
            ..release.unwrap_or(KueueVersion::V0_19)
        }
    }

    /// Returns the bodies of all requests with their paths, and the initial objects.
    pub(super) fn bodies(&self) -> impl Iterator<Item = (&str, &Value)> {
        let calls = self.steps.iter().flat_map(|step| &step.calls);
        let calls = calls.map(|call| (call.path.as_str(), &call.body));
        calls.chain(self.objects.iter().map(|object| ("", object)))
    }

    /// Whether states have what tells the Workloads of a job apart, and Pods were watched.
    pub(super) fn is_of_families(&self) -> bool {
        let mut seen = self.steps.iter().flat_map(|step| &step.observed);
        seen.any(|seen| match seen.kind.as_str() {
            "Workload" => !seen.state["counts"].is_null(),
            "Job" => !seen.state["gates"].is_null(),
            _ => false,
        })
    }

    /// Whether Workloads have variants, one for each flavor.
    fn has_variants(&self) -> bool {
        let mut bodies = self.bodies().map(|(_, body)| body);
        bodies.any(|body| !body["spec"]["concurrentAdmissionPolicy"].is_null())
    }

    /// The generated names of Workloads in the order in which they were seen or used.
    pub(super) fn workloads_in_order(&self) -> Vec<String> {
        let there = self.objects.iter().map(|o| &o["metadata"]["name"]);
        let there = there.filter_map(|name| name.as_str().map(str::to_owned));
        let mut found: Vec<String> = there
            .filter(|name| self.workload_names.contains_key(name))
            .collect();
        for step in &self.steps {
            let paths = step.calls.iter().map(|call| call.path.as_str());
            let seen = step.observed.iter().map(|seen| seen.name.as_str());
            for text in paths.chain(seen) {
                let names = self
                    .workload_names
                    .keys()
                    .filter(|name| text.contains(*name));
                found.extend(names.cloned());
            }
        }
        found
    }

    /// Sets the controller of an AdmissionCheck and removes the requests of the recorded one.
    pub(super) fn decide_by(&mut self, controller: &str, check: &str) {
        let status = format!("/admissionchecks/{check}/status");
        for step in &mut self.steps {
            step.calls.retain(|call| {
                if call.path.ends_with(&status) {
                    return false;
                }
                let entries = list(&call.body["status"]["admissionChecks"]);
                let mut names = entries.map(|entry| &entry["name"]).peekable();
                names.peek().is_none() || names.any(|name| name != check)
            });
        }
        let calls = self.steps.iter_mut().flat_map(|step| &mut step.calls);
        let bodies = calls.map(|call| &mut call.body).chain(&mut self.objects);
        let own = |body: &&mut Value| {
            body["kind"] == "AdmissionCheck" && body["metadata"]["name"] == check
        };
        for body in bodies.filter(own) {
            body["spec"]["controllerName"] = json!(controller);
        }
    }

    /// Whether this step was done before Kueue can have finished with the one before.
    pub(super) fn follows_at_once(&self, step: usize) -> bool {
        let before = step.checked_sub(1).and_then(|at| self.steps.get(at));
        let both = before.zip(self.steps.get(step));
        both.is_some_and(|(before, step)| step.t - before.t < CLOSE)
    }

    /// Whether any request follows another at once.
    pub(super) fn is_hasty(&self) -> bool {
        let several = |step: &Step| step.calls.iter().filter(|call| !call.is_look()).count() > 1;
        (0..self.steps.len()).any(|at| several(&self.steps[at]) || self.follows_at_once(at))
    }

    /// Whether anything happens at a time that a request sets.
    pub(super) fn has_timers(&self) -> bool {
        let mut bodies = self.bodies().map(|(_, body)| body);
        bodies.any(|body| {
            let text = body.to_string();
            let names = [
                "requeueAfterSeconds",
                "maximumExecutionTimeSeconds",
                "max-exec-time",
            ];
            names.iter().any(|name| text.contains(name))
        })
    }

    /// When the last thing was done or seen, in seconds from the start.
    pub(super) fn end(&self) -> f64 {
        let seen = self.steps.iter().flat_map(|step| &step.observed);
        let times = seen.map(|o| o.t).chain(self.steps.iter().map(|s| s.t));
        times.fold(0.0, f64::max)
    }

    /// When the recording began, from the dates that were sent: none of them was in the future.
    pub(super) fn start(&self) -> Timestamp {
        if let Some(began) = self.began {
            return began;
        }
        let mut start = Timestamp::UNIX_EPOCH;
        for step in &self.steps {
            for call in &step.calls {
                dates(&call.body, &mut |date| {
                    let began = date.saturating_sub(seconds(step.t)).unwrap_or(date);
                    start = start.max(began);
                });
            }
        }
        if start == Timestamp::UNIX_EPOCH {
            // A trace without dates may begin any time.
            return Timestamp::from_second(1_795_000_000).unwrap_or(start);
        }
        start
    }
}

/// Formats a trace as a file: one line for each field, step and object.
///
/// ```
/// use kueue_check_sim_cli::replay::to_text;
///
/// let trace = serde_json::json!({"scenario": "s", "steps": [{"step": "a", "t": 0}, {"step": "b", "t": 1}]});
/// let lines = [
///     "{", r#""scenario":"s","#, r#""steps":["#, r#"{"step":"a","t":0},"#, r#"{"step":"b","t":1}"#, "]", "}",
/// ];
/// assert_eq!(to_text(&trace), lines.map(|line| format!("{line}\n")).concat());
/// ```
#[must_use]
pub fn to_text(trace: &Value) -> String {
    let fields = trace.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| {
        let value = match value {
            Value::Array(all) if !all.is_empty() => {
                let all: Vec<String> = all.iter().map(Value::to_string).collect();
                format!("[\n{}\n]", all.join(",\n"))
            }
            other => other.to_string(),
        };
        format!("{}:{value}", json!(name))
    });
    let fields: Vec<String> = fields.collect();
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}

/// Seconds with fractions.
pub(super) fn seconds(t: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64(t).unwrap_or_default()
}

fn dates(value: &Value, found: &mut impl FnMut(Timestamp)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "lastTransitionTime" => {
                        if let Ok(date) = text.parse() {
                            found(date);
                        }
                    }
                    _ => dates(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| dates(value, found)),
        _ => {}
    }
}

/// The moment so many seconds after the start.
pub(super) fn at(zero: Instant, seconds: f64) -> Instant {
    zero + Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
