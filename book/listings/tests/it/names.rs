//! The metrics, reasons and messages in the book exist, and the existing ones are in the book.

use std::fs;

use kueue_check_book::{reference, repository};

use super::markdown::{book, others, page};

/// Returns the word with which `text` begins.
fn word(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    &text[..text.find(|c: char| !is_part(c)).unwrap_or(text.len())]
}

/// Returns the words in `text` that begin with `prefix`.
fn words<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let places = text.match_indices(prefix);
    places.map(|(place, _)| word(&text[place..])).collect()
}

#[test]
fn every_metric_that_is_named_exists() {
    let known = reference::metrics::names();
    let budgets =
        fs::read_to_string(repository().join("checks/budget/src/controller/metrics.rs")).unwrap();
    let rules = ["celcheck", "webhook"].map(|check| {
        let file = format!("checks/rule/src/{check}/controller.rs");
        fs::read_to_string(repository().join(file)).unwrap()
    });
    for page in book().into_iter().chain(others()) {
        for line in page
            .text
            .lines()
            .filter(|line| !line.contains("use kueue_check_"))
        {
            for name in words(line, "kueue_check_") {
                let code = [
                    "kueue_check_sim",
                    "kueue_check_macros",
                    "kueue_check_book",
                    // A variable of the template.
                    "kueue_check_source",
                ];
                let there = known.contains(name) || code.contains(&name);
                assert!(there, "{}: there is no metric {name}", page.name);
            }
            for (place, _) in line.match_indices("`budget_") {
                let name = word(&line[place + 1..]).trim_start_matches("budget_");
                let name = name.trim_end_matches("_total");
                let there = name.is_empty() || budgets.contains(&format!("\"budget_{name}\""));
                assert!(there, "{}: there is no metric budget_{name}", page.name);
            }
            for prefix in ["`rule_data_", "`rule_watched_", "`webhook_"] {
                for (place, _) in line.match_indices(prefix) {
                    let name = word(&line[place + 1..]).trim_end_matches("_total");
                    let literal = format!("\"{name}\"");
                    let there = rules.iter().any(|text| text.contains(&literal));
                    assert!(there, "{}: there is no metric {name}", page.name);
                }
            }
        }
    }
}

/// Returns the string literals of a source file, without its tests and comments.
fn literals(file: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(file)).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let code: Vec<&str> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let mut literals = Vec::new();
    let mut open: Option<String> = None;
    let code = code.join("\n");
    let mut characters = code.chars();
    while let Some(c) = characters.next() {
        match (&mut open, c) {
            (Some(_), '"') => literals.extend(open.take()),
            (Some(text), '\\') => text.extend(characters.next().filter(|c| *c != '\n')),
            (Some(text), c) => text.push(c),
            (None, '"') => open = Some(String::new()),
            (None, _) => {}
        }
    }
    literals
}

/// Returns true for words such as `ParametersMissing`.
fn is_reason(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphabetic())
        && text.len() > 5
}

/// Returns a message with `…` for each part that is filled in.
fn pattern(literal: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for c in literal.chars() {
        match c {
            '{' => {
                depth += 1;
                if depth == 1 {
                    text.push('…');
                }
            }
            '}' => depth -= 1,
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

fn missing(named: &str, wanted: impl IntoIterator<Item = String>) -> Vec<String> {
    wanted
        .into_iter()
        .filter(|word| !named.contains(&format!("`{word}`")))
        .collect()
}

#[test]
fn every_reason_of_the_condition_is_explained() {
    let files = [
        "src/runtime/activation.rs",
        "src/runtime/core/activation.rs",
    ];
    let reasons = files
        .iter()
        .flat_map(|file| literals(file))
        .filter(|text| is_reason(text));
    let text = page("reference/conditions.md").text;
    let missing = missing(&text, reasons.filter(|reason| reason != "False"));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_event_is_explained() {
    let files = ["src/runtime/manager/reporting.rs", "src/check/event.rs"];
    let reasons = files
        .iter()
        .flat_map(|file| literals(file))
        .filter(|text| is_reason(text));
    let text = page("reference/events.md").text;
    // `Activate` is an event's action, not a reason.
    let missing = missing(&text, reasons.filter(|reason| reason != "Activate"));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_message_is_explained() {
    let files = [
        "src/runtime/decide/conclude.rs",
        "src/runtime/core/evaluations.rs",
        "src/runtime/core/writes.rs",
    ];
    let messages = files
        .iter()
        .flat_map(|file| literals(file))
        .filter(|text| text.contains(' '));
    let text = page("reference/messages.md").text.replace("\\`", "'");
    let wanted = messages.map(|message| pattern(&message).replace('`', "'"));
    let missing = missing(
        &text,
        wanted.filter(|message| message.chars().filter(|c| *c == ' ').count() > 1),
    );
    assert!(missing.is_empty(), "{missing:#?}");
}
