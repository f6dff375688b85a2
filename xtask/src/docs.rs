//! The documentation of the library crates.

use std::fs;
use std::path::Path;

use crate::{Failure, mutants, tools};

/// Their names in rustdoc. The shipped checks are programs, whose libraries exist for their own
/// tests.
const CRATES: [&str; 7] = [
    "kueue_check",
    "kueue_check_macros",
    "kueue_check_schema",
    "kueue_check_apiserver",
    "kueue_check_kueue_model",
    "kueue_check_sim",
    "kueue_check_sim_cli",
];

/// The beginnings of the file names of types' pages.
const TYPES: [&str; 5] = ["enum.", "struct.", "trait.", "type.", "union."];

/// Builds the documentation of all crates without a warning. The page of each public type must have
/// an example.
pub(crate) fn build() -> Result<(), Failure> {
    mutants::check()?;
    tools::cargo(
        &[
            "doc",
            "--workspace",
            "--all-features",
            "--no-deps",
            "--quiet",
        ],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    let documents = tools::target().join("doc");
    let mut types = 0;
    let mut without = Vec::new();
    for name in CRATES {
        let folder = documents.join(name);
        for page in pages(&read(&folder.join("all.html"))?) {
            types += 1;
            if !has_example(&read(&folder.join(&page))?) {
                without.push(format!("  {name}/{page}"));
            }
        }
    }
    if without.is_empty() {
        println!("each of {types} public types has an example");
        return Ok(());
    }
    Err(format!(
        "{} of {types} public types have no example in their own documentation:\n{}",
        without.len(),
        without.join("\n")
    ))
}

fn read(page: &Path) -> Result<String, Failure> {
    fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))
}

/// Returns the pages of types in the list of all items. A folder may have older pages too.
fn pages(list: &str) -> impl Iterator<Item = String> {
    let targets = list
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    targets
        .filter(|target| {
            let file = target.rsplit('/').next().unwrap_or(target);
            !target.starts_with("../") && TYPES.iter().any(|kind| file.starts_with(kind))
        })
        .map(str::to_owned)
}

/// Returns true if the item's own documentation has code that is compiled. It precedes the
/// documentation of the item's parts.
fn has_example(page: &str) -> bool {
    page.split_once("<details class=\"toggle top-doc\"")
        .and_then(|(_, rest)| rest.split_once("</details>"))
        .is_some_and(|(own, _)| own.contains("rust-example-rendered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_types_are_found() {
        let list = r#"<a href="../static.files/x.css"><a href="api/struct.Workload.html">W</a><a href="fn.main.html">main</a><a href="enum.Wake.html">"#;
        assert_eq!(
            pages(list).collect::<Vec<_>>(),
            ["api/struct.Workload.html", "enum.Wake.html"]
        );
    }

    #[test]
    fn an_example_of_a_method_is_none_of_the_type() {
        let own = |text: &str| {
            format!(
                r#"<details class="toggle top-doc" open>{text}</details><h2 id="implementations"><pre class="rust rust-example-rendered">"#
            )
        };
        assert!(!has_example(&own("<p>What it is.")));
        assert!(has_example(&own(
            r#"<p>What it is.<pre class="rust rust-example-rendered">"#
        )));
        assert!(!has_example("no documentation at all"));
    }
}
