//! The validation of a `CELCheck` beyond its schema.

use std::collections::BTreeSet;
use std::time::Duration;

use kueue_check_sources::PrometheusServer;

use super::resource::CELCheckSpec;
use super::rule::{Environment, Rule};
use crate::bounds::within;

/// The largest valid `maxBytes`.
const MOST_BYTES: u32 = 1024 * 1024;

impl CELCheckSpec {
    /// Validates what a schema cannot express. The deployment's server policy is checked later.
    pub(super) fn check(&self) -> Result<(), String> {
        let day = Duration::from_hours(24);
        within(
            "recheckAfter",
            self.recheck_after,
            Duration::from_secs(1),
            day,
        )?;
        let longest = Duration::from_secs(i32::MAX.unsigned_abs().into());
        within("retryAfter", self.retry_after, Duration::ZERO, longest)?;
        unique(
            "variables",
            self.variables.iter().map(|variable| variable.name.as_str()),
        )?;
        unique("data", self.data.iter().map(|source| source.name.as_str()))?;
        let names = self.pod_set_updates.iter();
        let names = names.map(|template| template.name.as_deref().unwrap_or_default());
        unique("podSetUpdates", names)?;
        for (index, source) in self.data.iter().enumerate() {
            let field = |name: &str| format!("data[{index}].{name}");
            within(
                &field("interval"),
                source.interval,
                Duration::from_secs(5),
                day,
            )?;
            within(&field("maxAge"), source.max_age, source.interval(), 7 * day)?;
            within(
                &field("timeout"),
                source.timeout,
                Duration::from_millis(100),
                Duration::from_mins(1),
            )?;
            if source
                .max_bytes
                .is_some_and(|most| !(1..=MOST_BYTES).contains(&most))
            {
                return Err(format!(
                    "`spec.{}` must be from 1 to {MOST_BYTES}",
                    field("maxBytes")
                ));
            }
            match (&source.prometheus, &source.http) {
                (Some(query), None) => PrometheusServer::validate_url(&query.url)
                    .map_err(|problem| format!("`spec.{}`: {problem}", field("prometheus.url")))?,
                (None, Some(query)) => {
                    let address = query.url.split('?').next().unwrap_or_default();
                    let valid = PrometheusServer::validate_url(address).map_err(str::to_owned);
                    let valid = valid.and_then(|()| {
                        query
                            .url
                            .parse::<http::Uri>()
                            .map_err(|error| error.to_string())
                    });
                    valid.map_err(|problem| format!("`spec.{}`: {problem}", field("http.url")))?;
                    if query.body.is_some() && query.body_expression.is_some() {
                        return Err(format!(
                            "`spec.{}`: a request has either body or bodyExpression",
                            field("http")
                        ));
                    }
                    query.path().map_err(|problem| {
                        format!("`spec.{}`: {problem}", field("http.jsonPath"))
                    })?;
                }
                _ => {
                    return Err(format!(
                        "`spec.data[{index}]`: a data source is either prometheus or http"
                    ));
                }
            }
        }
        Rule::new(self, &Environment::default()).map_err(|problem| problem.to_string())?;
        Ok(())
    }
}

fn unique<'n>(field: &str, names: impl Iterator<Item = &'n str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("`spec.{field}` has `{name}` twice"));
        }
    }
    Ok(())
}
