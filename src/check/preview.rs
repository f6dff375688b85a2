//! Previews: a verdict without effects.

use super::{Message, Verdict};

/// A preview of a check for the command `explain`: see
/// [`AdmissionCheckController::preview`](super::AdmissionCheckController::preview).
///
/// ```
/// use kueue_check::{Preview, Verdict};
///
/// /// As in `preview` of a check that takes a licence when it is evaluated.
/// fn preview(free: u32) -> Preview {
///     if free > 0 { Preview::of(Verdict::ready("would take one")) } else { Preview::skipped("the licence server reports refusals only") }
/// }
///
/// assert!(preview(1).verdict().is_some_and(Verdict::is_ready));
/// assert_eq!(preview(0).verdict(), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Preview(pub(crate) PreviewOutcome);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PreviewOutcome {
    Verdict(Verdict),
    Skipped(Message),
}

impl Preview {
    /// Makes a preview: the check would return `verdict`.
    pub fn of(verdict: Verdict) -> Self {
        Self(PreviewOutcome::Verdict(verdict))
    }

    /// Makes a preview without a verdict: the check cannot be evaluated without effects, or not by
    /// this process. `why` has the reason, and what to read instead.
    pub fn skipped(why: impl Into<Message>) -> Self {
        Self(PreviewOutcome::Skipped(why.into()))
    }

    /// Makes the preview of a check that was not declared free of effects.
    pub(crate) fn has_side_effects() -> Self {
        Self::skipped("this check is not declared free of effects (`previewable`)")
    }

    /// Returns what the check would return; `None` if it was not evaluated.
    pub fn verdict(&self) -> Option<&Verdict> {
        match &self.0 {
            PreviewOutcome::Verdict(verdict) => Some(verdict),
            PreviewOutcome::Skipped(_) => None,
        }
    }
}

impl From<Verdict> for Preview {
    fn from(verdict: Verdict) -> Self {
        Self::of(verdict)
    }
}
