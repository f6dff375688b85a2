//! The forecast of a check, in words. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::api::{AdmissionCheckState, CheckState};
use crate::check::{HumanDuration, OnTimeout, ReleaseReason, ResolvedPolicy};
use crate::runtime::preview::{Forecast, ForecastOutcome};
use crate::runtime::{
    CheckPhase, Conclusion, EntryPatch, NextEvaluation, Notice, Outcome, Suppression, waits_since,
};

/// The forecast of a check.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all_fields = "camelCase", tag = "result")]
pub(super) enum CheckForecast {
    /// There is nothing to decide now.
    NothingToDecide { why: String },
    /// It could not be evaluated with these parameters.
    Inactive { reason: String, message: String },
    /// It cannot be evaluated without effects, or something that it needs could not be read.
    Declined {
        why: String,
        waits_at_most: Option<Bound>,
    },
    /// It returned a verdict.
    Evaluated {
        verdict: String,
        message: String,
        follows: ForecastEffects,
        waits_at_most: Option<Bound>,
    },
    /// It failed.
    Failed {
        error: String,
        follows: ForecastEffects,
        waits_at_most: Option<Bound>,
    },
}

/// The effects that the running program would have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ForecastEffects {
    /// The entry that it would write; none if that is the present state.
    pub(super) writes: Option<Written>,
    /// Notes for the reader.
    pub(super) notes: Vec<String>,
    pub(super) recheck: ForecastRecheck,
}

/// An entry as it would be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    pub(super) state: String,
    pub(super) message: String,
    pub(super) requeue_after_seconds: Option<u32>,
    /// The pod sets that would be changed.
    pub(super) pod_set_updates: Vec<String>,
}

/// When the program evaluates again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "when", rename_all_fields = "camelCase")]
pub(super) enum ForecastRecheck {
    /// When the Workload, the parameters or what the check watches changes.
    OnChange,
    /// Then too, and after this time at the latest.
    After { seconds: u64 },
    /// Then too, and with exponential backoff.
    AfterBackoff { at_most_seconds: Option<u64> },
}

/// How long a Workload may wait (`pendingTimeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bound {
    pub(super) until: Timestamp,
    /// What happens then.
    pub(super) then: &'static str,
}

/// Returns `forecast` in words. `reserved` is the time of the quota reservation, and `entry` the
/// check's entry in the Workload.
pub(super) fn check_forecast(
    forecast: Forecast,
    reserved: Option<Timestamp>,
    entry: Option<&AdmissionCheckState>,
) -> CheckForecast {
    let Forecast { foreseen, policy } = forecast;
    let waits_at_most = bound(policy.as_ref(), reserved, entry);
    match foreseen {
        ForecastOutcome::Silent(phase) => CheckForecast::NothingToDecide {
            why: silence(phase).to_owned(),
        },
        ForecastOutcome::Inactive { reason, message } => CheckForecast::Inactive {
            reason,
            message: message.as_str().to_owned(),
        },
        ForecastOutcome::Skipped(why) => CheckForecast::Declined {
            why: why.as_str().to_owned(),
            waits_at_most,
        },
        ForecastOutcome::Evaluated {
            outcome,
            conclusion,
            lost_updates,
        } => {
            let mut follows = follows(&conclusion, policy.as_ref());
            follows.notes.extend(lost_updates);
            match outcome {
                Outcome::Verdict(verdict) => CheckForecast::Evaluated {
                    verdict: verdict.kind.as_str().to_owned(),
                    message: verdict.message().to_owned(),
                    follows,
                    waits_at_most,
                },
                Outcome::Failed { message, .. }
                | Outcome::Conflict { message }
                | Outcome::Blocked { message, .. } => CheckForecast::Failed {
                    error: message.as_str().to_owned(),
                    follows,
                    waits_at_most,
                },
            }
        }
    }
}

/// Returns why there is nothing to decide.
fn silence(phase: CheckPhase) -> &'static str {
    match phase {
        CheckPhase::AwaitingVerdict | CheckPhase::Admitted => "its reservation is unknown",
        CheckPhase::AwaitingReset => {
            "the check has returned Retry or Rejected, and Kueue has yet to act on it"
        }
        CheckPhase::PodsRemain => {
            "pods of the job are being stopped, or have passed to another Workload of it"
        }
        CheckPhase::Ended { why, .. } => match why {
            ReleaseReason::QuotaLost => {
                "the Workload holds no quota; checks are evaluated when it is reserved"
            }
            ReleaseReason::Evicted => {
                "the Workload is evicted; checks are evaluated when quota is reserved again"
            }
            ReleaseReason::Finished => "the Workload is finished",
            ReleaseReason::Deactivated => {
                "the Workload is deactivated; checks are evaluated when quota is reserved again"
            }
            ReleaseReason::Deleted => "the Workload is being deleted",
            _ => "the check is not evaluated for this Workload",
        },
    }
}

fn follows(conclusion: &Conclusion, policy: Option<&ResolvedPolicy>) -> ForecastEffects {
    let seconds = |delay: Duration| delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    ForecastEffects {
        writes: conclusion.write.as_ref().map(written),
        notes: conclusion
            .notes
            .iter()
            .filter_map(|noted| note(noted, policy))
            .collect(),
        recheck: match conclusion.next_evaluation {
            NextEvaluation::OnChange => ForecastRecheck::OnChange,
            NextEvaluation::After(delay) | NextEvaluation::UntilAdmitted(delay) => {
                ForecastRecheck::After {
                    seconds: seconds(delay),
                }
            }
            NextEvaluation::Backoff { at_most } => ForecastRecheck::AfterBackoff {
                at_most_seconds: at_most.map(seconds),
            },
        },
    }
}

fn written(patch: &EntryPatch) -> Written {
    Written {
        state: patch.state.as_str().to_owned(),
        message: patch.message.as_str().to_owned(),
        requeue_after_seconds: patch.requeue_after_seconds,
        pod_set_updates: patch
            .updates
            .as_slice()
            .iter()
            .map(|update| update.name.clone())
            .collect(),
    }
}

fn note(note: &Notice, policy: Option<&ResolvedPolicy>) -> Option<String> {
    match note {
        Notice::StateChanged { .. } => None,
        Notice::Suppression {
            why: Suppression::Growth,
            ..
        } => Some(
            "the job runs, and this Workload only requests more pods for it: Retry and Rejected, by which Kueue would stop the whole job, are written as Pending, \
             unless the parameters say `afterAdmission.onFailure: Evict`"
                .to_owned(),
        ),
        Notice::Suppression { .. } => {
            let (consecutive, most) =
                policy.map_or((1, 0), |policy| (policy.consecutive, policy.max_evictions_per_hour));
            Some(format!(
                "the job runs: `afterAdmission` suppresses the eviction until {consecutive} failing verdicts in a row, and after {most} evictions in an hour; a check \
                 whose Ready sets no recheck evicts no job"
            ))
        }
        Notice::PreemptionNotSupported(_) => {
            Some("it requires preemption, which this Kueue does not support".to_owned())
        }
        Notice::UpdatesFrozen => Some(
            "it returns other pod set updates than the present ones, which Kueue rejects while the state is Ready".to_owned(),
        ),
        Notice::PolicyApplied(policy) => Some(format!("by the parameters' {}", policy.field())),
    }
}

fn bound(
    policy: Option<&ResolvedPolicy>,
    reserved: Option<Timestamp>,
    entry: Option<&AdmissionCheckState>,
) -> Option<Bound> {
    let (after, then) = policy?.pending_timeout?;
    let (reserved, entry) = (reserved?, entry?);
    if *entry.state() == CheckState::Ready {
        return None;
    }
    Some(Bound {
        until: later(waits_since(entry, reserved, then)?, after.as_secs())?,
        then: match then {
            OnTimeout::Admit => "Admit",
            OnTimeout::Retry => "Retry",
            OnTimeout::Reject => "Reject",
        },
    })
}

/// Returns `seconds` as people write them.
pub(super) fn human(seconds: u64) -> String {
    HumanDuration::from(Duration::from_secs(seconds)).to_string()
}

/// Returns the time `seconds` after `at`.
pub(super) fn later(at: Timestamp, seconds: u64) -> Option<Timestamp> {
    let delay = jiff::SignedDuration::from_secs(i64::try_from(seconds).ok()?);
    at.checked_add(delay).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Workload;
    use crate::check::{PendingTimeout, Policy};

    #[test]
    fn the_bound_of_waiting_is_that_of_the_runtime() {
        let time = |text: &str| -> Timestamp { format!("2026-11-21T{text}:00Z").parse().unwrap() };
        for (state, since, then, until) in [
            ("Ready", "09:00", OnTimeout::Reject, None),
            ("Pending", "09:00", OnTimeout::Reject, Some("10:00")),
            ("Pending", "12:00", OnTimeout::Reject, Some("13:00")),
            ("Pending", "12:00", OnTimeout::Admit, Some("10:00")),
            ("Pending", "08:00", OnTimeout::Retry, Some("10:00")),
        ] {
            let since = time(since).to_string();
            let entry = json!({"name": "c", "state": state, "lastTransitionTime": since});
            let workload = Workload::from_json(json!({
                "metadata": {"namespace": "n", "name": "w", "uid": "u", "resourceVersion": "1"},
                "status": {"admissionChecks": [entry]},
            }));
            let policy = Policy {
                pending_timeout: Some(PendingTimeout {
                    after: Duration::from_secs(3600).into(),
                    then,
                }),
                ..Policy::default()
            };
            let policy = Policy::resolve(Some(&policy), &Policy::default());
            let workload = workload.unwrap();
            let bound = bound(Some(&policy), Some(time("09:00")), workload.check("c"));
            assert_eq!(
                bound.map(|bound| bound.until),
                until.map(time),
                "{state} {since}"
            );
        }
    }
}
