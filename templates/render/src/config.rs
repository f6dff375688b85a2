//! The configuration of a template, `cargo-generate.toml`.

use std::path::Path;

use toml::{Table, Value as Toml};

use crate::condition::Condition;
use crate::engine::{Value, Values};
use crate::error::Error;
use crate::placeholder::Placeholder;

/// The file's name, in the root of a template. It is not part of the project.
pub(crate) const FILE: &str = "cargo-generate.toml";

/// The questions of a template, and the files that depend on the answers.
#[derive(Clone, Debug)]
pub struct Config {
    /// The questions, in order.
    pub placeholders: Vec<Placeholder>,
    /// The files and folders that are left out, by condition.
    ignored: Vec<(Option<Condition>, Vec<String>)>,
}

impl Config {
    /// Reads the configuration of the template in `folder`.
    ///
    /// # Errors
    /// If it can't be read, or has something that cargo-generate rejects or that is not supported
    /// here.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(Error::file(path))?;
        Self::parse(&text)
    }

    /// Parses the configuration in `text`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(text: &str) -> Result<Self, Error> {
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| Error::Config(error.to_string()))?;
        let (mut placeholders, mut ignored) = (Vec::new(), Vec::new());
        for (section, content) in &table {
            let content = content.as_table().ok_or_else(|| unknown(section))?;
            match section.as_str() {
                "template" => {
                    only(content, &["cargo_generate_version", "ignore"])?;
                    ignored.push((None, files(content)?));
                }
                "placeholders" => {
                    for (name, placeholder) in content {
                        placeholders.push(Placeholder::read(name, placeholder)?);
                    }
                }
                "conditional" => {
                    for (condition, content) in content {
                        let content = content.as_table().ok_or_else(|| unknown(condition))?;
                        only(content, &["ignore"])?;
                        ignored.push((Some(condition.parse()?), files(content)?));
                    }
                }
                other => return Err(unknown(other)),
            }
        }
        Ok(Self {
            placeholders,
            ignored,
        })
    }

    /// Returns the values of all placeholders for these answers.
    ///
    /// # Errors
    /// If an answer is invalid, missing without a default, or to an unknown question.
    pub fn values(&self, answers: &[(&str, &str)]) -> Result<Values, Error> {
        let given = |name: &str| answers.iter().find(|(known, _)| *known == name);
        if let Some((name, value)) = answers.iter().find(|(name, _)| {
            !self
                .placeholders
                .iter()
                .any(|placeholder| placeholder.name == *name)
        }) {
            return Err(Error::Answer {
                placeholder: (*name).to_owned(),
                value: (*value).to_owned(),
                why: "it is not asked".to_owned(),
            });
        }
        let values = self.placeholders.iter().map(|placeholder| {
            let value: Value = match given(&placeholder.name) {
                Some((_, answer)) => placeholder.parse(answer)?,
                None => placeholder
                    .default
                    .clone()
                    .ok_or_else(|| Error::MissingValue(placeholder.name.clone()))?,
            };
            Ok((placeholder.name.clone(), value))
        });
        values.collect()
    }

    /// Returns the files and folders that these answers leave out.
    ///
    /// # Errors
    /// If a condition is invalid.
    pub fn ignored(&self, values: &Values) -> Result<Vec<&str>, Error> {
        let mut ignored = Vec::new();
        for (condition, files) in &self.ignored {
            let holds = match condition {
                Some(condition) => condition.holds(values)?,
                None => true,
            };
            if holds {
                ignored.extend(files.iter().map(String::as_str));
            }
        }
        Ok(ignored)
    }

    /// Returns all files and folders that some answer leaves out.
    pub fn conditional_files(&self) -> impl Iterator<Item = &str> {
        self.ignored
            .iter()
            .flat_map(|(_, files)| files)
            .map(String::as_str)
    }
}

fn unknown(what: &str) -> Error {
    Error::Config(format!("`{what}` is not known here"))
}

fn only(table: &Table, known: &[&str]) -> Result<(), Error> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(other) => Err(unknown(other)),
        None => Ok(()),
    }
}

fn files(table: &Table) -> Result<Vec<String>, Error> {
    let Some(ignored) = table.get("ignore") else {
        return Ok(Vec::new());
    };
    let files = ignored.as_array().map(|files| {
        files
            .iter()
            .filter_map(Toml::as_str)
            .map(str::to_owned)
            .collect()
    });
    files.ok_or_else(|| Error::Config("`ignore` is a list of paths".to_owned()))
}
