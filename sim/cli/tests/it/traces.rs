//! Comparison of what a real Kueue 0.19.2 did with what the model does.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kueue_check_sim::explore::SAMPLE_ENV;
use kueue_check_sim_cli::replay::{Replay, ReplayError, Trace, VersionEvidence};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn recordings() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = here.ancestors().map(|above| above.join("shared/traces"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let kinds = ["families", "job", "workload"].into_iter();
    kinds.flat_map(|kind| files(&folder.join(kind))).collect()
}

/// Returns the recordings in a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    found.sort();
    found
}

/// Returns histories that `cargo xtask twin` recorded; of a sample of faults, each twelfth. They
/// are those that the model once reproduced wrongly, and those with most of the rare cases.
fn histories() -> Vec<PathBuf> {
    let found = files(&tests().join("histories"));
    assert!(found.len() >= 200, "{}", found.len());
    let sampled = std::env::var_os(SAMPLE_ENV).is_some();
    found
        .into_iter()
        .step_by(if sampled { 12 } else { 1 })
        .collect()
}

fn differences(traces: &[PathBuf]) -> String {
    let mut report = String::new();
    for path in traces {
        let differences = match Replay::new(Trace::read(path).unwrap()).run() {
            Err(ReplayError::NotModelled(what)) => {
                println!("skipped: the model has no {what}: {}", path.display());
                continue;
            }
            other => other.unwrap(),
        };
        for difference in &differences {
            writeln!(report, "{}: {difference}", path.display()).unwrap();
        }
    }
    report
}

#[test]
fn every_history_is_reproduced() {
    let report = differences(&histories());
    assert!(report.is_empty(), "{report}");
}

/// The shortest histories that `cargo xtask twin --shows` found. They are named after a field of
/// `KueueVersion` and the release of the recording.
#[test]
fn a_history_is_not_reproduced_with_the_behavior_of_another_version() {
    let mut steps = Vec::new();
    for path in files(&tests().join("versions")) {
        let name = path.file_stem().unwrap().to_string_lossy();
        let (field, _) = name.rsplit_once('-').unwrap();
        let text = std::fs::read(&path).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        steps.push(json["steps"].as_array().unwrap().len());
        let trace: Trace = serde_json::from_value(json).unwrap();
        assert!(VersionEvidence::shows(&trace, field).unwrap(), "{name}");
    }
    steps.sort_unstable();
    let median = steps[steps.len() / 2];
    assert!(median <= 6, "the median is {median} steps");
}

#[test]
fn a_history_that_is_not_what_kueue_does_is_not_reproduced() {
    let with_quota = histories().into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let other = text.replace(r#""type":"QuotaReserved""#, r#""type":"Quota""#);
        (other != text).then_some((path, other))
    });
    // Each is played with all outcomes of races.
    for (path, other) in with_quota.step_by(20) {
        let trace: Trace = serde_json::from_str(&other).unwrap();
        assert_ne!(Replay::new(trace).run().unwrap(), [], "{}", path.display());
    }
}

/// With a setting `waitForPodsReady`, `PodsReady` is compared, too.
#[test]
fn a_history_with_another_reason_of_its_pods_is_not_reproduced() {
    let path = tests().join("histories/5700-105.json");
    let text = std::fs::read_to_string(path).unwrap();
    let then = r#""reason":"WaitForRecovery","status":"False","type":"PodsReady""#;
    assert!(text.contains(then) && text.contains("waitForPodsReady"));
    let other = then.replace("Recovery", "Start");
    let trace: Trace = serde_json::from_str(&text.replace(then, &other)).unwrap();
    assert_ne!(Replay::new(trace).run().unwrap(), []);
}

/// Replaces `then` by `other` in each recording of a family that has it. Each must differ.
///
/// Each is played with all outcomes of races, which takes seconds.
fn assert_each_family_differs_with(then: &str, other: &str) {
    let families = |path: &PathBuf| path.parent().is_some_and(|p| p.ends_with("families"));
    let recordings: Vec<PathBuf> = recordings().into_iter().filter(families).collect();
    if recordings.is_empty() {
        println!("skipped: no recordings in ../shared/traces/families");
        return;
    }
    let sampled = std::env::var_os(SAMPLE_ENV).is_some();
    let most = if sampled { 3 } else { usize::MAX };
    let with_it = recordings.into_iter().filter_map(|path| {
        let recorded: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let text = serde_json::to_string(&recorded).unwrap();
        text.contains(then)
            .then(|| (path, text.replace(then, other)))
    });
    let mut played = 0;
    for (path, text) in with_it.take(most) {
        played += 1;
        let trace: Trace = serde_json::from_str(&text).unwrap();
        let differences = Replay::new(trace).run().unwrap();
        assert_ne!(differences, [], "{}: {other}", path.display());
    }
    assert!(played > 0, "no recording has {then}");
}

#[test]
fn a_family_with_another_usage_is_not_reproduced() {
    assert_each_family_differs_with(
        r#""usage":{"main":{"cpu":"2"}}"#,
        r#""usage":{"main":{"cpu":"3"}}"#,
    );
}

#[test]
fn a_family_with_another_reason_is_not_reproduced() {
    assert_each_family_differs_with(
        r#""reason":"WorkloadSliceReplaced""#,
        r#""reason":"OutOfSync""#,
    );
}

#[test]
fn a_family_with_another_gate_is_not_reproduced() {
    assert_each_family_differs_with(r#""gates":[]"#, r#""gates":["example.com/gate"]"#);
}

#[test]
fn a_family_that_stays_active_is_not_reproduced() {
    assert_each_family_differs_with(r#""active":false,"#, r#""active":true,"#);
}

#[test]
fn a_family_with_another_count_is_not_reproduced() {
    assert_each_family_differs_with(r#""counts":{"main":2}"#, r#""counts":{"main":1}"#);
}

#[test]
fn every_recorded_trace_is_reproduced() {
    let recordings = recordings();
    if recordings.is_empty() {
        println!("skipped: no recordings in ../shared/traces");
        return;
    }
    let of_families = |path: &&PathBuf| {
        path.parent()
            .is_some_and(|folder| folder.ends_with("families"))
    };
    let families = recordings.iter().filter(of_families).count();
    assert!(families >= 23, "only {families} recordings of families");
    let report = differences(&recordings);
    assert!(report.is_empty(), "{report}");
    println!("{} traces reproduced", recordings.len());
}
