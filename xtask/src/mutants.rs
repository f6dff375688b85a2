//! Mutants: code changes that tests must find. A test must find each change of the runtime's code,
//! and recorded histories each change of the model of Kueue.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, root};

/// The table of mutants. Its first lines describe its format.
const TABLE: &str = "src/interleavings/mutants.txt";

/// The table for the model of Kueue.
const TABLE_OF_MODEL: &str = "twin/mutants.txt";

/// One change.
struct Mutant<'a> {
    name: &'a str,
    file: &'a str,
    from: &'a str,
    to: &'a str,
}

fn parse<'a>(name: &str, table: &'a str) -> Result<Vec<Mutant<'a>>, Failure> {
    let blocks = table.split("\n== ").skip(1);
    let parsed = blocks.map(|block| {
        let wrong = || {
            format!(
                "{name}: `{}` is no mutant",
                block.lines().next().unwrap_or("")
            )
        };
        let (title, rest) = block.split_once('\n').ok_or_else(wrong)?;
        let (file, rest) = rest.split_once("\n- ").ok_or_else(wrong)?;
        let (from, to) = rest.split_once("\n+ ").ok_or_else(wrong)?;
        Ok(Mutant {
            name: title,
            file,
            from,
            to: to.trim_end(),
        })
    });
    parsed.collect()
}

impl Mutant<'_> {
    /// Returns a part of the name of the test of the search that must find it, with its shortest
    /// counterexample, if the search must.
    fn search(&self) -> Option<&str> {
        let tagged = self.name.split_once("[search: ");
        let tagged = tagged.and_then(|(_, rest)| rest.strip_suffix(']'));
        tagged.or(self.name.contains("(finding ").then_some("interleavings"))
    }

    /// Returns the file's text with the change.
    fn of(&self, text: &str) -> Result<String, Failure> {
        match text.matches(self.from).count() {
            1 => Ok(text.replacen(self.from, self.to, 1)),
            times => Err(format!(
                "mutant `{}`: its text occurs {times} times in {}",
                self.name, self.file
            )),
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Checks that each change still applies.
pub(crate) fn check() -> Result<(), Failure> {
    let mut wrong = String::new();
    for name in [TABLE, TABLE_OF_MODEL] {
        let table = read(&root().join(name))?;
        for mutant in parse(name, &table)? {
            if let Err(failure) = mutant.of(&read(&root().join(mutant.file))?) {
                let _ = writeln!(wrong, "{failure}");
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Makes each change whose name contains `part` in a copy of the repository. Prints the tests that
/// find it. A slower step only runs for changes that no faster one has found.
pub(crate) fn run(part: &str) -> Result<(), Failure> {
    check()?;
    let table = read(&root().join(TABLE))?;
    let tree = root().join("target/mutants");
    copy(&tree)?;
    let mut mutants = parse(TABLE, &table)?;
    mutants.retain(|mutant| mutant.name.contains(part));
    let mut missed: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name).collect();
    let mut not_by_search = Vec::new();
    for step in &STEPS {
        for mutant in &mutants {
            let search = (step.name == "search").then(|| mutant.search()).flatten();
            if !missed.contains(mutant.name) && search.is_none() {
                continue;
            }
            let found = match with_change(&tree, mutant, || step.find(&tree))? {
                Ok(found) => found,
                Err(failure) => {
                    println!("== {}\n{failure}", mutant.name);
                    continue;
                }
            };
            if search.is_some_and(|test| !found.contains(test)) {
                not_by_search.push(mutant.name);
            }
            if !found.is_empty() {
                missed.remove(mutant.name);
                println!("== {}\n{found}", mutant.name);
            }
        }
    }
    println!(
        "{} of {} found",
        mutants.len() - missed.len(),
        mutants.len()
    );
    let missed: Vec<&str> = missed.into_iter().chain(not_by_search).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "not found, or not by the search: {}",
        missed.join("; ")
    ))
}

/// Calls `run` while a change is made in `tree`.
fn with_change<T>(tree: &Path, mutant: &Mutant<'_>, run: impl FnOnce() -> T) -> Result<T, Failure> {
    let path = tree.join(mutant.file);
    let original = read(&path)?;
    let write =
        |text: &str| fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    write(&mutant.of(&original)?)?;
    let outcome = run();
    write(&original)?;
    Ok(outcome)
}

/// Makes each change of the model of Kueue in a copy of the repository, replays the histories of the
/// tests, and writes the table of the number of histories until each is found into the book.
pub(crate) fn write_of_model() -> Result<(), Failure> {
    let table = of_model(&root().join("sim/cli/tests/histories"), "")?;
    let path = root().join("book/src/explanations/measured-mutants.txt");
    fs::write(&path, table).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes each change of the model of Kueue whose name contains `part` in a copy of the repository.
/// Replays the recorded histories of `folder`. Prints and returns a table of the number of
/// histories until each is found.
///
/// # Errors
/// If a change does not compile or is not found.
pub(crate) fn of_model(folder: &Path, part: &str) -> Result<String, Failure> {
    check()?;
    let folder = fs::canonicalize(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mutants = read(&root().join(TABLE_OF_MODEL))?;
    let tree = root().join("target/mutants");
    copy(&tree)?;
    let mut table = "| change | found by history number |\n| --- | --- |\n".to_owned();
    print!("{table}");
    let mut missed = Vec::new();
    for mutant in parse(TABLE_OF_MODEL, &mutants)? {
        if !mutant.name.contains(part) {
            continue;
        }
        let place = with_change(&tree, &mutant, || first_that_differs(&tree, &folder))??;
        let shown = place.map_or("not found".to_owned(), |place| place.to_string());
        let row = format!("| {} | {shown} |\n", mutant.name);
        print!("{row}");
        table.push_str(&row);
        if place.is_none() {
            missed.push(mutant.name);
        }
    }
    match missed.as_slice() {
        [] => Ok(table),
        missed => Err(format!("not found: {}", missed.join("; "))),
    }
}

/// Returns the place of the first history that the model in `tree` does not reproduce.
fn first_that_differs(tree: &Path, folder: &Path) -> Result<Option<u32>, Failure> {
    let output = Command::new("cargo")
        .current_dir(tree)
        .env("CARGO_INCREMENTAL", "1")
        .args(["run", "--quiet", "--package=kueue-check-sim-cli"])
        .args(UNOPTIMIZED)
        .arg("--")
        .args(["replay", "--first"])
        .arg(folder)
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let words: Vec<&str> = last.split(' ').collect();
    match words.as_slice() {
        [_, "of", played, "traces", "reproduced"] => Ok(played.parse().ok()),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The arguments with which a changed crate compiles fast, for tests that take seconds.
const UNOPTIMIZED: [&str; 4] = [
    "--config=profile.dev.debug=false",
    "--config=profile.dev.package.kueue-check.opt-level=0",
    "--config=profile.dev.package.kueue-check-kueue-model.opt-level=0",
    "--config=profile.dev.package.kueue-check-sim.opt-level=0",
];

/// Tests of the runtime.
struct Step {
    name: &'static str,
    options: &'static [&'static str],
    arguments: &'static [&'static str],
}

/// The test steps, fastest first.
const STEPS: [Step; 3] = [
    Step {
        name: "tables",
        options: &UNOPTIMIZED,
        arguments: &[
            "--package=kueue-check",
            "--lib",
            "--",
            "--skip=interleavings",
        ],
    },
    Step {
        name: "search",
        options: &[],
        arguments: &["--package=kueue-check", "--lib", "--", "interleavings"],
    },
    Step {
        name: "explorer",
        options: &[],
        arguments: &[
            "--package=kueue-check-sim",
            "--test=it",
            "--",
            "simulation::scenarios",
        ],
    },
];

impl Step {
    /// Returns the tests that find the change in `tree`, and the shortest counterexample of the
    /// search; an empty text if none does.
    ///
    /// # Errors
    /// If the change does not compile.
    fn find(&self, tree: &Path) -> Result<String, Failure> {
        let output = Command::new("cargo")
            .current_dir(tree)
            .args(["test", "--quiet", "--all-features"])
            .args(self.options)
            .args(self.arguments)
            .env("CARGO_INCREMENTAL", "1")
            .env("RUST_BACKTRACE", "0")
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        if output.status.success() {
            return Ok(String::new());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("could not compile") {
            return Err(format!("  IT DOES NOT COMPILE\n{errors}"));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut found = String::new();
        for line in text.lines().filter(|line| self.shows(line)) {
            let _ = writeln!(found, "  {}: {}", self.name, line.trim());
        }
        if found.is_empty() {
            // A test that overflows its stack ends the process, without the list of failed tests.
            let _ = writeln!(found, "  {}: {}", self.name, output.status);
        }
        Ok(found)
    }

    /// Returns true if `line` of a failed run has the name of a test, or is a part of a
    /// counterexample.
    fn shows(&self, line: &str) -> bool {
        let numbered = line.trim_start().split_once(". ");
        let is_step = numbered.is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        let is_test = line.starts_with("    ") && line.contains("::");
        let is_violation =
            line.contains("violation") || self.name != "tables" && line.contains("it again");
        let is_title = line.starts_with("one Workload") || line.starts_with("two ");
        is_step || is_test || is_violation || is_title && line.contains(": ")
    }
}

/// Copies the files of the repository to `tree`, where changes lose nothing.
fn copy(tree: &Path) -> Result<(), Failure> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "-z"])
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root().join(name), tree.join(name));
        let Ok(text) = fs::read(&from) else { continue };
        // Unchanged files keep their time, so that cargo does not rebuild them.
        if fs::read(&to).is_ok_and(|known| known == text) {
            continue;
        }
        let folder: PathBuf = to.parent().unwrap_or(tree).to_owned();
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&to, &text))
            .map_err(|error| format!("{}: {error}", to.display()))?;
    }
    Ok(())
}
