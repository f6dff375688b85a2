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

/// Formats `text` for a table cell. HTML is escaped, but not in code spans, which show it as it is.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.replace('|', "\\|");
    let last = text.matches('`').count();
    let parts = text.split('`').enumerate().map(|(number, part)| {
        // The text after an odd backtick is a code span if another one closes it.
        if number % 2 == 1 && number < last {
            part.to_owned()
        } else {
            part.replace('<', "&lt;")
        }
    });
    parts.collect::<Vec<_>>().join("`")
}
