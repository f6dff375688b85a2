//! What a pass leads to.

use jiff::Timestamp;

use crate::kueue::objects::{CheckEntry, Workload};

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventKind {
    /// As the API writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    /// Normal or Warning.
    pub(crate) kind: EventKind,
    /// One word.
    pub(crate) reason: String,
    /// For people.
    pub(crate) text: String,
    /// Who says it.
    pub(crate) reporter: &'static str,
}

impl EventRecord {
    /// An event of the Normal kind.
    pub(crate) fn normal(
        reason: impl Into<String>,
        text: impl Into<String>,
        by: &'static str,
    ) -> Self {
        Self {
            kind: EventKind::Normal,
            reason: reason.into(),
            text: text.into(),
            reporter: by,
        }
    }

    /// An event of the Warning kind.
    pub(crate) fn warning(
        reason: impl Into<String>,
        text: impl Into<String>,
        by: &'static str,
    ) -> Self {
        Self {
            kind: EventKind::Warning,
            ..Self::normal(reason, text, by)
        }
    }
}

/// A write of the reconciler.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// What manager `kueue-admission` keeps, under the resourceVersion that was read.
    Admission(Box<Workload>),
    /// The list of checks, as an update of the status.
    Checks(Vec<CheckEntry>),
    /// The label of a Workload that has variants.
    LabelParent,
    /// `spec.active: false`.
    Deactivate,
    /// Kueue's finalizer goes.
    DropFinalizer,
}

/// What a pass leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// What is written.
    pub(crate) write: Option<Write>,
    /// What is told if the write succeeds.
    pub(crate) notes: Vec<EventRecord>,
    /// When to look again, if nothing changes before.
    pub(crate) again: Option<Timestamp>,
}

impl Outcome {
    /// The pass ends here.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// One write.
    pub(crate) fn write(write: Write) -> Self {
        Self {
            write: Some(write),
            ..Self::default()
        }
    }

    /// What manager `kueue-admission` keeps.
    pub(crate) fn admission(workload: Workload) -> Self {
        Self::write(Write::Admission(Box::new(workload)))
    }

    /// With an event.
    #[must_use]
    pub(crate) fn note(mut self, note: EventRecord) -> Self {
        self.notes.push(note);
        self
    }

    /// Nothing until then.
    pub(crate) fn wait_until(at: Timestamp) -> Self {
        Self {
            again: Some(at),
            ..Self::default()
        }
    }
}
