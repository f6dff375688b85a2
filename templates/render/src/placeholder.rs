//! The questions of a template and their valid answers.

use regex::Regex;
use toml::{Table, Value as Toml};

use crate::engine::Value;
use crate::error::Error;

/// The names to which cargo-generate itself assigns a value.
const RESERVED: [&str; 7] = [
    "authors",
    "os-arch",
    "project-name",
    "crate_name",
    "crate_type",
    "within_cargo_project",
    "is_init",
];

/// A question.
#[derive(Clone, Debug)]
pub struct Placeholder {
    /// The name of the answer's value.
    pub name: String,
    /// The question.
    pub prompt: String,
    /// The kind of the answer.
    pub kind: Kind,
    /// The value without an answer.
    pub default: Option<Value>,
}

/// The valid answers.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// One of these.
    Choice(Vec<String>),
    /// A text that matches this expression somewhere.
    Text(Option<Regex>),
}

impl Placeholder {
    /// Reads the question `name`.
    ///
    /// # Errors
    /// For questions that cargo-generate rejects, and for types and fields that this renderer does
    /// not support.
    pub fn read(name: &str, table: &Toml) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Config(format!("placeholder `{name}`: {problem}"));
        if RESERVED.contains(&name) {
            return Err(refuse("the name is cargo-generate's own".to_owned()));
        }
        let table = table
            .as_table()
            .ok_or_else(|| refuse("it should be a table".to_owned()))?;
        let known = ["type", "prompt", "regex", "choices", "default"];
        if let Some(other) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(refuse(format!("the field `{other}` is not known here")));
        }
        let prompt = text(table, "prompt").ok_or_else(|| refuse("it has no prompt".to_owned()))?;
        let kind = match text(table, "type").unwrap_or("string") {
            "bool" if table.contains_key("regex") || table.contains_key("choices") => {
                return Err(refuse("a bool has neither regex nor choices".to_owned()));
            }
            "bool" => Kind::Flag,
            "string" => string(table).map_err(refuse)?,
            other => return Err(refuse(format!("the type `{other}` is not known here"))),
        };
        let mut placeholder = Self {
            name: name.to_owned(),
            prompt: prompt.to_owned(),
            kind,
            default: None,
        };
        placeholder.default = match table.get("default") {
            None => None,
            Some(Toml::Boolean(flag)) if matches!(placeholder.kind, Kind::Flag) => {
                Some(Value::Flag(*flag))
            }
            Some(Toml::String(text)) if !matches!(placeholder.kind, Kind::Flag) => {
                Some(placeholder.parse(text)?)
            }
            Some(_) => {
                return Err(refuse(
                    "the default is of another type than the answers".to_owned(),
                ));
            }
        };
        Ok(placeholder)
    }

    /// Returns the value of the answer `given`.
    ///
    /// # Errors
    /// If it is no valid answer.
    pub fn parse(&self, given: &str) -> Result<Value, Error> {
        let refuse = |why: String| Error::Answer {
            placeholder: self.name.clone(),
            value: given.to_owned(),
            why,
        };
        match &self.kind {
            Kind::Flag => match given.to_lowercase().parse() {
                Ok(flag) => Ok(Value::Flag(flag)),
                Err(_) => Err(refuse("expected `true` or `false`".to_owned())),
            },
            Kind::Choice(choices) if !choices.iter().any(|choice| choice == given) => {
                Err(refuse(format!("expected one of {}", choices.join(", "))))
            }
            Kind::Text(Some(regex)) if !regex.is_match(given) => {
                Err(refuse(format!("it does not match {regex}")))
            }
            Kind::Choice(_) | Kind::Text(_) => Ok(Value::Text(given.to_owned())),
        }
    }
}

fn text<'a>(table: &'a Table, field: &str) -> Option<&'a str> {
    table.get(field)?.as_str()
}

fn string(table: &Table) -> Result<Kind, String> {
    if let Some(choices) = table.get("choices") {
        let choices: Option<Vec<String>> = choices.as_array().and_then(|choices| {
            choices
                .iter()
                .map(|choice| choice.as_str().map(str::to_owned))
                .collect()
        });
        return match choices {
            Some(choices) if !choices.is_empty() && !table.contains_key("regex") => {
                Ok(Kind::Choice(choices))
            }
            _ => Err("choices are a list of texts, without a regex".to_owned()),
        };
    }
    let regex = text(table, "regex").map(Regex::new).transpose();
    regex.map(Kind::Text).map_err(|error| error.to_string())
}
