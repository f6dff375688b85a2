//! A run: a Workload in one reservation, as a Budget counts it.

use std::sync::Arc;

use kueue_check::api::{AdmissionCheckState, CheckState, Uid, Workload};
use kueue_check::{Family, FamilyRole};

use super::Job;
use crate::config::{BudgetConfig, PriorityClass};
use crate::estimate::Estimate;

/// A Workload that holds quota, and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The uid of the Workload.
    pub uid: Uid,
    /// The time of the quota reservation, in seconds since 1970. A run belongs to one reservation.
    pub since: i64,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// `spec.priority`.
    pub priority: i32,
    /// Its estimate.
    pub estimate: Estimate,
    /// Its state.
    pub state: RunState,
    /// Its priority class, if the Budget exempts that anywhere.
    pub class: Option<Arc<PriorityClass>>,
    /// The job, if it may have several Workloads.
    pub job: Option<Job>,
    /// The running pods to which it adds, if it is a growth of an elastic job.
    pub grows: Option<RunningPods>,
    /// Whether a growth has replaced it. Its pods run until the growth starts, and it is not
    /// evicted by itself.
    pub replaced: bool,
}

/// The pods of a job that run while a growth waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningPods {
    /// This number of pods, which their own Workload commits.
    Known(u32),
    /// Their Workload was deleted, as Kueue's `objectRetentionPolicies` do. At most as many pods
    /// run as the growth has.
    Unknown,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It waits for a decision.
    Evaluated,
    /// It is approved, since this second, and may start without another evaluation.
    Approved(i64),
    /// It was admitted, at this second.
    Running(i64),
}

/// The reason for which a Workload is never held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exemption {
    /// By its priority class.
    PriorityClass(String),
    /// By its namespace.
    Namespace(String),
}

/// Returns `workload` as a run of the Budget with `terms`, whose AdmissionChecks are `checks`.
///
/// Returns `None` if it has none of these checks, or no quota. `family` contains the Workloads of
/// its job, if it may have several.
pub fn run_of<'a>(
    workload: &Workload,
    family: Option<&Family>,
    terms: &BudgetConfig,
    checks: impl Iterator<Item = &'a str>,
) -> Option<Run> {
    let conditions = workload.conditions();
    if !may_spend(workload, family) {
        return None;
    }
    let since = conditions
        .quota_reserved()
        .last_transition_time()
        .unwrap_or_default()
        .as_second();
    let checks: Vec<&str> = checks.collect();
    let is_own = |entry: &&AdmissionCheckState| checks.contains(&entry.name());
    let mut entries = workload.checks().iter().filter(is_own).peekable();
    entries.peek()?;
    // Kueue admits it when all of them are Ready.
    let approved = entries.try_fold(None, |earliest: Option<i64>, entry| {
        let at = entry.since().map_or(since, jiff::Timestamp::as_second);
        (*entry.state() == CheckState::Ready)
            .then(|| Some(earliest.map_or(at, |known| known.min(at))))
    });
    let state = if workload.is_admitted() {
        RunState::Running(
            conditions
                .admitted()
                .last_transition_time()
                .map_or(since, jiff::Timestamp::as_second),
        )
    } else if let Some(Some(at)) = approved {
        RunState::Approved(at)
    } else {
        RunState::Evaluated
    };
    Some(Run {
        uid: workload.uid().clone(),
        since,
        namespace: workload.namespace().into(),
        priority: workload.priority(),
        estimate: terms.prices.estimate(workload),
        state,
        class: class(workload, terms),
        job: family
            .filter(|family| family.may_have_several_workloads())
            .map(|family| Job {
                key: family.key().clone(),
                is_variant: matches!(family.role(), FamilyRole::Variant { .. }),
                starts_at_once: workload
                    .checks()
                    .iter()
                    .filter(|entry| !is_own(entry))
                    .all(|entry| *entry.state() == CheckState::Ready),
            }),
        grows: family
            .filter(|family| *family.role() == FamilyRole::Growth)
            .map(|family| {
                let pods = family.all_running_pods();
                pods.map_or(RunningPods::Unknown, RunningPods::Known)
            }),
        replaced: conditions.finished().is_true(),
    })
}

/// Returns true if `workload` holds quota, and is not finished or its pods still run.
pub(super) fn may_spend(workload: &Workload, family: Option<&Family>) -> bool {
    let runs_on = family.is_some_and(Family::pods_still_run);
    workload.holds_quota() && (runs_on || !workload.conditions().finished().is_true())
}

fn class(workload: &Workload, terms: &BudgetConfig) -> Option<Arc<PriorityClass>> {
    let (kind, name) = (workload.priority_class_kind()?, workload.priority_class()?);
    let mut classes = terms.exempt.classes.iter().map(|entry| &entry.class);
    classes
        .find(|class| class.kind == kind && *class.name == *name)
        .map(Arc::clone)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_approved_when_all_checks_of_its_budget_approve_it() {
        let spec = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "10"},
            "prices": [{"flavor": "*", "resources": {"cpu": "1"}}]});
        let terms = BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
        let entry = |name: &str, state: &str, at: i64| {
            let at = jiff::Timestamp::from_second(at).unwrap().to_string();
            json!({"name": name, "state": state, "lastTransitionTime": at})
        };
        for (entries, expected) in [
            (json!([entry("foreign", "Ready", 3)]), None),
            (json!([entry("a", "Pending", 3)]), Some(RunState::Evaluated)),
            (json!([entry("a", "Ready", 7)]), Some(RunState::Approved(7))),
            (
                json!([entry("a", "Ready", 7), entry("foreign", "Pending", 3)]),
                Some(RunState::Approved(7)),
            ),
            (
                json!([entry("a", "Ready", 7), entry("b", "Pending", 9)]),
                Some(RunState::Evaluated),
            ),
            (
                json!([entry("a", "Pending", 7), entry("b", "Ready", 9)]),
                Some(RunState::Evaluated),
            ),
            (
                json!([entry("a", "Ready", 8), entry("b", "Ready", 7)]),
                Some(RunState::Approved(7)),
            ),
        ] {
            let workload = Workload::from_json(json!({
                "metadata": {"namespace": "n", "name": "w", "uid": "u"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": {}}]},
                "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
                    "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {}, "resourceUsage": {}}]},
                    "admissionChecks": entries},
            }))
            .unwrap();
            let run = run_of(&workload, None, &terms, ["a", "b"].into_iter());
            assert_eq!(run.map(|run| run.state), expected, "{entries}");
        }
    }

    #[test]
    fn a_run_has_the_class_that_the_budget_exempts_by_name_and_kind() {
        let entries = json!([
            {"name": "sla", "namespaces": ["n"]},
            {"name": "system", "kind": "PriorityClass", "namespaces": ["n"]},
        ]);
        let spec = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "10"},
            "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "exempt": {"priorityClasses": entries}});
        let terms = BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
        let (kueue, kubernetes) = ("kueue.x-k8s.io", "scheduling.k8s.io");
        for (group, kind, name, expected) in [
            (kueue, "WorkloadPriorityClass", "sla", Some("sla")),
            (kubernetes, "PriorityClass", "system", Some("system")),
            (kubernetes, "PriorityClass", "sla", None),
            (kueue, "WorkloadPriorityClass", "system", None),
            (kueue, "WorkloadPriorityClass", "other", None),
            (kubernetes, "WorkloadPriorityClass", "sla", None),
            ("", "", "sla", None),
        ] {
            let class = json!({"group": group, "kind": kind, "name": name});
            let workload = Workload::from_json(json!({
                "metadata": {"namespace": "n", "name": "w", "uid": "u"}, "spec": {"priorityClassRef": class},
                "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
                    "admission": {"clusterQueue": "cq"}, "admissionChecks": [{"name": "a", "state": "Pending"}]},
            }))
            .unwrap();
            let run = run_of(&workload, None, &terms, ["a"].into_iter()).unwrap();
            let read = run.class.map(|class| class.name.to_string());
            assert_eq!(read.as_deref(), expected, "{class}");
        }
    }
}
