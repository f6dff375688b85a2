//! A project from a template.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heck::{ToKebabCase, ToSnakeCase};
use regex::Regex;

use crate::config::{Config, FILE};
use crate::engine::{Engine, Value};
use crate::error::Error;

/// The edition for rustfmt, that of all templates here.
const EDITION: &str = "2024";

/// A rendered project: its files by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its name, as in `Cargo.toml`.
    pub name: String,
    /// The files' texts.
    pub files: BTreeMap<PathBuf, String>,
}

/// Renders the project `name` from the template in `folder`, with these answers.
///
/// # Errors
/// If the template or an answer is invalid.
pub fn render(folder: &Path, name: &str, answers: &[(&str, &str)]) -> Result<Project, Error> {
    let config = Config::read(folder)?;
    let mut values = config.values(answers)?;
    let (project, krate) = names(name)?;
    values.insert("project-name".to_owned(), Value::Text(project.clone()));
    values.insert("crate_name".to_owned(), Value::Text(krate));
    let ignored = config.ignored(&values)?;
    let engine = Engine::new(&values).map_err(Error::Config)?;
    let mut files = BTreeMap::new();
    for path in all_files(folder, Path::new(""))? {
        if path == Path::new(FILE) || ignored.iter().any(|ignored| path.starts_with(ignored)) {
            continue;
        }
        let text = fs::read_to_string(folder.join(&path)).map_err(Error::file(&path))?;
        let problem = |problem| Error::Liquid {
            path: path.clone(),
            problem,
        };
        let rendered = engine.render(&text).map_err(problem)?;
        files.insert(path, rendered);
    }
    Ok(Project {
        name: project,
        files,
    })
}

impl Project {
    /// Reads the project `name` from `folder`.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn read(name: &str, folder: &Path) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        for path in all_files(folder, Path::new(""))? {
            let text = fs::read_to_string(folder.join(&path)).map_err(Error::file(&path))?;
            files.insert(path, text);
        }
        Ok(Self {
            name: name.to_owned(),
            files,
        })
    }

    /// Returns the files that differ, or are in one project only.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a Path> {
        let ours = self.files.keys().chain(other.files.keys());
        let mut paths: Vec<&Path> = ours
            .filter(|path| self.files.get(*path) != other.files.get(*path))
            .map(PathBuf::as_path)
            .collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Writes it into `folder`, with its Rust files formatted. Unchanged files are not touched, so
    /// that cargo rebuilds nothing.
    ///
    /// # Errors
    /// If it can't be written or formatted.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let fresh = folder.with_extension("new");
        remove(&fresh)?;
        for (path, text) in &self.files {
            write(&fresh.join(path), text)?;
        }
        let rust = self
            .files
            .keys()
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
        format(&rust.map(|path| fresh.join(path)).collect::<Vec<_>>())?;
        // Files left over from other answers.
        if folder.exists() {
            for path in all_files(folder, Path::new(""))? {
                if !self.files.contains_key(&path) {
                    fs::remove_file(folder.join(&path)).map_err(Error::file(&path))?;
                }
            }
        }
        for path in self.files.keys() {
            let text =
                fs::read_to_string(fresh.join(path)).map_err(Error::file(fresh.join(path)))?;
            let to = folder.join(path);
            if fs::read_to_string(&to).ok().as_ref() != Some(&text) {
                write(&to, &text)?;
            }
        }
        remove(&fresh)
    }
}

fn remove(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::file(folder))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
    }
    fs::write(path, text).map_err(Error::file(path))
}

/// Formats the files, as cargo-generate does since 0.26.
fn format(files: &[PathBuf]) -> Result<(), Error> {
    let output = Command::new("rustfmt")
        .args(["--edition", EDITION])
        .args(files)
        .output()
        .map_err(|error| Error::Format(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Format(
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

/// Returns the names of the project and of its crate. Snake case stays, everything else becomes
/// kebab case.
fn names(name: &str) -> Result<(String, String), Error> {
    let refuse = || Error::ProjectName(name.to_owned());
    let legal = Regex::new("^[a-zA-Z][a-zA-Z0-9_-]+$").map_err(|_| refuse())?;
    if !legal.is_match(name) {
        return Err(refuse());
    }
    let snake = name.to_snake_case();
    let project = if snake == name {
        snake.clone()
    } else {
        name.to_kebab_case()
    };
    Ok((project, snake))
}

/// Returns the files below `folder/within`, by their paths in `folder`.
fn all_files(folder: &Path, within: &Path) -> Result<Vec<PathBuf>, Error> {
    let place = folder.join(within);
    let mut found = Vec::new();
    for entry in fs::read_dir(&place).map_err(Error::file(&place))? {
        let entry = entry.map_err(Error::file(&place))?;
        let path = within.join(entry.file_name());
        let kind = entry.file_type().map_err(Error::file(entry.path()))?;
        if kind.is_dir() {
            found.extend(all_files(folder, &path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_s_name_is_written_as_cargo_generate_writes_it() {
        for (name, project, krate) in [
            ("seat-check", "seat-check", "seat_check"),
            ("seat_check", "seat_check", "seat_check"),
            ("SeatCheck", "seat-check", "seat_check"),
            ("seat", "seat", "seat"),
        ] {
            assert_eq!(
                names(name).unwrap(),
                (project.to_owned(), krate.to_owned()),
                "{name}"
            );
        }
        for name in ["", "9seats", "seat check", "-seat", "../seat"] {
            assert!(names(name).is_err(), "{name}");
        }
    }
}
