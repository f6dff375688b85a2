//! The pages that are read off the programs.

mod command_line;
pub mod metrics;
mod permissions;

use std::path::Path;

/// All of them: files below `book/src`, and their text. `book` is this crate's program.
pub fn all(book: &Path) -> Vec<(String, String)> {
    let page = |name: &str, text: String| (format!("reference/generated/{name}.md"), text);
    vec![
        page("command-line", command_line::page()),
        page("metrics", metrics::page()),
        page("permissions", permissions::page(book)),
    ]
}

/// `text` inside of a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
        .replace('<', "&lt;")
}
