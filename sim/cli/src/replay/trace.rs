//! The file format of a trace.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use kueue_check_sim::kueue::{FairSharing, KueueVersion, QueueUsage, WaitForPodsReady};

use super::ReplayError;
use super::object::list;

/// The distance below which steps are close, in seconds. A recorder that waits for the effects of a
/// step takes longer.
const CLOSE: f64 = 0.2;

/// The longest trace, in seconds: a year.
const LONGEST: f64 = 366.0 * 86_400.0;

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
/// // Kueue sets no condition on the check of another controller; neither does the model.
/// assert_eq!(Replay::new(trace).run()?, []);
/// # Ok::<(), kueue_check_sim_cli::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The name.
    pub scenario: String,
    /// Generated names of Workloads, with the short ones that stand for them.
    #[serde(default)]
    pub workload_names: BTreeMap<String, String>,
    /// The release of Kueue that was recorded, such as `v0.18.3`.
    #[serde(default)]
    pub(super) kueue: Option<String>,
    /// The settings of the recorded Kueue that were not the default.
    #[serde(default)]
    settings: Settings,
    /// Whether something went on changing when the recording ended.
    #[serde(default)]
    pub(super) endless: bool,
    /// When the recording began, if the trace contains it.
    #[serde(default)]
    pub(super) began: Option<Timestamp>,
    /// Objects that existed when the recording began, with status and creation time.
    #[serde(default)]
    pub(super) objects: Vec<Value>,
    /// The steps, one after the other.
    pub(super) steps: Vec<Step>,
    /// What [`figures`](super::figures) returns of objects at the end, by `KIND/NAME`.
    #[serde(default)]
    pub(super) figures: BTreeMap<String, Value>,
}

/// Settings of Kueue's `Configuration`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Settings {
    wait_for_pods_ready: Option<WaitForPodsReady>,
    fair_sharing: Option<FairSharing>,
}

/// One step: its requests, and the changes observed after them.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Step {
    /// The name.
    #[serde(rename = "step")]
    pub(super) name: String,
    /// The time, in seconds from the start.
    pub(super) t: f64,
    /// The response to the last request.
    #[serde(default)]
    pub(super) response: Option<Response>,
    /// The requests.
    #[serde(default)]
    pub(super) calls: Vec<RecordedCall>,
    /// The observed changes.
    #[serde(default)]
    pub(super) observed: Vec<Observed>,
}

/// A recorded response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    /// The HTTP status code.
    pub(super) code: u16,
    /// The message of an error.
    pub(super) message: String,
}

/// A recorded request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedCall {
    /// The HTTP method.
    pub(super) method: String,
    /// The path, with its query.
    #[serde(default)]
    pub(super) path: String,
    /// The content type of the body.
    #[serde(default)]
    pub(super) content_type: String,
    /// The body.
    #[serde(default)]
    pub(super) body: Value,
    /// The code of the response.
    #[serde(default)]
    pub(super) code: u16,
    /// The figures in the status of the ClusterQueue, if this reads them and is no request.
    #[serde(flatten)]
    pub(super) look: QueueUsage,
}

impl RecordedCall {
    /// The method of an entry that reads the figures of the ClusterQueue.
    const LOOK: &'static str = "LOOK";

    /// Returns true if this reads the figures of the ClusterQueue, and is no request.
    pub(super) fn is_look(&self) -> bool {
        self.method == Self::LOOK
    }
}

/// An observed change of an object.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Observed {
    /// The time, in seconds from the start.
    #[serde(default)]
    pub(super) t: f64,
    /// The kind of object.
    pub(super) kind: String,
    /// The name of the object, short if it was generated.
    pub(super) name: String,
    /// The type of change: `ADDED`, `MODIFIED`, `DELETED`.
    #[serde(rename = "type")]
    pub(super) change: String,
    /// The compared state.
    #[serde(default)]
    pub(super) state: Value,
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// If the file can't be read, is not a trace, or has neither steps nor objects; if a time or a
    /// state is impossible.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let trace: Self = serde_json::from_slice(&std::fs::read(path)?)?;
        if trace.steps.is_empty() && trace.objects.is_empty() {
            let what = "it has neither steps nor objects".to_owned();
            return Err(ReplayError::Damaged(what));
        }
        trace.check()?;
        Ok(trace)
    }

    /// Rejects impossible times and states.
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        let is_possible = |t: f64| (0.0..=LONGEST).contains(&t);
        for step in &self.steps {
            let mut times = step.observed.iter().map(|seen| seen.t).chain([step.t]);
            let mut states = step.observed.iter();
            let what = if let Some(t) = times.find(|t| !is_possible(*t)) {
                format!("{t} s, which is not within a year")
            } else if let Some(seen) =
                states.find(|seen| !seen.state.is_object() && !seen.state.is_null())
            {
                format!("a state of {}/{} that is no object", seen.kind, seen.name)
            } else {
                continue;
            };
            return Err(ReplayError::Damaged(format!(
                "step {:?} has {what}",
                step.name
            )));
        }
        Ok(())
    }

    /// Returns the model of the recorded Kueue; default: 0.19.
    pub(super) fn version(&self) -> KueueVersion {
        let release = self.kueue.as_deref().and_then(KueueVersion::of_release);
        let release = release.unwrap_or(KueueVersion::V0_19);
        KueueVersion {
            wait_for_pods_ready: self
                .settings
                .wait_for_pods_ready
                .or(release.wait_for_pods_ready),
            fair_sharing: self.settings.fair_sharing,
            // Recordings with such a policy were made with the feature gate; others have no
            // variants.
            concurrent_admission: self.has_variants(),
            ..release
        }
    }

    /// Returns the bodies of all requests with their paths, and the initial objects.
    pub(super) fn bodies(&self) -> impl Iterator<Item = (&str, &Value)> {
        let calls = self.steps.iter().flat_map(|step| &step.calls);
        let calls = calls.map(|call| (call.path.as_str(), &call.body));
        calls.chain(self.objects.iter().map(|object| ("", object)))
    }

    /// Returns true if states distinguish the Workloads of a job, and Pods were watched.
    pub(super) fn is_of_families(&self) -> bool {
        let mut seen = self.steps.iter().flat_map(|step| &step.observed);
        seen.any(|seen| match seen.kind.as_str() {
            "Workload" => !seen.state["counts"].is_null(),
            "Job" => !seen.state["gates"].is_null(),
            _ => false,
        })
    }

    /// Returns true if Workloads have variants, one for each flavor.
    fn has_variants(&self) -> bool {
        let mut bodies = self.bodies().map(|(_, body)| body);
        bodies.any(|body| !body["spec"]["concurrentAdmissionPolicy"].is_null())
    }

    /// Returns the generated names of Workloads, in the order in which they were observed or used.
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
        let specs = bodies.filter(own).filter_map(|body| body.get_mut("spec"));
        for spec in specs.filter_map(Value::as_object_mut) {
            spec.insert("controllerName".to_owned(), json!(controller));
        }
    }

    /// Returns true if this step was done before Kueue can have finished with the one before.
    pub(super) fn follows_at_once(&self, step: usize) -> bool {
        let before = step.checked_sub(1).and_then(|at| self.steps.get(at));
        let both = before.zip(self.steps.get(step));
        both.is_some_and(|(before, step)| step.t - before.t < CLOSE)
    }

    /// Returns true if any request follows another at once.
    pub(super) fn is_hasty(&self) -> bool {
        (0..self.steps.len()).any(|at| self.is_followed(at))
    }

    /// Returns true if several Workloads are preempted in this step.
    pub(super) fn preempts_several(&self, step: usize) -> bool {
        let of_step = self.steps[step].observed.iter();
        let preempted =
            of_step.filter(|seen| seen.kind == "Event" && seen.state["reason"] == "Preempted");
        preempted.count() > 1
    }

    /// Returns true if a request follows one of this step at once.
    pub(super) fn is_followed(&self, step: usize) -> bool {
        let requests = self.steps[step].calls.iter().filter(|call| !call.is_look());
        requests.count() > 1 || self.follows_at_once(step + 1)
    }

    /// Returns true if anything happens at a time that a request or a setting determines.
    pub(super) fn has_timers(&self) -> bool {
        let names = [
            "requeueAfterSeconds",
            "maximumExecutionTimeSeconds",
            "max-exec-time",
        ];
        self.sets_pods_ready() || self.has_any_of(&names)
    }

    /// Returns true if the recorded Kueue had a setting `waitForPodsReady`. Its condition is compared
    /// then.
    pub(super) fn sets_pods_ready(&self) -> bool {
        self.settings.wait_for_pods_ready.is_some()
    }

    /// Returns true if a job may change its size while it runs.
    pub(super) fn has_elastic_jobs(&self) -> bool {
        self.has_any_of(&["kueue.x-k8s.io/elastic-job"])
    }

    /// Returns true if some pods request more than one resource, or a ClusterQueue counts pods too.
    pub(super) fn requests_several_resources(&self) -> bool {
        fn has_several(value: &Value) -> bool {
            match value {
                Value::Object(fields) => fields.iter().any(|(field, value)| {
                    let requests = value.as_object().filter(|_| field == "requests");
                    requests.is_some_and(|of| of.len() > 1) || has_several(value)
                }),
                Value::Array(items) => items.iter().any(has_several),
                _ => false,
            }
        }
        self.has_any_of(&["\"pods\""]) || self.bodies().any(|(_, body)| has_several(body))
    }

    /// Returns true if a request or an initial object has one of these texts.
    fn has_any_of(&self, texts: &[&str]) -> bool {
        let mut bodies = self.bodies().map(|(_, body)| body.to_string());
        bodies.any(|body| texts.iter().any(|text| body.contains(text)))
    }

    /// Returns the time of the last step or observed change, in seconds from the start.
    pub(super) fn end(&self) -> f64 {
        let seen = self.steps.iter().flat_map(|step| &step.observed);
        let times = seen.map(|o| o.t).chain(self.steps.iter().map(|s| s.t));
        times.fold(0.0, f64::max)
    }

    /// Returns when the recording began, if need be from the dates sent: none was in the future.
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
            // A trace without dates may begin at any time.
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

/// Converts seconds with fractions.
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

/// Returns the instant this many seconds after the start.
pub(super) fn at(zero: Instant, seconds: f64) -> Instant {
    zero + Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_times_and_states_are_rejected() {
        let step = |t: f64, seen: f64, state: Value| {
            let observed = json!({
                "t": seen, "kind": "Workload", "name": "w", "type": "ADDED", "state": state,
            });
            json!({"step": "a", "t": t, "observed": [observed]})
        };
        let year = "which is not within a year";
        let table = [
            (step(1.0, 1.5, json!({"checks": []})), ""),
            (step(1.0, 1.5, Value::Null), ""),
            (step(1e19, 1.0, Value::Null), year),
            (step(-1.0, 1.0, Value::Null), year),
            (step(1.0, 1e19, Value::Null), year),
            (
                step(1.0, 1.5, json!("x")),
                "a state of Workload/w that is no object",
            ),
            (
                step(1.0, 1.5, json!([])),
                "a state of Workload/w that is no object",
            ),
        ];
        for (step, expected) in table {
            let trace: Trace =
                serde_json::from_value(json!({"scenario": "s", "steps": [step]})).unwrap();
            let error = trace.check().err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert_eq!(error.is_empty(), expected.is_empty(), "{error}");
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn a_check_without_a_proper_spec_keeps_it() {
        let check = json!({"kind": "AdmissionCheck", "metadata": {"name": "c"}, "spec": "x"});
        let trace = json!({"scenario": "s", "objects": [check], "steps": []});
        let mut trace: Trace = serde_json::from_value(trace).unwrap();
        trace.decide_by("example.com/other", "c");
        assert_eq!(trace.objects, [check]);
    }
}
