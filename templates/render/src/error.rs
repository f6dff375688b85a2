//! Errors in a template or in answers.

use std::io;
use std::path::PathBuf;

/// The reason why nothing was rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// `cargo-generate.toml` is invalid.
    #[error("cargo-generate.toml: {0}")]
    Config(String),
    /// An answer is invalid.
    #[error("`{value}` is not a valid value for {placeholder}: {why}")]
    Answer {
        /// The name of the placeholder.
        placeholder: String,
        /// The answer.
        value: String,
        /// The error in it.
        why: String,
    },
    /// A placeholder has no value and no default.
    #[error("{0} has no value and no default")]
    MissingValue(String),
    /// A file can't be rendered.
    #[error("{path}: {problem}")]
    Liquid {
        /// The file.
        path: PathBuf,
        /// Liquid's message.
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
    /// Returns a function that makes an error of the file `path`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
