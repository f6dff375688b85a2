//! The decision after a failed request.

use std::time::Duration;

use jiff::Timestamp;
use kueue_check::HumanDuration;
use kueue_check::api::CheckState;

use super::{CheckResult, Facts, NewRequest, Step, after, remaining, verdict};
use crate::config::{AfterFailure, BackoffFrom, Limit};
use crate::request::{CapacityRequest, FailureCounts, FailureKind, Phase};

/// The advice for a growth whose attempts have all failed; the request's name follows.
const EITHER_OR: &str = "scale the job back, or begin again by deleting the request";

/// A failed request: the kind and time of the failure, and its messages.
pub(super) struct Failure {
    kind: FailureKind,
    at: Timestamp,
    /// What failed, for the message of a Retry.
    what: &'static str,
    message: String,
}

/// Returns the failure of `request` if it counts as failed, whatever the decision is.
pub(super) fn of(facts: &Facts<'_>, request: &CapacityRequest) -> Option<Failure> {
    match &request.phase {
        Phase::Failed { kind, at, message } => Some(Failure {
            kind: *kind,
            at: *at,
            what: "failure",
            message: message.to_string(),
        }),
        Phase::BookingExpired { at, message } if !facts.admitted => Some(Failure {
            kind: FailureKind::Error,
            at: *at,
            what: "booking expired",
            message: message.to_string(),
        }),
        // The job runs on without the growth, so it is not evicted.
        Phase::Revoked { at, message } if facts.growth && !facts.admitted => Some(Failure {
            kind: FailureKind::Error,
            at: *at,
            what: "capacity revoked",
            message: message.to_string(),
        }),
        Phase::New | Phase::Accepted | Phase::Waiting { .. } if !facts.admitted => {
            overdue(facts, request)
        }
        _ => None,
    }
}

/// Returns a failure if the pending timeout of `request` has passed.
fn overdue(facts: &Facts<'_>, request: &CapacityRequest) -> Option<Failure> {
    let timeout = facts.config.options.pending_timeout?;
    if remaining(request.created, timeout, facts.now).is_some() {
        return None;
    }
    let (kind, last) = match &request.phase {
        Phase::Waiting { message } => (FailureKind::NoCapacity, message.to_string()),
        Phase::Accepted => (FailureKind::Error, "accepted, and nothing since".to_owned()),
        _ => (
            FailureKind::Error,
            "no autoscaler has taken it up".to_owned(),
        ),
    };
    let timeout_text = HumanDuration::from(timeout);
    Some(Failure {
        kind,
        at: after(request.created, timeout),
        what: "timeout",
        message: format!("not provisioned in {timeout_text}: {last}"),
    })
}

/// Returns the step after `failure` of `request`, which is attempt number `attempt`.
pub(super) fn follow(
    facts: &Facts<'_>,
    request: &CapacityRequest,
    attempt: u32,
    failure: &Failure,
) -> Step {
    let tally = request.tally(attempt).plus(failure.kind);
    let mut message = failure.message.clone();
    if !may_follow(facts, attempt, tally, failure.kind) {
        if facts.growth {
            let name = &request.name;
            message = format!(
                "{message} (attempt {attempt}, and no other follows: {EITHER_OR} \"{name}\")"
            );
        }
        return verdict(CheckResult::Rejected { message }, Some(request));
    }
    let delay = facts.config.spec.retry_strategy.delay(attempt);
    let message = format!("Retrying after {}: {message}", failure.what);
    let dealt_with = waits_itself(facts) || is_dealt_with(facts, attempt, failure.at);
    if !dealt_with {
        let delay = match facts.config.options.after_failure {
            AfterFailure::Requeue | AfterFailure::KeepQuota => delay,
            AfterFailure::ReleaseQuota => Duration::ZERO,
        };
        return verdict(CheckResult::Retry { delay, message }, Some(request));
    }
    if let Some((due, wait)) = wait(facts, failure.at, delay) {
        let message = format!("{message} (the next attempt begins at {due:.0})");
        let recheck_in = Some(wait);
        return verdict(
            CheckResult::Pending {
                message,
                recheck_in,
            },
            Some(request),
        );
    }
    Step::Create(NewRequest {
        attempt: attempt.saturating_add(1),
        tally,
        replaces: Some(request.name.clone()),
    })
}

/// Returns true if the check itself waits between two attempts, without a Retry for Kueue.
fn waits_itself(facts: &Facts<'_>) -> bool {
    let keeps = facts.config.options.after_failure == AfterFailure::KeepQuota;
    (keeps || facts.growth) && !facts.admitted
}

/// Returns true if Kueue has already evicted because of this failure. Then the next attempt is due,
/// not another Retry.
///
/// Kueue ≥ 0.15 counts retries. It resets the count when it evicts for another reason. Then a
/// failure from before the reservation has been handled.
fn is_dealt_with(facts: &Facts<'_>, attempt: u32, failed_at: Timestamp) -> bool {
    let counted = facts.retry_count >= attempt;
    let reset = facts.retry_count == 0 && failed_at < facts.reserved;
    *facts.state == CheckState::Pending && (counted || reset)
}

/// Returns the end of the backoff and the remaining time, if this check itself waits for it.
fn wait(facts: &Facts<'_>, failed_at: Timestamp, delay: Duration) -> Option<(Timestamp, Duration)> {
    let waits = match facts.config.options.after_failure {
        _ if waits_itself(facts) => true,
        // Kueue has waited if it has counted a retry.
        AfterFailure::Requeue => facts.retry_count == 0,
        AfterFailure::ReleaseQuota | AfterFailure::KeepQuota => true,
    };
    let begin = backoff_from(facts, failed_at);
    let left = remaining(begin, delay, facts.now).filter(|_| waits)?;
    Some((after(begin, delay), left))
}

/// Returns the start of a backoff that would count from `eviction`.
pub(super) fn backoff_from(facts: &Facts<'_>, eviction: Timestamp) -> Timestamp {
    match facts.config.options.backoff_from {
        BackoffFrom::Eviction => eviction,
        BackoffFrom::Creation => facts.created.unwrap_or(eviction),
    }
}

/// Returns true if one more attempt may follow.
fn may_follow(facts: &Facts<'_>, attempt: u32, tally: FailureCounts, kind: FailureKind) -> bool {
    let options = &facts.config.options;
    let configured = facts.config.spec.retry_strategy.backoff_limit_count;
    let configured = Limit::AtMost(u32::try_from(configured).unwrap_or_default());
    let limit = options.backoff_limit.unwrap_or(configured);
    match (options.no_capacity_limit, kind) {
        (None, _) => limit.allows(attempt),
        (Some(own), FailureKind::NoCapacity) => own.allows(tally.no_capacity),
        (Some(_), FailureKind::Error) => limit.allows(tally.errors),
    }
}
