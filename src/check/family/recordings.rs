//! Recordings of families on Kueue 0.19.2, which are kept outside of the project, for tests.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::Workload;

/// A recording.
pub(crate) struct Recording {
    pub(crate) name: String,
    /// Each step, and the changes observed after it, with the seconds since the beginning.
    pub(crate) steps: Vec<(String, Vec<(f64, Change)>)>,
}

/// A change that was observed.
pub(crate) enum Change {
    /// A Workload, by its alias; `None` if it was deleted.
    Workload(String, Option<Workload>),
    /// A pod, and whether it runs.
    Pod(String, bool),
}

/// Returns the recordings whose names begin with `kind`; none where they are not kept.
pub(crate) fn recordings(kind: &str) -> Vec<Recording> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = here
        .ancestors()
        .map(|above| above.join("shared/traces/families"));
    let Some(folder) = folders.find(|folder| folder.is_dir()) else {
        println!("skipped: no recordings in ../shared/traces/families");
        return Vec::new();
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Recording> = files
        .filter_map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            let name = name.strip_suffix(".json")?.to_owned();
            let wanted = name.starts_with(kind);
            wanted.then(|| read(name, &std::fs::read(file.path()).unwrap()))
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn read(name: String, file: &[u8]) -> Recording {
    let trace: Value = serde_json::from_slice(file).unwrap();
    let names: BTreeMap<&str, &str> = trace["workloadNames"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, alias)| (alias.as_str().unwrap(), name.as_str()))
        .collect();
    let mut reader = Reader {
        version: 0,
        transitions: BTreeMap::new(),
    };
    let steps = trace["steps"].as_array().unwrap().iter().map(|step| {
        let observed = step["observed"].as_array().unwrap().iter();
        let changes = observed.filter_map(|seen| {
            let at = seen["t"].as_f64().unwrap_or_default();
            Some((at, reader.change(&names, seen)?))
        });
        (step["step"].to_string(), changes.collect())
    });
    Recording {
        name,
        steps: steps.collect(),
    }
}

struct Reader {
    version: u64,
    /// Since when each condition of each Workload has its status.
    transitions: BTreeMap<(String, String), (String, Timestamp)>,
}

impl Reader {
    fn change(&mut self, names: &BTreeMap<&str, &str>, seen: &Value) -> Option<Change> {
        let (alias, state) = (seen["name"].as_str().unwrap_or_default(), &seen["state"]);
        let deleted = seen["type"] == "DELETED";
        match seen["kind"].as_str()? {
            "Pod" => {
                let runs = !deleted && state["phase"] == "Running";
                Some(Change::Pod(alias.to_owned(), runs))
            }
            "Workload" => {
                let name = names.get(alias).unwrap_or(&alias);
                let at = seen["t"].as_f64().unwrap_or_default();
                let workload = (!deleted).then(|| self.workload(name, at, state));
                Some(Change::Workload(alias.to_owned(), workload))
            }
            _ => None,
        }
    }

    /// Returns the Workload of a recorded state. Recordings have no UIDs, versions or transition
    /// times, so names, numbers and times of events stand for them.
    fn workload(&mut self, name: &str, at: f64, state: &Value) -> Workload {
        self.version += 1;
        let millis = SignedDuration::from_secs_f64(at).as_millis();
        let at = Timestamp::from_millisecond(i64::try_from(millis).unwrap()).unwrap();
        let mut conditions = state["conditions"].as_array().cloned().unwrap_or_default();
        for condition in &mut conditions {
            let place = (name.to_owned(), condition["type"].to_string());
            let status = condition["status"].to_string();
            let known = self
                .transitions
                .entry(place)
                .or_insert((status.clone(), at));
            if known.0 != status {
                *known = (status, at);
            }
            condition["lastTransitionTime"] = json!(known.1.to_string());
        }
        let counts = state["counts"].as_object().cloned().unwrap_or_default();
        let sets: Vec<Value> = counts
            .iter()
            .map(|(name, count)| json!({"name": name, "count": count}))
            .collect();
        let owner = state["owners"][0].as_str().unwrap_or_default();
        let owners: Vec<Value> = owner
            .split_once('/')
            .map(|(kind, name)| {
                let version = match kind {
                    "Workload" => "kueue.x-k8s.io/v1beta2",
                    _ => "batch/v1",
                };
                json!({"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": true})
            })
            .into_iter()
            .collect();
        Workload::from_json(json!({
            "metadata": {"namespace": "t", "name": name, "uid": name, "resourceVersion": self.version.to_string(),
                "annotations": state["annotations"], "labels": state["labels"], "ownerReferences": owners},
            "spec": {"podSets": sets, "active": state["active"]},
            "status": {"conditions": conditions, "admission": state["admission"], "admissionChecks": state["checks"]},
        }))
        .unwrap()
    }
}
