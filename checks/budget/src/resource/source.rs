//! `spec.source`: the source of spend data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::HumanDuration;
use kueue_check_sources::Auth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TIME;
use crate::money::Amount;

/// The source of spend data: exactly one of `prometheus`, `datadog` and `fixed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "[has(self.prometheus), has(self.datadog), has(self.fixed)].exists_one(x, x)", "message": "exactly one of prometheus, datadog and fixed must be set"}
]))]
pub struct SourceSpec {
    /// A Prometheus server, or another server with its query API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusSource>,
    /// Datadog's metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datadog: Option<DatadogSource>,
    /// Fixed amounts, for trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<FixedSource>,
    /// The label (or tag) of the result that names the namespace. Default: `namespace`; with
    /// Datadog `kube_namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    )]
    pub account_label: Option<String>,
    /// Corrections of wrong figures. Without them recorded spend never decreases within a period. A
    /// change resets the spend data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub corrections: Vec<Correction>,
    /// The query interval. Default: 1m; with Datadog 5m. At least 15s, with Datadog 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<HumanDuration>,
    /// The delay of the queried time behind the present: at least the source's lag. Default: 3m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_delay: Option<HumanDuration>,
    /// The maximum age of the newest spend data; `onStale` applies beyond it. Default: 30m. Longer
    /// than `settleDelay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_bound: Option<HumanDuration>,
}

/// A correction: an amount that the source reports for a namespace but that was not spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// The namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The first instant of the period to which it applies (`status.period.start`). It applies to
    /// no other period.
    #[schemars(with = "String", extend("format" = "date-time", "pattern" = TIME))]
    pub period_start: Timestamp,
    /// The amount to subtract from the namespace's figure, which does not fall below zero.
    pub overstated: Amount,
    /// The author of the correction.
    #[schemars(length(min = 1, max = 128))]
    pub by: String,
    /// The reason.
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
    /// The server's address, without an API path: `https://prometheus.monitoring:9090`.
    #[schemars(length(min = 8, max = 512), regex(pattern = r"^https?://[^@?#\s]+$"))]
    pub url: String,
    /// The kind of the query's result.
    #[serde(default)]
    pub shape: Shape,
    /// The query. For Rate and Counter a selector; for `PeriodToDate` a whole query with
    /// `{{elapsed}}` or `{{periodStart}}`.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// The interval at which the recording rule is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_interval: Option<HumanDuration>,
    /// A raw metric whose newest sample proves that spend is measured at all; never that of a
    /// recording rule.
    #[schemars(length(min = 1, max = 1024))]
    pub freshness: String,
    /// Further raw metrics from which spend is computed. Spend is known up to the newest sample of
    /// the metric that is furthest behind. So a failed part of an exporter does not count as zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 1024)))]
    pub also_fresh: Vec<String>,
    /// With several clusters or cost exporters: the label that distinguishes them, so that a live
    /// one does not mask a dead one. A value that has had samples for a quarter of an hour counts
    /// until it has had none for 6 h: `stalenessBound` must be shorter. Its values must survive a
    /// restart of the exporter, as those of `instance` and `pod` may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    )]
    pub freshness_by: Option<String>,
    /// How to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// A file with the certificates of the authorities to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub ca_file: Option<String>,
    /// Warnings in a response that contain one of these are accepted. Others make it unusable,
    /// because it may be incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 3, max = 256)))]
    pub allow_warnings: Vec<String>,
}

/// The kind of a query's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Shape {
    /// A gauge of units per hour, recorded each `sampleInterval`. Each sample stands for one
    /// interval.
    #[default]
    Rate,
    /// A counter of units.
    Counter,
    /// The spend since the period began.
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
    /// The query without a grouping. Its newest value proves that spend is measured at all.
    #[schemars(length(min = 1, max = 4096))]
    pub freshness: String,
    /// A file with the API key, below the deployment's folder of credentials. Default:
    /// `datadog/api-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub api_key_file: Option<String>,
    /// A file with the application key. Default: `datadog/app-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub app_key_file: Option<String>,
    /// The address of the API if it is not `https://api.SITE`, such as that of a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 8, max = 512), regex(pattern = r"^https?://[^@?#\s]+$"))]
    pub url: Option<String>,
}

/// Fixed amounts, which are always fresh: for trials, and for Budgets that count only estimates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FixedSource {
    /// The spend of each namespace in the current period. Default: zero.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub spent: BTreeMap<String, Amount>,
}
