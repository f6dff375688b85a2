//! A Budget's spec as the ledger reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::core::SelectorExt;
use kueue_check::HumanDuration;
use kueue_check::api::PriorityClassKind;

use crate::estimate::PriceList;
use crate::ledger::Floor;
use crate::money::Amount;
use crate::period::{Period, Schedule};
use crate::resource::{
    AdmitOrder, Budget, BudgetSpec, Enforcement, Exempt, ExemptPriorityClass, HoldOrAdmit, Invalid,
    NamespaceBudgetSpec, OnTooLarge, OnUnpriced, Quota, Running, SourceSpec, Takeover,
};

/// What one limit applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// One namespace.
    Namespace(Arc<str>),
    /// Namespaces that share a limit.
    Pool(Arc<str>),
}

impl Account {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Namespace(name) | Self::Pool(name) => name,
        }
    }
}

/// `namespace vision`, `pool research`.
impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
        }
    }
}

/// A label selector that makes sense.
#[derive(Clone, Debug)]
pub struct Selector(kube::core::Selector);

impl Selector {
    /// The selector `selector`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(selector: &LabelSelector) -> Result<Self, String> {
        let parsed: kube::core::Selector = selector
            .clone()
            .try_into()
            .map_err(|error: kube::core::ParseExpressionError| error.to_string())?;
        Ok(Self(parsed))
    }

    /// Whether it selects what has `labels`.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }
}

/// A pool, without the namespaces.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Its limit.
    pub limit: Amount,
    /// Which namespaces.
    pub selector: Selector,
}

/// A priority class. Classes of both kinds can have one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityClass {
    /// Kueue's own or Kubernetes'.
    pub kind: PriorityClassKind,
    /// Its name.
    pub name: Arc<str>,
}

/// What is never held.
#[derive(Clone, Debug, Default)]
pub struct ExemptTerms {
    /// Priority classes, each in some namespaces.
    pub classes: Vec<ExemptClass>,
    /// Everything in these namespaces.
    pub namespaces: BTreeSet<String>,
}

/// A priority class that is exempt in some namespaces.
#[derive(Clone, Debug)]
pub struct ExemptClass {
    /// The class.
    pub class: Arc<PriorityClass>,
    /// Where it is exempt.
    pub namespaces: ExemptNamespaces,
}

/// Where a priority class is exempt.
#[derive(Clone, Debug)]
pub enum ExemptNamespaces {
    /// In these namespaces.
    Named(BTreeSet<String>),
    /// In those with these labels.
    Selected(Selector),
}

impl ExemptTerms {
    /// What `spec` exempts.
    ///
    /// # Errors
    /// The first entry that is invalid.
    pub fn new(spec: &Exempt) -> Result<Self, Invalid> {
        let classes = spec.priority_classes.iter().enumerate();
        let classes = classes.map(|(number, entry)| {
            ExemptClass::new(entry).map_err(|(field, problem)| Invalid {
                field: format!("spec.exempt.priorityClasses[{number}]{field}"),
                problem,
            })
        });
        Ok(Self {
            classes: classes.collect::<Result<_, _>>()?,
            namespaces: spec.namespaces.iter().cloned().collect(),
        })
    }

    /// Whether it depends on the labels of namespaces.
    fn needs_labels(&self) -> bool {
        let mut classes = self.classes.iter();
        classes.any(|class| matches!(class.namespaces, ExemptNamespaces::Selected(_)))
    }
}

impl ExemptClass {
    fn new(entry: &ExemptPriorityClass) -> Result<Self, (&'static str, String)> {
        let namespaces = match (&entry.namespace_selector, entry.namespaces.is_empty()) {
            (None, false) => ExemptNamespaces::Named(entry.namespaces.iter().cloned().collect()),
            (Some(selector), true) => Selector::new(selector)
                .map(ExemptNamespaces::Selected)
                .map_err(|problem| (".namespaceSelector", problem))?,
            _ => {
                let problem = "exactly one of namespaces and namespaceSelector must be set; \
                               `namespaceSelector: {}` is every namespace";
                return Err(("", problem.to_owned()));
            }
        };
        Ok(Self {
            class: Arc::new(PriorityClass {
                kind: entry.kind.into(),
                name: entry.name.as_str().into(),
            }),
            namespaces,
        })
    }
}

/// A Budget, compiled: every choice made.
#[derive(Clone, Debug)]
pub struct BudgetConfig {
    /// The Budget's name.
    pub budget: Arc<str>,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// What is spent.
    pub unit: Arc<str>,
    /// When periods begin.
    pub schedule: Schedule,
    /// Where it is known what has been spent.
    pub source: SourceSpec,
    /// How old the newest known spending may be, in seconds.
    pub staleness: i64,
    limits_namespaces: bool,
    default_limit: Option<Amount>,
    max_limit: Option<Amount>,
    limits: BTreeMap<String, Amount>,
    /// The pools.
    pub pools: Vec<PoolConfig>,
    /// What resources cost.
    pub prices: PriceList,
    /// How many seconds a job goes on that has passed its guessed end.
    pub overrun: i64,
    /// The most that one job may cost.
    pub max_per_workload: Option<Amount>,
    /// What a limit does.
    pub enforcement: Enforcement,
    /// Who gets what is left.
    pub order: AdmitOrder,
    /// At which percentages to warn, rising.
    pub warn_at: Vec<u32>,
    /// Who is never held.
    pub exempt: ExemptTerms,
    /// When spending is stale.
    pub on_stale: HoldOrAdmit,
    /// When the source has no figures of the period's beginning.
    pub on_uncovered: HoldOrAdmit,
    /// When a job is too large.
    pub on_too_large: OnTooLarge,
    /// When a job has no price.
    pub on_unpriced: OnUnpriced,
    /// When no limit applies to a job.
    pub on_ungoverned: HoldOrAdmit,
    /// What becomes of the quota of held jobs.
    pub quota: Quota,
    /// With Yield: the first and the longest pause, in seconds.
    pub yields: (i64, i64),
    /// What becomes of running jobs that have overspent, and after how many seconds.
    pub overspent: (Running, i64),
    /// Whether pods are annotated.
    pub mark_pods: bool,
    /// How a process without history starts.
    pub takeover: Takeover,
    /// Which source measures what: a change begins the observation anew.
    pub measured: String,
    /// What was published of spending, if the same measured it.
    pub floor: Option<Floor>,
}

/// A namespace's own limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitOverride {
    /// The NamespaceBudgets of the namespace, by name.
    pub budgets: BTreeMap<String, NamespaceBudgetSpec>,
}

fn seconds(duration: Option<HumanDuration>, default: i64) -> i64 {
    duration.map_or(default, |duration| {
        i64::try_from(std::time::Duration::from(duration).as_secs()).unwrap_or(i64::MAX)
    })
}

/// 64 bits of FNV-1a: it is compared by programs of other versions.
fn digest(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// What the status of `budget` says was spent, if that is about what `terms` measure.
fn floor(budget: &Budget, terms: &BudgetConfig) -> Option<Floor> {
    let status = budget.status.as_ref();
    let status = status.filter(|status| status.measured.as_deref() == Some(&*terms.measured))?;
    let period = status.period.as_ref()?;
    let (start, end) = (period.start.parse().ok()?, period.end.parse().ok()?);
    let as_of = status
        .as_of
        .as_ref()
        .and_then(|at| at.parse::<Timestamp>().ok());
    let spent = status.spent.iter();
    Some(Floor {
        period: Period { start, end },
        spent: spent
            .map(|(name, spent)| (name.as_str().into(), *spent))
            .collect(),
        as_of: as_of.map(Timestamp::as_second),
    })
}

impl BudgetConfig {
    /// The terms of `budget`.
    ///
    /// # Errors
    /// [`Invalid`] says what is invalid.
    pub fn of(budget: &Budget) -> Result<Self, Invalid> {
        let terms = Self::of_spec(&budget.name_any(), &budget.spec)?;
        Ok(Self {
            uid: budget.uid().unwrap_or_default(),
            generation: budget.metadata.generation.unwrap_or_default(),
            floor: floor(budget, &terms),
            ..terms
        })
    }

    /// The terms of the Budget `name` with `spec`.
    ///
    /// # Errors
    /// [`Invalid`] says what is invalid.
    pub fn of_spec(name: &str, spec: &BudgetSpec) -> Result<Self, Invalid> {
        spec.check()?;
        let limits_namespaces = spec.namespace_limits.is_some();
        let limits = spec.namespace_limits.clone().unwrap_or_default();
        let estimate = &spec.estimate;
        let mut pools = Vec::new();
        for pool in &spec.pools {
            let selector = Selector::new(&pool.namespace_selector).map_err(|problem| Invalid {
                field: "spec.pools".to_owned(),
                problem,
            })?;
            pools.push(PoolConfig {
                name: pool.name.as_str().into(),
                limit: pool.limit,
                selector,
            });
        }
        let mut warn_at = spec.warn_at_percent.clone().unwrap_or_else(|| vec![80, 95]);
        warn_at.sort_unstable();
        let safety = estimate
            .safety_factor
            .or_else(|| "1.1".parse().ok())
            .unwrap_or_default();
        let default_seconds =
            u32::try_from(seconds(estimate.default_duration, 4 * 3600)).unwrap_or(u32::MAX);
        Ok(Self {
            budget: name.into(),
            uid: String::new(),
            generation: 0,
            unit: spec.unit.as_str().into(),
            schedule: spec.period.schedule()?,
            source: spec.source.clone(),
            staleness: i64::try_from(spec.source.staleness_bound().as_secs()).unwrap_or(i64::MAX),
            limits_namespaces,
            default_limit: limits.default,
            max_limit: limits.max,
            limits: limits
                .namespaces
                .into_iter()
                .map(|limit| (limit.name, limit.limit))
                .collect(),
            pools,
            prices: PriceList::new(spec.prices.clone(), safety, default_seconds),
            overrun: seconds(estimate.overrun_horizon, 3600),
            max_per_workload: estimate.max_per_workload,
            enforcement: spec.enforcement,
            order: spec.admit_order,
            warn_at,
            exempt: ExemptTerms::new(&spec.exempt)?,
            on_stale: spec.on_stale,
            on_uncovered: spec.on_uncovered,
            on_too_large: spec.on_too_large,
            on_unpriced: spec.on_unpriced,
            on_ungoverned: spec.on_ungoverned,
            quota: spec.on_exhausted.quota,
            yields: (
                seconds(spec.on_exhausted.every, 600),
                seconds(spec.on_exhausted.max, 3600),
            ),
            overspent: (
                spec.on_overspent.running,
                seconds(spec.on_overspent.grace, 600),
            ),
            mark_pods: spec.mark_pods,
            takeover: spec.takeover,
            measured: digest(&serde_json::json!([spec.source, spec.unit, spec.period])),
            floor: None,
        })
    }

    /// Whether `other` measures something else: what was known of spending is worth nothing then.
    pub fn measures_like(&self, other: &Self) -> bool {
        self.measured == other.measured
    }

    /// The limit of a namespace with its own NamespaceBudgets at `now`; `None` if it has no budget.
    /// Of two the lower holds. What NamespaceBudgets give, top-ups included, is at most
    /// `namespaceLimits.max`; that does not lower what the Budget itself gives. A Budget without
    /// `namespaceLimits` has no limits of single namespaces, so NamespaceBudgets do not change it.
    pub fn namespace_limit(
        &self,
        namespace: &str,
        own: Option<&LimitOverride>,
        now: Timestamp,
    ) -> Option<Amount> {
        let given = self.limits.get(namespace).copied().or(self.default_limit);
        let own = own.filter(|_| self.limits_namespaces);
        let own = own.into_iter().flat_map(|own| own.budgets.values());
        let lowest = own
            .map(|budget| {
                let limit = budget.limit.or(given).unwrap_or_default();
                let wanted = limit + budget.topped_up(now);
                // Without a limit of its own, it adds to what the Budget gives.
                let least = given.filter(|_| budget.limit.is_none()).unwrap_or_default();
                self.max_limit
                    .map_or(wanted, |max| wanted.min(max.max(least)))
            })
            .min();
        lowest.or(given)
    }

    /// Whether anything in it depends on the labels of namespaces.
    pub fn needs_labels(&self) -> bool {
        !self.pools.is_empty() || self.exempt.needs_labels()
    }

    /// The namespaces that are named in it.
    pub fn named_namespaces(&self) -> impl Iterator<Item = &str> {
        self.limits.keys().map(String::as_str)
    }

    /// Whether it has limits of single namespaces, which NamespaceBudgets change.
    pub fn limits_namespaces(&self) -> bool {
        self.limits_namespaces
    }

    /// Whether each namespace has a limit, unless it says otherwise.
    pub fn governs_all(&self) -> bool {
        self.default_limit.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(limits: serde_json::Value) -> BudgetConfig {
        let spec = json!({
            "unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": limits,
            "prices": [{"flavor": "*", "resources": {"cpu": "1"}}],
        });
        BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap()
    }

    #[test]
    fn an_exempt_class_says_where_and_in_one_way() {
        for (entry, problem) in [
            (json!({"name": "sla", "namespaces": ["n"]}), None),
            (json!({"name": "sla", "namespaceSelector": {}}), None),
            (json!({"name": "sla"}), Some("exactly one of namespaces")),
            (
                json!({"name": "sla", "namespaces": ["n"], "namespaceSelector": {}}),
                Some("exactly one of namespaces"),
            ),
            (
                json!({"name": "sla", "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
                Some("spec.exempt.priorityClasses[1].namespaceSelector: "),
            ),
        ] {
            let first = json!({"name": "first", "namespaces": ["n"]});
            let spec = json!({
                "unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "1"},
                "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "exempt": {"priorityClasses": [first, entry]},
            });
            let said = BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).err();
            let said = said.map(|invalid| invalid.to_string());
            let as_expected = match (&said, problem) {
                (Some(said), Some(problem)) => {
                    said.starts_with("spec.exempt.priorityClasses[1]") && said.contains(problem)
                }
                (None, None) => true,
                _ => false,
            };
            assert!(as_expected, "{entry}: {said:?}");
        }
    }

    #[test]
    fn a_limit_is_the_namespaces_own_within_the_maximum_and_the_lower_of_two() {
        let now: Timestamp = "2026-11-21T09:00:00Z".parse().unwrap();
        let own = |budgets: &[serde_json::Value]| LimitOverride {
            budgets: budgets
                .iter()
                .enumerate()
                .map(|(at, spec)| {
                    let mut spec = spec.clone();
                    spec["budgetRef"] = json!("b");
                    (at.to_string(), serde_json::from_value(spec).unwrap())
                })
                .collect(),
        };
        let top_up = |until: &str| json!({"amount": "300", "validUntil": until});
        let all = json!({"default": "500", "max": "5000", "namespaces": [{"name": "vision", "limit": "2000"}]});
        for (limits, namespace, own, expected) in [
            (&all, "vision", own(&[]), Some("2000")),
            (&all, "tools", own(&[]), Some("500")),
            (&json!({}), "tools", own(&[]), None),
            (
                &all,
                "vision",
                own(&[json!({"limit": "2500"})]),
                Some("2500"),
            ),
            (
                &all,
                "vision",
                own(&[json!({"limit": "9000"})]),
                Some("5000"),
            ),
            (
                &all,
                "vision",
                own(&[json!({"limit": "2500"}), json!({"limit": "100"})]),
                Some("100"),
            ),
            (
                &all,
                "vision",
                own(&[json!({"topUps": [top_up("2026-11-30T00:00:00Z")]})]),
                Some("2300"),
            ),
            (
                &all,
                "vision",
                own(&[json!({"topUps": [top_up("2026-11-21T09:00:00Z")]})]),
                Some("2000"),
            ),
            (
                &all,
                "vision",
                own(&[json!({"limit": "4900", "topUps": [top_up("2026-11-30T00:00:00Z")]})]),
                Some("5000"),
            ),
            (
                &all,
                "tools",
                own(&[
                    json!({"topUps": vec![json!({"amount": "999999999999", "validUntil": "2999-01-01T00:00:00Z"}); 16]}),
                ]),
                Some("5000"),
            ),
            // The Budget itself may give more than the maximum.
            (
                &json!({"max": "100", "default": "500"}),
                "tools",
                own(&[json!({"topUps": [top_up("2026-11-30T00:00:00Z")]})]),
                Some("500"),
            ),
            (
                &json!({"max": "100", "default": "500"}),
                "tools",
                own(&[json!({"limit": "600"})]),
                Some("100"),
            ),
            (
                &json!({"default": "500"}),
                "tools",
                own(&[json!({"limit": "5000", "topUps": [top_up("2026-11-30T00:00:00Z")]})]),
                Some("5300"),
            ),
            (
                &json!({}),
                "tools",
                own(&[json!({"limit": "7"})]),
                Some("7"),
            ),
        ] {
            let limit = terms(limits.clone()).namespace_limit(namespace, Some(&own), now);
            assert_eq!(
                limit.map(|limit| limit.to_string()).as_deref(),
                expected,
                "{limits} {own:?}"
            );
        }
    }
}
