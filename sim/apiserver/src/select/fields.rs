//! Field selectors.

use serde_json::Value;

use crate::kinds::{Kind, kept_path};
use crate::status::Status;

/// A field selector: a list of `path=value` and `path!=value`, all of which must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    path: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses a field selector. Rejects fields that the kind cannot be selected by.
    pub(crate) fn parse(kind: &Kind, text: &str) -> Result<Self, Status> {
        let mut terms = Vec::new();
        if let Some(bad) = bad_escape(text) {
            return Err(Status::bad_request(format!(
                "invalid field selector: invalid escape sequence: {bad}"
            )));
        }
        for part in split(text) {
            let Some(term) = term(&part) else {
                return Err(Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let known = matches!(term.path.as_str(), "metadata.name" | "metadata.namespace")
                || kind.selectable.contains(&term.path);
            if !known {
                return Err(unknown(kind, &term.path));
            }
            terms.push(Term {
                path: if kind.is("", "events") {
                    kept_path(&term.path)
                } else if term.path == "status.successful" {
                    "status.succeeded".to_owned()
                } else {
                    term.path
                },
                ..term
            });
        }
        Ok(Self { terms })
    }

    pub(crate) fn add_name(&mut self, name: &str) {
        self.terms.push(Term {
            path: "metadata.name".to_owned(),
            value: name.to_owned(),
            equal: true,
        });
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.terms
            .iter()
            .all(|term| (value_at(object, &term.path) == term.value) == term.equal)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

fn unknown(kind: &Kind, path: &str) -> Status {
    let text = if kind.is("batch", "jobs") {
        format!("field label \"{path}\" not supported for Job")
    } else if kind.custom || !kind.selectable.is_empty() {
        format!("field label not supported: {path}")
    } else {
        format!(
            "\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    };
    Status::bad_request(text)
}

/// Returns the first invalid escape. Only backslash, comma and equals may be escaped.
fn bad_escape(text: &str) -> Option<String> {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            match chars.next() {
                Some('\\' | ',' | '=') => {}
                Some(other) => return Some(format!("\\{other}")),
                None => return Some("\\".to_owned()),
            }
        }
    }
    None
}

/// Splits at commas, unless a backslash precedes them.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            _ if escaped => {
                part.push('\\');
                part.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            ',' => parts.push(std::mem::take(&mut part)),
            _ => part.push(c),
        }
    }
    parts.push(part);
    parts.retain(|p| !p.is_empty());
    parts
}

fn term(part: &str) -> Option<Term> {
    let make = |path: &str, value: &str, equal| Term {
        path: path.to_owned(),
        value: unescape(value),
        equal,
    };
    if let Some((path, value)) = part.split_once("!=") {
        return Some(make(path, value, false));
    }
    let (path, value) = part.split_once("==").or_else(|| part.split_once('='))?;
    Some(make(path, value, true))
}

fn unescape(text: &str) -> String {
    let (mut out, mut escaped) = (String::new(), false);
    for c in text.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    out
}

/// Returns the value as text; empty if it is missing.
fn value_at(object: &Value, path: &str) -> String {
    let path = if path == "name" {
        "metadata.name"
    } else {
        path
    };
    let mut at = object;
    for part in path.split('.') {
        match at.get(part) {
            Some(below) => at = below,
            None => return default_of(path),
        }
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Null | Value::Object(_) | Value::Array(_) => String::new(),
        other => other.to_string(),
    }
}

/// Returns Go's zero value, as text, of a missing field of a built-in kind.
fn default_of(path: &str) -> String {
    match path {
        "spec.hostNetwork" | "spec.unschedulable" => "false".to_owned(),
        "status.succeeded" => "0".to_owned(),
        _ => String::new(),
    }
}
