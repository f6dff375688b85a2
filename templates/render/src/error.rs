//! What can be wrong with a template, or with answers.

use std::io;
use std::path::PathBuf;

/// Why nothing was rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `cargo-generate.toml` is not as it should be.
    #[error("cargo-generate.toml: {0}")]
    Config(String),
    /// An answer is none.
    #[error("`{value}` is not a valid value for {placeholder}: {why}")]
    Answer {
        /// What was asked.
        placeholder: String,
        /// The answer.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something was not answered, and there is no default.
    #[error("{0} is not answered, and has no default")]
    Unanswered(String),
    /// A file can't be rendered.
    #[error("{path}: {problem}")]
    Liquid {
        /// Which.
        path: PathBuf,
        /// What liquid says.
        problem: String,
    },
    /// A project's name that is no name of a crate.
    #[error("`{0}` is not a project's name: expected a letter, then letters, digits, `-` and `_`")]
    ProjectName(String),
    /// Formatting failed.
    #[error("rustfmt: {0}")]
    Format(String),
}

impl Error {
    /// Of the file `path`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
