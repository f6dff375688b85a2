//! Failures that are stored until an evaluation returns them.

use kueue_check::{CheckError, ErrorKind};

/// The error of the last request, which returned no verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// Whether an evaluation has returned it.
    pub(crate) delivered: bool,
}

impl Failure {
    pub(crate) fn of(error: &CheckError) -> Self {
        Self {
            kind: error.kind(),
            message: error.to_string(),
            delivered: false,
        }
    }

    pub(crate) fn transient(message: String) -> Self {
        Self {
            kind: ErrorKind::Transient,
            message,
            delivered: false,
        }
    }

    pub(crate) fn error(&self) -> CheckError {
        let message = self.message.clone();
        match self.kind {
            ErrorKind::Throttled { after } => CheckError::throttled(after, message),
            ErrorKind::Parameters => CheckError::parameters(message),
            ErrorKind::Permanent => CheckError::permanent(message),
            _ => CheckError::transient(message),
        }
    }
}
