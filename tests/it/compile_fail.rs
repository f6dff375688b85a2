//! Each likely mistake, and the compiler's message about it.
//!
//! The messages are those of the toolchain in `rust-toolchain.toml`.
//! `KUEUE_CHECK_WRITE=1 cargo test --test it compile_fail` writes them again. Read them before you
//! commit them, as the author of a check would.
//!
//! The programs are compiled against the library that this test is linked with. Cargo would compile
//! all dependencies again, since another package has other features.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository;

const FOLDER: &str = "tests/compile_fail";

#[test]
fn each_likely_mistake_is_explained() {
    let mut files: Vec<PathBuf> = files(&repository().join(FOLDER))
        .filter(|file| file.extension().is_some_and(|kind| kind == "rs"))
        .collect();
    files.sort();
    assert!(files.len() >= 25, "{files:?}");
    let write = std::env::var_os("KUEUE_CHECK_WRITE").is_some();
    let mut of_newest = None;
    for library in Library::compiled() {
        let wrong = library.differences(&files, write);
        if wrong.is_empty() {
            return;
        }
        of_newest.get_or_insert(wrong);
    }
    panic!("{}", of_newest.unwrap_or_default());
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path())
}

/// The compiled `kueue-check`.
struct Library {
    path: PathBuf,
    dependencies: PathBuf,
    output: PathBuf,
}

impl Library {
    /// Returns the libraries beside this test's program, the newest first. There are several if the
    /// folder also has builds with other features, profiles or paths of the sources; one of them is
    /// the library with which this test is linked.
    fn compiled() -> Vec<Self> {
        let program = std::env::current_exe().unwrap();
        let dependencies = program.parent().unwrap().to_owned();
        let mut paths: Vec<PathBuf> = files(&dependencies)
            .filter(|file| {
                let name = file.file_name().unwrap().to_string_lossy();
                name.starts_with("libkueue_check-") && name.ends_with(".rlib")
            })
            .collect();
        paths.sort_by_key(|file| Reverse(fs::metadata(file).unwrap().modified().unwrap()));
        let output = dependencies.with_file_name("compile-fail");
        let libraries = paths.into_iter().map(|path| Self {
            path,
            dependencies: dependencies.clone(),
            output: output.clone(),
        });
        libraries.collect()
    }

    /// Returns the programs whose messages are not the expected ones, with both. Writes the messages
    /// if `write` is true.
    fn differences(&self, files: &[PathBuf], write: bool) -> String {
        let mut wrong = String::new();
        for file in files {
            let (compiled, found) = self.compile(file);
            let expected = file.with_extension("stderr");
            if write {
                fs::write(&expected, &found).unwrap();
            }
            let expected = fs::read_to_string(&expected).unwrap_or_default();
            if compiled || found != expected {
                let name = file.display();
                wrong += &format!("==== {name}: expected\n{expected}==== found\n{found}");
            }
        }
        wrong
    }

    /// Compiles a program without generating code. Returns whether it compiles, and the messages.
    fn compile(&self, file: &Path) -> (bool, String) {
        let mut library = std::ffi::OsString::from("kueue_check=");
        library.push(&self.path);
        let mut dependencies = std::ffi::OsString::from("dependency=");
        dependencies.push(&self.dependencies);
        let root = repository();
        let output = Command::new("rustc")
            .current_dir(root)
            .args(["--edition=2024", "--emit=metadata", "--color=never"])
            .arg("--out-dir")
            .arg(&self.output)
            .arg("-L")
            .arg(dependencies)
            .arg("--extern")
            .arg(library)
            .arg(file.strip_prefix(root).unwrap())
            .output()
            .unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), normalized(&messages))
    }
}

/// Parts of lines about all errors, and about a file with a long type.
const OMITTED: [&str; 5] = [
    "error: aborting due to",
    "Some errors have detailed",
    "For more information about",
    "the full name for the type has been written to",
    "consider using `--verbose` to print",
];

/// Removes what differs between machines and changes with unrelated lines: line numbers of other
/// files, their width, folders of dependencies, counts of implementations.
fn normalized(messages: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut file = SourceFile::Program;
    for line in messages.lines() {
        if OMITTED.iter().any(|part| line.contains(part)) {
            continue;
        }
        let Some((number, rest)) = gutter(line) else {
            lines.push(match line.trim_start() {
                more if more.starts_with("and ") && more.ends_with(" others") => {
                    "            and more".to_owned()
                }
                more if line.starts_with("        ") => format!("            {more}"),
                _ => line.to_owned(),
            });
            continue;
        };
        let arrow = rest.split_at_checked("--> ".len());
        let arrow = arrow.filter(|(arrow, _)| ["--> ", "::: "].contains(arrow));
        let line = if let Some((arrow, place)) = arrow {
            file = SourceFile::of(place);
            let is_program = file == SourceFile::Program;
            format!(
                "  {arrow}{}",
                if is_program { place } else { file_of(place) }
            )
        } else if file == SourceFile::Program || !rest.starts_with('|') {
            format!("{number:>2} {rest}")
        } else if file == SourceFile::Dependency {
            format!("   {rest}")
        } else {
            continue;
        };
        lines.push(line.trim_end().to_owned());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// The file whose lines a message shows.
#[derive(Clone, Copy, PartialEq)]
enum SourceFile {
    Program,
    Dependency,
    /// Its lines are shown only where its source is installed.
    Std,
}

impl SourceFile {
    fn of(place: &str) -> Self {
        if place.starts_with(FOLDER) {
            Self::Program
        } else if place.contains("/library/") {
            Self::Std
        } else {
            Self::Dependency
        }
    }
}

/// Returns the number and the rest of a line that shows a place in a file.
fn gutter(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (number, rest) = line.split_at(line.find(|c: char| !c.is_ascii_digit())?);
    let rest = rest.trim_start();
    let marks = ["|", "-->", ":::", "= ", "+ ", "- ", "~ "];
    let shown = marks.iter().any(|mark| rest.starts_with(mark));
    shown.then_some((number, rest))
}

/// Returns the file of a place, `FILE:LINE:COLUMN`, from the folder of its crate.
fn file_of(place: &str) -> &str {
    let file = place.split(':').next().unwrap_or(place);
    let after = |folder: &str| file.split_once(folder).map(|(_, after)| after);
    let in_registry = after("/registry/src/").and_then(|file| file.split_once('/'));
    in_registry.map_or_else(
        || after("/library/").unwrap_or(file),
        |(_registry, file)| file.split_once('/').map_or(file, |(_version, file)| file),
    )
}
