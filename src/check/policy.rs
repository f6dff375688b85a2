//! Policy: what an administrator sets for errors, waiting and admitted jobs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HumanDuration;

// Schemas quote the docs of these types for administrators. rustdoc alone shows their examples,
// which are for check authors.

/// The policy fields that every check's parameters should offer. Flatten them in:
///
/// ```
/// # use kueue_check::Policy;
/// #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema, Clone, Debug)]
/// struct BudgetSpec {
///     limit: f64,
///     #[serde(flatten)]
///     policy: Policy,
/// }
/// ```
///
/// and `#[derive(Parameters)]` finds the field named `policy`. An absent field leaves the choice to
/// [`Check::policy`](super::Check::policy). If that does not set it either, the default named here
/// holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// What to do when the check fails with errors for longer than `onErrorAfter`. Default: Hold. Errors never evict a running job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// How long errors must last. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error_after: Option<HumanDuration>,
    /// Bounds the time for which a Workload waits for this check and holds quota. Default: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_timeout: Option<PendingTimeout>,
    /// Limits on evictions of admitted jobs by this check. Default: those of its fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_admission: Option<AfterAdmission>,
}

/// What to do when errors last.
#[cfg_attr(any(doc, doctest), doc = "", doc = include_str!("policy/on_error.md"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnError {
    /// Wait, and hold the quota.
    #[default]
    Hold,
    /// Let the job start without a verdict.
    Admit,
    /// Release the quota and requeue the Workload.
    Retry,
}

/// Bounds the time of waiting, counted from the quota reservation; with Retry and Reject, from the
/// end of a Ready after it.
#[cfg_attr(any(doc, doctest), doc = "", doc = include_str!("policy/pending_timeout.md"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingTimeout {
    /// How long a Workload may wait.
    pub after: HumanDuration,
    /// What happens then.
    pub then: OnTimeout,
}

/// What happens when a Workload has waited too long.
#[cfg_attr(any(doc, doctest), doc = "", doc = include_str!("policy/on_timeout.md"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnTimeout {
    /// The job may start.
    Admit,
    /// The quota is released and the Workload is requeued, at once.
    Retry,
    /// The Workload is deactivated, and a person must restore it.
    Reject,
}

/// Limits on evictions of running jobs by a check (KEP-993: a check monitors the jobs that it
/// approved). A flapping data source must not evict the jobs of a whole cluster.
///
/// A check can evict a job when its Ready verdict set `recheck_in`, or when `onFailure: Evict` is
/// set here.
///
/// A job that runs and requests more pods (an elastic job, for which Kueue makes another Workload
/// that waits for the check) is evicted only if the administrator wrote `onFailure: Evict`.
/// Otherwise Retry and Rejected about the growth are written as Pending, because Kueue would stop
/// the whole job: also those of `onError` and `pendingTimeout`.
#[cfg_attr(any(doc, doctest), doc = "", doc = include_str!("policy/after_admission.md"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AfterAdmission {
    /// Whether Retry and Rejected stop a running job, or are only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// Number of consecutive failing verdicts before an eviction. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub consecutive: Option<u32>,
    /// The most running jobs that this check may stop in an hour. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub max_evictions_per_hour: Option<u32>,
}

/// What a failing check does to a running job.
#[cfg_attr(any(doc, doctest), doc = "", doc = include_str!("policy/on_failure.md"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// It is evicted: the verdict is written. Set by the administrator, this also holds for the
    /// growth of an elastic job.
    Evict,
    /// The job keeps running; an event and a metric report the failing verdict.
    Ignore,
}

/// A policy with every choice made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedPolicy {
    pub(crate) on_error: OnError,
    pub(crate) on_error_after: Duration,
    pub(crate) pending_timeout: Option<(Duration, OnTimeout)>,
    pub(crate) on_failure: Option<OnFailure>,
    /// Whether the administrator wrote `onFailure: Evict`, and not the check author.
    pub(crate) administrator_evicts: bool,
    pub(crate) consecutive: u32,
    pub(crate) max_evictions_per_hour: u32,
}

const ON_ERROR_AFTER: Duration = Duration::from_mins(10);
const CONSECUTIVE: u32 = 3;
const MAX_EVICTIONS_PER_HOUR: u32 = 10;

impl Policy {
    /// Returns the administrator's choices, then the check author's, then the defaults.
    pub(crate) fn resolve(administrator: Option<&Self>, author: &Self) -> ResolvedPolicy {
        let none = Self::default();
        let administrator = administrator.unwrap_or(&none);
        let (own, other) = (
            administrator.after_admission.unwrap_or_default(),
            author.after_admission.unwrap_or_default(),
        );
        let timeout = administrator.pending_timeout.or(author.pending_timeout);
        ResolvedPolicy {
            on_error: administrator
                .on_error
                .or(author.on_error)
                .unwrap_or_default(),
            on_error_after: administrator
                .on_error_after
                .or(author.on_error_after)
                .map_or(ON_ERROR_AFTER, Duration::from),
            pending_timeout: timeout.map(|timeout| (timeout.after.into(), timeout.then)),
            on_failure: own.on_failure.or(other.on_failure),
            administrator_evicts: own.on_failure == Some(OnFailure::Evict),
            consecutive: own
                .consecutive
                .or(other.consecutive)
                .unwrap_or(CONSECUTIVE)
                .max(1),
            max_evictions_per_hour: own
                .max_evictions_per_hour
                .or(other.max_evictions_per_hour)
                .unwrap_or(MAX_EVICTIONS_PER_HOUR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_for_administrators_mentions_no_rust_types() {
        let mut schema = schemars::schema_for!(Policy);
        // Flattened into a spec, the policy itself is not described.
        schema.remove("description");
        let schema = schema.to_value().to_string();
        assert!(schema.contains("What a failing check does to a running job"));
        assert!(
            !schema.contains("```") && !schema.contains("assert"),
            "{schema}"
        );
    }

    #[test]
    fn the_administrators_policy_precedes_the_authors_which_precedes_the_defaults() {
        let author: Policy = serde_json::from_value(serde_json::json!({
            "onError": "Admit", "afterAdmission": {"onFailure": "Ignore", "consecutive": 5},
        }))
        .unwrap();
        let administrator: Policy = serde_json::from_value(serde_json::json!({
            "onErrorAfter": "1h", "pendingTimeout": {"after": "2d", "then": "Retry"}, "afterAdmission": {"onFailure": "Evict"},
        }))
        .unwrap();
        let settled = Policy::resolve(Some(&administrator), &author);
        assert_eq!(
            (settled.on_error, settled.on_error_after),
            (OnError::Admit, Duration::from_hours(1))
        );
        assert_eq!(
            settled.pending_timeout,
            Some((Duration::from_hours(48), OnTimeout::Retry))
        );
        assert_eq!(
            (
                settled.on_failure,
                settled.consecutive,
                settled.max_evictions_per_hour
            ),
            (Some(OnFailure::Evict), 5, 10)
        );
        let defaults = Policy::resolve(None, &Policy::default());
        assert_eq!(
            (
                defaults.on_error,
                defaults.pending_timeout,
                defaults.on_failure,
                defaults.consecutive
            ),
            (OnError::Hold, None, None, 3)
        );
    }
}
