//! Programs that the xtask commands call.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::{Failure, root, workflows};

/// The variable that lets tests skip programs that are not available; without it they fail.
pub(crate) const SKIP: &str = "KUEUE_CHECK_SKIP_TESTENV";

/// The variable that forbids skipped tests, as in CI.
pub(crate) const REQUIRE: &str = "KUEUE_CHECK_REQUIRE_TESTENV";

/// The version of cargo-deny that is installed if there is none.
const CARGO_DENY: &str = "0.20.2";

/// The version of mdBook that is installed if there is none. Another version may generate other
/// pages.
const MDBOOK: &str = "0.5.4";

/// The version of cargo-generate that is installed if there is none. It is the newest that the
/// oldest supported Rust builds.
const CARGO_GENERATE: &str = "0.23.8";

/// The version of actionlint that is installed if there is none.
const ACTIONLINT: &str = "v1.7.12";

/// Runs `program` in the root of the repository.
pub(crate) fn run(
    program: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<(), Failure> {
    let mut command = command(program, arguments, environment);
    let ended = command.status();
    succeeded(&command, ended)
}

/// Runs the same cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), Failure> {
    let mut command = cargo_command(arguments, environment);
    let ended = command.status();
    succeeded(&command, ended)
}

/// Runs the same cargo, and prints its output when it ends: other programs may write meanwhile.
pub(crate) fn cargo_beside(
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<(), Failure> {
    let mut command = cargo_command(arguments, environment);
    let ended = command.output().map(|output| {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
        output.status
    });
    succeeded(&command, ended)
}

fn command(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    // Cargo sets variables about this package for its child processes. Build scripts read the same
    // variables, and their dependents would be rebuilt after a plain `cargo test`.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command.envs(environment.iter().copied());
    command
}

fn cargo_command(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = command(&cargo, arguments, environment);
    // Without Go there are no servers; a message at the end reports it.
    if !is_installed("go", "version") {
        command.env(SKIP, "1");
    }
    command
}

/// Returns an error if the command did not start, or failed.
fn succeeded(command: &Command, ended: io::Result<ExitStatus>) -> Result<(), Failure> {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let shown = format!("{} {}", name.display(), arguments.join(" "));
    let status = ended.map_err(|error| format!("`{shown}` does not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` failed: {status}"))
    }
}

/// Returns true if `program` is installed.
pub(crate) fn is_installed(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Builds a program with the features of the tests, so that nothing is built twice.
pub(crate) const AS_TESTS: [&str; 3] = ["build", "--workspace", "--all-features"];

/// Builds the test environment's program; returns its path.
fn build_testenv() -> Result<PathBuf, Failure> {
    let mut build = AS_TESTS.to_vec();
    build.extend(["--bin", "testenv"]);
    cargo(&build, &[])?;
    Ok(target().join("debug/testenv"))
}

/// Renders the check template in all its variants, with cargo-generate too, and builds and tests
/// them.
pub(crate) fn check_templates() -> Result<(), Failure> {
    let mut build = AS_TESTS.to_vec();
    build.extend(["--bin", "kueue-check-template"]);
    cargo(&build, &[])?;
    let program = target().join("debug/kueue-check-template");
    let generate = installed("cargo-generate", CARGO_GENERATE, &[])?;
    run(&program, &["compare", &generate.to_string_lossy()], &[])?;
    check_workflows()?;
    run(&program, &["check"], &[])
}

/// Checks the workflows of this repository by GitHub's rules. It also checks those of the projects
/// that were rendered for the comparison.
fn check_workflows() -> Result<(), Failure> {
    if !is_installed("go", "version") {
        println!("SKIPPED: reading workflows as GitHub does, because actionlint is built with Go");
        return Ok(());
    }
    let program = root().join(".tools/bin/actionlint");
    if !program.exists() {
        let module = format!("github.com/rhysd/actionlint/cmd/actionlint@{ACTIONLINT}");
        install_go(&module, "-s -w")?;
    }
    let folder = target().join("templates-ours");
    let entries = std::fs::read_dir(&folder).map_err(|error| error.to_string())?;
    let mut workflows = workflows::workflows(&root())?;
    for entry in entries {
        let project = entry.map_err(|error| error.to_string())?.path();
        workflows.extend(workflows::workflows(&project)?);
    }
    let files: Vec<_> = workflows
        .iter()
        .map(|path| path.to_string_lossy())
        .collect();
    let files: Vec<&str> = files.iter().map(|path| &**path).collect();
    run(&program, &files, &[])?;
    println!("actionlint passes {} workflows", files.len());
    Ok(())
}

/// Installs a Go program into `.tools/bin`.
pub(crate) fn install_go(module: &str, linker_flags: &str) -> Result<(), Failure> {
    let folder = root().join(".tools/bin");
    run(
        "go".as_ref(),
        &["install", "-trimpath", "-ldflags", linker_flags, module],
        &[
            ("GOBIN", &*folder.to_string_lossy()),
            ("CGO_ENABLED", "0"),
            ("GOGC", "400"),
        ],
    )
}

/// Returns cargo's build folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Packages all published crates. `cargo xtask release` also builds them.
pub(crate) fn package() -> Result<(), Failure> {
    published(&["package", "--quiet", "--no-verify", "--allow-dirty"])
}

/// Calls cargo for all published crates.
pub(crate) fn published(arguments: &[&str]) -> Result<(), Failure> {
    let unpublished = unpublished()?;
    let others = unpublished.iter().flat_map(|name| ["--exclude", name]);
    let all: Vec<&str> = arguments
        .iter()
        .copied()
        .chain(["--workspace"])
        .chain(others)
        .collect();
    cargo(&all, &[])
}

/// Returns the names of this workspace's packages with `publish = false`.
fn unpublished() -> Result<Vec<String>, Failure> {
    let workspace = manifest(&root())?;
    let members = workspace
        .lines()
        .skip_while(|line| *line != "members = [")
        .skip(1)
        .take_while(|line| *line != "]");
    let mut names = Vec::new();
    for member in members {
        let member = member.trim_matches([' ', '"', ',']);
        let manifest = manifest(&root().join(member))?;
        if manifest.lines().any(|line| line == "publish = false") {
            let name = manifest
                .lines()
                .find_map(|line| line.strip_prefix("name = "))
                .ok_or_else(|| format!("{member}/Cargo.toml has no name"))?;
            names.push(name.trim_matches('"').to_owned());
        }
    }
    Ok(names)
}

fn manifest(folder: &Path) -> Result<String, Failure> {
    let path = folder.join("Cargo.toml");
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Builds kube-apiserver and etcd.
pub(crate) fn build_servers() -> Result<(), Failure> {
    run(&build_testenv()?, &["build"], &[])
}

/// Generates the project's copies of Kueue's definitions.
pub(crate) fn crds(from: &Path) -> Result<(), Failure> {
    let testenv = build_testenv()?;
    let from = from.to_string_lossy();
    run(
        &testenv,
        &["slim-crds", &*from, "sim/kueue-model/crds"],
        &[],
    )?;
    // The provisioning check contains the definition of its parameters, which is Kueue's.
    let config =
        "sim/kueue-model/crds/kueue-v0.19.2/kueue.x-k8s.io_provisioningrequestconfigs.yaml";
    let known = "checks/provisioning/src/config/definition.json";
    run(&testenv, &["crd-json", config, known], &[])
}

/// Tests the shipped checks with a real Kueue of the pinned version, or of the given one.
pub(crate) fn with_kueue(arguments: &[&str]) -> Result<(), Failure> {
    let (version, filter) = match arguments {
        ["--kueue", version, filter @ ..] => (Some(*version), filter),
        filter => (None, filter),
    };
    let filter = match filter {
        [] => "with_kueue::".to_owned(),
        [part] if !part.starts_with('-') => format!("with_kueue::{part}"),
        _ => return Err("usage: cargo xtask kueue [--kueue VERSION] [PART]".to_owned()),
    };
    // One test runs it as a program.
    let mut licences = AS_TESTS.to_vec();
    licences.extend(["--example", "licences"]);
    cargo(&licences, &[])?;
    let options = [&*filter, "--test-threads=1", "--nocapture"];
    let Some(version) = version else {
        return ignored_tests(&["chart", "it"], &options, &[]);
    };
    let environment = [("KUEUE_CHECK_KUEUE_VERSION", version)];
    ignored_tests(&["chart"], &options, &environment)
}

/// Runs random histories on a real Kueue and on the model.
pub(crate) fn twin(flags: &[&str]) -> Result<(), Failure> {
    let mut arguments = vec!["run", "--quiet", "--package", "kueue-check-twin", "--"];
    arguments.extend(flags);
    cargo(&arguments, &[])
}

/// Writes the table of differences between versions of Kueue that the histories in `folder` show.
pub(crate) fn versions(folder: &str) -> Result<(), Failure> {
    let folder = std::path::absolute(folder).map_err(|error| format!("{folder}: {error}"))?;
    let output = Command::new("cargo")
        .current_dir(root())
        .args(["run", "--quiet", "--package", "kueue-check-twin", "--"])
        .arg("--versions")
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("twin: {}", output.status));
    }
    let path = root().join("book/src/explanations/measured-versions.txt");
    std::fs::write(&path, output.stdout).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs fuzz targets. With the features of the tests nothing is built twice.
pub(crate) fn fuzz(flags: &[&str]) -> Result<(), Failure> {
    let mut arguments = vec!["run", "--quiet", "--package", "kueue-check-fuzz"];
    arguments.extend(["--all-features", "--"]);
    arguments.extend(flags);
    cargo(&arguments, &[])
}

/// Runs the shipped checks for minutes under random jobs, faults and kills.
pub(crate) fn soak(flags: &[&str]) -> Result<(), Failure> {
    // The checks have the features that are shipped.
    let mut build = vec!["build"];
    for (package, program) in [
        ("kueue-check-soak", "soak"),
        ("kueue-check-budget", "budget-check"),
        ("kueue-check-provisioning", "provisioning-check"),
    ] {
        build.extend(["--package", package, "--bin", program]);
    }
    cargo(&build, &[])?;
    run(&target().join("debug/soak"), flags, &[])
}

/// Follows the book's tutorials as a new user would.
pub(crate) fn tutorials() -> Result<(), Failure> {
    ignored_tests(&["it"], &["--nocapture", "fresh::"], &[])
}

/// Runs tests that not every run includes.
fn ignored_tests(
    suites: &[&str],
    options: &[&str],
    environment: &[(&str, &str)],
) -> Result<(), Failure> {
    let suites = suites.iter().flat_map(|suite| ["--test", suite]);
    let arguments: Vec<&str> = ["test", "--workspace", "--all-features", "--no-fail-fast"]
        .into_iter()
        .chain(suites)
        .chain(["--", "--ignored"])
        .chain(options.iter().copied())
        .collect();
    cargo(&arguments, environment)
}

/// Runs the benchmarks and prints the figures.
pub(crate) fn bench(flags: &[&str]) -> Result<(), Failure> {
    let mut arguments = vec!["bench", "--bench", "cluster", "--"];
    arguments.extend(flags);
    let rules = target().join("release/rule-check");
    let rules = rules.to_string_lossy();
    // With the limit for tests, the API server would collect garbage most of the time.
    let memory = std::env::var("GOMEMLIMIT").unwrap_or_else(|_| "16GiB".to_owned());
    let mut environment = vec![("GOMEMLIMIT", &*memory)];
    if flags.contains(&"--rules") {
        cargo(&["build", "--release", "-p", "kueue-check-rule"], &[])?;
        environment.push(("KUEUE_CHECK_BENCH_RULES", &*rules));
    }
    if !flags.contains(&"--peer") {
        return cargo(&arguments, &environment);
    }
    let module = root().join("benches/controller-runtime");
    let program = target().join("controller-runtime");
    let (module, program) = (module.to_string_lossy(), program.to_string_lossy());
    run(
        Path::new("go"),
        &["build", "-C", &module, "-o", &program, "."],
        &[],
    )?;
    environment.push(("KUEUE_CHECK_BENCH_PEER", &program));
    cargo(&arguments, &environment)
}

/// Returns a tool of a fixed version, installed into `.tools` if it is missing.
pub(crate) fn installed(tool: &str, version: &str, features: &[&str]) -> Result<PathBuf, Failure> {
    let own = root().join(".tools");
    let program = own.join("bin").join(tool);
    if !program.exists() {
        println!("installing {tool} {version} into .tools");
        let folder = own.to_string_lossy();
        // Not optimized: building takes longer than it ever runs here.
        let mut arguments = vec!["install", tool, "--quiet", "--locked", "--debug"];
        arguments.extend(["--version", version, "--root", &*folder]);
        arguments.extend(features);
        // The tools share the crates that several of them use.
        let built = target().join("tools");
        let environment = [
            ("CARGO_PROFILE_DEV_DEBUG", "none"),
            ("CARGO_TARGET_DIR", &*built.to_string_lossy()),
        ];
        cargo(&arguments, &environment)?;
    }
    Ok(program)
}

/// Returns mdBook, installed if it is missing. It is built without its server, which would take
/// most of the build (4 min on two shared cores).
pub(crate) fn mdbook() -> Result<PathBuf, Failure> {
    let features = ["--no-default-features", "--features", "search"];
    installed("mdbook", MDBOOK, &features)
}

/// Builds the book into `target/book`.
pub(crate) fn book(mdbook: &Path) -> Result<(), Failure> {
    run(mdbook, &["build", "book"], &[])
}

/// Writes the output of programs into the book: flags, metrics, permissions, timelines.
pub(crate) fn write_book() -> Result<(), Failure> {
    let package = ["run", "--quiet", "--package", "kueue-check-book"];
    cargo(&[&package[..], &["--", "write"]].concat(), &[])
}

/// The variable that forbids skipping the check of advisories. The workflows set it, because they
/// reach the database of advisories. (`CI` does not imply that: a CI machine may reach only the
/// registries.)
const REQUIRE_ADVISORIES: &str = "KUEUE_CHECK_REQUIRE_ADVISORIES";

/// Checks licences, banned crates and sources. Checks advisories if their database can be fetched,
/// and always if [`REQUIRE_ADVISORIES`] is set.
pub(crate) fn deny() -> Result<(), Failure> {
    let program = if is_installed("cargo-deny", "--version") {
        PathBuf::from("cargo-deny")
    } else {
        installed("cargo-deny", CARGO_DENY, &[])?
    };
    run(
        &program,
        &["--workspace", "check", "bans", "licenses", "sources"],
        &[],
    )?;
    if let Err(failure) = run(&program, &["fetch", "db"], &[]) {
        return without_advisories(failure, std::env::var_os(REQUIRE_ADVISORIES).is_some());
    }
    run(&program, &["--workspace", "check", "advisories"], &[])
}

/// Returns the result if the database of advisories cannot be fetched. Where the check is required,
/// a skipped check would pass unnoticed, so it is an error.
fn without_advisories(failure: Failure, required: bool) -> Result<(), Failure> {
    if required {
        return Err(format!(
            "the database of advisories cannot be fetched, and {REQUIRE_ADVISORIES} is set: {failure}"
        ));
    }
    println!("SKIPPED: advisories, because their database can't be fetched from here");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisories_are_never_skipped_where_they_are_required() {
        let failure = || "no network".to_owned();
        assert_eq!(without_advisories(failure(), false), Ok(()));
        let refused = without_advisories(failure(), true).unwrap_err();
        assert!(refused.ends_with("is set: no network"), "{refused}");
    }
}
