//! Sources of spend data.
//!
//! A query covers a period up to a time slightly in the past. The source returns the spend of each
//! namespace. A namespace that is missing in the response has spent nothing only if a probe of the
//! raw metric proves that spend is measured at all. A missing figure alone never counts as zero.

mod credentials;
mod datadog;
mod fixed;
mod prometheus;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kueue_check_sources::brief;

use crate::ledger::Observation;
use crate::money::Amount;
use crate::period::Period;
use crate::resource::{Correction, SourceSpec};

pub use credentials::{Credentials, CredentialsError};
pub use datadog::Datadog;
pub use fixed::Fixed;
pub use kueue_check_sources::{AllowedServer, Http, Origin, SourceError};
pub use prometheus::Prometheus;

/// A query to a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SpendQuery {
    /// The period whose spend is queried, from its start
    pub period: Period,
    /// up to this time.
    pub at: Timestamp,
    /// The governed namespaces, if the source should query no others; empty for all.
    pub namespaces: Vec<String>,
}

/// A usable response of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SpendReport {
    /// The reported spend.
    pub observation: Observation,
    /// The warnings about the response.
    pub notes: Vec<SourceWarning>,
}

/// A warning about a response that is usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceWarning {
    /// A namespace occurs several times, with different other labels. Its amounts were added.
    Duplicate(String),
    /// A namespace's figure is not an amount.
    NotANumber(String),
    /// The source's clock is ahead of the local clock by this many seconds.
    ClockSkew(i64),
    /// Spend is measured, but the source has no figure for any namespace.
    NoSpendMatched,
    /// Names that no namespace can have, which were left out.
    InvalidNames {
        /// The number of names.
        count: u64,
        /// One of them, escaped and cut.
        example: String,
    },
    /// A correction of the Budget was subtracted from a namespace's figure.
    Corrected {
        /// The namespace.
        namespace: String,
        /// The overstated amount.
        overstated: Amount,
        /// The author of the correction.
        by: String,
    },
    /// The source's rate limit is nearly exhausted.
    SlowDown,
}

impl SpendReport {
    /// Subtracts the corrections of the report's period.
    #[must_use]
    pub fn corrected(mut self, corrections: &[Correction]) -> Self {
        let period = self.observation.period;
        let now = corrections
            .iter()
            .filter(|one| one.period_start == period.start);
        for correction in now {
            let Some(spent) = self.observation.spent.get_mut(&*correction.namespace) else {
                continue;
            };
            *spent = spent.less(correction.overstated);
            self.notes.push(SourceWarning::Corrected {
                namespace: correction.namespace.clone(),
                overstated: correction.overstated,
                by: correction.by.clone(),
            });
        }
        self
    }

    /// Removes names that no namespace can have. Tenants can write them, and they would become
    /// accounts, events and labels of metrics.
    #[must_use]
    pub fn without_invalid_names(mut self) -> Self {
        let observation = &mut self.observation;
        let mut invalid: std::collections::BTreeSet<Arc<str>> = observation
            .spent
            .keys()
            .chain(&observation.unknown)
            .filter(|name| !is_namespace_name(name))
            .cloned()
            .collect();
        observation.spent.retain(|name, _| is_namespace_name(name));
        observation.unknown.retain(|name| is_namespace_name(name));
        self.notes.retain(|note| match note {
            SourceWarning::Duplicate(name) | SourceWarning::NotANumber(name) => {
                let valid = is_namespace_name(name);
                if !valid {
                    invalid.insert(name.as_str().into());
                }
                valid
            }
            _ => true,
        });
        if let Some(first) = invalid.first() {
            self.notes.push(SourceWarning::InvalidNames {
                count: u64::try_from(invalid.len()).unwrap_or(u64::MAX),
                example: brief(&format!("{first:?}")),
            });
        }
        self
    }
}

/// Returns true if a namespace can have this name: a label of RFC 1123.
fn is_namespace_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// A source of spend data.
pub trait Source: Send + Sync {
    /// Queries the source.
    fn query_spend(
        &self,
        spend_query: SpendQuery,
    ) -> BoxFuture<'_, Result<SpendReport, SourceError>>;

    /// Returns the seconds to which the queried time is rounded down.
    fn step(&self) -> i64 {
        1
    }
}

/// Creates the source that `spec` describes, which sends its requests with `http`.
pub fn source(spec: &SourceSpec, http: &Http) -> Arc<dyn Source> {
    let label = spec.account_label().to_owned();
    match spec {
        SourceSpec {
            prometheus: Some(prometheus),
            ..
        } => Arc::new(Prometheus::new(prometheus.clone(), label, http.clone())),
        SourceSpec {
            datadog: Some(datadog),
            ..
        } => Arc::new(Datadog::new(datadog.clone(), label, http.clone())),
        SourceSpec { fixed, .. } => Arc::new(Fixed::new(fixed.clone().unwrap_or_default())),
    }
}

/// Validates what the schema cannot: returns the invalid field and the problem.
pub(crate) fn validate(spec: &SourceSpec) -> Result<(), (String, String)> {
    if let Some(prometheus) = &spec.prometheus {
        prometheus::validate(prometheus)
            .map_err(|(field, problem)| (format!("prometheus.{field}"), problem))?;
    }
    if let Some(datadog) = &spec.datadog {
        datadog::validate(datadog, spec.account_label())
            .map_err(|(field, problem)| (format!("datadog.{field}"), problem))?;
    }
    Ok(())
}

/// Returns the time to query at `now`: `settle` ago, rounded down to `step` seconds.
pub fn moment(now: Timestamp, settle: Duration, step: i64) -> Timestamp {
    let settle = i64::try_from(settle.as_secs()).unwrap_or(i64::MAX);
    let second = now.as_second().saturating_sub(settle);
    Timestamp::from_second(second - second.rem_euclid(step.max(1))).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_of_a_query_lies_behind_and_is_aligned() {
        let now: Timestamp = "2026-11-21T09:03:47.9Z".parse().unwrap();
        for (settle, step, expected) in [
            (180, 60, "2026-11-21T09:00:00Z"),
            (0, 1, "2026-11-21T09:03:47Z"),
            (48, 60, "2026-11-21T09:02:00Z"),
        ] {
            assert_eq!(
                moment(now, Duration::from_secs(settle), step).to_string(),
                expected
            );
        }
    }
}
