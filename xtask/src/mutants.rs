//! Mutants: changes of the runtime's code that some test must find.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, root};

/// The table. Its first lines say how it is written.
const TABLE: &str = "src/interleavings/mutants.txt";

/// One change.
struct Mutant<'a> {
    name: &'a str,
    file: &'a str,
    from: &'a str,
    to: &'a str,
}

fn parse(table: &str) -> Result<Vec<Mutant<'_>>, Failure> {
    let blocks = table.split("\n== ").skip(1);
    let parsed = blocks.map(|block| {
        let wrong = || {
            format!(
                "{TABLE}: `{}` is no mutant",
                block.lines().next().unwrap_or("")
            )
        };
        let (name, rest) = block.split_once('\n').ok_or_else(wrong)?;
        let (file, rest) = rest.split_once("\n- ").ok_or_else(wrong)?;
        let (from, to) = rest.split_once("\n+ ").ok_or_else(wrong)?;
        Ok(Mutant {
            name,
            file,
            from,
            to: to.trim_end(),
        })
    });
    parsed.collect()
}

impl Mutant<'_> {
    /// The file's text with the change.
    fn of(&self, text: &str) -> Result<String, Failure> {
        match text.matches(self.from).count() {
            1 => Ok(text.replacen(self.from, self.to, 1)),
            times => Err(format!(
                "{TABLE}: `{}`: its text occurs {times} times in {}",
                self.name, self.file
            )),
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether each change can still be made.
pub(crate) fn check() -> Result<(), Failure> {
    let table = read(&root().join(TABLE))?;
    let mut wrong = String::new();
    for mutant in parse(&table)? {
        if let Err(failure) = mutant.of(&read(&root().join(mutant.file))?) {
            let _ = writeln!(wrong, "{failure}");
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Makes each change whose name contains `part` in a copy of the repository, and says what finds
/// it.
pub(crate) fn run(part: &str) -> Result<(), Failure> {
    check()?;
    let table = read(&root().join(TABLE))?;
    let tree = root().join("target/mutants");
    copy(&tree)?;
    let mut missed = Vec::new();
    for mutant in parse(&table)? {
        if !mutant.name.contains(part) {
            continue;
        }
        let path = tree.join(mutant.file);
        let original = read(&path)?;
        let write = |text: &str| {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        write(&mutant.of(&original)?)?;
        let found = find(&tree, mutant.name);
        write(&original)?;
        println!(
            "== {}\n{}",
            mutant.name,
            found.as_deref().unwrap_or("NOT FOUND")
        );
        if found.is_none() {
            missed.push(mutant.name);
        }
    }
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("not found: {}", missed.join("; "))),
    }
}

/// From cheap to dear.
const STEPS: [(&str, &[&str]); 3] = [
    (
        "tables",
        &[
            "--package=kueue-check",
            "--lib",
            "--",
            "--skip=interleavings",
        ],
    ),
    (
        "search",
        &["--package=kueue-check", "--lib", "--", "interleavings"],
    ),
    (
        "explorer",
        &[
            "--package=kueue-check-sim",
            "--test=it",
            "--",
            "simulation::scenarios",
        ],
    ),
];

/// What finds the change in `tree`: the tests, and the shortest counterexample of the search. Of
/// the mutants of findings the search is asked also where a table has found them.
fn find(tree: &Path, name: &str) -> Option<String> {
    let mut found = String::new();
    for (step, arguments) in STEPS {
        let shows = step == "search" && name.contains("(finding ");
        if !found.is_empty() && !shows {
            continue;
        }
        let output = Command::new("cargo")
            .current_dir(tree)
            .args(["test", "--quiet", "--all-features"])
            .args(arguments)
            .env("RUST_BACKTRACE", "0")
            .stderr(Stdio::piped())
            .output()
            .ok()?;
        if output.status.success() {
            continue;
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("could not compile") {
            return Some(format!("  the compiler:\n{errors}"));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let is_step = line
                .trim_start()
                .split_once(". ")
                .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
            let is_test = line.starts_with("    ") && line.contains("::");
            let is_violation =
                line.contains("violation") || step != "tables" && line.contains("it again");
            if is_step || is_test || is_violation {
                let _ = writeln!(found, "  {step}: {}", line.trim());
            }
        }
        for line in text
            .lines()
            .filter(|line| line.starts_with("one Workload") || line.starts_with("two "))
        {
            if line.contains(": ") && !line.contains("violations") {
                let _ = writeln!(found, "  {step}: {line}");
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Copies what is in the repository to `tree`, where nothing is lost by a change.
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
        // What is the same keeps its time, so that it is not built again.
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
