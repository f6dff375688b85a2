//! `spec.source`: where spend data comes from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::HumanDuration;
use kueue_check_sources::Auth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TIME;
use crate::money::Amount;

/// Where it is known what has been spent: exactly one of `prometheus`, `datadog` and `fixed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "[has(self.prometheus), has(self.datadog), has(self.fixed)].exists_one(x, x)", "message": "exactly one of prometheus, datadog and fixed must be set"}
]))]
pub struct SourceSpec {
    /// A Prometheus server, or one that speaks its query API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusSource>,
    /// Datadog's metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datadog: Option<DatadogSource>,
    /// Fixed amounts, for trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<FixedSource>,
    /// The label (or tag) of the result that names the namespace. Default: `namespace`; with Datadog `kube_namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    )]
    pub account_label: Option<String>,
    /// Figures that are wrong, and by how much: what is known never becomes less within a period by
    /// itself. A change begins the observation anew, and what was known before is forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub corrections: Vec<Correction>,
    /// How often to ask. Default: 1m; with Datadog 5m. At least 15s, with Datadog 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<HumanDuration>,
    /// How far behind the present to ask: at least the source's lag. Default: 3m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_delay: Option<HumanDuration>,
    /// How old the newest known spending may be before `onStale` applies. Default: 30m. Longer than `settleDelay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_bound: Option<HumanDuration>,
}

/// What the source reports of a namespace and was not spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// The namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The first instant of the period that it is about (`status.period.start`): it applies to no
    /// other.
    #[schemars(with = "String", extend("format" = "date-time", "pattern" = TIME))]
    pub period_start: Timestamp,
    /// What is subtracted from the namespace's figure, which does not become less than nothing.
    pub overstated: Amount,
    /// Who says so.
    #[schemars(length(min = 1, max = 128))]
    pub by: String,
    /// Why.
    #[schemars(length(min = 1, max = 256))]
    pub reason: String,
}

/// A Prometheus server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.shape != 'Rate' || has(self.sampleInterval)", "message": "shape Rate needs the sampleInterval of the recording rule"}
]))]
pub struct PrometheusSource {
    /// The server's address, without a path of the API: `https://prometheus.monitoring:9090`.
    #[schemars(length(min = 8, max = 512), regex(pattern = r"^https?://[^@?#\s]+$"))]
    pub url: String,
    /// What the query's result is.
    #[serde(default)]
    pub shape: Shape,
    /// For Rate and Counter a selector; for `PeriodToDate` a whole query with `{{elapsed}}`.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// How often the recording rule is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_interval: Option<HumanDuration>,
    /// The raw metric by whose newest sample it is known that spending is measured at all; never that of a recording rule.
    #[schemars(length(min = 1, max = 1024))]
    pub freshness: String,
    /// Further raw metrics from which spending is computed. Spending is known up to the newest sample
    /// of the one that is furthest behind, so that the part of an exporter that has failed does not
    /// count as nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 1024)))]
    pub also_fresh: Vec<String>,
    /// With several clusters or cost exporters: the label that tells them apart, so that one that is dead does not hide behind another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    )]
    pub freshness_by: Option<String>,
    /// How to be let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// A file with the certificates of the authorities to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub ca_file: Option<String>,
    /// Warnings in an answer that contain one of these are accepted. Others make it unusable, because it may be incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 3, max = 256)))]
    pub allow_warnings: Vec<String>,
}

/// What a query's result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Shape {
    /// A gauge of units in an hour, recorded each `sampleInterval`: each sample stands for one interval.
    #[default]
    Rate,
    /// A counter of units.
    Counter,
    /// What has been spent since the period began.
    PeriodToDate,
}

/// Datadog's metrics. Written from its documentation; it has not been tried on the live service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatadogSource {
    /// The site, such as `datadoghq.com` or `datadoghq.eu`.
    #[schemars(length(min = 4, max = 253), regex(pattern = r"^[a-z0-9.-]+$"))]
    pub site: String,
    /// The metric query, grouped by the account tag and nothing else, such as
    /// `sum:aws.cost.net.amortized.realtime.estimated{kube_cluster_name:x} by {kube_namespace}.as_count()`.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// The same without a grouping, by whose newest value it is known that spending is measured at all.
    #[schemars(length(min = 1, max = 4096))]
    pub freshness: String,
    /// A file with the API key, below the operator's folder of credentials. Default: `datadog/api-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub api_key_file: Option<String>,
    /// A file with the application key. Default: `datadog/app-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub app_key_file: Option<String>,
    /// The address of the API, where it is not `https://api.SITE`: a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 8, max = 512), regex(pattern = r"^https?://[^@?#\s]+$"))]
    pub url: Option<String>,
}

/// Fixed amounts, which are always fresh: for trials, and where only estimates are to be counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FixedSource {
    /// What each namespace has spent in the current period. Default: nothing.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub spent: BTreeMap<String, Amount>,
}
