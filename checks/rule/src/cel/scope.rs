//! The names that an expression may use and does use, and mistakes in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::SignedDuration;

use super::types::Type;

/// The names that expressions may use.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Variables, in the order of the values in an evaluation.
    pub variables: Vec<(String, Type)>,
    /// The types of `variables.NAME`, in that order too.
    pub declared: Vec<(String, Type)>,
    /// The resources that `object()` and `objects()` may name. `None`: any.
    pub resources: Option<BTreeSet<String>>,
    /// The setting that adds a resource, for messages; may be empty.
    pub resources_setting: String,
    /// The data sources, by name.
    pub sources: BTreeMap<String, SourceKind>,
}

/// A kind of data source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// `http(NAME)`.
    Http,
    /// `prometheus(NAME)`.
    Prometheus,
}

impl SourceKind {
    pub(super) fn function(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Prometheus => "prometheus",
        }
    }

    pub(super) fn kind(self) -> Type {
        match self {
            Self::Http => Type::Dyn,
            Self::Prometheus => Type::list(Type::object(
                "sample",
                [("labels", Type::map(Type::String)), ("value", Type::Double)],
            )),
        }
    }
}

/// A mistake in an expression, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

impl std::error::Error for Mistake {}

/// The data that an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The variables, by name.
    pub variables: BTreeSet<String>,
    /// The resources.
    pub resources: BTreeSet<String>,
    /// The data sources.
    pub sources: BTreeSet<String>,
    /// The longest duration in a call of `starting()`, if there is one.
    pub starting: Option<SignedDuration>,
}

/// Returns the line and the column, in characters, of the byte `at`.
pub(super) fn place(text: &str, at: u32) -> (usize, usize) {
    let before = text.get(..at as usize).unwrap_or(text);
    before.chars().fold((1, 1), |(line, column), c| match c {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    })
}
