//! Rules for workflows and image files, of this project and of the template. They run with
//! permissions to publish, so their dependencies are pinned by content.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Failure, root};

/// The folders with workflows and Dockerfiles.
const FOLDERS: [&str; 2] = ["", "templates/check"];

/// Checks all of them, and returns the problems.
pub(crate) fn check() -> Result<(), Failure> {
    let mut problems = Vec::new();
    for folder in FOLDERS {
        let folder = root().join(folder);
        for path in workflows(&folder)? {
            let text = read(&path)?;
            problems.extend(of_workflow(&text).map(|problem| place(&path, &problem)));
        }
        let path = folder.join("Dockerfile");
        let text = read(&path)?;
        problems.extend(of_dockerfile(&text).map(|problem| place(&path, &problem)));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n"))
    }
}

/// Returns the workflows of the project in `folder`.
pub(crate) fn workflows(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = folder.join(".github/workflows");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut all = Vec::new();
    for entry in entries {
        all.push(entry.map_err(|error| error.to_string())?.path());
    }
    all.sort();
    Ok(all)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn place(path: &Path, (line, problem): &(usize, String)) -> String {
    format!("{}:{line}: {problem}", path.display())
}

/// Returns the problems of a workflow, with their lines.
fn of_workflow(text: &str) -> impl Iterator<Item = (usize, String)> {
    let unpinned = text.lines().enumerate().filter_map(|(number, line)| {
        let problem = of_use(line)?;
        Some((number + 1, problem))
    });
    let keeping = text.lines().enumerate().filter_map(|(number, line)| {
        let follows = || text.lines().skip(number + 1).take(2).collect::<String>();
        let keeps = line.contains("uses: actions/checkout@")
            && !follows().contains("persist-credentials: false");
        keeps.then(|| {
            let problem = "actions/checkout leaves its token in the clone; say `persist-credentials: false` first";
            (number + 1, problem.to_owned())
        })
    });
    let unlimited = !text.lines().any(|line| line == "permissions:");
    let unlimited = unlimited.then(|| (1, "it has no `permissions:` of its own".to_owned()));
    unpinned.chain(keeping).chain(unlimited)
}

/// Returns the problem of a line that uses an action.
fn of_use(line: &str) -> Option<String> {
    let (_, action) = line.split_once("uses:")?;
    let action = action.trim();
    if action.starts_with("./") {
        return None;
    }
    let (name, rest) = action.split_once('@').unwrap_or((action, ""));
    let (commit, version) = rest.split_once(" # ").unwrap_or((rest, ""));
    if !is_hex(commit, 40) {
        return Some(format!(
            "{name} is not pinned by a commit of 40 hexadecimal digits"
        ));
    }
    let is_version = version.starts_with('v') && version.contains('.');
    (!is_version).then(|| format!("{name} is pinned without its version in a comment"))
}

/// Returns the problems of a Dockerfile, with their lines.
fn of_dockerfile(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().filter_map(|(number, line)| {
        let image = line.strip_prefix("FROM ")?.split_whitespace();
        let image = image.into_iter().find(|word| !word.starts_with("--"))?;
        let digest = image
            .split_once("@sha256:")
            .map_or("", |(_, digest)| digest);
        let pinned = image == "scratch" || is_hex(digest, 64);
        (!pinned).then(|| (number + 1, format!("{image} is not pinned by its digest")))
    })
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(found: impl Iterator<Item = (usize, String)>) -> Vec<String> {
        found
            .map(|(line, problem)| format!("{line}: {problem}"))
            .collect()
    }

    #[test]
    fn what_could_be_replaced_or_has_too_many_rights_is_found() {
        let commit = "3d3c42e5aac5ba805825da76410c181273ba90b1";
        let workflow =
            |uses: &str| format!("permissions:\n  contents: read\nsteps:\n- uses: {uses}\n");
        for (uses, problem) in [
            (format!("a/b@{commit} # v7.0.1"), None),
            (format!("a/b/c@{commit} # v7.0.1"), None),
            ("./.github/workflows/ci.yaml".to_owned(), None),
            (
                "a/b@v4".to_owned(),
                Some("4: a/b is not pinned by a commit of 40 hexadecimal digits"),
            ),
            (
                "a/b".to_owned(),
                Some("4: a/b is not pinned by a commit of 40 hexadecimal digits"),
            ),
            (
                format!("a/b@{}g # v7.0.1", &commit[1..]),
                Some("4: a/b is not pinned by a commit of 40 hexadecimal digits"),
            ),
            (
                format!("a/b@{commit}"),
                Some("4: a/b is pinned without its version in a comment"),
            ),
            (
                format!(
                    "actions/checkout@{commit} # v7.0.1\n  with:\n    persist-credentials: false"
                ),
                None,
            ),
            (
                format!("actions/checkout@{commit} # v7.0.1"),
                Some(
                    "4: actions/checkout leaves its token in the clone; say `persist-credentials: false` first",
                ),
            ),
        ] {
            let found = problems(of_workflow(&workflow(&uses)));
            assert_eq!(found, Vec::from_iter(problem), "{uses}");
        }
        assert_eq!(
            problems(of_workflow("on: push\n")),
            ["1: it has no `permissions:` of its own"]
        );
    }

    #[test]
    fn images_without_a_digest_are_found() {
        let digest = "ab".repeat(32);
        let text = format!(
            "FROM a:1@sha256:{digest} AS build\nFROM --platform=x b:1\nFROM scratch\nFROM c@sha256:ab\n"
        );
        assert_eq!(
            problems(of_dockerfile(&text)),
            [
                "2: b:1 is not pinned by its digest",
                "4: c@sha256:ab is not pinned by its digest"
            ]
        );
    }

    #[test]
    fn those_of_this_repository_pass() {
        check().unwrap();
    }
}
