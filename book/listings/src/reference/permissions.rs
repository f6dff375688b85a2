//! The permissions of each check, as its command `manifests` prints them.

use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::cell;

/// The programs, by the names under which this binary runs as them.
const PROGRAMS: [(&str, &str); 3] = [
    (
        "window",
        "what each check needs, here with one kind of parameters",
    ),
    ("provisioning-check", "the provisioning check"),
    ("budget-check", "the budget check"),
];

#[derive(Deserialize)]
struct Document {
    kind: String,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    api_groups: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

pub(super) fn page(book: &Path) -> String {
    let mut text = String::new();
    for (program, what) in PROGRAMS {
        let _ = write!(
            text,
            "## {program}\n\n{}{}.\n\n| role | API group | resource | verbs |\n| --- | --- | --- | --- |\n",
            what[..1].to_uppercase(),
            &what[1..]
        );
        for document in documents(book, program) {
            // The role for reading metrics is not the program's.
            let own = document.rules.iter();
            for rule in own.filter(|rule| !rule.api_groups.is_empty()) {
                let _ = writeln!(text, "{}", row(&document.kind, rule));
            }
        }
        text += "\n";
    }
    text.trim_end().to_owned() + "\n"
}

fn row(kind: &str, rule: &Rule) -> String {
    let mut resources = code(&rule.resources);
    if !rule.resource_names.is_empty() {
        resources += &format!(" named {}", code(&rule.resource_names));
    }
    let (groups, verbs) = (code(&rule.api_groups), rule.verbs.join(", "));
    format!(
        "| {kind} | {} | {} | {} |",
        cell(&groups),
        cell(&resources),
        cell(&verbs)
    )
}

fn code(words: &[String]) -> String {
    let words = words.iter().map(|word| {
        let word = if word.is_empty() { "core" } else { word };
        format!("`{word}`")
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the roles in the output of `program manifests`.
fn documents(book: &Path, program: &str) -> Vec<Document> {
    let manifests = output(book, program, &["manifests", "--image", "IMAGE"]);
    let documents = manifests
        .split("---\n")
        .filter(|text| !text.trim().is_empty());
    documents
        .filter_map(|text| serde_saphyr::from_str::<Document>(text).ok())
        .filter(|document| document.kind.ends_with("Role"))
        .collect()
}

/// Returns the output of `book` when it runs as `program`.
fn output(book: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(book).arg0(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{} does not start: {error}", book.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
