//! The `Budget` resource, to which an AdmissionCheck refers.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use kueue_check::{HumanDuration, Parameters, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BudgetStatus, PeriodSpec, SourceSpec};
use crate::money::Amount;

/// The limits of namespaces in a period, the prices of resources, and the source of spend data.
#[derive(
    CustomResource, Parameters, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "budget.kueue-check.dev",
    version = "v1alpha1",
    kind = "Budget",
    shortname = "bgt",
    status = "BudgetStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Limit","type":"string","jsonPath":".status.total.limit"}"#,
    printcolumn = r#"{"name":"Spent","type":"string","jsonPath":".status.total.spent"}"#,
    printcolumn = r#"{"name":"Remaining","type":"string","jsonPath":".status.total.remaining"}"#,
    printcolumn = r#"{"name":"Held","type":"integer","jsonPath":".status.total.held"}"#,
    printcolumn = r#"{"name":"Resets","type":"date","jsonPath":".status.period.end"}"#,
    printcolumn = r#"{"name":"As-of","type":"date","jsonPath":".status.asOf"}"#,
    printcolumn = r#"{"name":"Fresh","type":"string","jsonPath":".status.conditions[?(@.type=='Fresh')].status","priority":1}"#
)]
#[parameters(validate = BudgetSpec::check)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.namespaceLimits) || has(self.pools)", "message": "namespaceLimits or pools must be set: else nothing has a budget"}
]))]
pub struct BudgetSpec {
    /// The unit that is spent: an ISO 4217 code or any word, such as `GPU-hours`. Never converted.
    #[schemars(
        length(min = 1, max = 16),
        regex(pattern = r"^[A-Za-z][A-Za-z0-9_./-]*$")
    )]
    pub unit: String,
    /// The period for which a limit applies.
    pub period: PeriodSpec,
    /// The source of spend data.
    pub source: SourceSpec,
    /// The limits of single namespaces; NamespaceBudgets change them. Without it single namespaces
    /// have no limits, and NamespaceBudgets have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_limits: Option<NamespaceLimits>,
    /// Limits that several namespaces share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<Pool>,
    /// The prices of resources. For each resource the first entry applies whose `flavor` matches
    /// and which names the resource.
    #[schemars(length(min = 1, max = 64))]
    pub prices: Vec<Price>,
    /// How a job's cost is estimated.
    #[serde(default)]
    pub estimate: EstimateSpec,
    /// How limits are enforced.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// The order in which remaining money is allocated.
    #[serde(default)]
    pub admit_order: AdmitOrder,
    /// The percentages of a limit at which to warn. Default: 80 and 95.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(range(min = 1, max = 1000)))]
    pub warn_at_percent: Option<Vec<u32>>,
    /// The jobs that are never held.
    #[serde(default)]
    pub exempt: Exempt,
    /// The action while spend data is older than `source.stalenessBound`. Default: Hold.
    #[serde(default)]
    pub on_stale: HoldOrAdmit,
    /// The action while the source has no figures of the period's beginning, because its history is
    /// shorter or was lost. The spend of that time does not count. Default: Hold.
    #[serde(default)]
    pub on_uncovered: HoldOrAdmit,
    /// The action for a job that costs more than one job may, or more than the whole limit.
    /// Default: Reject.
    #[serde(default)]
    pub on_too_large: OnTooLarge,
    /// The action for a job that uses a resource without a price. A price of 0 marks a resource as
    /// free. Default: Hold.
    #[serde(default)]
    pub on_unpriced: OnUnpriced,
    /// The action for a job whose namespace has no limit and is in no pool: it waits, or it starts
    /// and counts nowhere. Default: Hold, because a namespace that loses its labels leaves its
    /// pool.
    #[serde(default)]
    pub on_ungoverned: HoldOrAdmit,
    /// The action while no further job fits.
    #[serde(default)]
    pub on_exhausted: OnExhausted,
    /// The action when more than the limit has been spent.
    #[serde(default)]
    pub on_overspent: OnOverspent,
    /// Whether the pods of jobs that start are annotated with the estimate:
    /// `budget.kueue-check.dev/NAME: 88.00 USD`, where NAME is that of this Budget. A job whose own
    /// template has that annotation with another value waits, and its message states the reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mark_pods: bool,
    /// How a process without history starts. Default: `WaitForSource`.
    #[serde(default)]
    pub takeover: Takeover,
    /// The policy options of every check.
    #[serde(flatten)]
    pub policy: Policy,
}

/// The limits of single namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceLimits {
    /// The limit of each namespace that is not listed in `namespaces`. Without it, those namespaces
    /// have no limit of their own, and `onUngoverned` applies to those in no pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Amount>,
    /// The maximum of what NamespaceBudgets grant a namespace: their `limit` and `topUps` together.
    /// It does not lower the Budget's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Amount>,
    /// Namespaces with a limit of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub namespaces: Vec<NamespaceLimit>,
}

/// The limit of one namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceLimit {
    /// The namespace.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its limit.
    pub limit: Amount,
}

/// A limit that several namespaces share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its limit.
    pub limit: Amount,
    /// The selector of its namespaces.
    pub namespace_selector: LabelSelector,
}

/// The prices of a flavor's resources for an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// The ResourceFlavor, or `*` for any.
    #[schemars(length(min = 1, max = 253))]
    pub flavor: String,
    /// The price of one unit of each resource for an hour. The unit of memory, huge pages and
    /// ephemeral storage is the GiB.
    #[schemars(length(min = 1, max = 32))]
    pub resources: BTreeMap<String, Amount>,
}

/// How a job's cost is estimated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EstimateSpec {
    /// The assumed duration of a job without `maximumExecutionTimeSeconds`. Default: 4h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_duration: Option<HumanDuration>,
    /// How much longer such a job is expected to run once it has run that long. Default: 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun_horizon: Option<HumanDuration>,
    /// The factor of estimates, because pods can use more than they request. Default: 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_factor: Option<Amount>,
    /// The maximum cost of one job. Default: the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_workload: Option<Amount>,
}

/// How limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Enforcement {
    /// A job starts only if its whole estimate fits. The limit is not exceeded.
    #[default]
    Strict,
    /// A job starts while any money remains. The limit is exceeded by at most one estimate.
    Relaxed,
    /// Every job starts. The message reports what Strict would have done.
    ReportOnly,
}

/// The order in which remaining money is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdmitOrder {
    /// By priority and age. A smaller job may start before one that does not fit.
    #[default]
    Backfill,
    /// By priority and age, without exception, so that large jobs do not starve.
    Strict,
}

/// The jobs that are never held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exempt {
    /// Priority classes, each in some namespaces. Users choose the class of their jobs, so a class
    /// is exempt only in the namespaces that its entry selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub priority_classes: Vec<ExemptPriorityClass>,
    /// Namespaces whose jobs are never held, independent of their class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
}

/// A priority class whose jobs are never held in the namespaces that exactly one of `namespaces`
/// and `namespaceSelector` selects. Every user who may create jobs there may use the class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.namespaces) != has(self.namespaceSelector)", "message": "exactly one of namespaces and namespaceSelector must be set; namespaceSelector: {} is every namespace"}
]))]
pub struct ExemptPriorityClass {
    /// The class's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The class's kind: classes of both kinds can have the same name. Default:
    /// `WorkloadPriorityClass`.
    #[serde(default)]
    pub kind: PriorityClassKind,
    /// The names of the namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// The labels of the namespaces; `{}` selects every namespace. A user who may label a namespace
    /// may exempt it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// The kind of a priority class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PriorityClassKind {
    /// Kueue's own (`kueue.x-k8s.io`), which a job names in the label
    /// `kueue.x-k8s.io/priority-class`.
    #[default]
    WorkloadPriorityClass,
    /// Kubernetes' (`scheduling.k8s.io`), which a job names in its pod template.
    PriorityClass,
}

impl From<PriorityClassKind> for kueue_check::api::PriorityClassKind {
    fn from(kind: PriorityClassKind) -> Self {
        match kind {
            PriorityClassKind::WorkloadPriorityClass => Self::WorkloadPriorityClass,
            PriorityClassKind::PriorityClass => Self::PriorityClass,
        }
    }
}

/// Whether jobs wait or start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HoldOrAdmit {
    /// Jobs wait.
    #[default]
    Hold,
    /// Jobs start, and are counted.
    Admit,
}

/// The action for a job that is too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnTooLarge {
    /// It is rejected, because it would hold quota forever while it waits.
    #[default]
    Reject,
    /// It waits.
    Hold,
}

/// The action for a job without a price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnUnpriced {
    /// It waits for a price.
    #[default]
    Hold,
    /// It starts. Resources without a price cost nothing.
    Admit,
    /// It is rejected.
    Reject,
}

/// The action for quota while no further job fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnExhausted {
    /// The action for the quota of held jobs.
    #[serde(default)]
    pub quota: Quota,
    /// With Yield: the interval in which at most one held job releases its quota. Default: 10m,
    /// doubled with each release up to `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<HumanDuration>,
    /// With Yield: the longest interval. With `CloseLocalQueues`: the interval in which a closed
    /// queue is opened, since a smaller job may have come. Default: 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<HumanDuration>,
}

/// The action for the quota of held jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Quota {
    /// They keep their quota.
    #[default]
    Hold,
    /// They release their quota from time to time while other Workloads wait for it in the
    /// ClusterQueue.
    Yield,
    /// The namespace's LocalQueues are stopped while not even the smallest held job fits.
    CloseLocalQueues,
}

/// The action for running jobs when more than the limit has been spent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnOverspent {
    /// Whether they are evicted.
    #[serde(default)]
    pub running: Running,
    /// With Evict: the order.
    #[serde(default)]
    pub order: EvictOrder,
    /// With Evict: the time for which the account must have exceeded its limit. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<HumanDuration>,
}

/// The action for running jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Running {
    /// They continue to run.
    #[default]
    Leave,
    /// They are evicted, one after another, within the eviction limits of `afterAdmission`.
    Evict,
}

/// The order in which running jobs are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvictOrder {
    /// The lowest priority first, and of equal priority the job that has run for the shortest time.
    #[default]
    LowestPriorityYoungest,
}

/// How a process without history starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Takeover {
    /// It approves no job until the source has reported the time since which it watches. Those
    /// figures include the jobs that ended before.
    #[default]
    WaitForSource,
    /// It counts only the Workloads that it finds: for sources that lag by days. Jobs that ended
    /// and were deleted before are missing for one lag.
    TrustWorkloads,
}
