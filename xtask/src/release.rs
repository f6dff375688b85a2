//! Checks before a release.

use std::process::Command;

use crate::{Failure, root, tools};

/// The version of cargo-semver-checks that is installed if there is none. Building it takes 11 min
/// on one core.
const SEMVER_CHECKS: &str = "0.51.0";

/// The crates whose public API is compared. A macro crate has no API that could be compared.
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

/// Builds the packages as for an installation, and finds incompatible API changes. It compares with
/// `revision`, or with the last release.
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

/// Returns the tag of the last release.
fn last() -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", "v*"])
        .current_dir(root())
        .output()
        .ok()?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !tag.is_empty()).then_some(tag)
}
