//! Validation of a Budget beyond its schema.

use std::time::Duration;

use kueue_check::HumanDuration;

use super::{BudgetSpec, Invalid};

/// The shortest duration in a Budget, and the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(400 * 86_400);
/// The shortest query interval of a source.
const INTERVAL: Duration = Duration::from_secs(15);
const DATADOG_INTERVAL: Duration = Duration::from_secs(60);

impl BudgetSpec {
    /// Validates the spec beyond its schema.
    ///
    /// # Errors
    /// Returns the invalid field, and what to do.
    pub fn check(&self) -> Result<(), Invalid> {
        self.period.schedule()?;
        self.check_durations()?;
        self.check_source()?;
        if self.namespace_limits.is_none() && self.pools.is_empty() {
            return Err(Invalid::new(
                "spec.namespaceLimits",
                "it or pools must be set: else nothing has a budget",
            ));
        }
        for (number, pool) in self.pools.iter().enumerate() {
            let field = format!("spec.pools[{number}].namespaceSelector");
            crate::config::Selector::new(&pool.namespace_selector)
                .map_err(|problem| Invalid::new(field, problem))?;
        }
        crate::config::ExemptTerms::new(&self.exempt)?;
        let safety = self.estimate.safety_factor;
        if safety.is_some_and(|factor| {
            factor < "0.5".parse().unwrap_or_default() || factor > crate::money::Amount::units(100)
        }) {
            return Err(Invalid::new(
                "spec.estimate.safetyFactor",
                "expected 0.5 to 100",
            ));
        }
        Ok(())
    }

    fn check_durations(&self) -> Result<(), Invalid> {
        let source = &self.source;
        let sample = source
            .prometheus
            .as_ref()
            .and_then(|prometheus| prometheus.sample_interval);
        let all: [(&str, Option<HumanDuration>); 10] = [
            ("spec.period.every", self.period.every),
            ("spec.source.interval", source.interval),
            ("spec.source.settleDelay", source.settle_delay),
            ("spec.source.stalenessBound", source.staleness_bound),
            ("spec.source.prometheus.sampleInterval", sample),
            (
                "spec.estimate.defaultDuration",
                self.estimate.default_duration,
            ),
            (
                "spec.estimate.overrunHorizon",
                self.estimate.overrun_horizon,
            ),
            ("spec.onExhausted.every", self.on_exhausted.every),
            ("spec.onExhausted.max", self.on_exhausted.max),
            ("spec.onOverspent.grace", self.on_overspent.grace),
        ];
        for (field, duration) in all {
            if duration
                .is_some_and(|duration| !(SHORTEST..=LONGEST).contains(&Duration::from(duration)))
            {
                return Err(Invalid::new(field, "expected a duration from 1s to 400d"));
            }
        }
        Ok(())
    }

    fn check_source(&self) -> Result<(), Invalid> {
        let source = &self.source;
        let kinds = [
            source.prometheus.is_some(),
            source.datadog.is_some(),
            source.fixed.is_some(),
        ];
        if kinds.iter().filter(|is_set| **is_set).count() != 1 {
            return Err(Invalid::new(
                "spec.source",
                "exactly one of prometheus, datadog and fixed must be set",
            ));
        }
        if source.settle_delay() >= source.staleness_bound() {
            return Err(Invalid::new(
                "spec.source.stalenessBound",
                "it must be longer than settleDelay, or spending is always stale",
            ));
        }
        let least = if source.datadog.is_some() {
            DATADOG_INTERVAL
        } else {
            INTERVAL
        };
        if source.interval() < least {
            return Err(Invalid::new(
                "spec.source.interval",
                format!("at least {}", HumanDuration::from(least)),
            ));
        }
        crate::source::validate(source)
            .map_err(|(field, problem)| Invalid::new(format!("spec.source.{field}"), problem))
    }
}

impl super::SourceSpec {
    /// Returns the query interval.
    pub fn interval(&self) -> Duration {
        let default = if self.datadog.is_some() {
            Duration::from_mins(5)
        } else {
            Duration::from_mins(1)
        };
        self.interval.map_or(default, Duration::from)
    }

    /// Returns the delay of the queried time behind the present.
    pub fn settle_delay(&self) -> Duration {
        let default = if self.fixed.is_some() {
            Duration::ZERO
        } else {
            Duration::from_mins(3)
        };
        self.settle_delay.map_or(default, Duration::from)
    }

    /// Returns the maximum age of the newest spend data.
    pub fn staleness_bound(&self) -> Duration {
        self.staleness_bound
            .map_or(Duration::from_mins(30), Duration::from)
    }

    /// Returns true if the source is queried with credentials.
    pub fn has_credentials(&self) -> bool {
        let auth = self.prometheus.as_ref().map(|source| &source.auth);
        self.datadog.is_some() || auth.is_some_and(Option::is_some)
    }

    /// Returns the label of the result that names the namespace.
    pub fn account_label(&self) -> &str {
        let default = if self.datadog.is_some() {
            "kube_namespace"
        } else {
            "namespace"
        };
        self.account_label.as_deref().unwrap_or(default)
    }
}
