//! The program: its output and exit codes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Runs the program; returns whether it succeeded, and its output.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kueue-check-sim"));
    command.args(arguments).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Returns a new folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn one_plan_is_run_alone_and_has_to_be_injected() {
    let how: [&[&str]; 3] = [&[], &["--random", "2"], &["--pairs", "--limit", "2"]];
    let table = [
        ("check-0/request/0/503", true, "2 runs at 1 points"),
        (
            "check-0/request/99999/409",
            false,
            "not injected: `check-0/request/99999/409`",
        ),
        (
            "check-0/request/seven/409",
            false,
            "KUEUE_CHECK_PLAN: `check-0/request/seven/409` is no plan",
        ),
    ];
    for how in how {
        let arguments = [&["explore", "wait"], how].concat();
        for (plan, succeeds, expected) in table {
            let (succeeded, text) = run(&arguments, &[("KUEUE_CHECK_PLAN", plan)]);
            assert_eq!(succeeded, succeeds, "{arguments:?} {plan}: {text}");
            assert!(text.contains(expected), "{arguments:?} {plan}: {text}");
        }
    }
}

#[test]
fn the_pairs_that_were_not_tried_are_counted() {
    let (succeeded, text) = run(&["explore", "wait", "--pairs", "--limit", "5"], &[]);
    assert!(succeeded, "{text}");
    assert!(
        text.contains("5 of 5 runs") && text.contains("others were not tried"),
        "{text}"
    );
}

#[test]
fn a_replay_of_nothing_fails_and_a_damaged_trace_stops_no_other() {
    let folder = folder("replay");
    let path = folder.to_str().unwrap();
    let (succeeded, text) = run(&["replay", path], &[]);
    assert!(!succeeded && text.contains("no trace was found"), "{text}");

    let write = |name: &str, trace: &Value| {
        std::fs::write(folder.join(name), trace.to_string()).unwrap();
    };
    let steps = |steps: Value| json!({"scenario": "s", "steps": steps});
    write("a-late.json", &steps(json!([{"step": "a", "t": 1e19}])));
    write("b-empty.json", &steps(json!([])));
    let call = json!({"method": "POST", "path": "/apis/kueue.x-k8s.io/v1beta2/admissionchecks",
        "code": 422, "body": {"metadata": 1, "spec": "x"}});
    write(
        "c-strange.json",
        &steps(json!([{"step": "a", "t": 1.0, "calls": [call]}])),
    );
    write("d-good.json", &steps(json!([{"step": "a", "t": 1.0}])));
    let (succeeded, text) = run(&["replay", path], &[]);
    assert!(!succeeded, "{text}");
    for expected in [
        "not within a year",
        "neither steps nor objects",
        "of 4 traces reproduced",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    println!("{text}");
}

#[test]
fn a_recording_that_fails_keeps_the_earlier_file() {
    let file = folder("record").join("trace.json");
    std::fs::write(&file, "an earlier trace").unwrap();
    let out = file.to_str().unwrap();
    let nowhere = [("KUBECONFIG", "/nowhere"), ("KUBERNETES_SERVICE_HOST", "")];
    let (succeeded, text) = run(&["record", "--out", out], &nowhere);
    assert!(!succeeded, "{text}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "an earlier trace");
}
