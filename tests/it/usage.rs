//! The count and usage of a pod set, compared with what ran on a real Kueue 0.19.2.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kueue_check::api::Workload;
use serde_json::{Value, json};

/// Recordings in which pods end, jobs shrink, or fewer pods are assigned than requested. They are
/// kept beside the project.
const RECORDINGS: [&str; 4] = [
    "d-partial-admission",
    "d-reclaimable-pods",
    "elastic-shrink",
    "elastic-usage",
];

fn folder() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = here
        .ancestors()
        .map(|above| above.join("shared/traces/families"));
    folders.find(|folder| folder.is_dir())
}

/// Makes the Workload of a recorded state, whose usage is beside its assignments.
fn recorded(state: &Value) -> Workload {
    let counts = state["counts"].as_object().cloned().unwrap_or_default();
    let sets: Vec<Value> = counts
        .iter()
        .map(|(name, count)| json!({"name": name, "count": count}))
        .collect();
    let mut admission = state["admission"].clone();
    for assignment in admission["podSetAssignments"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let name = assignment["name"].as_str().unwrap().to_owned();
        assignment["resourceUsage"] = state["admission"]["usage"][&name].clone();
    }
    Workload::from_json(json!({
        "metadata": {"name": "recorded"},
        "spec": {"podSets": sets},
        "status": {
            "conditions": state["conditions"], "admission": admission,
            "reclaimablePods": state["reclaimablePods"],
        },
    }))
    .unwrap()
}

/// Where a step of a recording has settled, the pods that count are those that run, each with one
/// CPU.
#[test]
fn the_pods_that_count_are_those_that_ran() {
    let Some(folder) = folder() else {
        println!("skipped: no recordings in ../shared/traces/families");
        return;
    };
    for recording in RECORDINGS {
        let text = std::fs::read(folder.join(format!("{recording}.json"))).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        let (mut workloads, mut running) = (BTreeMap::new(), BTreeSet::new());
        let mut compared = BTreeSet::new();
        for step in trace["steps"].as_array().unwrap() {
            for seen in step["observed"].as_array().unwrap() {
                let (name, state) = (seen["name"].as_str().unwrap_or_default(), &seen["state"]);
                let gone = seen["type"] == "DELETED";
                match seen["kind"].as_str() {
                    Some("Workload") if gone => {
                        workloads.remove(name);
                    }
                    Some("Workload") => {
                        workloads.insert(name, recorded(state));
                    }
                    Some("Pod") if !gone && state["phase"] == "Running" => {
                        running.insert(name);
                    }
                    Some("Pod") => {
                        running.remove(name);
                    }
                    _ => {}
                }
            }
            let admitted = workloads.values().filter(|workload| {
                let conditions = workload.conditions();
                let over = conditions.finished().is_true() || conditions.evicted().is_true();
                workload.is_admitted() && !over
            });
            for workload in admitted {
                let place = format!("{recording} after `{}`", step["step"]);
                let pods: u32 = workload
                    .pod_sets()
                    .iter()
                    .map(kueue_check::api::PodSet::count)
                    .sum();
                assert_eq!(pods as usize, running.len(), "{place}");
                assert_eq!(workload.usage("cpu").units(), i64::from(pods), "{place}");
                compared.insert(pods);
            }
        }
        assert!(
            compared.len() > 1 || recording == "d-partial-admission",
            "{recording}: {compared:?}"
        );
        println!("{recording}: {compared:?} pods");
    }
}
