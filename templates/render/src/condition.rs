//! Conditions of `[conditional.'…']`.
//!
//! cargo-generate evaluates them with rhai. This implements only conditions on placeholders:
//! `name`, `!name`, `name == "text"`, `name != "text"`, joined by `&&` or by `||`.

use std::str::FromStr;

use crate::engine::{Value, Values};
use crate::error::Error;

/// A condition of a part of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether all terms must hold, or one.
    all: bool,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    name: String,
    expected: Value,
    /// Whether the value must be equal, or must differ.
    equal: bool,
}

impl Condition {
    /// Returns true if the condition holds.
    ///
    /// # Errors
    /// If a name is unknown, or compared with a value of another type.
    pub fn holds(&self, values: &Values) -> Result<bool, Error> {
        let mut holding = Vec::new();
        for term in &self.terms {
            let value = values.get(&term.name).ok_or_else(|| {
                Error::Config(format!("a condition names the unknown `{}`", term.name))
            })?;
            if std::mem::discriminant(value) != std::mem::discriminant(&term.expected) {
                return Err(Error::Config(format!(
                    "a condition compares `{}` with something of another type",
                    term.name
                )));
            }
            holding.push((*value == term.expected) == term.equal);
        }
        Ok(if self.all {
            holding.iter().all(|holds| *holds)
        } else {
            holding.contains(&true)
        })
    }
}

impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || Error::Config(format!("the condition `{text}` is not understood here"));
        let all = !text.contains("||");
        if !all && text.contains("&&") {
            return Err(refuse());
        }
        let terms = text
            .split(if all { "&&" } else { "||" })
            .map(|term| Term::read(term.trim()).ok_or_else(refuse));
        Ok(Self {
            all,
            terms: terms.collect::<Result<_, _>>()?,
        })
    }
}

impl Term {
    fn read(text: &str) -> Option<Self> {
        for (operator, equal) in [("==", true), ("!=", false)] {
            if let Some((name, quoted)) = text.split_once(operator) {
                let expected = quoted.trim().strip_prefix('"')?.strip_suffix('"')?;
                return Some(Self {
                    name: identifier(name.trim())?,
                    expected: Value::Text(expected.to_owned()),
                    equal,
                });
            }
        }
        let (name, equal) = match text.strip_prefix('!') {
            Some(name) => (name, false),
            None => (text, true),
        };
        Some(Self {
            name: identifier(name)?,
            expected: Value::Flag(true),
            equal,
        })
    }
}

fn identifier(text: &str) -> Option<String> {
    let legal = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    legal.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_about_placeholders() {
        let values = Values::from([
            ("state".to_owned(), Value::Flag(true)),
            ("cleanup".to_owned(), Value::Flag(false)),
            ("source".to_owned(), Value::Text("http".to_owned())),
        ]);
        for (text, expected) in [
            ("state", Some(true)),
            ("!state", Some(false)),
            ("cleanup", Some(false)),
            (r#"source == "http""#, Some(true)),
            (r#"source != "http""#, Some(false)),
            (r#"state && source == "http""#, Some(true)),
            ("state && cleanup", Some(false)),
            ("cleanup || state", Some(true)),
            ("unknown", None),
            ("source", None),
            (r#"state == "true""#, None),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.holds(&values).ok(), expected, "{text}");
        }
        for text in ["", "a && b || c", "(a)", "a == b", "a < 3", "a == \"b"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}
