//! The Prometheus source, for any server with its query API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kueue_check_sources::{Http, HttpResponse, PrometheusClient, PrometheusServer, Sample, brief};

use super::{Source, SourceError, SourceWarning, SpendQuery, SpendReport};
use crate::ledger::Observation;
use crate::money::Amount;
use crate::resource::{PrometheusSource, Shape};

/// The label on the parts of the probe's response that do not describe the freshness metric.
const MARK: &str = "budget_check_probe";
/// A sample with the namespace and the mark.
type Spend = Sample<2>;
/// The seconds that a sample may be ahead of the queried time without a warning.
const SKEW: i64 = 60;
/// The maximum number of namespaces that a query names.
const NAMED: usize = 200;
/// The seconds for which Prometheus looks back for a sample.
const LOOK_BACK: u64 = 300;
/// The seconds before the period's beginning at which a sample proves that the history begins
/// earlier, if a gap is there. A range instead would read hours of raw samples for each query.
const EARLIER: [u64; 4] = [0, 3600, 3 * 3600, 6 * 3600];
/// The range in which a value of `freshnessBy` counts after its last sample, and the interval at
/// which samples are looked up there. It covers a gap of the series, and a restart of this process.
const FRESHNESS_RANGE: &str = "6h:15m";
/// The value of `MARK` on the sample at or before the period's beginning.
const START: &str = "start";
/// The value of `MARK` on the namespaces that have a sample now.
const CURRENT: &str = "current";

/// A source that queries a Prometheus server.
pub struct Prometheus {
    spec: PrometheusSource,
    label: String,
    client: PrometheusClient,
}

impl Prometheus {
    /// Creates the source of `spec`, whose results name the namespace in `label`.
    pub fn new(spec: PrometheusSource, label: String, http: Http) -> Self {
        let server = PrometheusServer {
            url: spec.url.clone(),
            auth: spec.auth.clone(),
            ca_file: spec.ca_file.clone(),
            allow_warnings: spec.allow_warnings.clone(),
        };
        let client = PrometheusClient::new(server, http);
        Self {
            spec,
            label,
            client,
        }
    }

    fn sample_seconds(&self) -> u64 {
        self.spec
            .sample_interval
            .map_or(60, |interval| Duration::from(interval).as_secs().max(1))
    }

    async fn query(&self, query: &str, at: Timestamp) -> Result<Vec<Spend>, SourceError> {
        self.client.query(query, at, [&self.label, MARK]).await
    }

    async fn fetch_report(&self, spend_query: SpendQuery) -> Result<SpendReport, SourceError> {
        let step = self.sample_seconds();
        let elapsed = spend_query.period.elapsed(spend_query.at);
        if elapsed < step {
            // `[0s]` is not a range. Nothing can have been spent yet.
            return Ok(SpendReport {
                observation: Observation::of(
                    spend_query.period,
                    spend_query.at.min(spend_query.period.start),
                ),
                notes: Vec::new(),
            });
        }
        let probe = probe(&self.spec, &self.label, &spend_query, elapsed);
        let probe = self.query(&probe, spend_query.at).await?;
        let freshness = Freshness::read(&probe, &self.spec, spend_query.at)?;
        let spent = self
            .query(
                &spend(&self.spec, &self.label, &spend_query, elapsed),
                spend_query.at,
            )
            .await?;
        read(&spent, freshness, &self.label, &spend_query)
    }

    /// Reads the report from two responses, without a request.
    ///
    /// # Errors
    /// See [`Source::query_spend`].
    #[doc(hidden)]
    pub fn read_responses(
        &self,
        spend_query: &SpendQuery,
        probe: &HttpResponse,
        spent: &HttpResponse,
    ) -> Result<SpendReport, SourceError> {
        let labels = [self.label.as_str(), MARK];
        let probe = self.client.read_vector(probe, labels)?;
        let freshness = Freshness::read(&probe, &self.spec, spend_query.at)?;
        let spent = self.client.read_vector(spent, labels)?;
        read(&spent, freshness, &self.label, spend_query)
    }
}

impl Source for Prometheus {
    fn query_spend(
        &self,
        spend_query: SpendQuery,
    ) -> BoxFuture<'_, Result<SpendReport, SourceError>> {
        self.fetch_report(spend_query).boxed()
    }

    fn step(&self) -> i64 {
        i64::try_from(self.sample_seconds()).unwrap_or(60)
    }
}

/// Returns the query for the spend in the `elapsed` seconds since the period began.
fn spend(spec: &PrometheusSource, label: &str, spend_query: &SpendQuery, elapsed: u64) -> String {
    let query = filled(&spec.query, spend_query, elapsed);
    match spec.shape {
        Shape::Rate => {
            let interval = spec
                .sample_interval
                .map_or(60, |interval| Duration::from(interval).as_secs().max(1));
            // Each sample stands for one interval. An average multiplied by hours would stretch a
            // job of an hour over the whole period.
            format!("sum by ({label}) (sum_over_time({query}[{elapsed}s])) * {interval} / 3600")
        }
        Shape::Counter => format!("sum by ({label}) (increase({query}[{elapsed}s]))"),
        Shape::PeriodToDate => query,
    }
}

/// Returns the probe query.
///
/// Its result has the newest sample of each raw metric, and whether one existed when the period
/// began or shortly before. It also has the namespaces of which the query has a sample now.
fn probe(spec: &PrometheusSource, label: &str, spend_query: &SpendQuery, elapsed: u64) -> String {
    let metric = &spec.freshness;
    let newest = |metric: &str| match &spec.freshness_by {
        None => format!("max(timestamp({metric}))"),
        Some(label) => {
            // The series of a target that is gone end at once, and others must not mask it.
            let newest = format!("max by ({label}) (timestamp({metric}))");
            format!("min({newest} or max_over_time({newest}[{FRESHNESS_RANGE}]))")
        }
    };
    let marked = |query: &str, mark: &str| {
        format!(" or label_replace({query}, \"{MARK}\", \"{mark}\", \"\", \"\")")
    };
    // Prometheus rejects an offset of zero, and looks back that far by itself.
    let back = match elapsed.saturating_sub(LOOK_BACK) {
        0 => String::new(),
        back => format!(" offset {back}s"),
    };
    let mut probe = newest(metric);
    probe += &marked(&format!("max(timestamp({metric}{back}))"), START);
    for earlier in EARLIER {
        let back = elapsed + earlier;
        probe += &marked(&format!("max(timestamp({metric} offset {back}s))"), START);
    }
    for (number, metric) in spec.also_fresh.iter().enumerate() {
        probe += &marked(&newest(metric), &number.to_string());
    }
    if spec.shape != Shape::PeriodToDate {
        // A dead recording rule has no sample now, but its past samples still have a sum.
        let query = filled(&spec.query, spend_query, elapsed);
        probe += &marked(&format!("max by ({label}) (timestamp({query}))"), CURRENT);
    }
    probe
}

fn filled(query: &str, spend_query: &SpendQuery, elapsed: u64) -> String {
    query
        .replace("{{elapsed}}", &elapsed.to_string())
        .replace(
            "{{periodStart}}",
            &spend_query.period.start.as_second().to_string(),
        )
        .replace("{{accounts}}", &accounts(&spend_query.namespaces))
}

/// Returns a regular expression of the namespaces. Names of namespaces need no escape, but are
/// escaped all the same.
fn accounts(namespaces: &[String]) -> String {
    if namespaces.is_empty() || namespaces.len() > NAMED {
        return ".*".to_owned();
    }
    let escape = |name: &String| -> String {
        name.chars()
            .flat_map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    vec![c]
                } else {
                    vec!['\\', '\\', c]
                }
            })
            .collect()
    };
    namespaces.iter().map(escape).collect::<Vec<_>>().join("|")
}

/// The result of the probe.
#[derive(Clone, Debug, PartialEq)]
struct Freshness {
    as_of: Timestamp,
    covered: bool,
    current: Option<BTreeSet<Arc<str>>>,
    skew: Option<i64>,
}

impl Freshness {
    /// Reads the result of the probe. `at` is the queried time.
    fn read(probe: &[Spend], spec: &PrometheusSource, at: Timestamp) -> Result<Self, SourceError> {
        let mut newest = newest_of(&spec.freshness, probe, None)?;
        for (number, metric) in spec.also_fresh.iter().enumerate() {
            let of_metric = newest_of(metric, probe, Some(&number.to_string()))?;
            newest = newest.min(of_metric);
        }
        let namespaces = marked(probe, Some(CURRENT)).filter_map(|sample| namespace(sample));
        let current = namespaces.cloned().collect();
        let ahead = newest.as_second() - at.as_second();
        Ok(Self {
            as_of: newest.min(at),
            covered: marked(probe, Some(START)).next().is_some(),
            current: (spec.shape != Shape::PeriodToDate).then_some(current),
            skew: (ahead > SKEW).then_some(ahead),
        })
    }
}

/// Returns the namespace of the sample.
fn namespace(sample: &Spend) -> Option<&Arc<str>> {
    sample.labels[0].as_ref()
}

/// Returns the samples with this mark; those without a mark for `None`.
fn marked<'a>(probe: &'a [Spend], mark: Option<&'a str>) -> impl Iterator<Item = &'a Spend> {
    let is = move |sample: &&Spend| sample.labels[1].as_deref() == mark;
    probe.iter().filter(is)
}

/// Returns the time of the newest sample of `metric`.
fn newest_of(metric: &str, probe: &[Spend], mark: Option<&str>) -> Result<Timestamp, SourceError> {
    let problem = |what: &str| SourceError::NotMeasured(format!("{} {what}", brief(metric)));
    let newest = marked(probe, mark).next().map(|sample| sample.value);
    let newest = newest.filter(|newest| newest.is_finite());
    let newest = newest.ok_or_else(|| problem("is missing"))?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "seconds since 1970; a float that is too large becomes the largest"
    )]
    Timestamp::from_second(newest as i64).map_err(|_| problem("has no possible time"))
}

/// Reads the report from the samples of the spend query.
fn read(
    spent: &[Spend],
    freshness: Freshness,
    label: &str,
    spend_query: &SpendQuery,
) -> Result<SpendReport, SourceError> {
    let mut observation = Observation {
        covered: freshness.covered,
        current: freshness.current,
        ..Observation::of(spend_query.period, freshness.as_of)
    };
    let mut notes = BTreeMap::new();
    let mut unlabelled = false;
    for sample in spent {
        let Some(namespace) = namespace(sample).cloned() else {
            // Pods outside of any namespace belong to no account. A single value comes from `or
            // vector(0)` or a missing grouping.
            unlabelled = true;
            continue;
        };
        let Some(amount) = Amount::measured(sample.value) else {
            notes.insert(
                format!("nan/{namespace}"),
                SourceWarning::NotANumber(namespace.to_string()),
            );
            observation.unknown.insert(namespace);
            continue;
        };
        if let Some(known) = observation.spent.get(&namespace).copied() {
            notes.insert(
                format!("twice/{namespace}"),
                SourceWarning::Duplicate(namespace.to_string()),
            );
            observation.spent.insert(namespace, known + amount);
        } else {
            observation.spent.insert(namespace, amount);
        }
    }
    for unknown in &observation.unknown {
        observation.spent.remove(unknown);
    }
    let mut notes: Vec<SourceWarning> = notes.into_values().collect();
    notes.extend(freshness.skew.map(SourceWarning::ClockSkew));
    if observation.spent.is_empty() && observation.unknown.is_empty() {
        if unlabelled {
            return Err(SourceError::WrongShape(
                "a vector without that label".to_owned(),
                label.to_owned(),
            ));
        }
        notes.push(SourceWarning::NoSpendMatched);
    }
    Ok(SpendReport { observation, notes })
}

pub(crate) fn validate(spec: &PrometheusSource) -> Result<(), (&'static str, String)> {
    PrometheusServer::validate_url(&spec.url).map_err(|problem| ("url", problem.to_owned()))?;
    let metrics = [("freshness", &spec.freshness)].into_iter();
    for (field, metric) in metrics.chain(spec.also_fresh.iter().map(|also| ("alsoFresh", also))) {
        if metric.split('{').next().unwrap_or_default().contains(':') {
            let problem = "a recording rule's samples are always fresh: name a raw metric";
            return Err((field, problem.to_owned()));
        }
    }
    match spec.shape {
        Shape::Rate if spec.sample_interval.is_none() => Err((
            "sampleInterval",
            "shape Rate needs it: how often the recording rule is evaluated".to_owned(),
        )),
        Shape::PeriodToDate
            if !spec.query.contains("{{elapsed}}") && !spec.query.contains("{{periodStart}}") =>
        {
            Err((
                "query",
                "shape PeriodToDate needs {{elapsed}} or {{periodStart}} in it".to_owned(),
            ))
        }
        _ => Ok(()),
    }
}
