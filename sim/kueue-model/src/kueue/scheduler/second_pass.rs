//! KEP-993: preemption waits for checks, and an assignment is looked at again before admission.

use std::collections::BTreeMap;

use crate::kueue::objects::{AdmissionCheck, State, Workload};

/// What is to be done for a Workload that has quota and is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Its checks go on.
    Wait,
    /// Others have to make room now.
    Preempt,
    /// It may be admitted.
    Admit,
    /// It fits nowhere any more.
    Lose,
}

/// Whether preemptions for this Workload may be issued: at once if every check says `Anytime`; else
/// as soon as some check asks, or all checks that are to pass first have passed.
pub(crate) fn preempts_now(workload: &Workload, checks: &BTreeMap<String, AdmissionCheck>) -> bool {
    let asked = workload
        .checks_in(State::PreemptionRequired)
        .next()
        .is_some();
    let entries = workload.status.admission_checks.iter();
    let waits_for = |name: &str| {
        checks
            .get(name)
            .is_some_and(AdmissionCheck::preempts_after_it_passed)
    };
    asked
        || entries
            .filter(|e| waits_for(&e.name))
            .all(|e| e.state == State::Ready)
}

/// The room that a Workload with quota has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreemptionOutcome {
    /// It is within the quota, beside what others have.
    Enough,
    /// Others could make room.
    Possible,
    /// Nobody could.
    None,
}

/// The rule of KEP-993. `preempts_now`: as [`preempts_now`] says.
pub(crate) fn next(preempts_now: bool, all_ready: bool, room: PreemptionOutcome) -> Next {
    match (room, all_ready) {
        (PreemptionOutcome::Enough, true) => Next::Admit,
        (PreemptionOutcome::Possible, true) => Next::Preempt,
        (PreemptionOutcome::None, true) => Next::Lose,
        (PreemptionOutcome::Possible, false) if preempts_now => Next::Preempt,
        (_, false) => Next::Wait,
    }
}

/// A preempted Workload's checks start anew: nothing is left of what they said.
pub(crate) fn clear_checks(workload: &mut Workload, now: jiff::Timestamp) {
    for check in &mut workload.status.admission_checks {
        if check.state != State::Pending {
            check.last_transition_time = crate::kueue::objects::whole_seconds(now);
        }
        check.state = State::Pending;
        check.message.clear();
        check.pod_set_updates.clear();
        check.retry_count = None;
    }
}
