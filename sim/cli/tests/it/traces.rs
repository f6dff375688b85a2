//! Comparison of what a real Kueue 0.19.2 did with what the model does.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kueue_check_sim::explore::SAMPLE_ENV;
use kueue_check_sim_cli::replay::{Replay, ReplayError, Trace, VersionEvidence};

fn recordings() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = here.ancestors().map(|above| above.join("shared/traces"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for kind in ["job", "workload", "families"] {
        let files = std::fs::read_dir(folder.join(kind))
            .into_iter()
            .flatten()
            .flatten();
        found.extend(
            files
                .map(|file| file.path())
                .filter(|path| path.extension().is_some_and(|e| e == "json")),
        );
    }
    found.sort();
    found
}

/// Returns histories that `cargo xtask twin` recorded; of a sample of faults, each twelfth. They
/// are those that the model once reproduced wrongly, and those with most of the rare cases.
fn histories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let files = std::fs::read_dir(&folder).unwrap();
    let mut found: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    found.sort();
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

/// Histories that show differences between versions, by the fields of `KueueVersion`.
const SHOWN: [(&str, &[&str]); 36] = [
    ("10200-5", &["most_pod_sets", "validates_templates"]),
    ("10600-27", &["skips_zero_requests"]),
    ("11000-23", &["waits_for_replacements"]),
    (
        "11000-26",
        &["compares_pod_limits", "revised_fast_admission"],
    ),
    (
        "11000-29",
        &[
            "explains_preemptions",
            "labels_pods",
            "reads_group_annotation",
        ],
    ),
    (
        "11020-11",
        &[
            "delays_retries",
            "elastic_jobs",
            "explains_evictions",
            "finishes_orphans",
            "lists_checks_early",
            "releases_at_end",
        ],
    ),
    ("11020-20", &["counts_messages", "keeps_inactive"]),
    ("11020-3", &["revised_slices"]),
    ("11030-12", &["equivalence_hashing"]),
    ("11030-17", &["revised_messages"]),
    ("11030-5", &["admission_gates"]),
    ("11050-25", &["batches_retries", "revised_messages"]),
    (
        "11060-15",
        &["delays_retries", "equivalence_hashing", "finishes_orphans"],
    ),
    ("11060-20", &["adds_priority_classes", "keeps_inactive"]),
    ("11060-21", &["preempts_for_pods"]),
    (
        "11060-7",
        &[
            "counts_messages",
            "elastic_jobs",
            "excludes_unlabeled",
            "labels_pods",
        ],
    ),
    ("11070-17", &["explains_evictions"]),
    ("11080-11", &["waits_for_replacements"]),
    ("11080-12", &["reads_group_annotation", "releases_at_end"]),
    ("11080-29", &["explains_preemptions", "lists_checks_early"]),
    ("11100-11", &["follows_class_values"]),
    (
        "11100-14",
        &[
            "counts_messages",
            "elastic_jobs",
            "explains_preemptions",
            "finishes_orphans",
            "labels_pods",
        ],
    ),
    ("11100-15", &["validates_on_flavors"]),
    ("11100-16", &["releases_at_end", "revised_messages"]),
    (
        "11100-18",
        &["batches_retries", "delays_retries", "explains_evictions"],
    ),
    ("11100-19", &["keeps_inactive"]),
    ("11100-6", &["adds_priority_classes"]),
    ("11100-7", &["equivalence_hashing"]),
    ("11110-3", &["preempts_for_pods"]),
    (
        "11120-15",
        &[
            "excludes_unlabeled",
            "lists_checks_early",
            "reads_group_annotation",
            "revised_fast_admission",
        ],
    ),
    ("11120-2", &["waits_for_replacements"]),
    ("11200-20", &["compares_pod_limits"]),
    (
        "11220-27",
        &["reads_group_annotation", "revised_fast_admission"],
    ),
    ("6600-19", &["excludes_unlabeled", "validates_on_flavors"]),
    (
        "6600-96",
        &["adds_priority_classes", "omits_refused_classes"],
    ),
    ("6700-44", &["batches_retries"]),
];

/// The book's table of versions is made of such histories (`cargo xtask twin --versions`).
#[test]
fn a_history_is_not_reproduced_with_the_behavior_of_another_version() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let sampled = std::env::var_os(SAMPLE_ENV).is_some();
    for (name, fields) in SHOWN.iter().step_by(if sampled { 12 } else { 1 }) {
        let trace = Trace::read(&folder.join(format!("{name}.json"))).unwrap();
        let evidence = VersionEvidence::of(name, &trace).unwrap();
        let shown: Vec<&str> = evidence.all().map(|(field, ..)| field).collect();
        for field in *fields {
            assert!(
                shown.contains(field),
                "{name} does not show {field}: {shown:?}"
            );
        }
    }
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let text = std::fs::read_to_string(folder.join("5700-105.json")).unwrap();
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
