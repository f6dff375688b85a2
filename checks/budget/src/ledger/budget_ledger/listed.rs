//! The result of a list.

/// What a list says: unknown before the first complete one, and never unknown again.
#[derive(Clone, Debug)]
pub(crate) enum Listed<T> {
    /// No list has been complete. With the cause, if one is known.
    Unknown(Option<String>),
    /// The content of the last complete list, with what has changed since.
    Known(T),
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self::Unknown(None)
    }
}

impl<T> Listed<T> {
    /// The content, once it is known.
    pub(crate) fn known(&self) -> Option<&T> {
        match self {
            Self::Unknown(_) => None,
            Self::Known(content) => Some(content),
        }
    }

    /// Why it is not known.
    pub(crate) fn problem(&self) -> Option<&str> {
        match self {
            Self::Unknown(problem) => problem.as_deref(),
            Self::Known(_) => None,
        }
    }

    /// Records why a list failed. What is known stays known.
    pub(crate) fn fail(&mut self, why: &str) {
        if let Self::Unknown(problem) = self {
            *problem = Some(why.to_owned());
        }
    }
}
