//! A history on the real Kueue, recorded as a trace.

mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kueue_check::Clock;
use kueue_check_sim_cli::replay::{full_projection, projection};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use crate::history::{History, MARK, Step};
use crate::stage::{Request, Seen, Stage, StageError};

/// A step is over when nothing has changed for so long: longer than Kueue collects changes (1 s).
const QUIET: Duration = Duration::from_millis(1600);
/// How long after a hasty step the next one follows, whatever changes.
const HASTE: Duration = Duration::from_millis(10);
/// The longest time of a step. What changes for longer does not come to rest, and the history ends
/// there.
const LONGEST: Duration = Duration::from_mins(2);
/// The most changes of a step: a Kueue that writes without end makes thousands a second.
const MOST: usize = 1000;
/// After what nothing waits for.
const SOON: Duration = Duration::from_millis(300);

/// Plays the history and returns its trace.
pub(crate) async fn record(stage: &Stage, history: &History) -> Result<Value, StageError> {
    let (mark, changes) = stage.listen();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("t{mark}")},
    });
    let create = Request::create("/api/v1/namespaces".to_owned(), namespace);
    stage.send(&create).await?;
    let clock = Clock::system();
    let mut recorder = Recorder {
        stage,
        mark,
        changes,
        clock: clock.clone(),
        full: history.full,
        zero: Instant::now(),
        live: BTreeMap::new(),
        states: BTreeMap::new(),
        names: BTreeMap::new(),
        is_restless: false,
    };
    let began = clock.now();
    let mut steps = Vec::new();
    for step in &history.steps {
        if let Some(step) = recorder.play(step).await? {
            steps.push(step);
        }
        if recorder.is_restless {
            let seconds = LONGEST.as_secs();
            println!(
                "{}: something changes for {seconds} s, or {MOST} times; cut after step {}",
                history.name,
                steps.len()
            );
            break;
        }
    }
    Ok(json!({
        "scenario": history.name,
        "kueue": format!("v{}", stage.release()),
        "apiserver": "v1.36.3",
        "began": began.to_string(),
        "workloadNames": recorder.names,
        "steps": steps,
    }))
}

struct Recorder<'a> {
    stage: &'a Stage,
    mark: String,
    changes: UnboundedReceiver<Seen>,
    clock: Clock,
    /// Whether states have all that tells the Workloads of a job apart.
    full: bool,
    zero: Instant,
    /// The objects as they are, by kind and name.
    live: BTreeMap<(&'static str, String), Arc<Value>>,
    /// The same, as the trace shows them.
    states: BTreeMap<String, Value>,
    /// Generated names of Workloads, also of those that are gone, and the short ones.
    names: BTreeMap<String, String>,
    /// Whether something went on changing until the longest time of a step.
    is_restless: bool,
}

impl Recorder<'_> {
    async fn play(&mut self, step: &Step) -> Result<Option<Value>, StageError> {
        let Some(requests) = self.requests(step) else {
            return Ok(None);
        };
        let t = self.seconds(Instant::now());
        let mut calls = Vec::new();
        let mut response = Value::Null;
        for request in requests {
            let answer = self.stage.send(&request).await?;
            response = json!({"code": answer.code});
            if answer.code >= 400 {
                response["message"] = self.unmarked(&answer.body["message"]);
            }
            calls.push(json!({
                "method": request.method,
                "path": request.path.replace(&self.mark, ""),
                "contentType": request.content_type,
                "body": self.unmarked(&request.body),
                "code": answer.code,
            }));
        }
        let quiet = match step {
            Step::Wait(seconds) => Duration::from_secs_f64(*seconds),
            Step::Hasty(_) => HASTE,
            Step::Create(objects)
                if objects[0]["kind"] == "ResourceFlavor" && self.states.is_empty() =>
            {
                SOON
            }
            _ => QUIET,
        };
        let observed = if matches!(step, Step::Hasty(_)) {
            self.observe_until(Instant::now() + quiet).await
        } else {
            self.observe(quiet).await
        };
        let mut played = json!({
            "step": step.title(), "t": t, "calls": calls, "observed": observed,
        });
        if !response.is_null() {
            played["response"] = response;
        }
        Ok(Some(played))
    }

    /// Everything that changes until nothing has for so long, or for the longest time.
    async fn observe(&mut self, quiet: Duration) -> Vec<Value> {
        let mut observed = Vec::new();
        let mut last = Instant::now();
        let end = last + LONGEST;
        while let Ok(Some(seen)) = timeout_at(last + quiet, self.changes.recv()).await {
            if let Some(shown) = self.take(&seen) {
                last = seen.at;
                observed.push(shown);
                self.is_restless = last >= end || observed.len() >= MOST;
                if self.is_restless {
                    break;
                }
            }
        }
        observed
    }

    /// Everything that changes until then.
    async fn observe_until(&mut self, end: Instant) -> Vec<Value> {
        let mut observed = Vec::new();
        while let Ok(Some(seen)) = timeout_at(end, self.changes.recv()).await {
            observed.extend(self.take(&seen));
        }
        observed
    }

    /// Takes note of a change, and shows it if it is one in the eyes of a trace.
    fn take(&mut self, seen: &Seen) -> Option<Value> {
        let name = seen.object["metadata"]["name"].as_str()?.to_owned();
        if seen.kind == "Workload" {
            self.name_of_job(&name, &seen.object);
        }
        let key = (seen.kind, name.clone());
        let old = if seen.deleted {
            self.live.remove(&key)
        } else {
            self.live.insert(key, Arc::clone(&seen.object))
        };
        let state = if self.full {
            full_projection(seen.kind, &seen.object)
        } else {
            projection(seen.kind, &seen.object)
        };
        let state = self.unmarked(&state);
        let change = match old {
            _ if seen.deleted => "DELETED",
            None => "ADDED",
            Some(_) if seen.kind == "Event" => return None,
            Some(_) => "MODIFIED",
        };
        let name = name.replace(&self.mark, "");
        let shown = if seen.kind == "Event" { "" } else { &name };
        if seen.kind == "Event" {
            if seen.deleted {
                return None;
            }
        } else {
            let id = format!("{}/{name}", seen.kind);
            if seen.deleted {
                self.states.remove(&id);
            } else if self.states.insert(id, state.clone()).as_ref() == Some(&state) {
                return None;
            }
        }
        Some(json!({
            "t": self.seconds(seen.at), "kind": seen.kind, "name": shown, "type": change, "state": state,
        }))
    }

    /// The short name of the Workload of a job: the job's, with a number if it is a slice.
    fn name_of_job(&mut self, name: &str, object: &Value) {
        let metadata = &object["metadata"];
        let name = name.replace(&self.mark, "");
        let owner = &metadata["ownerReferences"][0];
        let Some(owner) = owner["name"]
            .as_str()
            .filter(|_| owner["controller"] == true)
        else {
            return;
        };
        if self.names.contains_key(&name) {
            return;
        }
        let owner = owner.replace(&self.mark, "");
        let slice = format!("{owner}#");
        let slices = self
            .names
            .values()
            .filter(|short| short.starts_with(&slice));
        let short = if metadata["annotations"]["kueue.x-k8s.io/elastic-job"].is_null() {
            owner
        } else {
            format!("{slice}{}", slices.count() + 1)
        };
        self.names.insert(name, short);
    }

    fn seconds(&self, at: Instant) -> f64 {
        let seconds = at.saturating_duration_since(self.zero).as_secs_f64();
        (seconds * 1000.0).round() / 1000.0
    }

    /// With the names that the trace has.
    fn unmarked(&self, value: &Value) -> Value {
        let text = value.to_string().replace(&self.mark, "");
        serde_json::from_str(&text).unwrap_or_else(|_| value.clone())
    }

    fn unmarked_text(&self, name: &Value) -> String {
        let name = name.as_str().unwrap_or_default();
        name.replace(&self.mark, "")
    }

    /// With the names that the server has.
    fn marked(&self, text: &str) -> String {
        text.replace(MARK, &self.mark)
    }

    /// The Workload with this short name: its own, or that of the job that it is for.
    fn workload(&self, short: &str) -> Option<&Arc<Value>> {
        let name = self.marked(short);
        let all = self
            .live
            .iter()
            .filter(|((kind, _), _)| *kind == "Workload");
        let named = all.map(|(_, object)| object).filter(|object| {
            let metadata = &object["metadata"];
            metadata["name"] == name || metadata["ownerReferences"][0]["name"] == name
        });
        named.max_by_key(|object| {
            let metadata = &object["metadata"];
            let came = metadata["creationTimestamp"].as_str().unwrap_or_default();
            (came, self.names.get(&self.unmarked_text(&metadata["name"])))
        })
    }

    fn job(&self, short: &str) -> Option<&Arc<Value>> {
        self.live.get(&("Job", self.marked(short)))
    }

    fn pod(&self, name: &str) -> Option<&Arc<Value>> {
        self.live.get(&("Pod", self.marked(name)))
    }
}
