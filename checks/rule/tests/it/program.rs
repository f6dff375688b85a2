//! The program as a process.

use std::process::Command;

use kueue_check_rule::document::{json_schema, openapi};
use serde_json::{Value, json};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_rule-check");

/// Returns exit code, standard output and standard error.
pub(crate) fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(BINARY);
    let output = command.args(arguments).env_remove("KUBECONFIG").output();
    let output = output.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code();
    (code, text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_schemas_are_printed() {
    for (format, schema) in [
        (&["schema"][..], json_schema()),
        (&["schema", "json-schema"], json_schema()),
        (&["schema", "openapi"], openapi()),
    ] {
        let (code, text, error) = output(format);
        assert_eq!(code, Some(0), "{error}");
        let printed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(printed, schema);
    }
}

#[test]
fn an_invalid_server_is_rejected_with_the_flag() {
    for (arguments, expected) in [
        (&["--allow-host=ftp://a.example"][..], "--allow-host"),
        (&["--allow-host=https://a.example/path"], "--allow-host"),
        (&["--allow-host=http://a.example=tokens"], "plain http"),
        (&["--allow-host=https://a.example="], "folder"),
        (
            &["--allow-host=https://a.example=x,https://a.example:443=y"],
            "names https://a.example:443 twice",
        ),
    ] {
        let (code, _, error) = output(&[arguments, &["manifests", "--image", "i"]].concat());
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn arguments_of_manifests_apply_to_the_program_they_run() {
    let (code, text, error) = output(&[
        "manifests",
        "--image=example.com/rule-check:1",
        "--allow-host=https://a.example=a",
        "--annotation=example.com/,team",
    ]);
    assert_eq!(code, Some(0), "{error}");
    let deployment = documents(&text).find(|document| document["kind"] == "Deployment");
    let arguments = &deployment.unwrap()["spec"]["template"]["spec"]["containers"][0]["args"];
    let has = |wanted: &str| arguments.as_array().unwrap().contains(&json!(wanted));
    for wanted in [
        "--allow-host=https://a.example:443=a",
        "--annotation=example.com/",
        "--annotation=team",
    ] {
        assert!(has(wanted), "{wanted}: {arguments}");
    }
}

pub(crate) fn documents(text: &str) -> impl Iterator<Item = Value> {
    let documents = text.split("---\n").filter(|part| !part.trim().is_empty());
    documents.filter_map(|part| serde_saphyr::from_str::<Option<Value>>(part).unwrap())
}
