//! Recordings of Kueue 0.19.2's own check on a real API server, repeated with this check under its
//! name.

use std::path::{Path, PathBuf};

use kueue_check::ControllerName;
use kueue_check::runtime::Runtime;
use kueue_check_provisioning::{KUEUES_CONTROLLER_NAME, ProvisioningCheck};
use kueue_check_sim_cli::replay::{Difference, Replay, Trace};
use serde_json::{Value, json};

/// Returns the recordings. They are stored beside the project, not in it; `KUEUE_CHECK_TRACES`
/// overrides the path.
fn recordings(of: &str) -> Vec<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("KUEUE_CHECK_TRACES")
        .map_or_else(beside, PathBuf::from)
        .join(of);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there is no {}", folder.display());
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        file.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("pr-"))
    });
    files.sort();
    files
}

fn replay(file: &Path) -> Vec<Difference> {
    let trace = Trace::read(file).unwrap();
    let replay = Replay::new(trace).with(|server, clock| {
        let client = server.client_as("check-0");
        let name = ControllerName::from_static(KUEUES_CONTROLLER_NAME);
        let runtime = Runtime::builder(client.clone())
            .check(ProvisioningCheck::new(client, name))
            .clock(clock.clone())
            .build()
            .unwrap();
        tokio::spawn(runtime.run(std::future::pending()));
    });
    replay.ignore(meant).run().unwrap()
}

/// Removes the intended differences (DIFFERENCES.md). The Workload owns the templates, and the
/// first of them owns the request, because Kueue's own check would delete it otherwise. This check
/// sets its AdmissionCheck in annotations and has more text in its condition; updates exist only
/// with Ready.
///
/// A delay is observed here: Kueue's own check does not change `lastTransitionTime` when it sets
/// Retry, so the delay counts from the transition before. In these recordings it had already
/// passed, and the eviction came at once. Here Kueue waits first, and records that in
/// `requeueState`.
fn meant(kind: &str, state: &mut Value) {
    match kind {
        "Event"
            if state
                .as_str()
                .is_some_and(|line| line.ends_with("(AdmissionCheck/pr)")) =>
        {
            *state = Value::Null;
        }
        "ProvisioningRequest" | "PodTemplate" => {
            if let Some(object) = state.as_object_mut() {
                object.remove("owners");
            }
        }
        "AdmissionCheck" => {
            for condition in list(&mut state["conditions"]) {
                if condition["status"] == "False" {
                    condition["reason"].take();
                    condition["message"].take();
                }
            }
        }
        "Workload" => {
            if let Some(workload) = state.as_object_mut() {
                workload.remove("requeueState");
            }
            for entry in list(&mut state["checks"]) {
                let none = entry["podSetUpdates"] == json!([]);
                // After Rejected Kueue resets the count, unless the check's own writes own it, as
                // those of Kueue's check do.
                if entry["message"]
                    .as_str()
                    .is_some_and(|message| message.ends_with("Previously: Rejected"))
                {
                    entry["retryCount"].take();
                }
                if (none || entry["state"] != "Ready")
                    && let Some(entry) = entry.as_object_mut()
                {
                    entry.remove("podSetUpdates");
                }
                if let Some(entry) = entry.as_object_mut() {
                    entry.retain(|_, value| !value.is_null());
                }
            }
        }
        _ => {}
    }
}

fn list(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_array_mut().into_iter().flatten()
}

fn differs(of: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for file in recordings(of) {
        for difference in replay(&file) {
            let name = file.file_name().unwrap().to_string_lossy();
            let difference = format!("{name}: {difference}");
            // Templates are deleted with their request here. Those of the recording were left to a
            // garbage collector, and none ran.
            let deleted = difference.contains("PodTemplate/")
                && difference.ends_with("recorded:  nothing more\n  simulated: null");
            if !deleted {
                differences.push(difference);
            }
        }
    }
    differences
}

#[test]
fn recordings_of_jobs_are_reproduced() {
    let differences = differs("job");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn recordings_of_bare_workloads_are_reproduced() {
    let mut differences = differs("workload");
    // The recording ends before the delay of 2 s has passed, and so before the eviction, its event
    // and the end of the request.
    let late = [
        "ProvisioningRequest/wl-pr-1, state 4",
        "Workload/wl, state 5",
        "events of \"BookingExpired\"",
    ]
    .map(|place| format!("pr-booking-expired-pending.json: {place}\n"));
    differences.retain(|difference| !late.iter().any(|late| difference.starts_with(late)));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
