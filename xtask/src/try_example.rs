//! The command `try`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::{Failure, root, tools};

/// The default example.
const DEFAULT: &str = "maintenance_window";

/// The program that starts the cluster and the example.
const PROGRAM: &str = "kueue-check-try";

/// Builds an example and the program that runs it, and becomes that program. So no process outlives
/// another.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    let command = prepare(arguments)?;
    Err(become_it(command))
}

/// Runs the default example until each job has a verdict.
pub(crate) fn once(flags: &[&str]) -> Result<(), Failure> {
    let mut command = prepare(&[&[DEFAULT, "--once"], flags].concat())?;
    let status = command.status().map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the example failed: {status}"))
}

#[cfg(unix)]
fn become_it(mut command: Command) -> Failure {
    use std::os::unix::process::CommandExt;
    format!("{PROGRAM} does not start: {}", command.exec())
}

#[cfg(not(unix))]
fn become_it(_: Command) -> Failure {
    "the checks of this SDK run on Unix only".to_owned()
}

fn prepare(arguments: &[&str]) -> Result<Command, Failure> {
    #[expect(clippy::disallowed_methods, reason = "how long a person waits")]
    let began = Instant::now();
    let (example, flags) = match arguments {
        [first, rest @ ..] if !first.starts_with('-') => (*first, rest),
        all => (DEFAULT, all),
    };
    let samples = root().join("examples").join(example).with_extension("yaml");
    if !samples.exists() {
        let samples = samples.display();
        return Err(format!("there is no {samples} to try `{example}` with"));
    }
    if let Some(unknown) = flags
        .iter()
        .find(|flag| !["--once", "--real", "--kueue"].contains(flag))
    {
        return Err(format!("`try` has no argument `{unknown}`"));
    }
    let real = flags.iter().any(|flag| *flag != "--once");
    if real && !tools::is_installed("go", "version") {
        let why =
            "--real and --kueue build their programs with Go: install Go 1.26 (https://go.dev/dl)";
        return Err(why.to_owned());
    }
    let [program, check] = build(example, real)?;
    if !flags.contains(&"--once") {
        let samples = samples.strip_prefix(root()).unwrap_or(&samples).display();
        println!("edit {samples} while this runs, and the verdicts follow; Ctrl-C ends it");
    }
    let mut command = Command::new(program);
    command
        .arg(check)
        .arg(samples)
        .args(flags)
        .arg("--elapsed")
        .arg(began.elapsed().as_millis().to_string());
    Ok(command)
}

/// Builds both in the profile that compiles fastest; returns their paths.
///
/// Cargo reports each crate on a pipe to this process. If this process is killed, cargo cannot
/// write to it, and ends after the crates that it compiles.
fn build(example: &str, real: bool) -> Result<[PathBuf; 2], Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--profile",
            "try",
            "--package",
            "kueue-check-examples",
        ])
        .args(["--bin", PROGRAM, "--example", example])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root())
        .stdout(Stdio::piped());
    if real {
        command.args(["--features", "real"]);
    }
    let mut cargo = command
        .spawn()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    let reports = cargo.stdout.take().map(BufReader::new);
    let executables: Vec<PathBuf> = reports
        .into_iter()
        .flat_map(BufRead::lines)
        .map_while(Result::ok)
        .filter_map(|report| executable(&report))
        .collect();
    let status = cargo.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the example cannot be built: {status}"));
    }
    let named = |name: &str| {
        let found = executables.iter().find(|path| path.ends_with(name));
        found
            .cloned()
            .ok_or_else(|| format!("cargo reports no program `{name}`"))
    };
    Ok([named(PROGRAM)?, named(example)?])
}

/// Returns the executable in one of cargo's reports.
fn executable(report: &str) -> Option<PathBuf> {
    let (_, rest) = report.split_once(r#""executable":""#)?;
    let path = rest.split_once('"')?.0;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_reports() {
        let report = r#"{"reason":"compiler-artifact","filenames":["/t/a"],"executable":"/t/try/a","fresh":true}"#;
        assert_eq!(executable(report), Some(PathBuf::from("/t/try/a")));
        let library = r#"{"reason":"compiler-artifact","executable":null,"fresh":true}"#;
        assert_eq!(executable(library), None);
    }

    #[test]
    fn an_unknown_example_or_flag_is_an_error() {
        let error = prepare(&["nothing"]).unwrap_err();
        assert!(error.contains("examples/nothing.yaml"), "{error}");
        let error = prepare(&["--twice"]).unwrap_err();
        assert_eq!(error, "`try` has no argument `--twice`");
    }
}
