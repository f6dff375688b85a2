//! Shell blocks. `console` is run here, in a fresh folder with the programs of the book, its YAML
//! files and the examples of `rule-check`. The output is compared with the lines below the command;
//! `…` matches anything. The other words after it:
//!
//! | word | meaning |
//! | --- | --- |
//! | `cluster` | the block requires a cluster: `cluster.rs` |
//! | `kueue` | and Kueue on it |
//! | `kubelet` | and running pods, which no test here has |
//! | `slow` | the block builds a project: `fresh.rs`. In `README.md`: it runs all tests |
//! | a program's name | the program that `cargo run -- …` stands for |

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kueue_check_book::repository;

use super::markdown::{Block, Page, book, others};

/// A command and the output that the page shows.
pub(super) struct Step {
    pub(super) command: String,
    pub(super) shown: Vec<String>,
}

/// Returns the steps of a block.
pub(super) fn steps(page: &Page, block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for line in &block.lines {
        if continued {
            let step = steps.last_mut().unwrap();
            step.command += "\n";
            step.command += line;
            continued = goes_on(line);
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command: command.to_owned(),
                shown: Vec::new(),
            });
            continued = goes_on(command);
        } else {
            let step = steps.last_mut();
            let step = step.unwrap_or_else(|| panic!("{}:{}: no command", page.name, block.line));
            step.shown.push(line.clone());
        }
    }
    steps
}

/// Returns true if the shell waits for another line.
fn goes_on(line: &str) -> bool {
    line.ends_with(['\\', '|'])
}

/// Returns true if the output matches the lines shown.
fn matches(shown: &[String], printed: &[&str]) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return printed.is_empty();
    };
    if first.trim() == "…" {
        return (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]));
    }
    printed
        .split_first()
        .is_some_and(|(line, after)| line_matches(first, line) && matches(rest, after))
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let mut rest = printed.trim_end();
    let mut parts = shown.trim_end().split('…');
    let Some(after) = parts.next().and_then(|first| rest.strip_prefix(first)) else {
        return false;
    };
    rest = after;
    let mut open = false;
    for part in parts {
        open = true;
        let Some(place) = rest.find(part) else {
            return false;
        };
        rest = &rest[place + part.len()..];
        open &= part.is_empty();
    }
    rest.is_empty() || open
}

/// Creates a folder with the book's programs and files, in which blocks are run.
pub(super) fn workshop(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("bin")).unwrap();
    let book = Path::new(env!("CARGO_BIN_EXE_book"));
    let programs = Command::new(book).arg("programs").output().unwrap();
    for program in String::from_utf8(programs.stdout).unwrap().lines() {
        symlink(book, folder.join("bin").join(program)).unwrap();
    }
    symlink(beside("rule-check"), folder.join("bin/rule-check")).unwrap();
    for files in ["book/listings/yaml", "checks/rule/examples"] {
        for file in fs::read_dir(repository().join(files)).unwrap() {
            let path = file.unwrap().path();
            fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
    }
    folder
}

/// Returns `command` with built programs in place of those that cargo would build.
pub(super) fn built(command: &str, block: &Block) -> String {
    let mut command = command.to_owned();
    if let Some(program) = PROGRAMS.iter().find(|name| block.is(name)) {
        for run in ["cargo run --quiet -- ", "cargo run -- "] {
            command = command.replace(run, &format!("{program} "));
        }
    }
    for (run, program) in [
        ("-p kueue-check-sim-cli", "kueue-check-sim"),
        ("-p kueue-check-budget --features demo", "budget-check"),
        (
            "-p kueue-check-provisioning --features demo",
            "provisioning-check",
        ),
    ] {
        let run = format!("cargo run {run} -- ");
        if command.contains(&run) {
            command = command.replace(&run, &format!("{} ", beside(program)));
            // No delay: a test needs none.
            if command.ends_with(" demo") {
                command += " --speed 0";
            }
        }
    }
    command
}

/// Returns the path of another crate's program, which was built beside this one's.
pub(super) fn beside(program: &str) -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_book")).with_file_name(program);
    let shown = path.display().to_string();
    assert!(
        path.exists(),
        "there is no {shown}: test the whole workspace"
    );
    shown
}

/// The programs that `cargo run` may stand for.
const PROGRAMS: [&str; 2] = ["window", "window-with-policy"];

/// Returns the shell that runs `command` in `folder`, with all its output on standard output.
pub(super) fn shell(folder: &Path, command: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder)
        .env("PATH", format!("{}/bin:{path}", folder.display()))
        // No cluster, independent of the environment.
        .env("KUBECONFIG", "/nowhere");
    shell
}

/// The longest time that a command of a page may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs `command`; returns whether its output matches `shown`, and the output. Kills a
/// command that has not ended after [`LIMIT`], with all that it has started, and panics.
pub(super) fn run(mut command: Command, shown: &[String]) -> (bool, String) {
    let child = command.stdout(Stdio::piped()).process_group(0).spawn();
    let child = child.unwrap();
    let group = format!("-{}", child.id());
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait_with_output()));
    let Ok(output) = end.recv_timeout(LIMIT) else {
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        panic!("{command:?} has not ended after {LIMIT:?}");
    };
    let output = output.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let fails = shown
        .iter()
        .any(|line| line.starts_with("error: ") || line.starts_with("Error: "));
    let same = shown.is_empty() || matches(shown, &printed.lines().collect::<Vec<_>>());
    (output.status.success() != fails && same, printed)
}

#[test]
fn what_the_shell_blocks_show_is_what_happens() {
    let mut count = 0;
    let mut failures = Vec::new();
    for page in book().into_iter().chain(others()) {
        let folder = workshop(&page.name.replace('/', "-"));
        for block in page.blocks() {
            let elsewhere = ["cluster", "slow"].iter().any(|mark| block.is(mark));
            if block.language != "console" || elsewhere {
                continue;
            }
            for Step { command, shown } in steps(&page, &block) {
                count += 1;
                let command = built(&command, &block);
                let (well, printed) = run(shell(&folder, &command), &shown);
                if !well {
                    failures.push(format!(
                        "{}:{}: $ {command}\n{printed}",
                        page.name, block.line
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count >= 20, "{count} commands");
}

#[test]
fn each_word_after_console_is_known() {
    for page in book().into_iter().chain(others()) {
        for block in page.blocks() {
            let known = |mark: &String| {
                ["cluster", "kueue", "kubelet", "slow"].contains(&mark.as_str())
                    || PROGRAMS.contains(&mark.as_str())
            };
            let marks = &block.marks;
            let fine = block.language != "console" || marks.iter().all(known);
            assert!(fine, "{}:{}: {marks:?}", page.name, block.line);
        }
    }
}

#[test]
fn what_is_shown_is_compared() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (page, printed, same) in [
        ("a\nb", "a\nb", true),
        ("a", "a\nb", false),
        ("a\n…", "a\nb\nc", true),
        ("…\nc", "a\nb\nc", true),
        ("…\nd", "a\nb\nc", false),
        ("took …s, … runs", "took 12s, 5 runs", true),
        ("took …s", "took 12m", false),
        ("a…", "abc", true),
    ] {
        assert_eq!(
            matches(&shown(page), &printed.lines().collect::<Vec<_>>()),
            same,
            "{page:?} {printed:?}"
        );
    }
}
