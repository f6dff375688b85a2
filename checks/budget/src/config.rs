//! The configuration of a Budget, compiled from its spec.

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

/// An account, to which one limit applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// One namespace.
    Namespace(Arc<str>),
    /// Namespaces that share a limit.
    Pool(Arc<str>),
}

impl Account {
    /// Returns the name of the namespace or pool.
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

/// A valid label selector.
#[derive(Clone, Debug)]
pub struct Selector(kube::core::Selector);

impl Selector {
    /// Parses `selector`.
    ///
    /// # Errors
    /// Returns the problem if `selector` is invalid.
    pub fn new(selector: &LabelSelector) -> Result<Self, String> {
        let parsed: kube::core::Selector = selector
            .clone()
            .try_into()
            .map_err(|error: kube::core::ParseExpressionError| error.to_string())?;
        Ok(Self(parsed))
    }

    /// Returns true if the selector matches `labels`.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }
}

/// A pool of namespaces, without their names.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Its limit.
    pub limit: Amount,
    /// The selector of its namespaces.
    pub selector: Selector,
}

/// A priority class. Classes of both kinds can have one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityClass {
    /// The kind: Kueue's or Kubernetes'.
    pub kind: PriorityClassKind,
    /// Its name.
    pub name: Arc<str>,
}

/// The exemptions of a Budget: Workloads that are never held.
#[derive(Clone, Debug, Default)]
pub struct ExemptTerms {
    /// Priority classes, each in some namespaces.
    pub classes: Vec<ExemptClass>,
    /// Namespaces whose Workloads are all exempt.
    pub namespaces: BTreeSet<String>,
}

/// A priority class that is exempt in some namespaces.
#[derive(Clone, Debug)]
pub struct ExemptClass {
    /// The class.
    pub class: Arc<PriorityClass>,
    /// The namespaces in which it is exempt.
    pub namespaces: ExemptNamespaces,
}

/// The namespaces in which a priority class is exempt.
#[derive(Clone, Debug)]
pub enum ExemptNamespaces {
    /// Namespaces with these names.
    Named(BTreeSet<String>),
    /// Namespaces with these labels.
    Selected(Selector),
}

impl ExemptTerms {
    /// Compiles the exemptions in `spec`.
    ///
    /// # Errors
    /// Returns the first invalid entry.
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

    /// Returns true if an exemption depends on the labels of namespaces.
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

/// The compiled configuration of a Budget, with all defaults applied.
#[derive(Clone, Debug)]
pub struct BudgetConfig {
    /// The Budget's name.
    pub budget: Arc<str>,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// The unit that is spent.
    pub unit: Arc<str>,
    /// The schedule of the periods.
    pub schedule: Schedule,
    /// The source of spend data.
    pub source: SourceSpec,
    /// The maximum age of the watermark, in seconds.
    pub staleness: i64,
    limits_namespaces: bool,
    default_limit: Option<Amount>,
    max_limit: Option<Amount>,
    limits: BTreeMap<String, Amount>,
    /// The pools.
    pub pools: Vec<PoolConfig>,
    /// The prices of resources.
    pub prices: PriceList,
    /// The seconds for which a job is expected to continue once it has passed its assumed end.
    pub overrun: i64,
    /// The maximum cost of one job.
    pub max_per_workload: Option<Amount>,
    /// How limits are enforced.
    pub enforcement: Enforcement,
    /// The order in which remaining money is allocated.
    pub order: AdmitOrder,
    /// The percentages of a limit at which to warn, in ascending order.
    pub warn_at: Vec<u32>,
    /// The exemptions.
    pub exempt: ExemptTerms,
    /// The action while spend data is stale.
    pub on_stale: HoldOrAdmit,
    /// The action while the source has no figures of the period's beginning.
    pub on_uncovered: HoldOrAdmit,
    /// The action for a job that is too large.
    pub on_too_large: OnTooLarge,
    /// The action for a job without a price.
    pub on_unpriced: OnUnpriced,
    /// The action for a job to which no limit applies.
    pub on_ungoverned: HoldOrAdmit,
    /// The action for the quota of held jobs.
    pub quota: Quota,
    /// With `Yield`: the first and the longest interval, in seconds.
    pub yields: (i64, i64),
    /// The action for running jobs of an overspent account, and its delay in seconds.
    pub overspent: (Running, i64),
    /// Whether pods are annotated.
    pub mark_pods: bool,
    /// How a process without history starts.
    pub takeover: Takeover,
    /// A digest of source, unit and period. A change resets the spend data.
    pub measured: String,
    /// The published spend, if its digest is the same.
    pub floor: Option<Floor>,
}

/// The limit overrides of a namespace.
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

/// Returns a 64-bit FNV-1a digest, which programs of other versions compare.
fn digest(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Returns the spend in the status of `budget`, if its digest is that of `terms`.
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
    /// Compiles the configuration of `budget`.
    ///
    /// # Errors
    /// Returns [`Invalid`] with the invalid field.
    pub fn of(budget: &Budget) -> Result<Self, Invalid> {
        let terms = Self::of_spec(&budget.name_any(), &budget.spec)?;
        Ok(Self {
            uid: budget.uid().unwrap_or_default(),
            generation: budget.metadata.generation.unwrap_or_default(),
            floor: floor(budget, &terms),
            ..terms
        })
    }

    /// Compiles `spec` as the spec of the Budget `name`.
    ///
    /// # Errors
    /// Returns [`Invalid`] with the invalid field.
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

    /// Returns true if `other` measures the same. Otherwise recorded spend has no meaning for it.
    pub fn measures_like(&self, other: &Self) -> bool {
        self.measured == other.measured
    }

    /// Returns the limit of a namespace at `now`; `None` if it has no limit.
    ///
    /// The lowest of several NamespaceBudgets applies. A NamespaceBudget's limit and top-ups
    /// together are at most `namespaceLimits.max`; that maximum does not lower the Budget's own
    /// limit. A Budget without `namespaceLimits` has no limits of single namespaces, so
    /// NamespaceBudgets have no effect.
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
                // Without its own limit, a NamespaceBudget adds to the Budget's limit.
                let least = given.filter(|_| budget.limit.is_none()).unwrap_or_default();
                self.max_limit
                    .map_or(wanted, |max| wanted.min(max.max(least)))
            })
            .min();
        lowest.or(given)
    }

    /// Returns true if pools or exemptions depend on the labels of namespaces.
    pub fn needs_labels(&self) -> bool {
        !self.pools.is_empty() || self.exempt.needs_labels()
    }

    /// Returns the namespaces that have a limit of their own in the Budget.
    pub fn named_namespaces(&self) -> impl Iterator<Item = &str> {
        self.limits.keys().map(String::as_str)
    }

    /// Returns true if there are limits of single namespaces, which NamespaceBudgets change.
    pub fn limits_namespaces(&self) -> bool {
        self.limits_namespaces
    }

    /// Returns true if each namespace has a limit by default.
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
    fn an_exempt_class_selects_namespaces_in_one_way() {
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
            let error = BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).err();
            let error = error.map(|invalid| invalid.to_string());
            let as_expected = match (&error, problem) {
                (Some(error), Some(problem)) => {
                    error.starts_with("spec.exempt.priorityClasses[1]") && error.contains(problem)
                }
                (None, None) => true,
                _ => false,
            };
            assert!(as_expected, "{entry}: {error:?}");
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
            // The Budget's own limit may exceed the maximum.
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
