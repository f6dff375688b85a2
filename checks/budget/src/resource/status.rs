//! The status of Budgets, NamespaceBudgets and their accounts.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::money::Amount;

/// A period as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeriodStatus {
    /// Its first instant.
    #[schemars(extend("format" = "date-time"))]
    pub start: String,
    /// The first instant after it.
    #[schemars(extend("format" = "date-time"))]
    pub end: String,
}

/// The commitments: estimated spend after `asOf` of jobs that may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommittedStatus {
    /// By jobs that run.
    pub running: Amount,
    /// By jobs that may start.
    pub reserved: Amount,
    /// By jobs that have ended, whose last cost is not measured yet.
    pub settling: Amount,
}

/// The balance of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountStatus {
    /// The namespace, or the pool.
    pub name: String,
    /// Whether it is a pool of namespaces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pool: bool,
    /// The limit of the period, with the current top-ups.
    pub limit: Amount,
    /// The spend that the source has measured in this period, up to `asOf`.
    pub spent: Amount,
    /// The commitments on top of it.
    pub committed: CommittedStatus,
    /// The remaining amount.
    pub remaining: Amount,
    /// The amount by which spend exceeds the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overspent: Option<Amount>,
    /// Percent of the limit that is spent or committed.
    pub used_percent: u32,
    /// Workloads that wait for money.
    pub held: u32,
    /// The time at which the limit will have been spent if the running jobs continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub exhausted_at: Option<String>,
    /// The hourly cost of jobs without a maximum execution time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbounded_rate: Option<Amount>,
}

/// The status of a Budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// The generation of the spec to which the status applies.
    #[serde(default)]
    pub observed_generation: i64,
    /// The current period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<PeriodStatus>,
    /// The time up to which spend is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub as_of: Option<String>,
    /// The highest reported spend of this period, by namespace. A new process assumes no less,
    /// unless source, unit or period have changed. Of more than 4,096 namespaces, those with the
    /// highest spend.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(length(max = 4096))]
    pub spent: BTreeMap<String, Amount>,
    /// A digest of the source, unit and period to which `spent` belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// The sums over all namespaces that the budget governs, for the columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<AccountStatus>,
    /// The accounts with commitments, held Workloads or more than half of their limit used, fullest
    /// first. The others are in the metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub accounts: Vec<AccountStatus>,
    /// Ready, `LimitsKnown`, Fresh, `PricesComplete`, Exhausted, Overspent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The status of a NamespaceBudget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceBudgetStatus {
    /// The generation of the spec to which the status applies.
    #[serde(default)]
    pub observed_generation: i64,
    /// The current period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<PeriodStatus>,
    /// The time up to which spend is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub as_of: Option<String>,
    /// The balance.
    #[serde(flatten)]
    pub account: Option<AccountStatus>,
    /// Conflicting: the namespace has other NamespaceBudgets for the same Budget. Effective: the
    /// Budget has limits of single namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
