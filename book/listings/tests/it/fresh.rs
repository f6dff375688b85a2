//! The first tutorial as a new user would follow it: in an empty folder, by nothing but its own commands.

use std::fs;
use std::process::Command;

use kueue_check_book::repository;

use super::blocks::anchored;
use super::console::{Step, steps};
use super::markdown::page;

/// It builds a project of its own, which takes minutes and asks for the dependencies' index.
#[test]
#[ignore = "takes minutes and a network: run it with `--ignored --nocapture`"]
fn the_first_tutorial_works_in_an_empty_folder() {
    let tutorial = page("tutorials/first-check.md");
    // Outside of this workspace, or it would become a part of it.
    let folder = std::env::temp_dir().join("kueue-check-first-tutorial");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let listing = repository().join("book/listings/src/tutorials/first_check.rs");
    let listing = fs::read_to_string(listing).unwrap();
    let part = |anchor| anchored(&listing, anchor).expect("an anchor");
    let program = format!("{}\n\n{}\n", part("check"), part("tests"));

    let mut here = folder.clone();
    let mut count = 0;
    for block in tutorial.blocks() {
        let by_hand = block.marks.iter().any(|mark| mark == "cluster");
        if block.language != "console" || by_hand {
            continue;
        }
        for Step { command, .. } in steps(&tutorial, &block) {
            count += 1;
            // This checkout instead of the published one.
            let root = repository().display().to_string();
            let at = "--git https://github.com/kueue-check/kueue-check";
            let (sdk, sim) = (format!("--path {root}"), format!("--path {root}/sim"));
            let ours = if command.contains("kueue-check-sim") {
                &sim
            } else {
                &sdk
            };
            let command = command.replace(at, ours);
            if here.join("src/main.rs").exists() {
                fs::write(here.join("src/main.rs"), &program).unwrap();
                let sample = repository().join("book/listings/yaml/window.yaml");
                fs::copy(sample, here.join("window.yaml")).unwrap();
            }
            println!("{count}. {command}");
            // Its artifacts beside ours: the dependencies are built once.
            let status = Command::new("bash")
                .args([
                    "-euc",
                    &format!("{command}\npwd > {}/pwd", folder.display()),
                ])
                .current_dir(&here)
                .env("CARGO_TARGET_DIR", repository().join("target"))
                .env_remove("K8S_OPENAPI_ENABLED_VERSION")
                .status()
                .unwrap();
            assert!(status.success(), "{command}");
            here = fs::read_to_string(folder.join("pwd"))
                .unwrap()
                .trim()
                .into();
        }
    }
    println!("{count} commands");
    assert!(count > 5);
}
