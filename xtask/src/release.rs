//! Checks before a release.

use std::process::Command;

use crate::{Failure, root, tools};

/// The version of cargo-semver-checks that is installed where there is none. It takes eleven
/// minutes of one core to build.
const SEMVER_CHECKS: &str = "0.51.0";

/// The crates whose promises are compared. One that only makes macros has none that could be read
/// off.
const LIBRARIES: [&str; 10] = [
    "kueue-check",
    "kueue-check-schema",
    "kueue-check-apiserver",
    "kueue-check-kueue-model",
    "kueue-check-sim",
    "kueue-check-sim-cli",
    "kueue-check-sources",
    "kueue-check-budget",
    "kueue-check-provisioning",
    "kueue-check-rule",
];

/// Builds the packages as those who install them will, and looks for promises that have been broken
/// since `revision`, or since the last release.
pub(crate) fn check(revision: Option<&str>) -> Result<(), Failure> {
    tools::published(&["package"])?;
    let Some(revision) = revision.map_or_else(last, |revision| Some(revision.to_owned())) else {
        println!("SKIPPED: cargo-semver-checks, because there is no tag v* to compare with");
        return Ok(());
    };
    let program = tools::installed("cargo-semver-checks", SEMVER_CHECKS, &[])?;
    let mut arguments = vec!["semver-checks", "--baseline-rev", &revision];
    arguments.extend(LIBRARIES.iter().flat_map(|name| ["--package", name]));
    tools::run(&program, &arguments, &[])
}

/// The tag of the last release.
fn last() -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", "v*"])
        .current_dir(root())
        .output()
        .ok()?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !tag.is_empty()).then_some(tag)
}
