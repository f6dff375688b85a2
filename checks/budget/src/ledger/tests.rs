//! Tests of the ledger's rules, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::PriorityClassKind::{self, PriorityClass, WorkloadPriorityClass};
use kueue_check::api::{Uid, Workload};
use kueue_check::{Family, WorkloadEvent};
use serde_json::{Value, json};

use super::*;
use crate::config::{Account, BudgetConfig, LimitOverride};
use crate::estimate::Estimate;
use crate::money::{Amount, Rate};

const NOW: i64 = 1_795_251_600;
/// The number of timed decisions.
const DECISIONS: u32 = 200;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn spec(patch: &Value) -> Value {
    let mut spec = json!({
        "unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "100"},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "estimate": {"safetyFactor": "1"},
    });
    for (key, value) in patch.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn terms(patch: &Value) -> Arc<BudgetConfig> {
    let spec = serde_json::from_value(spec(patch)).unwrap();
    Arc::new(BudgetConfig::of_spec("b", &spec).unwrap())
}

/// Returns a ledger with `spent` as the spend of the namespace `n`.
fn ledger(patch: &Value, spent: &str) -> BudgetLedger {
    let mut ledger = BudgetLedger::new(terms(patch));
    ledger.set_own_limits(BTreeMap::new());
    ledger.watched_since(time(NOW - 60));
    spent_at(&mut ledger, spent, NOW);
    ledger
}

fn spent_at(ledger: &mut BudgetLedger, spent: &str, at: i64) -> SpendUpdate {
    let observation = Observation {
        spent: BTreeMap::from([("n".into(), spent.parse().unwrap())]),
        ..Observation::of(ledger.period(time(at)).unwrap(), time(at))
    };
    ledger.observe(&observation, time(at))
}

/// Returns a job of one hour that costs `rate`.
fn run(name: &str, rate: u32) -> Run {
    Run {
        uid: Uid::new(name),
        since: NOW - 10,
        namespace: "n".into(),
        priority: 0,
        estimate: Estimate {
            rate: Rate::of(i128::from(rate) * 1000, Amount::units(1), 1),
            seconds: 3600,
            bounded: true,
            grace: 0,
            unpriced: None,
        },
        state: RunState::Evaluated,
        class: None,
        job: None,
        grows: None,
        replaced: false,
    }
}

fn approved(name: &str, rate: u32) -> Run {
    Run {
        state: RunState::Approved(NOW),
        ..run(name, rate)
    }
}

fn running(name: &str, rate: u32, since: i64) -> Run {
    Run {
        state: RunState::Running(since),
        ..run(name, rate)
    }
}

fn lasting(name: &str, rate: u32, seconds: u32) -> Run {
    let mut run = run(name, rate);
    run.estimate.seconds = seconds;
    run
}

fn unpriced(mut run: Run) -> Run {
    run.estimate.unpriced = Some(("gpu".to_owned(), "h100".to_owned()));
    run
}

fn of_sla(rate: u32) -> Run {
    Run {
        class: class(WorkloadPriorityClass, "sla"),
        ..run("a", rate)
    }
}

/// Returns periods of an hour, of which the first begins now.
fn hourly() -> Value {
    json!({"period": {"every": "1h", "anchor": time(NOW).to_string()}})
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "as the field of a run, which may have none"
)]
fn class(kind: PriorityClassKind, name: &str) -> Option<Arc<crate::config::PriorityClass>> {
    let name = name.into();
    Some(Arc::new(crate::config::PriorityClass { kind, name }))
}

fn balance(ledger: &BudgetLedger, at: i64) -> Balance {
    ledger.balance(
        &Account::Namespace("n".into()),
        ledger.period(time(at)).unwrap(),
        time(at),
    )
}

fn label(decision: &Decision) -> &'static str {
    match decision {
        Decision::Unchanged => "unchanged",
        Decision::NotGoverned => "not governed",
        Decision::Admit(AdmitReason::Fits(_)) => "fits",
        Decision::Admit(AdmitReason::Exempt(_)) => "exempt",
        Decision::Admit(AdmitReason::ReportOnly(None)) => "reported: fits",
        Decision::Admit(AdmitReason::ReportOnly(Some(reason)) | AdmitReason::Stale(reason)) => {
            reason.label()
        }
        Decision::Hold(reason) => reason.label(),
        Decision::Admit(AdmitReason::Unpriced) => "free",
        Decision::Reject(_) => "rejected",
        Decision::Stop(_) => "stopped",
    }
}

fn decided(ledger: &mut BudgetLedger, run: &Run, at: i64) -> &'static str {
    label(&ledger.decide(run, time(at)))
}

/// Returns the namespaces of a cluster, with their labels. The first is that of the runs here.
fn namespaces(labels: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    serde_json::from_value(json!({"n": labels, "other": {}})).unwrap()
}

#[test]
fn a_priority_class_is_exempt_in_the_namespaces_of_its_entry_only() {
    let sla = |of: Value| {
        let mut entry = json!({"name": "sla"});
        for (key, value) in of.as_object().unwrap() {
            entry[key] = value.clone();
        }
        json!([entry])
    };
    let tier = json!({"namespaceSelector": {"matchLabels": {"tier": "sla"}}});
    let untenanted = json!({"matchExpressions": [{"key": "tenant", "operator": "DoesNotExist"}]});
    let untenanted = json!({"namespaceSelector": untenanted});
    let labelled = Some(json!({"tier": "sla", "tenant": "t"}));
    let bare = Some(json!({}));
    let here = || sla(json!({"namespaces": ["n"]}));
    let of_pods = || sla(json!({"kind": "PriorityClass", "namespaces": ["n"]}));
    let sla_class = || class(WorkloadPriorityClass, "sla");
    for (entries, run_class, labels, expected) in [
        (here(), sla_class(), None, "exempt"),
        (
            sla(json!({"namespaces": ["other"]})),
            sla_class(),
            None,
            "rejected",
        ),
        (here(), class(PriorityClass, "sla"), None, "rejected"),
        (of_pods(), class(PriorityClass, "sla"), None, "exempt"),
        (of_pods(), sla_class(), None, "rejected"),
        (
            here(),
            class(WorkloadPriorityClass, "sla2"),
            None,
            "rejected",
        ),
        (here(), None, None, "rejected"),
        (sla(tier.clone()), sla_class(), labelled.clone(), "exempt"),
        (sla(tier.clone()), sla_class(), bare.clone(), "rejected"),
        // The labels are unknown, so the run is neither exempt nor finally rejected.
        (sla(tier.clone()), sla_class(), None, "cold_start"),
        (sla(tier), None, None, "rejected"),
        (sla(untenanted.clone()), sla_class(), None, "cold_start"),
        (sla(untenanted.clone()), sla_class(), labelled, "rejected"),
        (sla(untenanted), sla_class(), bare.clone(), "exempt"),
        (
            sla(json!({"namespaceSelector": {}})),
            sla_class(),
            bare,
            "exempt",
        ),
    ] {
        let mut ledger = ledger(&json!({"exempt": {"priorityClasses": entries}}), "0");
        if let Some(labels) = &labels {
            ledger.set_namespaces(namespaces(labels));
        }
        let new_run = Run {
            class: run_class,
            ..run("a", 101)
        };
        let decision = ledger.decide(&new_run, time(NOW));
        assert_eq!(
            label(&decision),
            expected,
            "{entries} {labels:?} {new_run:?}"
        );
    }
}

#[test]
fn an_exemption_follows_the_labels_of_the_namespace() {
    let selector = json!({"matchLabels": {"tier": "sla"}});
    let exempt = json!({"priorityClasses": [{"name": "sla", "namespaceSelector": selector}]});
    let patch = json!({"exempt": exempt, "onUnpriced": "Reject",
        "onOverspent": {"running": "Evict", "grace": "1s"}});
    let mut ledger = self::ledger(&patch, "0");
    let new_run = of_sla(50);
    // A job without a price is not rejected while it may be exempt.
    let without_price = unpriced(new_run.clone());
    assert_eq!(decided(&mut ledger, &without_price, NOW), "cold_start");
    // Once the labels are known, runs that wait for them start without an evaluation.
    ledger.set_namespaces(namespaces(&json!({"tier": "sla"})));
    assert_eq!(ledger.allocate(time(NOW)).granted.len(), 1);

    // Running jobs that are exempt, or may be, are not evicted.
    let mut ledger = self::ledger(&patch, "1000");
    let running = Run {
        state: RunState::Running(NOW - 5),
        ..new_run
    };
    assert_eq!(decided(&mut ledger, &running, NOW + 30), "unchanged");
    for (labels, expected) in [
        (json!({"tier": "sla"}), "unchanged"),
        (json!({}), "stopped"),
    ] {
        ledger.set_namespaces(namespaces(&labels));
        assert_eq!(decided(&mut ledger, &running, NOW + 30), expected);
    }
}

#[test]
fn each_case_has_its_decision() {
    let sla = json!({"exempt": {"priorityClasses": [{"name": "sla", "namespaces": ["n"]}]}});
    for (case, patch, spent, new_run, expected) in [
        ("fits", json!({}), "90", run("a", 10), "fits"),
        (
            "a millionth too much",
            json!({}),
            "90.000001",
            run("a", 10),
            "does_not_fit",
        ),
        ("overspent", json!({}), "100.1", run("a", 1), "overspent"),
        (
            "all spent is not overspent",
            json!({}),
            "100",
            run("a", 1),
            "does_not_fit",
        ),
        (
            "more than the limit",
            json!({}),
            "0",
            run("a", 101),
            "rejected",
        ),
        (
            "more than the limit, held",
            json!({"onTooLarge": "Hold"}),
            "0",
            run("a", 101),
            "too_large",
        ),
        (
            "more than a job may",
            json!({"estimate": {"maxPerWorkload": "5"}}),
            "0",
            run("a", 6),
            "rejected",
        ),
        (
            "unpriced",
            json!({}),
            "0",
            unpriced(run("a", 0)),
            "unpriced",
        ),
        (
            "unpriced, admitted",
            json!({"onUnpriced": "Admit"}),
            "0",
            unpriced(run("a", 0)),
            "free",
        ),
        (
            "unpriced, rejected",
            json!({"onUnpriced": "Reject"}),
            "0",
            unpriced(run("a", 0)),
            "rejected",
        ),
        ("exempt", sla, "1000", of_sla(50), "exempt"),
        (
            "relaxed with little left",
            json!({"enforcement": "Relaxed"}),
            "99",
            run("a", 50),
            "fits",
        ),
        (
            "relaxed with nothing left",
            json!({"enforcement": "Relaxed"}),
            "100",
            run("a", 1),
            "does_not_fit",
        ),
        (
            "reported, fits",
            json!({"enforcement": "ReportOnly"}),
            "0",
            run("a", 1),
            "reported: fits",
        ),
        (
            "reported, does not",
            json!({"enforcement": "ReportOnly"}),
            "100",
            run("a", 1),
            "does_not_fit",
        ),
        (
            "no budget",
            json!({"namespaceLimits": {}}),
            "0",
            run("a", 1),
            "not_governed",
        ),
        (
            "unpriced in part, admitted",
            json!({"onUnpriced": "Admit"}),
            "99",
            unpriced(run("a", 5)),
            "does_not_fit",
        ),
    ] {
        let mut ledger = ledger(&patch, spent);
        let decision = ledger.decide(&new_run, time(NOW));
        assert_eq!(label(&decision), expected, "{case}: {decision:?}");
        let again = ledger.decide(&new_run, time(NOW));
        assert!(
            label(&again) == "unchanged" || again == decision,
            "{case}, evaluated again: {again:?}"
        );
        if expected == "reported: fits" || case.starts_with("reported") {
            assert!(matches!(decision, Decision::Admit(_)), "{case}");
        }
    }
}

#[test]
fn a_cold_start_ends_when_the_watermark_has_passed_the_start() {
    let mut ledger = BudgetLedger::new(terms(&json!({})));
    ledger.set_own_limits(BTreeMap::new());
    let evaluate = |ledger: &mut BudgetLedger| decided(ledger, &run("a", 1), NOW);
    assert_eq!(evaluate(&mut ledger), "cold_start");
    ledger.watched_since(time(NOW - 30));
    spent_at(&mut ledger, "0", NOW - 31);
    assert_eq!(
        evaluate(&mut ledger),
        "cold_start",
        "the watermark is before the start"
    );
    spent_at(&mut ledger, "0", NOW - 30);
    assert_eq!(evaluate(&mut ledger), "fits");
    // With `WaitForSource`, a source that lags by days would hold all jobs for days.
    let mut trusting = BudgetLedger::new(terms(
        &json!({"takeover": "TrustWorkloads", "source": {"fixed": {}, "stalenessBound": "3d"}}),
    ));
    trusting.set_own_limits(BTreeMap::new());
    trusting.watched_since(time(NOW));
    spent_at(&mut trusting, "0", NOW - 86_400);
    assert_eq!(evaluate(&mut trusting), "fits");
}

/// Returns the NamespaceBudget of the namespace `n`.
fn own(spec: &Value) -> BTreeMap<String, LimitOverride> {
    let mut spec = spec.clone();
    spec["budgetRef"] = json!("b");
    let budgets = BTreeMap::from([("own".to_owned(), serde_json::from_value(spec).unwrap())]);
    BTreeMap::from([("n".to_owned(), LimitOverride { budgets })])
}

#[test]
fn a_job_is_not_judged_by_a_limit_that_is_not_known_yet() {
    let limit = |limit: &str| own(&json!({"limit": limit}));
    for (limits, known, expected) in [
        (json!({"default": "500"}), limit("2500"), "fits"),
        (json!({"default": "500"}), limit("900"), "rejected"),
        (json!({"default": "500"}), BTreeMap::new(), "rejected"),
        (json!({"max": "5000"}), limit("2500"), "fits"),
        (json!({"max": "5000"}), BTreeMap::new(), "not_governed"),
    ] {
        let mut ledger = BudgetLedger::new(terms(&json!({"namespaceLimits": limits})));
        let evaluate = |ledger: &mut BudgetLedger| decided(ledger, &run("a", 1200), NOW);
        assert_eq!(
            evaluate(&mut ledger),
            "cold_start",
            "{limits}: nothing is known"
        );
        ledger.watched_since(time(NOW - 60));
        spent_at(&mut ledger, "0", NOW);
        assert_eq!(
            evaluate(&mut ledger),
            "cold_start",
            "{limits}: spending is known"
        );
        ledger.own_limits_failed("cannot list namespacebudgets: forbidden (403)");
        let Decision::Hold(HoldReason::ColdStart {
            awaits, problem, ..
        }) = ledger.decide(&run("a", 1200), time(NOW))
        else {
            panic!("{limits}")
        };
        assert_eq!(awaits, Awaited::NamespaceBudgets);
        assert!(
            problem.unwrap().contains("403"),
            "{limits}: the message has the cause"
        );
        let pass = ledger.allocate(time(NOW));
        assert_eq!(
            pass,
            AllocationPass::default(),
            "{limits}: and not again and again"
        );
        ledger.set_own_limits(known.clone());
        let pass = ledger.allocate(time(NOW));
        let evaluated = pass.granted.len() + pass.outdated_messages.len();
        assert_eq!(
            evaluated, 1,
            "{limits}: the job is decided once limits are known"
        );
        assert_eq!(evaluate(&mut ledger), expected, "{limits} {known:?}");
        // If a list fails later, its content stays known.
        ledger.own_limits_failed("cannot list namespacebudgets: forbidden (403)");
        assert!(ledger.limits_are_known().is_ok());
    }
}

#[test]
fn the_rules_have_an_order() {
    let pool = json!({"pools": [{"name": "all", "limit": "15", "namespaceSelector": {"matchLabels": {"org": "x"}}}]});
    let with = |patch: Value| {
        let mut all = pool.clone();
        all.as_object_mut()
            .unwrap()
            .extend(patch.as_object().unwrap().clone());
        all
    };
    let gone = json!({"term": {"from": "2020-01-01T00:00:00Z", "until": "2020-02-01T00:00:00Z"}});
    let without_price = unpriced(run("a", 0));
    let exempt = of_sla(1200);
    let (large, small) = (run("a", 1200), run("a", 1));
    // The message of each job when nothing is known, then with NamespaceBudgets, Namespaces,
    // Workloads, spending, and long after.
    let unknown = ["cold_start"; 4];
    for (case, patch, new_run, early, known, late) in [
        (
            "no period",
            with(json!({"period": gone})),
            &small,
            ["no_period"; 4],
            "no_period",
            "no_period",
        ),
        (
            "too large",
            pool.clone(),
            &large,
            unknown,
            "rejected",
            "stale",
        ),
        (
            "too large, held",
            with(json!({"onTooLarge": "Hold"})),
            &large,
            unknown,
            "too_large",
            "stale",
        ),
        (
            "too large, stale is admitted",
            with(json!({"onStale": "Admit"})),
            &large,
            unknown,
            "rejected",
            "rejected",
        ),
        ("fits", pool.clone(), &small, unknown, "fits", "stale"),
        (
            "unpriced",
            pool.clone(),
            &without_price,
            ["unpriced"; 4],
            "unpriced",
            "unpriced",
        ),
        (
            "unpriced, rejected",
            with(json!({"onUnpriced": "Reject"})),
            &without_price,
            unknown,
            "rejected",
            "rejected",
        ),
        (
            "exempt",
            with(json!({"exempt": {"priorityClasses": [{"name": "sla", "namespaces": ["n"]}]}})),
            &exempt,
            ["exempt"; 4],
            "exempt",
            "exempt",
        ),
        (
            "reported",
            with(json!({"enforcement": "ReportOnly"})),
            &large,
            unknown,
            "too_large",
            "stale",
        ),
    ] {
        let mut ledger = BudgetLedger::new(terms(&patch));
        let evaluate = |ledger: &BudgetLedger, at| decided(&mut ledger.clone(), new_run, at);
        let mut decided_early = vec![evaluate(&ledger, NOW)];
        ledger.set_own_limits(BTreeMap::new());
        decided_early.push(evaluate(&ledger, NOW));
        let labels = BTreeMap::from([("org".to_owned(), "x".to_owned())]);
        ledger.set_namespaces(BTreeMap::from([("n".to_owned(), labels)]));
        decided_early.push(evaluate(&ledger, NOW));
        ledger.watched_since(time(NOW - 60));
        decided_early.push(evaluate(&ledger, NOW));
        assert_eq!(decided_early, early, "{case}");
        if case != "no period" {
            spent_at(&mut ledger, "0", NOW);
        }
        assert_eq!(evaluate(&ledger, NOW), known, "{case}, all is known");
        assert_eq!(evaluate(&ledger, NOW + 1801), late, "{case}, stale");
    }
}

#[test]
fn a_budget_without_limits_of_namespaces_does_not_wait_for_namespace_budgets() {
    let mut spec = json!({
        "unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}],
    });
    spec["pools"] = json!([{"name": "all", "limit": "15", "namespaceSelector": {}}]);
    let terms = BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
    let mut ledger = BudgetLedger::new(Arc::new(terms));
    ledger.set_namespaces(BTreeMap::from([("n".to_owned(), BTreeMap::new())]));
    ledger.watched_since(time(NOW - 60));
    spent_at(&mut ledger, "0", NOW);
    assert_eq!(decided(&mut ledger.clone(), &run("a", 10), NOW), "fits");
    // NamespaceBudgets that are listed later change nothing, so decisions do not depend on their
    // time.
    ledger.set_own_limits(own(&json!({"limit": "5"})));
    assert_eq!(decided(&mut ledger, &run("a", 10), NOW), "fits");
}

#[test]
fn a_namespace_that_has_not_been_seen_is_not_one_without_labels() {
    let pools = json!({
        "namespaceLimits": {},
        "pools": [{"name": "all", "limit": "15", "namespaceSelector": {"matchLabels": {"org": "x"}}}],
    });
    let mut ledger = ledger(&pools, "0");
    let labels = |org: &str| BTreeMap::from([("org".to_owned(), org.to_owned())]);
    for (seen, expected) in [
        (("m", "x"), "cold_start"),
        (("n", "y"), "not_governed"),
        (("n", "x"), "fits"),
    ] {
        ledger.set_namespaces(BTreeMap::from([(seen.0.to_owned(), labels(seen.1))]));
        let mut ledger = ledger.clone();
        assert_eq!(
            decided(&mut ledger, &run("a", 10), NOW),
            expected,
            "{seen:?}"
        );
    }
}

#[test]
fn nothing_that_runs_is_stopped_by_a_limit_that_is_not_known_yet() {
    let mut ledger = BudgetLedger::new(terms(
        &json!({"onOverspent": {"running": "Evict", "grace": "1m"}}),
    ));
    let running = running("a", 1, NOW - 50);
    ledger.observe_run(&running, time(NOW));
    ledger.watched_since(time(NOW - 60));
    spent_at(&mut ledger, "101", NOW + 1);
    assert_eq!(decided(&mut ledger, &running, NOW + 100), "unchanged");
    assert_eq!(ledger.overspenders(time(NOW + 100)), []);
    ledger.set_own_limits(own(&json!({"limit": "100"})));
    spent_at(&mut ledger, "101", NOW + 110);
    assert_eq!(decided(&mut ledger, &running, NOW + 150), "unchanged");
    assert_eq!(decided(&mut ledger, &running, NOW + 170), "stopped");
}

#[test]
fn what_is_stale_holds_or_lets_go() {
    for (patch, expected) in [(json!({}), "Hold"), (json!({"onStale": "Admit"}), "Admit")] {
        let mut ledger = ledger(&patch, "0");
        let late = time(NOW + 1801);
        let decision = ledger.decide(&run("a", 1), late);
        assert_eq!(
            (label(&decision), matches!(decision, Decision::Admit(_))),
            ("stale", expected == "Admit")
        );
        assert_eq!(
            decided(&mut ledger.clone(), &run("b", 1), NOW + 1800),
            "fits",
            "within the bound spending is modelled"
        );
    }
}

fn variant() -> Job {
    Job {
        key: Uid::new("parent"),
        is_variant: true,
        starts_at_once: true,
    }
}

#[test]
fn of_variants_only_one_starts() {
    let mut ledger = ledger(&json!({}), "0");
    for (name, rate) in [("a", 30), ("b", 50), ("c", 40)] {
        let variant = Run {
            job: Some(variant()),
            ..approved(name, rate)
        };
        ledger.observe_run(&variant, time(NOW));
    }
    assert_eq!(
        balance(&ledger, NOW).committed.reserved,
        Amount::units(50),
        "the largest"
    );
    let started = Run {
        job: Some(variant()),
        ..running("a", 30, NOW)
    };
    ledger.observe_run(&started, time(NOW));
    assert_eq!(
        balance(&ledger, NOW).committed.total(),
        Amount::units(50),
        "one that takes its place is charged the difference"
    );
}

#[test]
fn no_owner_makes_several_workloads_count_as_one() {
    let owner = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "made-up", "uid": "0"});
    let terms = terms(&json!({}));
    let mut ledger = ledger(&json!({}), "0");
    let admitted = (0..12).filter(|number| {
        let workload = Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": "w", "uid": number.to_string(), "ownerReferences": [owner]},
            "spec": {"maximumExecutionTimeSeconds": 3600, "podSets": [{"name": "main", "count": 1,
                "template": {"spec": {"terminationGracePeriodSeconds": 0}}}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": time(NOW - 10).to_string()}],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [
                    {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "10"}}]},
                "admissionChecks": [{"name": "check", "state": "Pending"}],
            },
        }));
        let run = run_of(&workload.unwrap(), None, &terms, ["check"].into_iter()).unwrap();
        matches!(ledger.decide(&run, time(NOW)), Decision::Admit(_))
    });
    assert_eq!(admitted.count(), 10, "of 10 each, 100 are there");
    assert_eq!(
        balance(&ledger, NOW).committed.reserved,
        Amount::units(100),
        "each may start"
    );
}

#[test]
fn what_was_approved_is_decided_again_when_it_costs_more_before_it_is_admitted() {
    let longer = |mut run: Run, seconds| {
        run.estimate.seconds = seconds;
        run
    };
    for (case, state, spent, at, seconds, expected) in [
        (
            "the same",
            RunState::Approved(NOW),
            "80",
            NOW,
            3600,
            "unchanged",
        ),
        (
            "shorter",
            RunState::Approved(NOW),
            "80",
            NOW,
            60,
            "unchanged",
        ),
        (
            "longer, and fits",
            RunState::Approved(NOW),
            "80",
            NOW,
            7200,
            "unchanged",
        ),
        (
            "too long",
            RunState::Approved(NOW),
            "80",
            NOW,
            7201,
            "does_not_fit",
        ),
        (
            "and runs",
            RunState::Running(NOW),
            "80",
            NOW,
            7201,
            "unchanged",
        ),
        (
            "spending is stale",
            RunState::Approved(NOW),
            "80",
            NOW + 1801,
            7201,
            "unchanged",
        ),
        (
            "the same, and nothing is left",
            RunState::Approved(NOW),
            "150",
            NOW,
            3600,
            "unchanged",
        ),
    ] {
        let mut ledger = ledger(&json!({}), "80");
        assert_eq!(decided(&mut ledger, &run("a", 10), NOW), "fits");
        let approved = approved("a", 10);
        ledger.observe_run(&approved, time(NOW));
        spent_at(&mut ledger, spent, NOW);
        let changed = longer(Run { state, ..approved }, seconds);
        ledger.observe_run(&changed, time(at));
        let pass = ledger.allocate(time(at));
        let decision = ledger.decide(&changed, time(at));
        assert_eq!(label(&decision), expected, "{case}: {decision:?}");
        if expected == "does_not_fit" {
            assert_eq!(
                pass.outdated_messages.len(),
                1,
                "{case}: it is evaluated again"
            );
            // A lost write is repeated, and until it succeeds the job may start.
            assert_eq!(ledger.decide(&changed, time(at)), decision, "{case}");
            let committed = balance(&ledger, at).committed.reserved;
            assert_eq!(committed, changed.estimate.total(), "{case}");
            // Once the cluster shows it, the run waits like others.
            let pending_run = Run {
                state: RunState::Evaluated,
                ..changed
            };
            assert_eq!(decided(&mut ledger, &pending_run, at), "does_not_fit");
            assert_eq!(balance(&ledger, at).committed.reserved, Amount::ZERO);
        } else {
            assert_eq!(pass.outdated_messages.len(), 0, "{case}");
        }
    }
    // The same applies to an approval that is not confirmed yet.
    let mut ledger = self::ledger(&json!({}), "80");
    assert_eq!(decided(&mut ledger, &run("a", 10), NOW), "fits");
    assert_eq!(decided(&mut ledger, &run("a", 10), NOW), "fits");
    let longer = longer(run("a", 10), 7201);
    assert_eq!(decided(&mut ledger, &longer, NOW), "does_not_fit");
    assert_eq!(balance(&ledger, NOW).committed.reserved, Amount::ZERO);

    // A changed price has the same effect.
    let mut ledger = self::ledger(&json!({}), "80");
    ledger.decide(&run("a", 10), time(NOW));
    let approved = approved("a", 10);
    ledger.observe_run(&approved, time(NOW));
    let dearer = Run {
        estimate: run("a", 30).estimate,
        ..approved
    };
    ledger.observe_run(&dearer, time(NOW));
    assert_eq!(decided(&mut ledger, &dearer, NOW), "does_not_fit");
}

#[test]
fn a_run_in_no_account_waits_unless_the_budget_admits_it() {
    for (patch, expected) in [
        (json!({"namespaceLimits": {}}), "not_governed"),
        (
            json!({"namespaceLimits": {}, "onUngoverned": "Hold"}),
            "not_governed",
        ),
        (
            json!({"namespaceLimits": {}, "onUngoverned": "Admit"}),
            "not governed",
        ),
        (
            json!({"namespaceLimits": {}, "enforcement": "ReportOnly"}),
            "not_governed",
        ),
        (
            json!({"namespaceLimits": {}, "exempt": {"namespaces": ["n"]}}),
            "exempt",
        ),
    ] {
        let mut ledger = ledger(&patch, "0");
        let decision = ledger.decide(&run("a", 10), time(NOW));
        assert_eq!(label(&decision), expected, "{patch}");
        if let Decision::Hold(_) = decision {
            assert_eq!(
                ledger.allocate(time(NOW)),
                AllocationPass::default(),
                "{patch}"
            );
            // The run waits for an account, and starts when it has one.
            ledger.set_own_limits(own(&json!({"limit": "10"})));
            assert_eq!(ledger.allocate(time(NOW)).granted.len(), 1, "{patch}");
        }
    }
    // A namespace that leaves its pool is still subject to the Budget.
    let pools = json!({
        "namespaceLimits": {},
        "pools": [{"name": "all", "limit": "15", "namespaceSelector": {"matchLabels": {"org": "x"}}}],
    });
    let mut ledger = ledger(&pools, "0");
    for (labels, expected) in [
        (json!({"org": "x"}), "does_not_fit"),
        (json!({}), "not_governed"),
    ] {
        ledger.set_namespaces(namespaces(&labels));
        let new_run = run("a", 10);
        let mut ledger = ledger.clone();
        spent_at(&mut ledger, "10", NOW);
        assert_eq!(decided(&mut ledger, &new_run, NOW), expected, "{labels}");
    }
}

#[test]
fn a_job_without_an_end_counts_for_a_horizon_again_and_again() {
    let mut ledger = ledger(&json!({}), "0");
    let endless = Run {
        state: RunState::Running(NOW),
        estimate: Estimate {
            bounded: false,
            ..run("a", 10).estimate
        },
        ..run("a", 10)
    };
    ledger.observe_run(&endless, time(NOW));
    for (later, expected) in [(0, 10), (1800, 5), (3600, 10), (36_000, 10)] {
        let at = NOW + later;
        spent_at(&mut ledger, "0", at);
        let committed = balance(&ledger, at).committed;
        assert_eq!(
            (committed.running, committed.unbounded),
            (Amount::units(expected), Amount::units(10)),
            "after {later} s"
        );
    }
}

#[test]
fn a_period_begins_with_what_runs() {
    let mut ledger = ledger(&hourly(), "90");
    ledger.observe_run(&running("a", 10, NOW + 1800), time(NOW + 1800));
    spent_at(&mut ledger, "90", NOW + 1800);
    assert_eq!(
        balance(&ledger, NOW + 1800).committed.total(),
        Amount::units(5),
        "half an hour is left of the period"
    );
    let next = balance(&ledger, NOW + 3600);
    assert_eq!(
        (next.spent, next.committed.total()),
        (Amount::ZERO, Amount::units(5)),
        "nothing is known, all is committed"
    );
    // The part beyond the period must fit in the next one too.
    let long = lasting("b", 96, 7200);
    let cheap = lasting("b", 4, 7200);
    assert_eq!(decided(&mut ledger.clone(), &cheap, NOW + 1800), "fits");
    spent_at(&mut ledger, "0", NOW + 3601);
    assert_eq!(decided(&mut ledger, &long, NOW + 3601), "does_not_fit");
}

/// The part of a job beyond this period is paid from the limit of the next one.
#[test]
fn a_top_up_pays_for_no_period_after_its_end() {
    for (until, expected) in [
        (NOW + 3600, "does_not_fit"),
        (NOW + 3601, "does_not_fit"),
        (NOW + 7200, "fits"),
    ] {
        let mut ledger = ledger(&hourly(), "0");
        let top_up = json!({"amount": "400", "validUntil": time(until).to_string()});
        ledger.set_own_limits(own(&json!({"topUps": [top_up]})));
        let long = lasting("a", 200, 7200);
        let decision = ledger.decide(&long, time(NOW + 1800));
        assert_eq!(label(&decision), expected, "until {until}");
    }
}

/// Each period that the job may reach has its own limit.
#[test]
fn a_long_job_must_fit_in_every_period_and_a_short_one_only_in_those_it_reaches() {
    for (seconds, rate, until, expected) in [
        (10_800, 200, NOW + 7200, "does_not_fit"),
        (10_800, 200, NOW + 10_800, "fits"),
        (60, 12_000, NOW + 3600, "fits"),
        (60, 12_000, NOW + 60, "fits"),
        (60, 30_001, NOW + 3600, "rejected"),
    ] {
        let mut ledger = ledger(&hourly(), "0");
        let top_up = json!({"amount": "400", "validUntil": time(until).to_string()});
        ledger.set_own_limits(own(&json!({"topUps": [top_up]})));
        let job = lasting("a", rate, seconds);
        let decision = ledger.decide(&job, time(NOW));
        assert_eq!(
            label(&decision),
            expected,
            "{seconds} s, {rate}/h until {until}"
        );
    }
}

/// What ran before is in no figure of the new source, until that has passed what was known.
#[test]
fn a_slower_source_is_waited_for_like_a_cold_start() {
    let mut ledger = ledger(&json!({}), "0");
    ledger.watched_since(time(NOW - 10_000));
    let ran = running("a", 120, NOW - 3600);
    ledger.observe_run(&ran, time(NOW - 3600));
    ledger.finished(&ran.uid, NOW - 1800);
    spent_at(&mut ledger, "60", NOW);
    let slower = json!({"source": {"fixed": {}, "settleDelay": "1h", "stalenessBound": "2h"}});
    ledger.set_config(terms(&slower));
    let period = ledger.period(time(NOW)).unwrap();
    let mut observe = |at: i64, now: i64| {
        ledger.observe(&Observation::of(period, time(at)), time(now));
        decided(&mut ledger, &run("b", 10), now)
    };
    assert_eq!(observe(NOW - 3600, NOW + 60), "cold_start");
    assert_eq!(observe(NOW + 60, NOW + 3660), "fits");
}

#[test]
fn a_source_that_lags_more_than_its_settings_state_is_not_queried_more_often() {
    for (now, expected) in [
        (NOW + 200, Some(40)),
        (NOW + 240, Some(1)),
        (NOW + 241, Some(30)),
        (NOW + 540, Some(30)),
        (NOW + 541, None),
    ] {
        let mut ledger = ledger(&json!({}), "0");
        ledger.watched_since(time(NOW - 10_000));
        spent_at(&mut ledger, "60", NOW);
        let other = json!({"source": {"fixed": {}, "settleDelay": "4m", "stalenessBound": "2h"}});
        ledger.set_config(terms(&other));
        let period = ledger.period(time(NOW)).unwrap();
        ledger.observe(&Observation::of(period, time(NOW - 3600)), time(now));
        assert_eq!(ledger.cold_for(240, 300, time(now)), expected);
    }
}

#[test]
fn a_job_that_exceeds_the_limit_of_a_later_period_blocks_no_other() {
    let mut ledger = ledger(
        &json!({"admitOrder": "Strict", "period": {"every": "1h", "anchor": time(NOW).to_string()}}),
        "0",
    );
    let top_up = json!({"amount": "400", "validUntil": time(NOW + 3600).to_string()});
    ledger.set_own_limits(own(&json!({"topUps": [top_up]})));
    let long = Run {
        priority: 9,
        ..lasting("long", 200, 7200)
    };
    assert_eq!(decided(&mut ledger, &long, NOW), "does_not_fit");
    let small = |name| run(name, 10);
    assert_eq!(decided(&mut ledger, &small("a"), NOW), "fits");
    // With a longer top-up it only waits for money.
    let top_up = json!({"amount": "400", "validUntil": time(NOW + 7200).to_string()});
    ledger.set_own_limits(own(&json!({"topUps": [top_up]})));
    spent_at(&mut ledger, "450", NOW + 60);
    assert_eq!(decided(&mut ledger, &long, NOW + 60), "does_not_fit");
    assert_eq!(decided(&mut ledger, &small("b"), NOW + 60), "behind");
}

/// What other jobs take of the next period may end.
#[test]
fn a_job_that_waits_for_the_money_of_a_later_period_blocks_others() {
    let mut ledger = ledger(
        &json!({"admitOrder": "Strict", "period": {"every": "1h", "anchor": time(NOW).to_string()}}),
        "0",
    );
    let top_up = json!({"amount": "400", "validUntil": time(NOW + 3600).to_string()});
    ledger.set_own_limits(own(&json!({"topUps": [top_up]})));
    let job = |name, rate, seconds, priority| Run {
        priority,
        ..lasting(name, rate, seconds)
    };
    let now = time(NOW + 1800);
    spent_at(&mut ledger, "0", NOW + 1800);
    let first = ledger.decide(&job("first", 190, 3600, 0), now);
    assert_eq!(label(&first), "fits");
    let waits = ledger.decide(&job("waits", 960, 1200, 9), now);
    assert_eq!(label(&waits), "does_not_fit");
    let small = ledger.decide(&job("small", 60, 600, 0), now);
    assert_eq!(label(&small), "behind");
}

#[test]
fn a_job_that_no_account_governs_is_approved() {
    let mut ledger = ledger(
        &json!({"namespaceLimits": {}, "onUngoverned": "Admit"}),
        "0",
    );
    assert_eq!(decided(&mut ledger, &run("a", 10), NOW), "not governed");
    let approved = approved("a", 10);
    ledger.observe_run(&approved, time(NOW));
    assert_eq!(ledger.unapproved_starts(), 0);
}

#[test]
fn a_budget_that_only_reports_stops_nothing() {
    for enforcement in ["Strict", "ReportOnly"] {
        let patch =
            json!({"enforcement": enforcement, "onOverspent": {"running": "Evict", "grace": "1s"}});
        let mut ledger = ledger(&patch, "50");
        let running = running("a", 10, NOW - 60);
        ledger.observe_run(&running, time(NOW));
        spent_at(&mut ledger, "101", NOW + 10);
        ledger.decide(&running, time(NOW + 10));
        let decision = ledger.decide(&running, time(NOW + 60));
        let stops = enforcement == "Strict";
        assert_eq!(
            label(&decision) == "stopped",
            stops,
            "{enforcement}: {decision:?}"
        );
        assert_eq!(ledger.overspenders(time(NOW + 60)).is_empty(), !stops);
    }
}

#[test]
fn all_accounts_must_have_money_left_and_none_pays_alone() {
    let pools = json!({"pools": [{"name": "all", "limit": "15", "namespaceSelector": {"matchLabels": {"org": "x"}}}]});
    let mut ledger = ledger(&pools, "0");
    assert_eq!(
        decided(&mut ledger, &run("a", 10), NOW),
        "cold_start",
        "which pools pay is not known yet"
    );
    let labels = BTreeMap::from([("org".to_owned(), "x".to_owned())]);
    ledger.set_namespaces(BTreeMap::from([
        ("n".to_owned(), labels.clone()),
        ("m".to_owned(), labels),
    ]));
    assert_eq!(decided(&mut ledger, &run("a", 10), NOW), "fits");
    let other = Run {
        namespace: "m".into(),
        ..run("b", 10)
    };
    let decision = ledger.decide(&other, time(NOW));
    let Decision::Hold(HoldReason::DoesNotFit { balance, .. }) = &decision else {
        panic!("{decision:?}")
    };
    assert_eq!(balance.account, Account::Pool("all".into()));
    let own = ledger.balance(
        &Account::Namespace("m".into()),
        ledger.period(time(NOW)).unwrap(),
        time(NOW),
    );
    assert_eq!(
        own.committed,
        Committed::default(),
        "nothing was taken from the namespace"
    );
}

#[test]
fn a_pool_has_paid_for_a_namespace_that_was_deleted() {
    let pools = json!({
        "period": {"every": "1h", "anchor": time(NOW - 60).to_string()},
        "pools": [{"name": "all", "limit": "15", "namespaceSelector": {"matchLabels": {"org": "x"}}}],
    });
    let labels = BTreeMap::from([("org".to_owned(), "x".to_owned())]);
    let exist = |names: &[&str]| -> BTreeMap<String, BTreeMap<String, String>> {
        let of = |name: &&str| ((*name).to_owned(), labels.clone());
        names.iter().map(of).collect()
    };
    let new_run = Run {
        namespace: "m".into(),
        ..lasting("a", 600, 60)
    };
    let evaluate = |ledger: &BudgetLedger, at| decided(&mut ledger.clone(), &new_run, at);
    let mut ledger = ledger(&pools, "10");
    ledger.set_namespaces(exist(&["n", "m", "idle"]));
    assert_eq!(evaluate(&ledger, NOW), "does_not_fit");
    ledger.set_namespaces(exist(&["m"]));
    assert_eq!(evaluate(&ledger, NOW), "does_not_fit");
    spent_at(&mut ledger, "10", NOW + 60);
    assert_eq!(evaluate(&ledger, NOW + 60), "does_not_fit");
    let kept: Vec<&String> = ledger.vanished.keys().collect();
    assert_eq!(kept, ["n"], "the other has spent nothing");
    // The source no longer has a figure of it. No job of the pool waits for one.
    let none = |at| Observation::of(ledger.period(time(at)).unwrap(), time(at));
    let (later, next) = (none(NOW + 2400), none(NOW + 3600));
    ledger.observe(&later, time(NOW + 2400));
    assert_eq!(evaluate(&ledger, NOW + 2400), "does_not_fit");
    // One that is there again has its present labels.
    let mut returned = ledger.clone();
    returned.set_namespaces(namespaces(&json!({"org": "y"})));
    returned.set_namespaces(exist(&["m"]));
    assert_eq!(evaluate(&returned, NOW + 2400), "fits");
    ledger.observe(&next, time(NOW + 3600));
    assert_eq!(evaluate(&ledger, NOW + 3600), "fits", "the next period");
    assert!(ledger.vanished.is_empty());
}

#[test]
fn a_namespace_without_a_current_sample_holds_no_other_of_its_pool() {
    let selected = |limits: Value| json!({"namespaceLimits": limits, "pools": [{"name": "all", "limit": "50", "namespaceSelector": {}}]});
    let of = |namespace: &str, name: &str| Run {
        namespace: namespace.into(),
        ..run(name, 10)
    };
    for patch in [selected(json!({"default": "100"})), selected(json!({}))] {
        let mut ledger = ledger(&patch, "0");
        let labels = |name: &str| (name.to_owned(), BTreeMap::new());
        ledger.set_namespaces(["a", "b"].map(labels).into());
        let unscheduled = Run {
            state: RunState::Running(NOW - 1000),
            ..of("b", "unscheduled")
        };
        ledger.observe_run(&unscheduled, time(NOW));
        let observe = |ledger: &mut BudgetLedger, current: &[&str], at| {
            let observation = Observation {
                current: Some(current.iter().map(|name| (*name).into()).collect()),
                ..Observation::of(ledger.period(time(at)).unwrap(), time(at))
            };
            ledger.observe(&observation, time(at));
        };
        for at in (NOW + 60..NOW + 1801).step_by(60).chain([NOW + 1801]) {
            observe(&mut ledger, &["a"], at);
        }
        let evaluate = |ledger: &BudgetLedger, namespace: &str| {
            let new_run = of(namespace, "new");
            decided(&mut ledger.clone(), &new_run, NOW + 1801)
        };
        assert_eq!(evaluate(&ledger, "a"), "fits", "{patch}");
        assert_eq!(evaluate(&ledger, "b"), "stale", "{patch}");
        // Its job counts by the estimate, from its last figure on.
        let period = ledger.period(time(NOW)).unwrap();
        let pool = ledger.balance(&Account::Pool("all".into()), period, time(NOW + 1801));
        let rate = Rate::of(10_000, Amount::units(1), 1);
        assert_eq!(pool.committed.total(), rate.cost(2600), "{patch}");

        // Runs that ended before this process watches are in no estimate.
        let mut began_later = ledger.clone();
        began_later.watched_since(time(NOW + 30));
        assert_eq!(evaluate(&began_later, "a"), "cold_start", "{patch}");
        // Nothing is measured.
        observe(&mut ledger, &[], NOW + 1801);
        assert_eq!(evaluate(&ledger, "a"), "stale", "{patch}");
    }
}

#[test]
fn the_last_money_goes_by_priority_and_age_and_skips_no_job_in_strict_order() {
    for (order, expected) in [
        ("Backfill", vec!["high", "small"]),
        ("Strict", vec!["high"]),
    ] {
        let mut ledger = ledger(&json!({"admitOrder": order}), "99");
        for (name, rate, priority, since) in
            [("old", 20, 0, 1), ("small", 5, 0, 3), ("high", 10, 9, 4)]
        {
            let waiting = Run {
                priority,
                since: NOW - 100 + since,
                ..run(name, rate)
            };
            assert_eq!(decided(&mut ledger, &waiting, NOW), "does_not_fit");
        }
        // A limit of 115 leaves 16.
        ledger.set_config(terms(
            &json!({"admitOrder": order, "namespaceLimits": {"default": "115"}}),
        ));
        let granted: Vec<String> = ledger
            .allocate(time(NOW))
            .granted
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(granted, expected, "{order}");
    }
}

#[test]
fn the_message_of_a_held_job_changes_only_when_it_matters() {
    let mut ledger = ledger(&json!({}), "95");
    let new_run = run("a", 10);
    let mut decision = ledger.decide(&new_run, time(NOW));
    assert_eq!(label(&decision), "does_not_fit");
    for (spent, later, expected) in [
        ("96", 60, "the same"),
        ("100", 120, "the same"),
        ("100.5", 180, "overspent"),
        ("111", 240, "the same"),
        ("111", 790, "the same"),
    ] {
        spent_at(&mut ledger, spent, NOW + later);
        let before = std::mem::replace(&mut decision, ledger.decide(&new_run, time(NOW + later)));
        let same = if before == decision {
            "the same"
        } else {
            label(&decision)
        };
        assert_eq!(same, expected, "{spent} after {later} s");
        // A lost message is returned again, word for word.
        assert_eq!(
            ledger.decide(&new_run, time(NOW + later)),
            decision,
            "{spent}"
        );
    }
}

#[test]
fn a_warning_is_not_money_and_less_than_before_is_not_accepted() {
    let mut ledger = ledger(&json!({}), "50");
    assert_eq!(
        spent_at(&mut ledger, "49.99", NOW + 60).decreased,
        Vec::<Arc<str>>::new(),
        "noise"
    );
    let taken = spent_at(&mut ledger, "20", NOW + 120);
    assert_eq!(taken.decreased, ["n".into()]);
    let balance = balance(&ledger, NOW + 120);
    assert_eq!(balance.spent, Amount::units(50), "the higher stays");
    assert_eq!(
        ledger.watermark(&balance.account),
        Some(NOW + 60),
        "and what came after is not known"
    );
}

#[test]
fn a_period_whose_beginning_the_source_lacks_holds_jobs() {
    for (patch, covered, expected) in [
        (json!({}), false, "not_covered"),
        (json!({"onUncovered": "Hold"}), false, "not_covered"),
        (json!({"onUncovered": "Admit"}), false, "fits"),
        (json!({"enforcement": "ReportOnly"}), false, "not_covered"),
        (json!({}), true, "fits"),
    ] {
        let mut ledger = ledger(&patch, "0");
        let observation = Observation {
            covered,
            ..Observation::of(ledger.period(time(NOW)).unwrap(), time(NOW))
        };
        ledger.observe(&observation, time(NOW));
        let decision = ledger.decide(&run("a", 10), time(NOW));
        assert_eq!(label(&decision), expected, "{patch} {covered}");
        // The run starts when the history is available again.
        spent_at(&mut ledger, "0", NOW + 60);
        if let Decision::Hold(_) = decision {
            assert_eq!(ledger.allocate(time(NOW + 60)).granted.len(), 1);
        }
    }
    // A job that is too large is not rejected while the figures are incomplete.
    let mut ledger = ledger(&json!({}), "0");
    let observation = Observation {
        covered: false,
        ..Observation::of(ledger.period(time(NOW)).unwrap(), time(NOW))
    };
    ledger.observe(&observation, time(NOW));
    assert_eq!(decided(&mut ledger, &run("a", 1000), NOW), "not_covered");
}

/// Returns the Budget with `patch`, and with a status that was written under `before` at a spend of
/// 90.
fn published(before: &Value, patch: &Value) -> BudgetConfig {
    let wrote = terms(before);
    let period = wrote.schedule.at(time(NOW)).unwrap();
    let (start, end) = (period.start.to_string(), period.end.to_string());
    let budget = json!({
        "apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "Budget",
        "metadata": {"name": "b", "uid": "u", "generation": 7}, "spec": spec(patch),
        "status": {"period": {"start": start, "end": end}, "asOf": time(NOW - 600).to_string(),
            "spent": {"n": "90"}, "measured": wrote.measured},
    });
    BudgetConfig::of(&serde_json::from_value(budget).unwrap()).unwrap()
}

#[test]
fn what_was_published_is_a_floor_for_the_same_source_and_period() {
    let other = json!({"source": {"fixed": {"spent": {"x": "1"}}}});
    let limits = json!({"namespaceLimits": {"default": "95"}});
    let hour = json!({"period": {"every": "1h", "anchor": time(NOW - 1800).to_string()}});
    for (case, before, patch, began, expected) in [
        ("the same", json!({}), json!({}), NOW, "90"),
        ("another limit", json!({}), limits, NOW, "90"),
        ("another source", json!({}), other, NOW, "0"),
        ("another unit", json!({}), json!({"unit": "EUR"}), NOW, "0"),
        ("the same hour", hour.clone(), hour.clone(), NOW, "90"),
        ("the next hour", hour.clone(), hour, NOW + 3600, "0"),
    ] {
        let mut ledgers = Ledgers::default();
        ledgers.adopt(Arc::new(published(&before, &patch)), time(began));
        let ledger = ledgers.ledger("b").unwrap();
        let spent = ledger
            .spend()
            .spent("n", ledger.period(time(began)).unwrap());
        assert_eq!(spent, expected.parse().unwrap(), "{case}");
    }

    // Jobs do not become free if the source has lost its history.
    let mut ledgers = Ledgers::default();
    let known = published(&json!({}), &json!({}));
    ledgers.adopt(Arc::new(known), time(NOW - 60));
    ledgers.observe_workload(WorkloadEvent::ListStarted, time(NOW - 60));
    ledgers.observe_workload(
        WorkloadEvent::ListCompleted { continuous: false },
        time(NOW - 60),
    );
    let ledger = ledgers.ledger_mut("b").unwrap();
    ledger.set_own_limits(BTreeMap::new());
    let taken = spent_at(ledger, "0", NOW);
    assert_eq!(taken.decreased, ["n".into()]);
    assert_eq!(decided(ledger, &run("a", 20), NOW), "cold_start");
    // A higher figure is accepted.
    spent_at(ledger, "91", NOW + 60);
    assert_eq!(decided(ledger, &run("a", 20), NOW + 60), "does_not_fit");
    assert_eq!(decided(ledger, &run("b", 9), NOW + 60), "fits");
}

#[test]
fn a_process_that_does_not_lead_drops_the_runs_of_earlier_periods() {
    let hour = Arc::new(published(&hourly(), &hourly()));
    let mut ledger = BudgetLedger::new(Arc::clone(&hour));
    for (name, end) in [("a", NOW - 7200), ("b", NOW - 60), ("c", NOW + 60)] {
        ledger.observe_run(&running(name, 10, end - 600), time(end - 600));
        ledger.stop(&Uid::new(name), end);
    }
    for (now, kept) in [(NOW + 120, 2), (NOW + 3700, 1), (NOW + 7300, 0)] {
        ledger.apply_published_spend(&hour, time(now));
        assert_eq!(ledger.ended.len(), kept, "at {now}");
    }
}

#[test]
fn an_unapproved_start_is_charged_and_reported() {
    let mut ledger = ledger(&json!({}), "0");
    ledger.observe_run(&run("a", 10), time(NOW));
    ledger.observe_run(&approved("a", 10), time(NOW));
    assert_eq!(
        (
            ledger.unapproved_starts(),
            balance(&ledger, NOW).committed.total()
        ),
        (1, Amount::units(10))
    );
    ledger.decide(&run("b", 10), time(NOW));
    ledger.observe_run(&approved("b", 10), time(NOW));
    assert_eq!(ledger.unapproved_starts(), 1);
}

#[test]
fn overspending_jobs_are_evicted_after_the_grace_period_lowest_priority_and_youngest_first() {
    let mut ledger = ledger(
        &json!({"onOverspent": {"running": "Evict", "grace": "1m"}}),
        "0",
    );
    let running = |name, priority, since| Run {
        priority,
        state: RunState::Running(since),
        ..run(name, 1)
    };
    let runs = [
        running("old", 0, NOW - 50),
        running("young", 0, NOW - 20),
        running("high", 5, NOW - 1),
    ];
    for run in &runs {
        ledger.observe_run(run, time(NOW));
    }
    spent_at(&mut ledger, "101", NOW + 1);
    let stopped = |ledger: &mut BudgetLedger, at| {
        runs.iter()
            .filter(|run| decided(ledger, run, at) == "stopped")
            .map(|run| run.uid.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(stopped(&mut ledger, NOW + 30), [""; 0]);
    assert_eq!(stopped(&mut ledger, NOW + 61), ["young"]);
}

/// A slice that waits to add pods to a running job.
fn growth(name: &str) -> Run {
    Run {
        grows: Some(RunningPods::Known(1)),
        ..run(name, 1)
    }
}

#[test]
fn quota_is_released_at_intervals_that_grow() {
    let mut ledger = ledger(
        &json!({"onExhausted": {"quota": "Yield", "every": "10m", "max": "1h"}}),
        "100",
    );
    for name in ["a", "b"] {
        ledger.decide(&run(name, 1), time(NOW));
    }
    ledger.decide(&growth("growth"), time(NOW));
    let mut turn = |name: &str, attempt, later| {
        ledger.try_yield(&Uid::new(name), "cq", attempt, time(NOW + later))
    };
    assert!(!turn("a", 1, 300), "it has waited for five minutes");
    assert!(turn("a", 1, 600));
    assert!(!turn("b", 1, 601), "one at a time");
    assert!(turn("b", 1, 1200));
    assert!(!turn("b", 3, 3000), "forty minutes after two returns");
    assert!(turn("b", 3, 3600));
    assert!(!turn("c", 1, 9000), "who does not wait");
    assert!(
        !turn("growth", 1, 9000),
        "its job would run on: no quota is released"
    );
}

#[test]
fn runs_that_may_release_quota_are_evaluated_when_one_may_and_not_at_each_change() {
    let yields = |quota: &str| json!({"onExhausted": {"quota": quota, "every": "10m"}});
    let mut ledger = ledger(&yields("Yield"), "100");
    for name in ["a", "b"] {
        ledger.decide(&run(name, 1), time(NOW));
    }
    ledger.decide(&growth("growth"), time(NOW));
    let due = |ledger: &mut BudgetLedger, later: i64, waits: bool| {
        ledger
            .due_to_yield(time(NOW + later), |_| waits.then(|| "cq".to_owned()))
            .len()
    };
    assert_eq!(due(&mut ledger, 300, true), 0, "not for ten minutes");
    assert_eq!(due(&mut ledger, 600, false), 0, "nobody waits for quota");
    assert_eq!(due(&mut ledger, 600, true), 2);
    assert_eq!(
        due(&mut ledger, 601, true),
        0,
        "they have just been evaluated"
    );
    assert_eq!(due(&mut ledger, 630, true), 2, "none of them did");
    assert!(ledger.try_yield(&Uid::new("a"), "cq", 1, time(NOW + 630)));
    assert_eq!(due(&mut ledger, 700, true), 0, "one has");
    let mut keeps = self::ledger(&yields("Hold"), "100");
    keeps.decide(&run("a", 1), time(NOW));
    assert_eq!(due(&mut keeps, 600, true), 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time that a decision takes")]
fn a_decision_among_ten_thousand_takes_less_than_a_millisecond() {
    let mut ledger = ledger(&json!({"namespaceLimits": {"default": "999999999"}}), "0");
    for number in 0..10_000 {
        let namespace: Arc<str> = format!("team-{}", number % 50).into();
        let uid = Uid::new(&format!("00000000-0000-0000-0000-{number:012x}"));
        ledger.observe_run(
            &Run {
                uid,
                namespace,
                state: RunState::Running(NOW - 100),
                ..run("x", 10)
            },
            time(NOW),
        );
    }
    let mut times: Vec<std::time::Duration> = (0..DECISIONS)
        .map(|number| {
            let new_run = Run {
                namespace: "team-7".into(),
                ..run(&format!("new-{number}"), 1)
            };
            let began = std::time::Instant::now();
            let decision = ledger.decide(&new_run, time(NOW));
            let took = began.elapsed();
            assert_eq!(label(&decision), "fits");
            took
        })
        .collect();
    // Other load on the machine slows single decisions, independent of the ledger.
    times.sort_unstable();
    let (best, median) = (times[times.len() / 20], times[times.len() / 2]);
    println!(
        "a decision among 10,000 committed Workloads: {median:?} in the median, one in twenty {best:?} or less"
    );
    // Without optimization it is several times as much.
    let limit = if cfg!(debug_assertions) { 10 } else { 1 };
    assert!(best < std::time::Duration::from_millis(limit), "{best:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time that balances take")]
fn balances_of_all_accounts_are_one_pass_over_what_is_committed() {
    const ACCOUNTS: u32 = 100_000;
    const ALONE: u32 = 100;
    let mut ledger = ledger(&json!({"namespaceLimits": {"default": "999999999"}}), "0");
    let team = |number: u32| Arc::<str>::from(format!("team-{number}"));
    let own = |number: u32| (team(number).to_string(), LimitOverride::default());
    ledger.set_own_limits((0..ACCOUNTS).map(own).collect());
    for number in 0..5000 {
        let run = Run {
            namespace: team(number * 20),
            state: RunState::Running(NOW - 100),
            ..run(&format!("running-{number}"), 10)
        };
        ledger.observe_run(&run, time(NOW));
    }
    let (period, now) = (ledger.period(time(NOW)).unwrap(), time(NOW));
    let accounts = ledger.known_accounts(now);
    let began = std::time::Instant::now();
    let index = ledger.index();
    let balances: Vec<Balance> = accounts
        .iter()
        .map(|account| index.balance(account, period, now))
        .collect();
    let took = began.elapsed();
    assert!(balances.len() >= ACCOUNTS as usize);
    assert_eq!(
        balances.iter().filter(|own| own.committed.jobs > 0).count(),
        5000
    );
    let began = std::time::Instant::now();
    for balance in balances.iter().take(ALONE as usize) {
        assert_eq!(*balance, ledger.balance(&balance.account, period, now));
    }
    let alone = began.elapsed() / ALONE * ACCOUNTS;
    println!(
        "balances of {ACCOUNTS} accounts with 5,000 commitments: {took:?}; one by one {alone:?}"
    );
    assert!(took * 10 < alone, "{took:?}, one by one {alone:?}");
}

/// Returns a Workload of `owner` with `conditions`, and with quota if `reserved`.
fn workload(owner: &Value, grace: i64, conditions: &Value, reserved: bool) -> Workload {
    let mut all = conditions.as_array().unwrap().clone();
    all.push(
        json!({"type": "QuotaReserved", "status": if reserved { "True" } else { "False" },
        "lastTransitionTime": time(if reserved { NOW - 10 } else { NOW }).to_string()}),
    );
    let mut status =
        json!({"conditions": all, "admissionChecks": [{"name": "check", "state": "Ready"}]});
    if reserved {
        status["admission"] = json!({"clusterQueue": "cq", "podSetAssignments": [
            {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "10"}}]});
    }
    let template = json!({"spec": {"terminationGracePeriodSeconds": grace}});
    Workload::from_json(json!({
        "metadata": {"namespace": "n", "name": "w", "uid": "u", "ownerReferences": [owner]},
        "spec": {"maximumExecutionTimeSeconds": 3600, "podSets": [{"name": "main", "count": 1, "template": template}]},
        "status": status,
    }))
    .unwrap()
}

#[test]
fn a_commitment_ends_when_its_pods_do_and_not_when_its_quota_does() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true});
    let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "s", "controller": true});
    let is = |kind: &str, at: i64| json!({"type": kind, "status": "True", "lastTransitionTime": time(at).to_string()});
    let admitted = is("Admitted", NOW - 5);
    let (finished, evicted) = (is("Finished", NOW), is("Evicted", NOW));
    let (eviction, end) = (json!([admitted, evicted]), json!([admitted, finished]));
    // Ten units an hour, for this many seconds after the end: 5 s of the run, 1 s that the API
    // truncates, and the pods' grace period.
    let (stays, goes) = (3600 + 6, 6);
    for (case, owner, next, gone, seconds) in [
        ("evicted", &job, Some((&eviction, false)), false, stays),
        (
            "evicted and deleted",
            &job,
            Some((&eviction, true)),
            true,
            stays - 1,
        ),
        ("deleted", &job, None, true, stays - 1),
        // Kubernetes finishes a Job when its last pod has terminated.
        ("a Job has finished", &job, Some((&end, true)), false, goes),
        (
            "a JobSet has finished",
            &set,
            Some((&end, true)),
            false,
            stays,
        ),
    ] {
        let mut ledgers = Ledgers::default();
        ledgers.adopt(terms(&json!({})), time(NOW - 60));
        ledgers.refer("check", Some("b"), time(NOW - 60));
        ledgers
            .ledger_mut("b")
            .unwrap()
            .set_own_limits(BTreeMap::new());
        let running = workload(owner, 3600, &json!([admitted]), true);
        ledgers.observe_workload(
            WorkloadEvent::Applied(&running, &Family::of(&running, [])),
            time(NOW - 5),
        );
        let mut last = running;
        if let Some((conditions, reserved)) = next {
            last = workload(owner, 3600, conditions, reserved);
            ledgers.observe_workload(
                WorkloadEvent::Applied(&last, &Family::of(&last, [])),
                time(NOW),
            );
        }
        if gone {
            ledgers.observe_workload(WorkloadEvent::Removed(&last), time(NOW));
        }
        let account = Account::Namespace("n".into());
        let ledger = ledgers.ledger("b").unwrap();
        let period = ledger.period(time(NOW)).unwrap();
        let settling = ledger
            .balance(&account, period, time(NOW))
            .committed
            .settling;
        let rate = Rate::of(10_000, Amount::units(1), 1);
        assert_eq!(settling, rate.cost(seconds), "{case}");
    }
}

#[test]
fn a_deleted_workload_is_kept_only_while_a_ledger_has_its_approval() {
    let workload = |number: u32, checks: &Value| {
        let workload = Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": format!("w-{number}"), "uid": number.to_string()},
            "spec": {"podSets": [{"name": "main", "count": 1, "template": {}}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": time(NOW - 10).to_string()}],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [
                    {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]},
                "admissionChecks": checks,
            },
        }));
        workload.unwrap()
    };
    let entry = |name: &str, state: &str| json!([{"name": name, "state": state}]);
    for (case, checks, kept) in [
        ("no checks", json!([]), 0),
        (
            "the check of another controller",
            entry("other", "Ready"),
            0,
        ),
        ("not approved", entry("check", "Pending"), 0),
        ("approved", entry("check", "Ready"), 1000),
    ] {
        let mut ledgers = Ledgers::default();
        ledgers.adopt(terms(&json!({})), time(NOW - 60));
        ledgers.refer("check", Some("b"), time(NOW - 60));
        for number in 0..1000 {
            let workload = workload(number, &checks);
            let family = Family::of(&workload, []);
            ledgers.observe_workload(WorkloadEvent::Applied(&workload, &family), time(NOW));
            ledgers.observe_workload(WorkloadEvent::Removed(&workload), time(NOW));
        }
        assert_eq!(ledgers.suspended.len(), kept, "{case}");
        ledgers.drop_orphaned();
        assert_eq!(ledgers.suspended.len(), kept, "{case}");
        ledgers.remove("b");
        ledgers.drop_orphaned();
        assert_eq!(ledgers.suspended.len(), 0, "{case}: of a deleted Budget");
    }
}
