//! The reference pages that are generated from the programs.

mod command_line;
pub mod metrics;
mod permissions;

use std::path::Path;

/// Returns all pages: files below `book/src` and their text. `book` is this crate's program.
pub fn all(book: &Path) -> Vec<(String, String)> {
    let page = |name: &str, text: String| (format!("reference/generated/{name}.md"), text);
    vec![
        page("command-line", command_line::page()),
        page("metrics", metrics::page()),
        page("permissions", permissions::page(book)),
    ]
}

/// Formats `text` for a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
        .replace('<', "&lt;")
}
