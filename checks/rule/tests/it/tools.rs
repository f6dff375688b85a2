//! The tools for authors, as commands of the program, run on the examples.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kueue_check_testenv::Folder;

use crate::program::{documents, output};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// Returns the names of the examples.
pub(crate) fn examples() -> BTreeSet<String> {
    let files = std::fs::read_dir(example("")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let stems = names.filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned));
    stems.filter(|stem| !stem.contains(".cases")).collect()
}

/// Each example of a CELCheck has a table of cases, and they all pass.
#[test]
fn examples_match_their_tables() {
    let mut tried = 0;
    for stem in examples() {
        let path = example(&format!("{stem}.yaml"));
        let kinds: Vec<_> = documents(&std::fs::read_to_string(&path).unwrap())
            .map(|document| document["kind"].as_str().unwrap().to_owned())
            .collect();
        let file = path.to_str().unwrap();
        let (code, text, error) = output(&["validate", file]);
        assert_eq!(code, Some(0), "{stem}:\n{text}{error}");
        if kinds[0] != "CELCheck" {
            continue;
        }
        assert_eq!(kinds, ["CELCheck", "AdmissionCheck"], "{stem}");
        let table = example(&format!("{stem}.cases.yaml"));
        let (code, text, error) = output(&["test", "-f", table.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{stem}:\n{text}{error}");
        assert!(text.contains(" 0 failed"), "{text}");
        tried += 1;
    }
    assert!(tried >= 6, "{tried} examples");
}

#[test]
fn a_rule_is_rendered_without_a_cluster() {
    let folder = Folder::new("rule").unwrap();
    folder
        .write(
            "workload.yaml",
            "metadata: {labels: {example.com/dataset: texts}}\n",
        )
        .unwrap();
    folder.write(
        "data.yaml",
        "objects:\n  persistentvolumeclaims:\n  - {metadata: {namespace: default, name: texts}, status: {phase: Lost}}\n",
    ).unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let rule = example("dataset.yaml").to_str().unwrap().to_owned();
    let (workload, data) = (file("workload.yaml"), file("data.yaml"));
    let (code, text, error) = output(&["render", "-f", &rule, "-w", &workload, "-d", &data]);
    assert_eq!(code, Some(0), "{error}");
    for line in [
        "state: Pending",
        "message: the PersistentVolumeClaim texts is not bound",
        "variables.claim: \"texts\"",
        "variables.volume: {\"metadata\":{\"name\":\"texts\",\"namespace\":\"default\"},\"status\":{\"phase\":\"Lost\"}}",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
    folder
        .write(
            "annotated.yaml",
            "metadata: {annotations: {example.com/a: b}}\n",
        )
        .unwrap();
    folder.write(
        "rule.yaml",
        "kind: CELCheck\napiVersion: kueue-check.dev/v1alpha1\nmetadata: {name: a}\nspec: {ready: \"workload.annotations['example.com/a'] == 'b' && waited < duration('1s')\"}\n",
    ).unwrap();
    let (rule, annotated) = (file("rule.yaml"), file("annotated.yaml"));
    let (code, text, error) = output(&["render", "-f", &rule, "-w", &annotated]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.starts_with("state: Ready\n"), "{text}");
    let nights = example("nights.yaml").to_str().unwrap().to_owned();
    let (code, text, _) = output(&["render", "-f", &nights, "--now", "2026-11-23T12:00:00Z"]);
    assert_eq!(code, Some(0));
    assert!(
        text.starts_with("state: Pending\nmessage: starts at 20:00 in Berlin\n"),
        "{text}"
    );
}

#[test]
fn a_mistake_is_reported_with_the_file() {
    let folder = Folder::new("rule").unwrap();
    let rule = |ready: &str| {
        format!(
            "apiVersion: kueue-check.dev/v1alpha1\nkind: CELCheck\nmetadata: {{name: a}}\nspec: {{ready: \"{ready}\"}}\n"
        )
    };
    folder
        .write("wrong.yaml", &rule("workload.nmae == 'x'"))
        .unwrap();
    folder
        .write(
            "two.yaml",
            &format!("{}---\n{}", rule("true"), rule("false")),
        )
        .unwrap();
    folder.write("none.yaml", "kind: ConfigMap\n").unwrap();
    folder
        .write("typo.cases.yaml", "rule: wrong.yaml\ncase: []\n")
        .unwrap();
    folder
        .write("empty.cases.yaml", "rule: good.yaml\ncases: []\n")
        .unwrap();
    folder.write("good.yaml", &rule("true")).unwrap();
    folder.write(
        "fails.cases.yaml",
        "rule: good.yaml\ncases:\n- {name: 'a <b> & \"c\"', expect: {state: Rejected}}\n- {name: d, expect: {state: Ready, message: met}}\n- {name: e, expect: {state: Ready, podSetUpdates: [{name: main}]}}\n",
    ).unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (arguments, expected) in [
        (
            ["render", "-f", "wrong.yaml"],
            "wrong.yaml: `spec.ready`: line 1, column 9: a workload has no field `nmae`",
        ),
        (["render", "-f", "two.yaml"], "it has several CELChecks"),
        (["render", "-f", "none.yaml"], "there is no CELCheck in it"),
        (
            ["render", "-f", "missing.yaml"],
            "missing.yaml: No such file",
        ),
        (["test", "-f", "typo.cases.yaml"], "typo.cases.yaml: "),
        (["test", "-f", "empty.cases.yaml"], "it has no cases"),
    ] {
        let [command, flag, name] = arguments;
        let (code, _, error) = output(&[command, flag, &file(name)]);
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let (table, junit) = (file("fails.cases.yaml"), file("junit.xml"));
    let (code, text, _) = output(&["test", "-f", &table, "--junit", &junit]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("FAILED  a <b> & \"c\": expected Rejected, and it is Ready"),
        "{text}"
    );
    assert!(text.ends_with("3 cases, 2 failed\n"), "{text}");
    let report = std::fs::read_to_string(junit).unwrap();
    assert!(report.contains("tests=\"3\" failures=\"2\""), "{report}");
    assert!(
        report.contains(
            "name=\"a &lt;b&gt; &amp; &quot;c&quot;\"><failure message=\"expected Rejected"
        ),
        "{report}"
    );
}
