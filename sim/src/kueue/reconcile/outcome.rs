//! What a pass leads to.

use jiff::Timestamp;

use crate::kueue::objects::{CheckEntry, Workload};

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl NoteKind {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Normal or Warning.
    pub kind: NoteKind,
    /// One word.
    pub reason: String,
    /// For people.
    pub text: String,
    /// Who says it.
    pub reporter: &'static str,
}

impl Note {
    /// An event of the Normal kind.
    pub fn normal(reason: impl Into<String>, text: impl Into<String>, by: &'static str) -> Self {
        Self {
            kind: NoteKind::Normal,
            reason: reason.into(),
            text: text.into(),
            reporter: by,
        }
    }

    /// An event of the Warning kind.
    pub fn warning(reason: impl Into<String>, text: impl Into<String>, by: &'static str) -> Self {
        Self {
            kind: NoteKind::Warning,
            ..Self::normal(reason, text, by)
        }
    }
}

/// A write of the reconciler.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// What manager `kueue-admission` keeps, under the resourceVersion that was read.
    Admission(Box<Workload>),
    /// The list of checks, as an update of the status.
    Checks(Vec<CheckEntry>),
    /// `spec.active: false`.
    Deactivate,
    /// Kueue's finalizer goes.
    DropFinalizer,
}

/// What a pass leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What is written.
    pub write: Option<Write>,
    /// What is told if the write succeeds.
    pub notes: Vec<Note>,
    /// When to look again, if nothing changes before.
    pub again: Option<Timestamp>,
}

impl Outcome {
    /// The pass ends here.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// One write.
    pub fn write(write: Write) -> Self {
        Self {
            write: Some(write),
            ..Self::default()
        }
    }

    /// What manager `kueue-admission` keeps.
    pub fn admission(workload: Workload) -> Self {
        Self::write(Write::Admission(Box::new(workload)))
    }

    /// With an event.
    #[must_use]
    pub fn note(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }

    /// Nothing until then.
    pub fn wait_until(at: Timestamp) -> Self {
        Self {
            again: Some(at),
            ..Self::default()
        }
    }
}
