//! `Budget`: what an AdmissionCheck refers to.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use kueue_check::{HumanDuration, Parameters, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BudgetStatus, PeriodSpec, SourceSpec};
use crate::money::Amount;

/// What namespaces may spend in a period, what resources cost, and where it is known what has been spent.
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
    /// What is spent: an ISO 4217 code or any word, such as `GPU-hours`. Never converted.
    #[schemars(
        length(min = 1, max = 16),
        regex(pattern = r"^[A-Za-z][A-Za-z0-9_./-]*$")
    )]
    pub unit: String,
    /// For how long a limit holds.
    pub period: PeriodSpec,
    /// Where it is known what has been spent.
    pub source: SourceSpec,
    /// The limits of single namespaces; NamespaceBudgets change them. Without it single namespaces
    /// have no limits, and NamespaceBudgets do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_limits: Option<NamespaceLimits>,
    /// Limits that several namespaces share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<Pool>,
    /// What resources cost: of each the first price whose `flavor` fits and which names it.
    #[schemars(length(min = 1, max = 64))]
    pub prices: Vec<Price>,
    /// How a job's cost is estimated.
    #[serde(default)]
    pub estimate: EstimateSpec,
    /// What a limit does.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// Who gets what is left, where not all can.
    #[serde(default)]
    pub admit_order: AdmitOrder,
    /// At which percentages of a limit to warn. Default: 80 and 95.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(range(min = 1, max = 1000)))]
    pub warn_at_percent: Option<Vec<u32>>,
    /// Who is never held.
    #[serde(default)]
    pub exempt: Exempt,
    /// When it has not been known for too long what is spent. Default: Hold.
    #[serde(default)]
    pub on_stale: HoldOrAdmit,
    /// When the source has no figures of the period's beginning, because its history is shorter or
    /// was lost: what was spent then does not count. Default: Hold.
    #[serde(default)]
    pub on_uncovered: HoldOrAdmit,
    /// When one job costs more than a job may, or than the whole limit. Default: Reject.
    #[serde(default)]
    pub on_too_large: OnTooLarge,
    /// When there is no price for a resource that a job uses. A price of 0 says that a resource is
    /// free. Default: Hold.
    #[serde(default)]
    pub on_unpriced: OnUnpriced,
    /// When a job's namespace has no limit and is in no pool: jobs there wait, or start and count
    /// nowhere. Default: Hold, because a namespace leaves its pool with its labels.
    #[serde(default)]
    pub on_ungoverned: HoldOrAdmit,
    /// When nothing more fits.
    #[serde(default)]
    pub on_exhausted: OnExhausted,
    /// When more has been spent than the limit.
    #[serde(default)]
    pub on_overspent: OnOverspent,
    /// Whether the pods of jobs that start are annotated with the estimate: `budget.kueue-check.dev/NAME: 88.00 USD`, where NAME is that of this Budget. A job
    /// whose own template has that annotation with another value waits, and is told why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mark_pods: bool,
    /// How a process that knows no history begins. Default: `WaitForSource`.
    #[serde(default)]
    pub takeover: Takeover,
    /// The choices that every check offers.
    #[serde(flatten)]
    pub policy: Policy,
}

/// The limits of single namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceLimits {
    /// For each namespace that is not named. Without it, namespaces that are not named have no limit
    /// of their own, and `onUngoverned` applies where they are in no pool either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Amount>,
    /// The most that NamespaceBudgets may give a namespace: their `limit` and `topUps` together. It
    /// does not lower what the Budget itself gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Amount>,
    /// Namespaces with a limit of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub namespaces: Vec<NamespaceLimit>,
}

/// One namespace's limit.
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
    /// Which namespaces.
    pub namespace_selector: LabelSelector,
}

/// What the resources of a flavor cost in an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// The ResourceFlavor, or `*` for any.
    #[schemars(length(min = 1, max = 253))]
    pub flavor: String,
    /// For each resource the price of one for an hour; of memory, huge pages and ephemeral storage that of a GiB.
    #[schemars(length(min = 1, max = 32))]
    pub resources: BTreeMap<String, Amount>,
}

/// How a job's cost is estimated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EstimateSpec {
    /// How long a job runs that has no `maximumExecutionTimeSeconds`. Default: 4h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_duration: Option<HumanDuration>,
    /// How much longer such a job is expected to run once it has run that long. Default: 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun_horizon: Option<HumanDuration>,
    /// What estimates are multiplied by, because pods can use more than they request. Default: 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_factor: Option<Amount>,
    /// The most that one job may cost. Default: what the limit is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_workload: Option<Amount>,
}

/// What a limit does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Enforcement {
    /// A job starts only if its whole estimate fits: the limit holds.
    #[default]
    Strict,
    /// A job starts while anything is left: the limit is passed by at most one estimate.
    Relaxed,
    /// Every job starts; what Strict would have done is said.
    ReportOnly,
}

/// Who gets what is left, where not all can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdmitOrder {
    /// By priority and age, and a smaller job may pass one that does not fit.
    #[default]
    Backfill,
    /// By priority and age, and nobody passes: large jobs don't starve.
    Strict,
}

/// Who is never held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exempt {
    /// Priority classes, each in some namespaces. Users choose the class of their jobs, so a class
    /// is exempt only in the namespaces that its entry chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub priority_classes: Vec<ExemptPriorityClass>,
    /// Namespaces whose jobs are never held, whatever their class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
}

/// A priority class whose jobs are never held in some namespaces: exactly one of `namespaces` and
/// `namespaceSelector` says in which. Every user who may create jobs there may use the class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.namespaces) != has(self.namespaceSelector)", "message": "exactly one of namespaces and namespaceSelector must be set; namespaceSelector: {} is every namespace"}
]))]
pub struct ExemptPriorityClass {
    /// The class's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The class's kind: classes of both kinds can have one name. Default: `WorkloadPriorityClass`.
    #[serde(default)]
    pub kind: PriorityClassKind,
    /// In these namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// In namespaces with these labels; `{}` is every namespace. A user who may label a namespace
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

/// Wait or go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HoldOrAdmit {
    /// Jobs wait.
    #[default]
    Hold,
    /// Jobs start, and are counted.
    Admit,
}

/// What becomes of a job that is too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnTooLarge {
    /// It is rejected: waiting would hold quota for ever.
    #[default]
    Reject,
    /// It waits.
    Hold,
}

/// What becomes of a job that has no price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnUnpriced {
    /// It waits for a price.
    #[default]
    Hold,
    /// It starts, and what has no price costs nothing.
    Admit,
    /// It is rejected.
    Reject,
}

/// What becomes of quota while nothing more fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnExhausted {
    /// What becomes of the quota that held jobs have.
    #[serde(default)]
    pub quota: Quota,
    /// With Yield: how often at most one gives its quota back. Default: 10m, doubled by each return up to `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<HumanDuration>,
    /// With Yield: the longest pause. Default: 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<HumanDuration>,
}

/// What becomes of the quota of jobs that are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Quota {
    /// They keep it.
    #[default]
    Hold,
    /// They give it back from time to time while others wait for it in the ClusterQueue.
    Yield,
    /// The namespace's LocalQueues are stopped while not even the smallest held job fits.
    CloseLocalQueues,
}

/// What becomes of running jobs when more has been spent than the limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnOverspent {
    /// Whether they are stopped.
    #[serde(default)]
    pub running: Running,
    /// With Evict: who first.
    #[serde(default)]
    pub order: EvictOrder,
    /// With Evict: for how long the account must have been over its limit. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<HumanDuration>,
}

/// What becomes of running jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Running {
    /// They run on.
    #[default]
    Leave,
    /// They are stopped, one after another, within the fences of `afterAdmission`.
    Evict,
}

/// Which running job is stopped first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvictOrder {
    /// Of the lowest priority, and of those the one that has run for the shortest time.
    #[default]
    LowestPriorityYoungest,
}

/// How a process that knows no history begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Takeover {
    /// It admits nothing before the source has reported the time since which it watches: what ended before is in the figures then.
    #[default]
    WaitForSource,
    /// It trusts the Workloads that it finds: for sources that lag by days. What ended and was deleted meanwhile is missing for one lag.
    TrustWorkloads,
}
