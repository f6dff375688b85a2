//! The legend of colours.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use kueue_check::api::CheckState;

use super::bars::{phase_class, state_class};
use super::escape::Escaped;
use crate::timeline::{Phase, Timeline};

/// The legend: phases, then check states; unusual states only if they occur.
pub(super) struct Legend<'a>(pub(super) &'a Timeline);

impl Display for Legend<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<div class=\"legend\">\n<dl><dt class=\"heading\">Thick bars: the Workload</dt>\n",
        )?;
        for phase in Phase::ALL {
            entry(f, phase_class(phase), phase.as_str(), phase_meaning(phase))?;
        }
        f.write_str("</dl>\n<dl><dt class=\"heading\">Thin bars: its admission checks</dt>\n")?;
        for state in USUAL.iter().chain(self.unusual().into_values()) {
            entry(f, state_class(state), state.as_str(), state_meaning(state))?;
        }
        f.write_str("</dl>\n</div>\n")
    }
}

impl Legend<'_> {
    fn unusual(&self) -> BTreeMap<&str, &CheckState> {
        let lanes = self.0.tracks.iter().flat_map(|track| track.checks.values());
        let states = lanes.flatten().map(|span| &span.what);
        states
            .filter(|state| !USUAL.contains(state))
            .map(|state| (state.as_str(), state))
            .collect()
    }
}

const USUAL: [CheckState; 4] = [
    CheckState::Pending,
    CheckState::Ready,
    CheckState::Retry,
    CheckState::Rejected,
];

fn state_meaning(state: &CheckState) -> &'static str {
    match state {
        CheckState::Pending => "not decided; quota is held meanwhile",
        CheckState::Ready => "may run",
        CheckState::Retry => "not now: evicted, then queued again",
        CheckState::Rejected => "never: deactivated",
        CheckState::PreemptionRequired => "may run once others are preempted",
        _ => "a state that Kueue does not define",
    }
}

fn entry(f: &mut fmt::Formatter<'_>, class: &str, name: &str, meaning: &str) -> fmt::Result {
    writeln!(
        f,
        "<dt><svg class=\"key\" aria-hidden=\"true\"><g class=\"{class}\"><rect width=\"100%\" height=\"100%\"/></g></svg>{}</dt><dd>{meaning}</dd>",
        Escaped(name)
    )
}

fn phase_meaning(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "in the queue, no quota yet",
        Phase::QuotaReserved => "quota is held, checks decide",
        Phase::Running => "admitted: the job may run",
        Phase::Evicted => "stopped, quota is taken back",
        Phase::Deactivated => "stopped until a person brings it back",
        Phase::Finished => "the job is done",
    }
}
