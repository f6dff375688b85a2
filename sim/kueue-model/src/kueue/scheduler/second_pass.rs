//! KEP-993: preemption waits for checks, and the assignment is checked again before admission.

use std::collections::BTreeMap;

use crate::kueue::objects::{AdmissionCheck, State, Workload};

/// The next step for a Workload that holds quota and is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for its checks.
    Wait,
    /// Preempt other Workloads now.
    Preempt,
    /// Admit it.
    Admit,
    /// Release its quota: it no longer fits.
    Lose,
}

/// Returns true if preemptions for this Workload may be issued. If every check has policy
/// `Anytime`, that is at once. Otherwise a check must be in state PreemptionRequired, or all checks
/// that must pass first must be Ready.
pub(crate) fn preempts_now(workload: &Workload, checks: &BTreeMap<String, AdmissionCheck>) -> bool {
    let required = workload
        .checks_in(State::PreemptionRequired)
        .next()
        .is_some();
    let entries = workload.status.admission_checks.iter();
    let waits_for = |name: &str| {
        checks
            .get(name)
            .is_some_and(AdmissionCheck::preempts_after_it_passed)
    };
    required
        || entries
            .filter(|e| waits_for(&e.name))
            .all(|e| e.state == State::Ready)
}

/// The fit of a Workload with quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreemptionOutcome {
    /// It fits beside the usage of other Workloads.
    Enough,
    /// It would fit after preemptions.
    Possible,
    /// It would not fit even after preemptions.
    None,
}

/// Returns the next step by the rule of KEP-993. `preempts_now`: the result of [`preempts_now`].
pub(crate) fn next(preempts_now: bool, all_ready: bool, outcome: PreemptionOutcome) -> Next {
    match (outcome, all_ready) {
        (PreemptionOutcome::Enough, true) => Next::Admit,
        (PreemptionOutcome::Possible, true) => Next::Preempt,
        (PreemptionOutcome::None, true) => Next::Lose,
        (PreemptionOutcome::Possible, false) if preempts_now => Next::Preempt,
        (_, false) => Next::Wait,
    }
}

/// Resets the checks of a preempted Workload to Pending and clears their results.
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
