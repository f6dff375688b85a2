//! The generated files match the current output of the programs.

use std::fs;
use std::path::Path;

use kueue_check_book::{generated, repository};

#[test]
fn generated_files_are_up_to_date() {
    let folder = repository().join("book/src");
    let mut stale = Vec::new();
    let files = generated(Path::new(env!("CARGO_BIN_EXE_book")));
    for (file, text) in &files {
        if fs::read_to_string(folder.join(file)).unwrap_or_default() != *text {
            stale.push(file.as_str());
        }
    }
    assert!(
        stale.is_empty(),
        "stale: {stale:?}; `cargo xtask book` writes them"
    );
    // No stale file is left.
    for below in ["images", "reference/generated"] {
        for entry in fs::read_dir(folder.join(below)).unwrap() {
            let name = format!("{below}/{}", entry.unwrap().file_name().to_string_lossy());
            let drawn =
                name == "images/two-phases.svg" || files.iter().any(|(file, _)| *file == name);
            assert!(drawn, "{name} comes from nowhere");
        }
    }
}

#[test]
fn pictures_are_the_same_each_time() {
    assert!(kueue_check_book::images::all() == kueue_check_book::images::all());
}
