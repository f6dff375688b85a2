//! Programs that chores call.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, root};

/// What `try` runs if nothing else is named.
pub(crate) const DEFAULT_EXAMPLE: &str = "maintenance_window";

/// The version of cargo-deny that is installed where there is none.
const CARGO_DENY: &str = "0.20.2";

/// The version of mdBook that is installed where there is none. Another one may make other pages.
const MDBOOK: &str = "0.5.4";

/// The crates that are of use in this repository only.
const OWN: [&str; 5] = [
    "kueue-check-book",
    "kueue-check-chart-tests",
    "kueue-check-template",
    "kueue-check-testenv",
    "xtask",
];

/// Runs `program` in the root of the repository.
pub(crate) fn run(
    program: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<(), Failure> {
    let shown = format!(
        "{} {}",
        program.file_name().unwrap_or(program.as_os_str()).display(),
        arguments.join(" ")
    );
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|error| format!("`{shown}` does not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` failed: {status}"))
    }
}

/// Runs cargo, the one that runs this.
pub(crate) fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), Failure> {
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    run(&cargo, arguments, environment)
}

/// Whether `program` is there.
pub(crate) fn answers(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Builds the test cluster and an example. One without the other would have fewer features than the tests, and build all dependencies twice.
fn build(example: &str) -> Result<PathBuf, Failure> {
    cargo(
        &[
            "build",
            "--workspace",
            "--bin",
            "testenv",
            "--example",
            example,
        ],
        &[],
    )?;
    Ok(target().join("debug"))
}

/// Renders the template of a check in all its variants, and builds and tries them.
pub(crate) fn check_templates() -> Result<(), Failure> {
    cargo(
        &["build", "--workspace", "--bin", "kueue-check-template"],
        &[],
    )?;
    let program = target().join("debug/kueue-check-template");
    run(&program, &["check"], &[])
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Makes the packages of all crates that are published. They are not built: their dependencies among each other are not published yet.
pub(crate) fn package() -> Result<(), Failure> {
    let mut arguments = vec!["package", "--quiet", "--no-verify", "--allow-dirty"];
    arguments.push("--workspace");
    arguments.extend(OWN.iter().flat_map(|name| ["--exclude", name]));
    cargo(&arguments, &[])
}

/// Builds kube-apiserver and etcd.
pub(crate) fn build_servers() -> Result<(), Failure> {
    let built = build(DEFAULT_EXAMPLE)?;
    run(&built.join("testenv"), &["build"], &[])
}

/// Runs an example on its samples.
pub(crate) fn try_example(example: &str, flags: &[&str]) -> Result<(), Failure> {
    let samples = format!("examples/{example}.yaml");
    if !root().join(&samples).exists() {
        return Err(format!("there is no {samples} to try `{example}` with"));
    }
    if !answers("go", "version") {
        return Err(
            "the API server is built with Go: install Go 1.26 (https://go.dev/dl)".to_owned(),
        );
    }
    println!(
        "building the example, and once the API server it runs against (a first build takes about 6 minutes on 2 cores)"
    );
    let built = build(example)?;
    let program = built.join("examples").join(example);
    let program = program.to_string_lossy();
    let mut arguments = vec!["try", &*program, &*samples];
    arguments.extend(flags);
    if flags.is_empty() {
        println!("edit {samples} while this runs, and the verdicts follow; Ctrl-C ends it");
    }
    run(&built.join("testenv"), &arguments, &[])
}

/// Makes the project's own copies of Kueue's definitions.
pub(crate) fn crds(from: &Path) -> Result<(), Failure> {
    let built = build(DEFAULT_EXAMPLE)?;
    let from = from.to_string_lossy();
    run(
        &built.join("testenv"),
        &["slim-crds", &*from, "sim/crds"],
        &[],
    )
}

/// Tries the shipped checks beside a real Kueue.
pub(crate) fn with_kueue() -> Result<(), Failure> {
    cargo(
        &[
            "test",
            "--workspace",
            "--all-features",
            "--test",
            "chart",
            "--",
            "--ignored",
            "with_kueue::",
            "--test-threads=1",
        ],
        &[("KUEUE_CHECK_REQUIRE_TESTENV", "1")],
    )
}

/// Prints the figures.
pub(crate) fn bench(flags: &[&str]) -> Result<(), Failure> {
    let mut arguments = vec!["bench", "--bench", "cluster", "--"];
    arguments.extend(flags);
    cargo(&arguments, &[])
}

/// A tool of this project's own, of a version that is known: installed into `.tools` if it is not there.
fn installed(tool: &str, version: &str, features: &[&str]) -> Result<PathBuf, Failure> {
    let own = root().join(".tools");
    let program = own.join("bin").join(tool);
    if !program.exists() {
        println!("installing {tool} {version} into .tools");
        let folder = own.to_string_lossy();
        // Not optimized: it takes longer to build one than it ever runs here.
        let mut arguments = vec!["install", tool, "--quiet", "--locked", "--debug"];
        arguments.extend(["--version", version, "--root", &*folder]);
        arguments.extend(features);
        cargo(&arguments, &[("CARGO_PROFILE_DEV_DEBUG", "none")])?;
    }
    Ok(program)
}

/// mdBook, installed if it is not there: without its server, which would be most of it (4 minutes on 2 cores that others use too).
pub(crate) fn mdbook() -> Result<PathBuf, Failure> {
    let features = ["--no-default-features", "--features", "search"];
    installed("mdbook", MDBOOK, &features)
}

/// Builds the book into `target/book`.
pub(crate) fn book(mdbook: &Path) -> Result<(), Failure> {
    run(mdbook, &["build", "book"], &[])
}

/// Writes what the programs say into the book: flags, metrics, permissions, timelines.
pub(crate) fn write_book() -> Result<(), Failure> {
    cargo(
        &[
            "run",
            "--quiet",
            "--package",
            "kueue-check-book",
            "--",
            "write",
        ],
        &[],
    )
}

/// Licences, banned crates, sources; advisories where their database can be fetched.
pub(crate) fn deny() -> Result<(), Failure> {
    let program = if answers("cargo-deny", "--version") {
        PathBuf::from("cargo-deny")
    } else {
        installed("cargo-deny", CARGO_DENY, &[])?
    };
    run(
        &program,
        &["--workspace", "check", "bans", "licenses", "sources"],
        &[],
    )?;
    if run(&program, &["fetch", "db"], &[]).is_err() {
        println!("SKIPPED: advisories, because their database can't be fetched from here");
        return Ok(());
    }
    run(&program, &["--workspace", "check", "advisories"], &[])
}
