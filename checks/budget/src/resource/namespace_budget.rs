//! The `NamespaceBudget` resource: a namespace's limit, top-ups and balance.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NamespaceBudgetStatus, TIME};
use crate::money::Amount;

/// The limit of one namespace in a Budget, instead of the one in the Budget. There should be at
/// most one for each Budget and namespace; the lowest of several applies. It has an effect only if
/// the Budget has `namespaceLimits`, which may be empty.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "budget.kueue-check.dev",
    version = "v1alpha1",
    kind = "NamespaceBudget",
    namespaced,
    shortname = "nsb",
    status = "NamespaceBudgetStatus",
    printcolumn = r#"{"name":"Budget","type":"string","jsonPath":".spec.budgetRef"}"#,
    printcolumn = r#"{"name":"Limit","type":"string","jsonPath":".status.limit"}"#,
    printcolumn = r#"{"name":"Spent","type":"string","jsonPath":".status.spent"}"#,
    printcolumn = r#"{"name":"Remaining","type":"string","jsonPath":".status.remaining"}"#,
    printcolumn = r#"{"name":"Used","type":"integer","jsonPath":".status.usedPercent","description":"Percent of the limit that is spent or committed"}"#,
    printcolumn = r#"{"name":"Held","type":"integer","jsonPath":".status.held","description":"Workloads that wait for money"}"#,
    printcolumn = r#"{"name":"Resets","type":"date","jsonPath":".status.period.end"}"#,
    printcolumn = r#"{"name":"As-of","type":"date","jsonPath":".status.asOf"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceBudgetSpec {
    /// The Budget's name.
    #[schemars(length(min = 1, max = 63))]
    pub budget_ref: String,
    /// The limit for each period. With the top-ups it is at most the Budget's
    /// `namespaceLimits.max`. Default: the Budget's limit for the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Amount>,
    /// Additions to the limit, each with an expiry. They raise it to at most the Budget's
    /// `namespaceLimits.max`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub top_ups: Vec<TopUp>,
}

/// An addition to a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopUp {
    /// The amount.
    pub amount: Amount,
    /// The time at which it expires.
    #[schemars(with = "String", extend("format" = "date-time", "pattern" = TIME))]
    pub valid_until: Timestamp,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub reason: String,
}

impl NamespaceBudgetSpec {
    /// Returns the sum of the top-ups that apply at `now`.
    pub fn topped_up(&self, now: Timestamp) -> Amount {
        self.top_ups
            .iter()
            .filter(|top_up| now < top_up.valid_until)
            .map(|top_up| top_up.amount)
            .sum()
    }
}
