//! The result of a list.

/// The content of a list: unknown before the first complete list, and never unknown again.
#[derive(Clone, Debug)]
pub(crate) enum Listed<T> {
    /// No list has completed. Contains the cause, if there is one.
    Unknown(Option<String>),
    /// The content of the last complete list, with later changes applied.
    Known(T),
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self::Unknown(None)
    }
}

impl<T> Listed<T> {
    /// Returns the content, once it is known.
    pub(crate) fn known(&self) -> Option<&T> {
        match self {
            Self::Unknown(_) => None,
            Self::Known(content) => Some(content),
        }
    }

    /// Returns why the content is unknown.
    pub(crate) fn problem(&self) -> Option<&str> {
        match self {
            Self::Unknown(problem) => problem.as_deref(),
            Self::Known(_) => None,
        }
    }

    /// Records why a list failed. Known content stays known.
    pub(crate) fn fail(&mut self, why: &str) {
        if let Self::Unknown(problem) = self {
            *problem = Some(why.to_owned());
        }
    }
}
