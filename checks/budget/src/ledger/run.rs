//! A Workload as a Budget sees it.

use std::sync::Arc;

use kueue_check::api::{CheckState, Uid, Workload};

use crate::quote::Quote;
use crate::terms::{PriorityClass, Terms};

/// A Workload that holds quota, and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Which.
    pub uid: Uid,
    /// When quota was reserved, in seconds since 1970: a run belongs to one reservation.
    pub since: i64,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// `spec.priority`.
    pub priority: i32,
    /// What it will cost.
    pub quote: Quote,
    /// How far it is.
    pub state: RunState,
    /// Its priority class, if the Budget exempts that anywhere.
    pub class: Option<Arc<PriorityClass>>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It waits for our word.
    Asking,
    /// It has our word, since this second, and may start without asking again.
    Approved(i64),
    /// It was admitted, at this second.
    Running(i64),
}

/// Why a Workload is never held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exemption {
    /// By its priority class.
    PriorityClass(String),
    /// By its namespace.
    Namespace(String),
}

/// `workload` as the Budget with `terms` sees it, whose AdmissionChecks are `checks`; `None` if it has none of them, or no quota.
pub fn run_of<'a>(
    workload: &Workload,
    terms: &Terms,
    checks: impl Iterator<Item = &'a str>,
) -> Option<Run> {
    let conditions = workload.conditions();
    if !workload.holds_quota() || conditions.finished().is_true() {
        return None;
    }
    let since = conditions
        .quota_reserved()
        .at()
        .unwrap_or_default()
        .as_second();
    let mut entries = checks.filter_map(|check| workload.check(check)).peekable();
    entries.peek()?;
    // Kueue starts it when all of them are Ready.
    let approved = entries.try_fold(None, |earliest: Option<i64>, entry| {
        let at = entry.since().map_or(since, jiff::Timestamp::as_second);
        (*entry.state() == CheckState::Ready)
            .then(|| Some(earliest.map_or(at, |known| known.min(at))))
    });
    let state = if workload.is_admitted() {
        RunState::Running(
            conditions
                .admitted()
                .at()
                .map_or(since, jiff::Timestamp::as_second),
        )
    } else if let Some(Some(at)) = approved {
        RunState::Approved(at)
    } else {
        RunState::Asking
    };
    Some(Run {
        uid: workload.uid().clone(),
        since,
        namespace: workload.namespace().into(),
        priority: workload.priority(),
        quote: terms.prices.quote(workload),
        state,
        class: class(workload, terms),
    })
}

fn class(workload: &Workload, terms: &Terms) -> Option<Arc<PriorityClass>> {
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
    fn a_run_is_approved_when_all_checks_of_its_budget_say_so() {
        let spec = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "10"},
            "prices": [{"flavor": "*", "resources": {"cpu": "1"}}]});
        let terms = Terms::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
        let entry = |name: &str, state: &str, at: i64| {
            let at = jiff::Timestamp::from_second(at).unwrap().to_string();
            json!({"name": name, "state": state, "lastTransitionTime": at})
        };
        for (entries, expected) in [
            (json!([entry("foreign", "Ready", 3)]), None),
            (json!([entry("a", "Pending", 3)]), Some(RunState::Asking)),
            (json!([entry("a", "Ready", 7)]), Some(RunState::Approved(7))),
            (
                json!([entry("a", "Ready", 7), entry("foreign", "Pending", 3)]),
                Some(RunState::Approved(7)),
            ),
            (
                json!([entry("a", "Ready", 7), entry("b", "Pending", 9)]),
                Some(RunState::Asking),
            ),
            (
                json!([entry("a", "Pending", 7), entry("b", "Ready", 9)]),
                Some(RunState::Asking),
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
            let run = run_of(&workload, &terms, ["a", "b"].into_iter());
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
        let terms = Terms::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
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
            let run = run_of(&workload, &terms, ["a"].into_iter()).unwrap();
            let read = run.class.map(|class| class.name.to_string());
            assert_eq!(read.as_deref(), expected, "{class}");
        }
    }
}
