//! Recording of a history on the real Kueue, as a trace.

mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kueue_check::Clock;
use kueue_check_sim_cli::replay::{figures, full_projection, projection};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use crate::bodies::{cluster_path, collection, namespaced_path};
use crate::history::{History, MARK, Step};
use crate::request::{ObservedChange, Request};
use crate::stage::{Stage, StageError};

/// A step ends after this time without a change, and the time by which Kueue is late. It exceeds
/// Kueue's batch period for changes (1 s).
const QUIET: Duration = Duration::from_millis(1600);
/// The delay between a hasty step and the next one, regardless of changes.
const HASTE: Duration = Duration::from_millis(10);
/// The maximum duration of a step. The history ends there if changes continue for longer.
const LONGEST: Duration = Duration::from_mins(2);
/// The maximum number of changes in a step. A Kueue that writes without end makes thousands a
/// second.
const MOST: usize = 1000;
/// The time without a change after the first ResourceFlavors, which no object waits for.
const SOON: Duration = Duration::from_millis(300);

/// Runs the history on the real Kueue and returns its trace.
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
    let (mut steps, mut is_hasty) = (Vec::new(), false);
    for step in &history.steps {
        if let Some(performed) = recorder.perform(step).await? {
            steps.push(performed);
            is_hasty = matches!(step, Step::Hasty(_));
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
    // All steps after the hasty one had no object to apply to.
    if let Some(last) = steps.last_mut().filter(|_| is_hasty) {
        let rest = recorder.observe(QUIET).await;
        if let Some(observed) = last["observed"].as_array_mut() {
            observed.extend(rest);
        }
    }
    recorder.changes.close();
    let endless = recorder.is_restless;
    let figures = recorder.figures().await?;
    recorder.clean_up(history).await?;
    let mut trace = json!({
        "scenario": history.name,
        "kueue": format!("v{}", stage.release()),
        "apiserver": "v1.36.3",
        "began": began.to_string(),
        "workloadNames": recorder.names,
        "steps": steps,
    });
    if endless {
        trace["endless"] = json!(true);
    } else {
        trace["figures"] = figures;
    }
    if let Some(settings) = stage.settings() {
        trace["settings"] = settings.clone();
    }
    Ok(trace)
}

struct Recorder<'a> {
    stage: &'a Stage,
    mark: String,
    changes: UnboundedReceiver<ObservedChange>,
    clock: Clock,
    /// Whether states contain all fields that distinguish the Workloads of a job.
    full: bool,
    zero: Instant,
    /// The current objects, by kind and name.
    live: BTreeMap<(&'static str, String), Arc<Value>>,
    /// The states of the objects in the trace, by kind and name.
    states: BTreeMap<String, Value>,
    /// The short names of Workloads, also of deleted ones, by generated name.
    names: BTreeMap<String, String>,
    /// Whether a step reached its maximum duration or number of changes.
    is_restless: bool,
}

impl Recorder<'_> {
    /// Returns the figures of the queues, cohorts and Workloads of the history.
    async fn figures(&self) -> Result<Value, StageError> {
        let mut all = serde_json::Map::new();
        for path in [
            cluster_path("clusterqueues"),
            namespaced_path("localqueues"),
            cluster_path("cohorts"),
            namespaced_path("workloads"),
        ] {
            let list = self.stage.send(&Request::read(self.marked(&path))).await?;
            for object in list.body["items"].as_array().into_iter().flatten() {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let is_own = path.contains("/namespaces/") || name.ends_with(&self.mark);
                if is_own {
                    let kind = object["kind"].as_str().unwrap_or_default();
                    let name = name.replace(&self.mark, "");
                    let key = format!("{kind}/{}", self.names.get(&name).unwrap_or(&name));
                    all.insert(key, self.unmarked(&figures(object)));
                }
            }
        }
        Ok(all.into())
    }

    /// Deletes the objects of the history. Each cycle of Kueue's scheduler copies all
    /// `ClusterQueue`s, and an interrupted watch lists all Events again.
    async fn clean_up(&self, history: &History) -> Result<(), StageError> {
        let events = "/apis/events.k8s.io/v1/namespaces/t@/events".to_owned();
        for all in [namespaced_path("workloads"), events] {
            self.stage.send(&Request::delete(self.marked(&all))).await?;
        }
        for step in history.steps.iter().rev() {
            let Step::Create(objects) = step else {
                continue;
            };
            for object in objects {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let path = self.marked(&format!("{}/{name}", collection(object)));
                self.stage.send(&Request::delete(path)).await?;
            }
        }
        Ok(())
    }

    async fn perform(&mut self, step: &Step) -> Result<Option<Value>, StageError> {
        let Some(requests) = self.requests(step) else {
            return Ok(None);
        };
        let t = self.seconds(Instant::now());
        let mut calls = Vec::new();
        let mut recorded = Value::Null;
        for request in requests {
            let response = self.stage.send(&request).await?;
            recorded = json!({"code": response.code});
            if response.code >= 400 {
                recorded["message"] = self.unmarked(&response.body["message"]);
            }
            calls.push(json!({
                "method": request.method,
                "path": request.path.replace(&self.mark, ""),
                "contentType": request.content_type,
                "body": self.unmarked(&request.body),
                "code": response.code,
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
        let mut performed = json!({
            "step": step.title(), "t": t, "calls": calls, "observed": observed,
        });
        if !recorded.is_null() {
            performed["response"] = recorded;
        }
        Ok(Some(performed))
    }

    /// Returns all changes until nothing changes for `quiet` and the time by which Kueue is late,
    /// or until a step's limit is reached.
    async fn observe(&mut self, quiet: Duration) -> Vec<Value> {
        let mut observed = Vec::new();
        let mut last = Instant::now();
        let longest = last + LONGEST;
        loop {
            let end = last + quiet + self.stage.lateness();
            let seen = match timeout_at(end, self.changes.recv()).await {
                Ok(Some(seen)) => seen,
                Err(_) if last + quiet + self.stage.lateness() > end => continue,
                Ok(None) | Err(_) => break,
            };
            if let Some(shown) = self.take(&seen) {
                last = seen.at;
                observed.push(shown);
                self.is_restless = last >= longest || observed.len() >= MOST;
                if self.is_restless {
                    break;
                }
            }
        }
        observed
    }

    /// Returns all changes until `end`.
    async fn observe_until(&mut self, end: Instant) -> Vec<Value> {
        let mut observed = Vec::new();
        while let Ok(Some(seen)) = timeout_at(end, self.changes.recv()).await {
            observed.extend(self.take(&seen));
        }
        observed
    }

    /// Stores a change. Returns it if it belongs in the trace.
    fn take(&mut self, seen: &ObservedChange) -> Option<Value> {
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

    /// Stores the short name of a job's Workload: the job's name, with a number for a slice.
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

    /// Returns the value with the names in the trace, without the mark.
    fn unmarked(&self, value: &Value) -> Value {
        let text = value.to_string().replace(&self.mark, "");
        serde_json::from_str(&text).unwrap_or_else(|_| value.clone())
    }

    fn unmarked_text(&self, name: &Value) -> String {
        let name = name.as_str().unwrap_or_default();
        name.replace(&self.mark, "")
    }

    /// Returns the text with the names on the server, with the mark.
    fn marked(&self, text: &str) -> String {
        text.replace(MARK, &self.mark)
    }

    /// Returns the newest Workload with this short name: its own, or the name of its job.
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
