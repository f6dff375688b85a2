//! The Datadog source: the metrics API as its documentation describes it. It has not been tried on
//! the live service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use kueue_check_sources::{
    Http, HttpRequest, HttpResponse, at_most, brief, check_status, secret_header,
};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::{Source, SourceError, SourceWarning, SpendQuery, SpendReport};
use crate::ledger::Observation;
use crate::money::Amount;
use crate::resource::DatadogSource;

const GROUP_LABELS: &str = "Datadog";
/// The size of the buckets in which values are summed, in seconds. A quarter of an hour divides
/// every zone's offset, and a week has 672 buckets (Datadog returns at most 1,500).
const BUCKET: i64 = 900;
/// The maximum number of namespaces in a response.
const NAMES: usize = 20_000;
/// The maximum number of buckets of each series: Datadog returns at most 1,500.
const POINTS: usize = 2_000;
/// The tag's value of data without the tag.
const NONE: &str = "N/A";
/// The seconds for which the probe looks back for a value.
const PROBE: i64 = 6 * 3600;
/// The size of the probe's buckets, in seconds: the finest of Datadog's near real time costs.
const PROBED: i64 = 300;

/// A source that queries Datadog.
pub struct Datadog {
    spec: DatadogSource,
    label: String,
    http: Http,
    /// Whether the site lacks the newer of the two APIs.
    only_v1: AtomicBool,
}

impl Datadog {
    /// Creates the source for the organisation of `spec`'s keys. Results name the namespace in the
    /// tag `label`.
    pub fn new(spec: DatadogSource, label: String, http: Http) -> Self {
        Self {
            spec,
            label,
            http,
            only_v1: AtomicBool::new(false),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<HttpResponse, SourceError> {
        let reply = self.send_once(method.clone(), path, body).await?;
        // Keys may have been rotated between their reading and their use.
        if matches!(reply.status.as_u16(), 401 | 403) {
            drop(reply);
            return self.send_once(method, path, body).await;
        }
        Ok(reply)
    }

    async fn send_once(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<HttpResponse, SourceError> {
        let credentials = self.http.servers();
        let base = self
            .spec
            .url
            .clone()
            .unwrap_or_else(|| format!("https://api.{}", self.spec.site));
        let url = format!("{}{path}", base.trim_end_matches('/'));
        let api = self.spec.api_key_file.as_deref();
        let api = api.unwrap_or("datadog/api-key");
        let api = credentials.read(api, &url).await?;
        let application = self.spec.app_key_file.as_deref();
        let application = application.unwrap_or("datadog/app-key");
        let application = credentials.read(application, &url).await?;
        let headers = vec![
            secret_header(HeaderName::from_static("dd-api-key"), &api)?,
            secret_header(HeaderName::from_static("dd-application-key"), &application)?,
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ];
        self.http
            .send(HttpRequest {
                who: GROUP_LABELS,
                method,
                url: &url,
                headers,
                body: body.to_owned(),
                ca_file: None,
                certificate: None,
            })
            .await
    }

    /// Queries one number for each namespace; `None` if the site lacks that API.
    async fn scalar(
        &self,
        spend_query: &SpendQuery,
    ) -> Result<Option<(BTreeMap<String, f64>, bool)>, SourceError> {
        let query = json!({"data_source": "metrics", "name": "spent", "query": summed(&self.spec.query, BUCKET), "aggregator": "sum"});
        let attributes = json!({
            "from": spend_query.period.start.as_millisecond(), "to": spend_query.at.as_millisecond(),
            "queries": [query], "formulas": [{"formula": "spent"}],
        });
        let body =
            json!({"data": {"type": "scalar_request", "attributes": attributes}}).to_string();
        let reply = self
            .send(Method::POST, "/api/v2/query/scalar", &body)
            .await?;
        if reply.status.as_u16() == 404 {
            self.only_v1.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Some((
            columns(&reply, &self.label)?,
            is_running_out(&reply.headers),
        )))
    }

    async fn series(
        &self,
        query: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(Vec<Series>, bool), SourceError> {
        let parameters = form_urlencoded::Serializer::new(String::new())
            .append_pair("from", &from.as_second().to_string())
            .append_pair("to", &to.as_second().to_string())
            .append_pair("query", query)
            .finish();
        let reply = self
            .send(Method::GET, &format!("/api/v1/query?{parameters}"), "")
            .await?;
        Ok((series(&reply)?, is_running_out(&reply.headers)))
    }

    async fn fetch_report(&self, spend_query: SpendQuery) -> Result<SpendReport, SourceError> {
        let mut observation = Observation::of(spend_query.period, spend_query.at);
        if spend_query.at <= spend_query.period.start {
            return Ok(SpendReport {
                observation,
                notes: Vec::new(),
            });
        }
        let from =
            Timestamp::from_second(spend_query.at.as_second() - PROBE).unwrap_or(spend_query.at);
        let (probe, mut slow) = self
            .series(&summed(&self.spec.freshness, PROBED), from, spend_query.at)
            .await?;
        observation.as_of = newest_of(&probe)?.min(spend_query.at);
        let scalar = if self.only_v1.load(Ordering::Relaxed) {
            None
        } else {
            self.scalar(&spend_query).await?
        };
        let amounts = if let Some((amounts, slow_too)) = scalar {
            slow |= slow_too;
            amounts
        } else {
            let (all, slow_too) = self
                .series(
                    &summed(&self.spec.query, BUCKET),
                    spend_query.period.start,
                    spend_query.at,
                )
                .await?;
            slow |= slow_too;
            sums(&all, &self.label)?
        };
        Ok(report(observation, amounts, slow))
    }

    /// Reads the report from two responses, without a request. `scalar` selects the API to which
    /// the second response belongs.
    ///
    /// # Errors
    /// See [`Source::query_spend`].
    #[doc(hidden)]
    pub fn read_responses(
        &self,
        spend_query: &SpendQuery,
        probe: &HttpResponse,
        spent: &HttpResponse,
        scalar: bool,
    ) -> Result<SpendReport, SourceError> {
        let mut observation = Observation::of(spend_query.period, spend_query.at);
        observation.as_of = newest_of(&series(probe)?)?.min(spend_query.at);
        let amounts = if scalar {
            columns(spent, &self.label)?
        } else {
            sums(&series(spent)?, &self.label)?
        };
        Ok(report(observation, amounts, is_running_out(&spent.headers)))
    }
}

/// Creates the report of the spend by namespace.
fn report(mut observation: Observation, amounts: BTreeMap<String, f64>, slow: bool) -> SpendReport {
    let mut notes = Vec::new();
    for (namespace, value) in amounts {
        let namespace: Arc<str> = namespace.into();
        if let Some(amount) = Amount::measured(value) {
            observation.spent.insert(namespace, amount);
        } else {
            notes.push(SourceWarning::NotANumber(namespace.to_string()));
            observation.unknown.insert(namespace);
        }
    }
    if observation.spent.is_empty() && observation.unknown.is_empty() {
        notes.push(SourceWarning::NoSpendMatched);
    }
    notes.extend(slow.then_some(SourceWarning::SlowDown));
    SpendReport { observation, notes }
}

/// Returns the start of the newest bucket of the freshness metric with a value.
fn newest_of(probe: &[Series]) -> Result<Timestamp, SourceError> {
    let newest = probe.iter().filter_map(Series::newest).max();
    newest.ok_or_else(|| {
        SourceError::NotMeasured(format!(
            "the freshness metric is older than {} h",
            PROBE / 3600
        ))
    })
}

impl Source for Datadog {
    fn query_spend(
        &self,
        spend_query: SpendQuery,
    ) -> BoxFuture<'_, Result<SpendReport, SourceError>> {
        self.fetch_report(spend_query).boxed()
    }

    fn step(&self) -> i64 {
        60
    }
}

/// Sums the values of `query` into buckets of `bucket` seconds; by default Datadog averages them.
fn summed(query: &str, bucket: i64) -> String {
    if query.contains(".rollup(") {
        query.to_owned()
    } else {
        format!("{query}.rollup(sum, {bucket})")
    }
}

/// Returns true if less than a tenth of the organisation's rate limit remains.
fn is_running_out(headers: &HeaderMap) -> bool {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    match (number("x-ratelimit-remaining"), number("x-ratelimit-limit")) {
        (Some(remaining), Some(limit)) => remaining.saturating_mul(10) < limit,
        _ => false,
    }
}

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<serde_json::Value>,
    #[serde(default)]
    error: String,
}

fn check(reply: &HttpResponse) -> Result<(), SourceError> {
    let message = || {
        let errors: Errors = serde_json::from_slice(&reply.body).unwrap_or(Errors {
            errors: Vec::new(),
            error: String::new(),
        });
        let all: Vec<String> = errors
            .errors
            .iter()
            .map(|error| {
                error
                    .as_str()
                    .map_or_else(|| error.to_string(), str::to_owned)
            })
            .collect();
        brief(&if all.is_empty() {
            errors.error
        } else {
            all.join("; ")
        })
    };
    match reply.status.as_u16() {
        400 => Err(SourceError::BadQuery(GROUP_LABELS, message())),
        422 => Err(SourceError::QueryFailed(GROUP_LABELS, message())),
        _ => check_status(GROUP_LABELS, reply),
    }
}

fn bad(error: &dyn std::fmt::Display) -> SourceError {
    SourceError::BadResponse(GROUP_LABELS, brief(&error.to_string()))
}

#[derive(Deserialize)]
struct Scalar {
    data: ScalarData,
}

#[derive(Deserialize)]
struct ScalarData {
    attributes: ScalarAttributes,
}

#[derive(Deserialize)]
struct ScalarAttributes {
    #[serde(deserialize_with = "at_most::<8, _, _>")]
    columns: Vec<Column>,
}

#[derive(Deserialize)]
struct Column {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(deserialize_with = "at_most::<NAMES, _, _>")]
    values: Vec<Cell>,
}

/// One value of a column.
#[derive(Deserialize)]
#[serde(untagged)]
enum Cell {
    Names(#[serde(deserialize_with = "at_most::<8, _, _>")] Vec<String>),
    Number(Option<f64>),
}

/// Reads a scalar response: one column of namespaces and one of numbers. A missing value counts as
/// zero.
fn columns(reply: &HttpResponse, label: &str) -> Result<BTreeMap<String, f64>, SourceError> {
    check(reply)?;
    let scalar: Scalar = serde_json::from_slice(&reply.body).map_err(|error| bad(&error))?;
    let wrong = |what: &str| SourceError::WrongShape(what.to_owned(), label.to_owned());
    let (mut names, mut numbers) = (None, None);
    for column in scalar.data.attributes.columns {
        match &*column.kind {
            "group" if column.name == label && names.is_none() => names = Some(column.values),
            "group" => return Err(wrong(&format!("grouped by {}", brief(&column.name)))),
            "number" if numbers.is_none() => numbers = Some(column.values),
            "number" => return Err(wrong("of several numbers")),
            kind => return Err(bad(&format_args!("a column of type `{kind}`"))),
        }
    }
    let Some(numbers) = numbers else {
        return Ok(BTreeMap::new());
    };
    if numbers.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names = names.ok_or_else(|| wrong("one number for all"))?;
    if names.len() != numbers.len() {
        return Err(bad(&"its columns have different lengths"));
    }
    let mut amounts: BTreeMap<String, f64> = BTreeMap::new();
    for pair in names.into_iter().zip(numbers) {
        let (Cell::Names(name), Cell::Number(number)) = pair else {
            return Err(bad(&"its columns have values of other types"));
        };
        if let Some(name) = name.into_iter().next().filter(|name| name != NONE) {
            *amounts.entry(name).or_default() += number.unwrap_or_default();
        }
    }
    Ok(amounts)
}

#[derive(Deserialize)]
struct Timeseries {
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default, deserialize_with = "at_most::<NAMES, _, _>")]
    series: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(default, deserialize_with = "at_most::<256, _, _>")]
    tag_set: Vec<String>,
    #[serde(default)]
    scope: String,
    pointlist: Points,
}

/// The aggregates of a series' points.
struct Points {
    sum: f64,
    /// The time of the last point with a value, in milliseconds since 1970.
    newest: Option<f64>,
}

impl<'de> Deserialize<'de> for Points {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let points: Vec<(f64, Option<f64>)> = at_most::<POINTS, _, _>(deserializer)?;
        let is_value = |(_, value): &&(f64, Option<f64>)| value.is_some_and(f64::is_finite);
        Ok(Self {
            sum: points.iter().filter_map(|(_, value)| *value).sum(),
            newest: points.iter().rev().find(is_value).map(|(at, _)| *at),
        })
    }
}

impl Series {
    /// Returns the start of the newest bucket with a value. The bucket may contain only the first
    /// of its values.
    fn newest(&self) -> Option<Timestamp> {
        let at = self.pointlist.newest?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "milliseconds since 1970; a float that is too large becomes the largest"
        )]
        let second = (at / 1000.0) as i64;
        Timestamp::from_second(second).ok()
    }

    fn tag(&self, label: &str) -> Option<&str> {
        let tags = self
            .tag_set
            .iter()
            .map(String::as_str)
            .chain(self.scope.split(','));
        tags.filter_map(|tag| tag.split_once(':'))
            .find(|(key, _)| *key == label)
            .map(|(_, value)| value)
    }
}

/// Reads a time series response. Datadog also returns 200 for failures; the body contains the
/// error.
fn series(reply: &HttpResponse) -> Result<Vec<Series>, SourceError> {
    check(reply)?;
    let response: Timeseries = serde_json::from_slice(&reply.body).map_err(|error| bad(&error))?;
    match response.error {
        Some(error) if !error.is_empty() => {
            Err(SourceError::QueryFailed(GROUP_LABELS, brief(&error)))
        }
        _ if response.status != "ok" => Err(SourceError::QueryFailed(
            GROUP_LABELS,
            brief(&format!("status {:?}", response.status)),
        )),
        _ => Ok(response.series),
    }
}

fn sums(all: &[Series], label: &str) -> Result<BTreeMap<String, f64>, SourceError> {
    // Data without a namespace is reported beside the rest. If no data has a namespace, the query
    // does not group by it.
    if !all.is_empty() && all.iter().all(|series| series.tag(label).is_none()) {
        let what = "not grouped by it".to_owned();
        return Err(SourceError::WrongShape(what, label.to_owned()));
    }
    let mut amounts: BTreeMap<String, f64> = BTreeMap::new();
    for series in all {
        let namespace = series.tag(label).filter(|namespace| *namespace != NONE);
        let Some(namespace) = namespace else { continue };
        *amounts.entry(namespace.to_owned()).or_default() += series.pointlist.sum;
    }
    Ok(amounts)
}

pub(crate) fn validate(spec: &DatadogSource, label: &str) -> Result<(), (&'static str, String)> {
    if !spec.query.contains(label) {
        return Err((
            "query",
            format!("it must be grouped `by {{{label}}}`, the account label"),
        ));
    }
    if spec.freshness.contains(" by {") {
        return Err(("freshness", "it must not be grouped".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
#[path = "datadog_tests.rs"]
mod tests;
