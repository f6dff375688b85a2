//! The series and labels in a PromQL expression. This is a reader of names, not a parser:
//! Prometheus checks whether an expression is well formed.

use std::collections::BTreeSet;

/// The names in an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MetricReference {
    /// The names of series.
    pub series: BTreeSet<String>,
    /// The labels that select, group or join series.
    pub labels: BTreeSet<String>,
}

/// Keywords after which parentheses contain labels.
const GROUPING: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];
/// Keywords, which are no names.
const WORDS: [&str; 8] = [
    "and", "or", "unless", "bool", "offset", "inf", "nan", "atan2",
];

/// Returns the series and labels that `expression` reads.
pub fn reads(expression: &str) -> MetricReference {
    let mut read = MetricReference::default();
    let mut rest = expression;
    let mut grouping = false;
    while let Some(first) = rest.chars().next() {
        let begins_name = first.is_ascii_alphabetic() || first == '_';
        if begins_name {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
                .unwrap_or(rest.len());
            let name = &rest[..end];
            rest = rest[end..].trim_start();
            // `sum (…)`, and `sum by (…) (…)`.
            let is_call = ["(", "by ", "by(", "without ", "without("]
                .iter()
                .any(|next| rest.starts_with(next));
            if GROUPING.contains(&name) {
                grouping = true;
            } else if !is_call && !WORDS.contains(&name.to_ascii_lowercase().as_str()) {
                read.series.insert(name.to_owned());
            }
            continue;
        }
        rest = match first {
            '(' if grouping => {
                grouping = false;
                let (inside, after) = until(rest, ')');
                let labels = inside.split(',').map(str::trim);
                read.labels
                    .extend(labels.filter(|label| !label.is_empty()).map(str::to_owned));
                after
            }
            '{' => {
                let (inside, after) = until(rest, '}');
                read.labels.extend(matched(inside));
                after
            }
            '[' => until(rest, ']').1,
            '"' | '\'' => until(rest, first).1,
            digit if digit.is_ascii_digit() => {
                rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.')
            }
            other => &rest[other.len_utf8()..],
        };
    }
    read
}

/// Returns the text between the first character and the next `end` outside of quotes, and the text
/// after it.
fn until(text: &str, end: char) -> (&str, &str) {
    let mut quoted = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == end && !quoted {
            return (&text[1..at], &text[at + c.len_utf8()..]);
        }
        if c == '"' && end != '"' {
            quoted = !quoted;
        }
    }
    (text.get(1..).unwrap_or_default(), "")
}

/// Returns the labels of `a="b",c=~"d"`.
fn matched(inside: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut rest = inside;
    while let Some(at) = rest.find(['=', '!']) {
        labels.push(rest[..at].trim().trim_start_matches(',').trim().to_owned());
        let Some(quote) = rest[at..].find('"') else {
            break;
        };
        rest = until(&rest[at + quote..], '"').1;
    }
    labels
}
