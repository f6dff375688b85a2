//! The tutorials for a new user: in an empty folder, with only their own commands and files.

use std::fs;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use kueue_check::Clock;
use kueue_check_book::repository;

use super::blocks::{anchored, included};
use super::console::{Step, steps};
use super::markdown::{Block, Page, book, page};

/// The tutorials in the order of the book. Each has its listing and the project file that the
/// listing becomes.
const TUTORIALS: [(&str, &str, &str); 7] = [
    ("first-check", "first_check", "src/main.rs"),
    ("parameters", "parameters", "src/main.rs"),
    ("state-and-cleanup", "licence_server", "src/main.rs"),
    ("reading-metrics", "metrics_budget", "src/main.rs"),
    ("testing", "testing", "tests/testing.rs"),
    ("deploying", "first_check", "src/main.rs"),
    ("composing", "composing", "src/main.rs"),
];

/// A project that grows from page to page.
struct Project {
    folder: std::path::PathBuf,
    count: usize,
    began: Timestamp,
}

impl Project {
    /// Runs the commands of a page, up to and including `until`.
    fn follow(&mut self, (name, listing, file): (&str, &str, &str), until: &str) {
        let tutorial = page(&format!("tutorials/{name}.md"));
        let text = repository().join(format!("book/listings/src/tutorials/{listing}.rs"));
        let text = fs::read_to_string(text).unwrap();
        let text = anchored(&text, "file").unwrap();
        for block in tutorial.blocks() {
            if block.language == "toml" {
                self.append(&tutorial, &block);
            }
            let wanted = block.is("slow") || (name == "first-check" && !block.is("cluster"));
            if block.language != "console" || !wanted {
                continue;
            }
            for Step { command, .. } in steps(&tutorial, &block) {
                // The file that the reader has copied from the page.
                if self.folder.join("Cargo.toml").exists() {
                    let path = self.folder.join(file);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, format!("{text}\n")).unwrap();
                    // The versions that this repository is tested with.
                    let lock = self.folder.join("Cargo.lock");
                    if !lock.exists() {
                        fs::copy(repository().join("Cargo.lock"), lock).unwrap();
                    }
                }
                self.run(&tutorial, &command);
                if command == until {
                    return;
                }
            }
        }
    }

    /// Appends the block to `Cargo.toml`.
    fn append(&self, page: &Page, block: &Block) {
        let file = self.folder.join("Cargo.toml");
        let mut text = fs::read_to_string(&file).unwrap();
        text += "\n";
        text += &included(page, &block.lines[0]).unwrap();
        fs::write(file, text).unwrap();
    }

    fn run(&mut self, page: &Page, command: &str) {
        self.count += 1;
        // This checkout instead of the published crate.
        let root = repository().display().to_string();
        let at = "--git https://github.com/kueue-check/kueue-check";
        let ours = if command.contains("kueue-check-sim") {
            format!("--path {root}/sim")
        } else {
            format!("--path {root}")
        };
        let command = command.replace(at, &ours);
        let seconds = Clock::system().now().duration_since(self.began).as_secs();
        println!("{}. {} ({seconds} s): {command}", self.count, page.name);
        let (folder, output) = (&self.folder, self.folder.with_extension("pwd"));
        // Its artifacts go beside ours, so the dependencies are built once.
        let status = Command::new("bash")
            .args(["-euc", &format!("{command}\npwd > {}", output.display())])
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", repository().join("target"))
            .env_remove("K8S_OPENAPI_ENABLED_VERSION")
            .status()
            .unwrap();
        assert!(status.success(), "{}: {command}", page.name);
        self.folder = fs::read_to_string(&output).unwrap().trim().into();
    }
}

/// Creates a project in a folder outside of this workspace; inside, it would become a part of it.
fn empty(name: &str) -> Project {
    let folder = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    Project {
        folder,
        count: 0,
        began: Clock::system().now(),
    }
}

/// It builds a project of its own, which takes minutes and requires the dependencies' index.
#[test]
#[ignore = "takes minutes and a network: run it with `--ignored --nocapture`"]
fn the_tutorials_work_in_an_empty_folder() {
    let mut project = empty("kueue-check-tutorials");
    for tutorial in TUTORIALS {
        project.follow(tutorial, "");
    }
    let seconds = Clock::system().now().duration_since(project.began);
    println!("{} commands, {} s", project.count, seconds.as_secs());
}

/// Counts the lines of a part of a listing that are not empty.
fn lines(listing: &str, anchor: &str) -> usize {
    let path = repository().join(format!("book/listings/src/tutorials/{listing}.rs"));
    let text = anchored(&fs::read_to_string(path).unwrap(), anchor).unwrap();
    text.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Counts the dependencies in a manifest.
fn dependencies(manifest: &Path) -> usize {
    let text = fs::read_to_string(manifest).unwrap();
    let (mut inside, mut count) = (false, 0);
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
        } else if inside && line.contains('=') {
            count += 1;
        }
    }
    count
}

#[test]
#[ignore = "builds a project of its own, in minutes: `cargo xtask tutorials` runs it"]
fn the_first_check_takes_two_dependencies() {
    let [first, ..] = TUTORIALS;
    let mut project = empty("kueue-check-first-check");
    project.follow(first, "cargo test");
    let seconds = Clock::system().now().duration_since(project.began);
    let counts = [
        ("commands", project.count, 5),
        (
            "dependencies",
            dependencies(&project.folder.join("Cargo.toml")),
            2,
        ),
        ("lines of the check", lines(first.1, "check"), 25),
        ("lines of the test", lines(first.1, "tests"), 15),
    ];
    for (what, count, most) in counts {
        println!("first check: {count} {what} (at most {most})");
    }
    println!("first check: {} s until its test passed", seconds.as_secs());
    for (what, count, most) in counts {
        assert!(
            count <= most,
            "{count} {what}, and at most {most} are allowed"
        );
    }
}

#[test]
fn each_page_that_builds_something_is_followed() {
    for page in book() {
        let name = Path::new(&page.name).file_stem().unwrap();
        let needed = page.blocks().iter().any(|block| block.is("slow"));
        let followed = TUTORIALS.iter().any(|(tutorial, ..)| *tutorial == name);
        assert!(!needed || followed, "{}", page.name);
    }
}
