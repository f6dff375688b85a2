//! Each block of code comes from a file that is compiled or run.

use std::fs;
use std::path::Path;

use kueue_check_book::repository;

use super::markdown::{Block, Page, book, others};

/// Returns the problem of a block of the book.
fn problem(page: &Page, block: &Block) -> Option<String> {
    match block.language.as_str() {
        // `console.rs` runs `console`; `text` is output; `names.rs` checks the names in `promql`.
        "console" | "text" | "promql" => None,
        "rust" | "yaml" | "toml" => {
            let [line] = block.lines.as_slice() else {
                return Some("is not one include".to_owned());
            };
            included(page, line).err()
        }
        other => Some(format!("is of the language `{other}`, which nothing tests")),
    }
}

/// Returns the text that `line` includes.
pub(super) fn included(page: &Page, line: &str) -> Result<String, String> {
    let inside = line
        .trim()
        .strip_prefix("{{#include ")
        .and_then(|l| l.strip_suffix("}}"));
    let inside = inside.ok_or_else(|| format!("`{line}` is no include"))?;
    let (file, anchor) = inside.split_once(':').unwrap_or((inside, ""));
    let path = page.path.parent().unwrap().join(file);
    let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
    let tested = ["book/listings/", "examples/", "checks/", "charts/"];
    let path = path.canonicalize().unwrap();
    let own = path
        .strip_prefix(repository().canonicalize().unwrap())
        .unwrap();
    if !tested.iter().any(|folder| own.starts_with(folder)) {
        return Err(format!("{file} is in no folder that is tested"));
    }
    if anchor.is_empty() {
        Ok(text)
    } else {
        anchored(&text, anchor).ok_or(format!("{file} has no anchor {anchor}"))
    }
}

/// Returns the lines between the anchors.
pub(super) fn anchored(text: &str, anchor: &str) -> Option<String> {
    let mark = |line: &str, word: &str| {
        line.trim()
            .strip_prefix("// ")
            .is_some_and(|l| l == format!("{word}: {anchor}"))
    };
    let mut lines = text.lines().skip_while(|line| !mark(line, "ANCHOR"));
    lines.next()?;
    // Anchors inside are not shown.
    let inside: Vec<&str> = lines
        .take_while(|line| !mark(line, "ANCHOR_END"))
        .filter(|line| !line.trim().starts_with("// ANCHOR"))
        .collect();
    Some(inside.join("\n"))
}

#[test]
fn every_block_comes_from_a_file_that_is_tested() {
    let mut found = Vec::new();
    let mut count = 0;
    for page in book() {
        for block in page.blocks() {
            count += 1;
            if let Some(why) = problem(&page, &block) {
                found.push(format!("{}:{}: the block {why}", page.name, block.line));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(count > 40, "{count}");
}

#[test]
fn the_readme_shows_the_first_tutorials_check_of_22_lines() {
    let readme = others()
        .into_iter()
        .find(|page| page.name == "README.md")
        .unwrap();
    let shown = readme
        .blocks()
        .into_iter()
        .find(|block| block.language == "rust")
        .unwrap();
    let file = Path::new("book/listings/src/tutorials/first_check.rs");
    let text = fs::read_to_string(repository().join(file)).unwrap();
    let whole = anchored(&text, "check").unwrap();
    assert_eq!(
        shown.lines.join("\n").trim(),
        whole.trim(),
        "README.md is to show {}",
        file.display()
    );
    let code = whole
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert_eq!(code.count(), 22, "README.md has this number");
}
