//! The decision about a Workload. Pure: no clock, no client, and independent of the kind of
//! request.

mod choose;
mod failure;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kueue_check::api::CheckState;

use crate::config::{AfterFailure, OnFailedAfterAdmission, ProvisioningRequestConfig};
use crate::request::{CapacityRequest, FailureCounts, Phase};

/// The message where no capacity is needed.
pub const NOT_NEEDED: &str = "the provisioning request is not needed";

/// How long a request may stay unaccepted before the check reports it: autoscalers ignore unknown
/// classes silently.
pub const UNHANDLED_TIMEOUT: Duration = Duration::from_mins(10);

/// The inputs of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The Workload's name.
    pub workload: &'a str,
    /// When the Workload was created.
    pub created: Option<Timestamp>,
    /// The AdmissionCheck's name.
    pub check: &'a str,
    /// The AdmissionChecks that the Workload needs, this one and others.
    pub checks: &'a [&'a str],
    /// The check's state.
    pub state: &'a CheckState,
    /// When the state was last changed.
    pub state_since: Option<Timestamp>,
    /// How often Kueue has requeued the Workload because of this check.
    pub retry_count: u32,
    /// The last attempt whose request was deleted when Kueue requeued, and the failures until then.
    pub tally: Option<(u32, FailureCounts)>,
    /// Since when quota is reserved.
    pub reserved: Timestamp,
    /// Whether the job is admitted.
    pub admitted: bool,
    /// Whether the Workload is a growth: it requests more pods for an elastic job that runs. A
    /// Retry would make Kueue evict the job, and Kueue counts no attempts of a growth.
    pub growth: bool,
    /// Whether any capacity is needed.
    pub needed: bool,
    /// The check's parameters.
    pub config: &'a ProvisioningRequestConfig,
    /// The parameters that a request must have.
    pub parameters: &'a BTreeMap<String, String>,
    /// All requests that the Workload owns.
    pub requests: &'a [Arc<CapacityRequest>],
    /// The requests of the pods that the job ran before it grew to this Workload.
    pub earlier: &'a [Arc<CapacityRequest>],
    /// The names of those of `requests` that are too small for the Workload, and what is missing.
    pub insufficient: &'a BTreeMap<Box<str>, String>,
    /// The time.
    pub now: Timestamp,
}

impl Facts<'_> {
    /// Returns true if the job runs with the capacity of this check.
    fn is_running(&self) -> bool {
        self.admitted && *self.state == CheckState::Ready
    }
}

/// The deletions and the step that follows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The requests to delete first: they are not needed.
    pub delete: Vec<Box<str>>,
    /// The step after the deletions.
    pub step: Step,
}

/// A verdict, or a request to create.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A request is created.
    Create(NewRequest),
    /// The check returns a verdict.
    Verdict {
        /// The verdict.
        result: CheckResult,
        /// The request that it is about. Its templates must belong to it.
        request: Option<Box<str>>,
    },
}

/// A request to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRequest {
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The failures of the attempts before it.
    pub tally: FailureCounts,
    /// The failed request that it replaces, which is deleted once this one exists.
    pub replaces: Option<Box<str>>,
}

/// The verdict of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The capacity exists, or none is needed.
    Ready {
        /// The message.
        message: String,
    },
    /// The capacity does not exist yet.
    Pending {
        /// The message.
        message: String,
        /// When to recheck, if nothing happens.
        recheck_in: Option<Duration>,
    },
    /// The current state stays.
    Unchanged {
        /// When to recheck, if nothing happens.
        recheck_in: Option<Duration>,
    },
    /// The attempt failed, and another one follows.
    Retry {
        /// How long Kueue waits before it evicts.
        delay: Duration,
        /// The message.
        message: String,
    },
    /// The attempt failed, and none follows.
    Rejected {
        /// The message.
        message: String,
    },
}

/// Decides on the deletions and the next step for a Workload.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let chosen = choose::choose(facts);
    let mut decision = Decision {
        delete: chosen.discard,
        step: verdict(CheckResult::Unchanged { recheck_in: None }, None),
    };
    if let Some(message) = revoked_earlier(facts) {
        decision.step = verdict(CheckResult::Rejected { message }, None);
        return decision;
    }
    if !facts.needed {
        let kept = chosen.kept.iter();
        decision
            .delete
            .extend(kept.map(|(request, _)| request.name.clone()));
        let message = NOT_NEEDED.to_owned();
        decision.step = verdict(CheckResult::Ready { message }, None);
        return decision;
    }
    decision.step = match chosen.kept {
        Some((request, attempt)) => follow(facts, request, attempt),
        None => begin(facts),
    };
    decision
}

/// Returns the provider's message about revoked capacity of the pods that ran before the job grew.
fn revoked_earlier(facts: &Facts<'_>) -> Option<String> {
    let mut earlier = facts.earlier.iter().filter(|_| facts.admitted);
    earlier.find_map(|request| match &request.phase {
        Phase::Revoked { message, .. } => Some(message.to_string()),
        _ => None,
    })
}

fn verdict(result: CheckResult, request: Option<&CapacityRequest>) -> Step {
    let request = request.map(|request| request.name.clone());
    Step::Verdict { result, request }
}

/// Returns the step if there is no request.
fn begin(facts: &Facts<'_>) -> Step {
    // A Ready check needs none: if the request was deleted, the capacity existed.
    if *facts.state != CheckState::Pending {
        return verdict(CheckResult::Unchanged { recheck_in: None }, None);
    }
    let attempt = facts.retry_count.saturating_add(1);
    let gave_back = facts.config.options.after_failure == AfterFailure::ReleaseQuota;
    if gave_back && facts.retry_count > 0 && !facts.admitted {
        // Kueue set the state to Pending when it evicted.
        let delay = facts.config.spec.retry_strategy.delay(facts.retry_count);
        let begin = failure::backoff_from(facts, facts.state_since.unwrap_or(facts.reserved));
        if let Some(wait) = remaining(begin, delay, facts.now) {
            let message = format!("attempt {attempt} begins at {:.0}", after(begin, delay));
            let recheck_in = Some(wait);
            return verdict(
                CheckResult::Pending {
                    message,
                    recheck_in,
                },
                None,
            );
        }
    }
    // After a restart, what has failed and left no record counts for both limits.
    let unknown = FailureCounts {
        errors: facts.retry_count,
        no_capacity: facts.retry_count,
    };
    let known = facts.tally.filter(|(last, _)| *last == facts.retry_count);
    Step::Create(NewRequest {
        attempt,
        tally: known.map_or(unknown, |(_, tally)| tally),
        replaces: None,
    })
}

/// Returns the step for an existing request, by its conditions in their order.
fn follow(facts: &Facts<'_>, request: &CapacityRequest, attempt: u32) -> Step {
    let step = |result| verdict(result, Some(request));
    let unchanged = CheckResult::Unchanged { recheck_in: None };
    if let Some(failure) = failure::of(facts, request) {
        let ignore = facts.config.options.failed_after_admission == OnFailedAfterAdmission::Ignore;
        if facts.admitted && ignore {
            return step(unchanged);
        }
        return failure::follow(facts, request, attempt, &failure);
    }
    match &request.phase {
        Phase::Revoked { message, .. } => step(CheckResult::Rejected {
            message: message.to_string(),
        }),
        Phase::Provisioned { message } => step(CheckResult::Ready {
            message: message.to_string(),
        }),
        // Failures were handled before; a booking that expires after admission is no failure.
        Phase::Failed { .. } | Phase::BookingExpired { .. } => step(unchanged),
        _ if facts.is_running() => step(unchanged),
        Phase::Waiting { message } => step(CheckResult::Pending {
            message: message.to_string(),
            recheck_in: timeout(facts, request),
        }),
        Phase::Accepted => step(CheckResult::Unchanged {
            recheck_in: timeout(facts, request),
        }),
        Phase::New => step(unhandled(facts, request)),
    }
}

/// Returns the result if no autoscaler has reported anything about `request`.
fn unhandled(facts: &Facts<'_>, request: &CapacityRequest) -> CheckResult {
    let time_left = remaining(request.created, UNHANDLED_TIMEOUT, facts.now);
    let message = match time_left {
        Some(_) => String::new(),
        None => format!(
            "no autoscaler has taken up the request for {} minutes: is there one for the class \"{}\"?",
            UNHANDLED_TIMEOUT.as_secs() / 60,
            request.class
        ),
    };
    let recheck_in = [time_left, timeout(facts, request)]
        .into_iter()
        .flatten()
        .min();
    CheckResult::Pending {
        message,
        recheck_in,
    }
}

/// Returns the remaining time until `request` times out.
fn timeout(facts: &Facts<'_>, request: &CapacityRequest) -> Option<Duration> {
    let timeout = facts.config.options.pending_timeout?;
    remaining(request.created, timeout, facts.now)
}

/// Returns the remaining part of `delay` since `begin`, or `None` if it has passed.
fn remaining(begin: Timestamp, delay: Duration, now: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(after(begin, delay).duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}

fn after(at: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    at.saturating_add(delay).unwrap_or(Timestamp::MAX)
}
