//! The outcome of a reconcile pass: a write, events and the time of the next pass.

use jiff::Timestamp;

use crate::kueue::objects::{AdmissionCheckState, Workload};

/// The type of an event: Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// Expected operation.
    Normal,
    /// A problem that needs attention.
    Warning,
}

impl EventKind {
    /// Returns the name of the type in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    /// The type: Normal or Warning.
    pub(crate) kind: EventKind,
    /// The reason, one word.
    pub(crate) reason: String,
    /// The note for people.
    pub(crate) text: String,
    /// The reporting controller.
    pub(crate) reporter: &'static str,
}

impl EventRecord {
    /// Creates an event of type Normal.
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

    /// Creates an event of type Warning.
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
    /// The fields of field manager `kueue-admission`, with the `resourceVersion` read as
    /// precondition.
    Admission(Box<Workload>),
    /// The list of entries, as an update of the status.
    Checks(Vec<AdmissionCheckState>),
    /// The label of a Workload with variants.
    LabelParent,
    /// `spec.active: false`.
    Deactivate,
    /// The removal of Kueue's finalizer.
    DropFinalizer,
}

/// The outcome of a reconcile pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The write.
    pub(crate) write: Option<Write>,
    /// The events to publish if the write succeeds.
    pub(crate) notes: Vec<EventRecord>,
    /// The time of the next pass, if nothing changes before.
    pub(crate) again: Option<Timestamp>,
}

impl Outcome {
    /// Ends the pass without a write.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// Ends the pass with one write.
    pub(crate) fn write(write: Write) -> Self {
        Self {
            write: Some(write),
            ..Self::default()
        }
    }

    /// Ends the pass with a write of the fields of field manager `kueue-admission`.
    pub(crate) fn admission(workload: Workload) -> Self {
        Self::write(Write::Admission(Box::new(workload)))
    }

    /// Adds an event.
    #[must_use]
    pub(crate) fn note(mut self, note: EventRecord) -> Self {
        self.notes.push(note);
        self
    }

    /// Ends the pass without a write; the next one is at this time.
    pub(crate) fn wait_until(at: Timestamp) -> Self {
        Self {
            again: Some(at),
            ..Self::default()
        }
    }
}
