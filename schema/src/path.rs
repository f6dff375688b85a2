//! Paths in an object, printed only when they are reported.

use std::fmt;

/// A path in an object, as a chain up to the root.
///
/// ```
/// use kueue_check_schema::{FieldError, Path};
/// use serde_json::json;
///
/// let root = Path::root("spec");
/// let tiers = root.field("tiers");
/// let tier = tiers.index(2);
/// assert_eq!(tier.field("limit").to_string(), "spec.tiers[2].limit");
/// let error = FieldError::invalid(&tier.field("limit"), &json!(-1), "may not be negative");
/// assert_eq!(error.to_string(), "spec.tiers[2].limit: Invalid value: -1: may not be negative");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// The prefix of the path; may be empty.
    Root(&'a str),
    /// `.name`.
    Field(&'a str),
    /// `[name]`: a key of a map.
    Key(&'a str),
    /// `[0]`.
    Index(usize),
}

impl<'a> Path<'a> {
    /// Makes a root with a name, or without if it is empty.
    pub fn root(name: &'a str) -> Self {
        Self {
            parent: None,
            step: Step::Root(name),
        }
    }

    /// Returns the path of a field of the object at this path.
    #[must_use]
    pub fn field(&'a self, name: &'a str) -> Self {
        self.below(Step::Field(name))
    }

    /// Returns the path of a key of the map at this path, as some messages show it.
    #[must_use]
    pub fn key(&'a self, name: &'a str) -> Self {
        self.below(Step::Key(name))
    }

    /// Returns the path of an item of the list at this path.
    #[must_use]
    pub fn index(&'a self, index: usize) -> Self {
        self.below(Step::Index(index))
    }

    fn below(&'a self, step: Step<'a>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }

    /// Returns true if this is the object itself, and no path within it.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    fn is_empty(&self) -> bool {
        matches!((self.parent, self.step), (None, Step::Root("")))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root(name) => f.write_str(name),
            Step::Field(name) if self.parent.is_none_or(Path::is_empty) => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(name) => write!(f, "[{name}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_messages_show_them() {
        let root = Path::root("");
        let (spec, status) = (root.field("spec"), Path::root("status"));
        let list = spec.field("parts");
        assert_eq!(
            list.index(2).field("size").to_string(),
            "spec.parts[2].size"
        );
        assert_eq!(spec.key("a").to_string(), "spec[a]");
        assert_eq!(status.field("x").to_string(), "status.x");
        assert_eq!(root.to_string(), "");
    }
}
