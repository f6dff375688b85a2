use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

/// A slice with quota for `pods` pods, which replaces `replaces`.
fn slice(
    name: &str,
    replaces: Option<&str>,
    pods: u32,
    conditions: &[(&str, &str, &str)],
) -> Value {
    let mut annotations = json!({"kueue.x-k8s.io/workload-slice-name": "el-1"});
    if let Some(replaces) = replaces {
        annotations["kueue.x-k8s.io/workload-slice-replacement-for"] =
            json!(format!("t/{replaces}"));
    }
    let conditions = conditions
        .iter()
        .chain(&[("QuotaReserved", "True", "QuotaReserved")]);
    let conditions: Vec<Value> = conditions
        .map(|(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason}))
        .collect();
    json!({
        "metadata": {"namespace": "t", "name": name, "annotations": annotations},
        "spec": {"podSets": [{"name": "main", "count": pods}]},
        "status": {
            "conditions": conditions,
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": pods}]},
        },
    })
}

fn workload(object: &Value) -> Workload {
    Workload::from_json(object.clone()).unwrap()
}

const ADMITTED: (&str, &str, &str) = ("Admitted", "True", "Admitted");
const REPLACED: (&str, &str, &str) = ("Finished", "True", "WorkloadSliceReplaced");
const SUCCEEDED: (&str, &str, &str) = ("Finished", "True", "Succeeded");
const EVICTED: (&str, &str, &str) = ("Evicted", "True", "AdmissionCheck");
const EVICTED_BEFORE: (&str, &str, &str) = ("Evicted", "False", "QuotaReserved");

#[test]
fn what_runs_is_the_last_slice_that_was_admitted() {
    let runs = |pods| {
        Some(Growth {
            running: Some(pods),
        })
    };
    let unknown = Some(Growth { running: None });
    let first = |conditions: &[_]| slice("el-1", None, 2, conditions);
    let growth = |conditions: &[_]| slice("el-2", Some("el-1"), 4, conditions);
    let third = |conditions: &[_]| slice("el-3", Some("el-2"), 6, conditions);
    let mut shrunk = first(&[ADMITTED]);
    shrunk["spec"]["podSets"][0]["count"] = json!(1);
    for (case, known, of, expected) in [
        (
            "replaced by the growth",
            vec![first(&[ADMITTED, REPLACED])],
            growth(&[]),
            runs(2),
        ),
        (
            "not replaced yet",
            vec![first(&[ADMITTED])],
            growth(&[]),
            runs(2),
        ),
        (
            "it shrank before it grew",
            vec![shrunk],
            growth(&[]),
            runs(1),
        ),
        ("it is not known", vec![], growth(&[]), unknown),
        (
            "grown again while the growth waited",
            vec![first(&[ADMITTED, REPLACED]), growth(&[REPLACED])],
            third(&[]),
            runs(2),
        ),
        (
            "the growth was admitted, and grows again",
            vec![first(&[ADMITTED, REPLACED]), growth(&[ADMITTED, REPLACED])],
            third(&[]),
            runs(4),
        ),
        (
            "only the growth in between is known",
            vec![growth(&[REPLACED])],
            third(&[]),
            unknown,
        ),
        (
            "the first was never admitted",
            vec![first(&[REPLACED])],
            growth(&[]),
            None,
        ),
        (
            "the job has finished",
            vec![first(&[ADMITTED, SUCCEEDED])],
            growth(&[]),
            None,
        ),
        (
            "an eviction of the growth has stopped the job",
            vec![first(&[ADMITTED, REPLACED])],
            growth(&[EVICTED_BEFORE]),
            None,
        ),
        (
            "and then it grew again",
            vec![
                first(&[ADMITTED, REPLACED]),
                growth(&[EVICTED_BEFORE, REPLACED]),
            ],
            third(&[]),
            None,
        ),
        (
            "it runs again after that, and grows",
            vec![
                first(&[ADMITTED, REPLACED]),
                growth(&[EVICTED_BEFORE, ADMITTED, REPLACED]),
            ],
            third(&[]),
            runs(4),
        ),
        (
            "Kueue evicts the slice that runs and finishes it as replaced: the pods run on",
            vec![first(&[ADMITTED, EVICTED, REPLACED])],
            growth(&[]),
            runs(2),
        ),
        (
            "it is admitted itself",
            vec![first(&[ADMITTED, REPLACED])],
            growth(&[ADMITTED]),
            None,
        ),
        ("it replaces none", vec![], first(&[]), None),
        (
            "it replaces itself",
            vec![slice("el-2", Some("el-2"), 4, &[])],
            slice("el-2", Some("el-2"), 4, &[]),
            unknown,
        ),
    ] {
        let mut slices = Slices::default();
        for object in &known {
            slices.take(&Event::Apply(workload(object)));
        }
        assert_eq!(slices.growth(&workload(&of)), expected, "{case}");
        assert_eq!(
            slices.growth(&workload(&of)),
            expected,
            "{case}, and nothing is remembered"
        );
    }
}

#[test]
fn what_is_no_slice_is_not_kept_and_what_is_gone_is_forgotten() {
    let mut slices = Slices::default();
    slices.take(&Event::Apply(workload(
        &json!({"metadata": {"namespace": "t", "name": "el-1"}}),
    )));
    assert!(slices.known.is_empty());
    let first = workload(&slice("el-1", None, 2, &[ADMITTED]));
    let other = workload(&slice("other", None, 2, &[ADMITTED]));
    slices.take(&Event::Apply(first.clone()));
    slices.take(&Event::Apply(other.clone()));
    slices.take(&Event::Delete(other.clone()));
    assert_eq!(slices.known.len(), 1);
    for event in [Event::Init, Event::InitApply(other), Event::InitDone] {
        slices.take(&event);
    }
    assert_eq!(
        slices
            .known
            .keys()
            .map(|(_, name)| &**name)
            .collect::<Vec<_>>(),
        ["other"]
    );
    for event in [Event::Init, Event::InitApply(first), Event::InitDone] {
        slices.take(&event);
    }
    assert_eq!(
        slices
            .known
            .keys()
            .map(|(_, name)| &**name)
            .collect::<Vec<_>>(),
        ["el-1"]
    );
}

/// Recordings of elastic jobs on Kueue 0.19.2, which are kept beside the project.
fn recordings() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = here
        .ancestors()
        .map(|above| above.join("shared/traces/families"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = files.map(|file| file.path()).collect();
    found.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("elastic-") && name.ends_with(".json")
    });
    found.sort();
    found
}

/// The Workload of a recorded state.
fn recorded(name: &str, state: &Value) -> Workload {
    let counts = state["counts"].as_object().cloned().unwrap_or_default();
    let sets: Vec<Value> = counts
        .iter()
        .map(|(name, count)| json!({"name": name, "count": count}))
        .collect();
    Workload::from_json(json!({
        "metadata": {"namespace": "t", "name": name, "annotations": state["annotations"]},
        "spec": {"podSets": sets, "active": state["active"]},
        "status": {"conditions": state["conditions"], "admission": state["admission"]},
    }))
    .unwrap()
}

/// Where a step of a recording has settled, what is said to run is what runs.
#[test]
fn what_runs_in_the_recordings_is_what_is_said_to_run() {
    let recordings = recordings();
    if recordings.is_empty() {
        println!("skipped: no recordings in ../shared/traces/families");
        return;
    }
    let mut compared = 0;
    for file in &recordings {
        let trace: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let names: BTreeMap<&str, &str> = trace["workloadNames"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, alias)| (alias.as_str().unwrap(), name.as_str()))
            .collect();
        let (mut slices, mut states) = (Slices::default(), BTreeMap::new());
        let mut running: BTreeSet<&str> = BTreeSet::new();
        for step in trace["steps"].as_array().unwrap() {
            for seen in step["observed"].as_array().unwrap() {
                let (alias, state) = (seen["name"].as_str().unwrap_or_default(), &seen["state"]);
                match (seen["kind"].as_str(), seen["type"].as_str()) {
                    (Some("Workload"), Some("DELETED")) => {
                        if let Some(gone) = states.remove(alias) {
                            slices.take(&Event::Delete(gone));
                        }
                    }
                    (Some("Workload"), _) => {
                        let workload = recorded(names[alias], state);
                        slices.take(&Event::Apply(workload.clone()));
                        states.insert(alias, workload);
                    }
                    (Some("Pod"), Some(kind)) => {
                        if kind != "DELETED" && state["phase"] == "Running" {
                            running.insert(alias);
                        } else {
                            running.remove(alias);
                        }
                    }
                    _ => {}
                }
            }
            for (alias, workload) in &states {
                let waits =
                    workload.holds_quota() && !workload.is_admitted() && workload.is_active();
                let is_growth = matches!(workload.slice(), Slice::Replaces(_));
                if !waits || !is_growth || workload.conditions().finished().is_true() {
                    continue;
                }
                let said = slices
                    .growth(workload)
                    .map_or(0, |growth| growth.running.unwrap());
                let place = format!("{}: {alias} after `{}`", file.display(), step["step"]);
                assert_eq!(said as usize, running.len(), "{place}");
                compared += 1;
            }
        }
    }
    assert!(
        compared >= 10,
        "{compared} moments in {} recordings",
        recordings.len()
    );
    println!("{compared} moments in {} recordings", recordings.len());
}
