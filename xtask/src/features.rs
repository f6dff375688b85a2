//! The features of libraries, which must be the same for all builds here.
//!
//! Cargo enables all features that the selected packages require together. If the short tests, all
//! tests and the programs require different features of one library, that library and its
//! dependents are built once for each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Command;

use crate::{Failure, root};

/// The features of each library, as cargo resolves them for one selection. They are for programs,
/// and for build scripts and macros.
type Resolved = BTreeMap<String, BTreeSet<String>>;

/// Compares the features of all tests with those of the short tests and of the programs. The short
/// tests omit `excluded`.
pub(crate) fn check(excluded: &[&str]) -> Result<(), Failure> {
    let short: Vec<&str> = ["--all-features", "--edges", "normal,build,dev"]
        .into_iter()
        .chain(excluded.iter().flat_map(|name| ["--exclude", name]))
        .collect();
    let whole = resolve(&["--all-features", "--edges", "normal,build,dev"])?;
    let mut wrong = differences(&whole, &resolve(&short)?, "short tests");
    wrong += &differences(
        &whole,
        &resolve(&["--all-features", "--edges", "normal,build"])?,
        "programs",
    );
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "features differ, so that more is built than once (Cargo.toml, [workspace.dependencies]):\n{wrong}"
    ))
}

fn resolve(selection: &[&str]) -> Result<Resolved, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--locked", "--no-dedupe"])
        .args(["--prefix", "none", "--format", "{p} | {f}"])
        .args(selection)
        .current_dir(root())
        .output()
        .map_err(|error| format!("`cargo tree` does not start: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(libraries(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the lines of `cargo tree`, without the packages of this workspace.
fn libraries(tree: &str) -> Resolved {
    let lines = tree.lines().filter_map(|line| line.split_once(" | "));
    let others = lines.filter(|(package, _)| !package.contains(" (/"));
    let mut resolved = Resolved::new();
    for (package, features) in others {
        let all = resolved.entry(package.to_owned()).or_default();
        all.insert(features.trim().to_owned());
    }
    resolved
}

/// Lists the features in `other`, the selection of `whom`, that differ from `whole`.
fn differences(whole: &Resolved, other: &Resolved, whom: &str) -> String {
    let mut text = String::new();
    for (package, features) in other {
        if let Some(all) = whole.get(package).filter(|all| *all != features) {
            let _ = writeln!(text, "  {package}: all tests {all:?}, {whom} {features:?}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_other_features_is_named() {
        let whole =
            libraries("own v1 (/src/own) | a\nserde v1.0.1 | default,std\ntime v0.3.1 | std");
        let same = libraries("serde v1.0.1 | default,std\nown v1 (/src/own) | b");
        assert_eq!(differences(&whole, &same, "programs"), "");
        let other = libraries("time v0.3.1 | alloc,std\nregex v1.0.1 | std");
        assert_eq!(
            differences(&whole, &other, "programs"),
            "  time v0.3.1: all tests {\"std\"}, programs {\"alloc,std\"}\n"
        );
    }
}
