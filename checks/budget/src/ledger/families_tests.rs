//! Tests of jobs with several Workloads: elastic jobs that grow, and variants.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::api::{Uid, Workload};
use kueue_check::{Family, WorkloadEvent};
use serde_json::{Value, json};

use super::*;
use crate::config::{Account, BudgetConfig};
use crate::messages::MessageFormatter;
use crate::money::Amount;

const NOW: &str = "2026-11-21T09:00:00Z";

/// A ledger in which a CPU costs 1 an hour, and jobs run for 4 h.
struct Cluster {
    ledgers: Ledgers,
    workloads: BTreeMap<String, Workload>,
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

impl Cluster {
    fn new(limit: &str) -> Self {
        let spec = json!({
            "unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}},
            "namespaceLimits": {"default": limit}, "onTooLarge": "Hold",
            "prices": [{"flavor": "*", "resources": {"cpu": "1"}}],
            "estimate": {"safetyFactor": "1", "defaultDuration": "4h"},
        });
        let terms = BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
        let mut ledgers = Ledgers::default();
        ledgers.adopt(terms.into(), now());
        ledgers.refer("check", Some("b"), now());
        ledgers.observe_workload(WorkloadEvent::ListStarted, now());
        ledgers.observe_workload(WorkloadEvent::ListCompleted { continuous: false }, now());
        let ledger = ledgers.ledger_mut("b").unwrap();
        ledger.set_own_limits(BTreeMap::new());
        let observation = Observation {
            spent: BTreeMap::from([("n".into(), Amount::ZERO)]),
            ..Observation::of(ledger.period(now()).unwrap(), now())
        };
        ledger.observe(&observation, now());
        let workloads = BTreeMap::new();
        Self { ledgers, workloads }
    }

    /// Shows `workload` to the ledger, with all Workloads of its family, as the runtime does.
    fn show(&mut self, workload: Workload) {
        let key = workload.family_key().clone();
        self.workloads.insert(workload.name().to_owned(), workload);
        let all: Vec<&Workload> = self.workloads.values().collect();
        for workload in &all {
            if *workload.family_key() == key {
                let family = Family::of(workload, all.iter().copied());
                self.ledgers
                    .observe_workload(WorkloadEvent::Applied(workload, &family), now());
            }
        }
    }

    /// Removes the Workload `name`, and shows the others of its family again.
    fn delete(&mut self, name: &str) {
        let deleted = self.workloads.remove(name).unwrap();
        let all: Vec<&Workload> = self.workloads.values().collect();
        for workload in &all {
            let family = Family::of(workload, all.iter().copied());
            let shown = WorkloadEvent::Applied(workload, &family);
            self.ledgers.observe_workload(shown, now());
        }
        let removed = WorkloadEvent::Removed(&deleted);
        self.ledgers.observe_workload(removed, now());
    }

    /// Returns the check's verdict and message for the Workload `name`.
    fn evaluate(&mut self, name: &str) -> (&'static str, String) {
        let workload = &self.workloads[name];
        let run = self.ledgers.run("b", workload.uid()).unwrap();
        let ledger = self.ledgers.ledger_mut("b").unwrap();
        let terms = ledger.terms().clone();
        let decision = ledger.decide(&run, now());
        let words = MessageFormatter {
            terms: &terms,
            workload,
            run: &run,
        };
        let verdict = words.verdict(&decision);
        let word = match verdict.is_ready() {
            true => "Ready",
            false if verdict.is_pending() => "Pending",
            false => "other",
        };
        (word, verdict.message().to_owned())
    }

    fn committed(&self) -> Committed {
        let ledger = self.ledgers.ledger("b").unwrap();
        let period = ledger.period(now()).unwrap();
        let account = Account::Namespace("n".into());
        ledger.balance(&account, period, now()).committed
    }

    fn total(&self) -> Amount {
        self.committed().total()
    }
}

/// Returns a Workload of the job `job` with `pods` pods of one CPU. `states` are conditions,
/// `Ready` for the check's verdict, and `Waits` if another check is pending.
fn workload(job: &str, name: &str, pods: u32, states: &[&str], metadata: &Value) -> Workload {
    let mut conditions = vec!["QuotaReserved"];
    let is_condition = |state: &&&str| !matches!(**state, "Ready" | "Waits");
    conditions.extend(states.iter().filter(is_condition));
    let condition = |kind: &&str| {
        let reason = if *kind == "Finished" {
            "WorkloadSliceReplaced"
        } else {
            "Tested"
        };
        json!({"type": kind, "status": "True", "reason": reason, "lastTransitionTime": NOW})
    };
    let ready = states.contains(&"Ready");
    let mut object = json!({
        "metadata": {"namespace": "n", "name": name, "uid": name,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": true}]},
        "spec": {"podSets": [{"name": "main", "count": pods,
            "template": {"spec": {"terminationGracePeriodSeconds": 0}}}]},
        "status": {
            "conditions": conditions.iter().map(condition).collect::<Vec<_>>(),
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{
                "name": "main", "count": pods, "flavors": {"cpu": "default"},
                "resourceUsage": {"cpu": pods.to_string()}}]},
            "admissionChecks": [
                {"name": "check", "state": if ready { "Ready" } else { "Pending" }, "lastTransitionTime": NOW},
                {"name": "foreign", "state": if states.contains(&"Waits") { "Pending" } else { "Ready" }},
            ],
        },
    });
    for (key, value) in metadata.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    Workload::from_json(object).unwrap()
}

fn slice(name: &str, pods: u32, replaces: Option<&str>, states: &[&str]) -> Workload {
    let mut annotations = json!({"kueue.x-k8s.io/elastic-job": "true"});
    if let Some(replaces) = replaces {
        let key = "kueue.x-k8s.io/workload-slice-replacement-for";
        annotations[key] = format!("n/{replaces}").into();
    }
    workload(
        "el",
        name,
        pods,
        states,
        &json!({"annotations": annotations}),
    )
}

fn whole(job: &str, pods: u32, states: &[&str]) -> Workload {
    workload(job, job, pods, states, &json!({}))
}

const RUNS: [&str; 2] = ["Admitted", "Ready"];
const REPLACED: [&str; 3] = ["Admitted", "Ready", "Finished"];

/// Without families, 11 pods worth 44 ran on a limit of 30: a replaced Workload counted as ended
/// while its pods ran.
#[test]
fn what_an_elastic_job_runs_is_counted_while_it_grows() {
    let mut cluster = Cluster::new("30");
    cluster.show(slice("el-1", 4, None, &[]));
    assert_eq!(cluster.evaluate("el-1").0, "Ready");
    cluster.show(slice("el-1", 4, None, &RUNS));
    cluster.show(whole("other", 3, &[]));
    assert_eq!(cluster.evaluate("other").0, "Ready");
    cluster.show(whole("other", 3, &RUNS));
    assert_eq!(cluster.total(), Amount::units(28));

    // Both orders of the replacement and the evaluation occur.
    cluster.show(slice("el-2", 6, Some("el-1"), &[]));
    let (state, message) = cluster.evaluate("el-2");
    assert_eq!(state, "Pending");
    assert!(
        message.starts_with("needs about 8.00 USD more than the 4 pods that run, 2.00 is left of"),
        "{message}"
    );
    cluster.show(slice("el-1", 4, None, &REPLACED));
    assert_eq!(cluster.evaluate("el-2").0, "Pending");
    assert_eq!(cluster.total(), Amount::units(28), "four pods run on");
    cluster.show(whole("third", 1, &[]));
    assert_eq!(cluster.evaluate("third").0, "Pending");
    assert_eq!(cluster.total(), Amount::units(28));

    // It is scaled down: the growth requests less.
    cluster.show(slice("el-2", 4, Some("el-1"), &[]));
    assert_eq!(
        cluster.evaluate("el-2").0,
        "Ready",
        "nothing more is needed"
    );
}

#[test]
fn a_growth_is_charged_what_it_adds_and_then_the_whole() {
    let mut cluster = Cluster::new("32");
    cluster.show(slice("el-1", 4, None, &RUNS));
    cluster.show(slice("el-2", 8, Some("el-1"), &[]));
    cluster.show(slice("el-1", 4, None, &REPLACED));
    let (state, message) = cluster.evaluate("el-2");
    assert_eq!(state, "Ready", "16 run, 16 more");
    assert!(
        message.starts_with(
            "estimate 32.00 USD for all pods of the job, 4 of which run, committed to"
        ),
        "{message}"
    );
    let both = cluster.committed();
    assert_eq!(
        (both.running, both.reserved, both.jobs),
        (Amount::units(16), Amount::units(16), 1)
    );
    cluster.show(slice("el-2", 8, Some("el-1"), &["Ready"]));
    assert_eq!(cluster.total(), Amount::units(32));
    cluster.show(slice("el-2", 8, Some("el-1"), &RUNS));
    let grown = cluster.committed();
    assert_eq!(
        (grown.running, grown.reserved),
        (Amount::units(32), Amount::ZERO),
        "the pods of the first are the second's"
    );
}

/// After a restart only the listed Workloads are known.
#[test]
fn what_was_replaced_counts_after_a_restart() {
    let mut cluster = Cluster::new("30");
    let growth = slice("el-2", 6, Some("el-1"), &[]);
    cluster.workloads.insert("el-2".to_owned(), growth);
    cluster.show(slice("el-1", 4, None, &REPLACED));
    assert_eq!(cluster.total(), Amount::units(16));
    let run = cluster.ledgers.run("b", &Uid::new("el-1")).unwrap();
    assert!(run.replaced, "it is not stopped by itself");
}

/// Kueue's `objectRetentionPolicies` delete a replaced Workload while its pods run.
#[test]
fn pods_count_also_when_their_workload_is_deleted_while_a_growth_waits() {
    let mut cluster = Cluster::new("30");
    cluster.show(slice("el-1", 4, None, &RUNS));
    cluster.show(slice("el-2", 6, Some("el-1"), &[]));
    cluster.show(slice("el-1", 4, None, &REPLACED));
    assert_eq!(cluster.total(), Amount::units(16));
    cluster.delete("el-1");
    assert_eq!(cluster.total(), Amount::units(24), "at most six run");
    cluster.show(whole("other", 2, &[]));
    assert_eq!(
        cluster.evaluate("other").0,
        "Pending",
        "8 and 24 are more than 30"
    );
    // All pods are counted already.
    assert_eq!(cluster.evaluate("el-2").0, "Ready");
    assert_eq!(cluster.total(), Amount::units(24));
    cluster.show(slice("el-2", 6, Some("el-1"), &RUNS));
    assert_eq!(cluster.total(), Amount::units(24));
}

/// Users write the annotation that makes a Workload a growth. A growth that adds to nothing does
/// not exceed a limit by it.
#[test]
fn a_growth_of_an_unknown_workload_is_charged_in_full() {
    let mut cluster = Cluster::new("20");
    cluster.show(slice("forged", 6, Some("none"), &[]));
    assert_eq!(
        cluster.evaluate("forged").0,
        "Pending",
        "24 are more than 20"
    );
    let mut cluster = Cluster::new("30");
    cluster.show(slice("forged", 6, Some("none"), &[]));
    cluster.show(whole("other", 2, &[]));
    assert_eq!(cluster.evaluate("forged").0, "Ready");
    assert_eq!(cluster.evaluate("other").0, "Pending");
}

/// A growth for which another check is pending may start when the running Workload has spent its
/// whole commitment.
#[test]
fn a_growth_that_may_start_later_needs_its_whole_estimate() {
    let annotations = json!({
        "kueue.x-k8s.io/elastic-job": "true",
        "kueue.x-k8s.io/workload-slice-replacement-for": "n/el-1",
    });
    let metadata = json!({"annotations": annotations});
    let mut cluster = Cluster::new("40");
    cluster.show(slice("el-1", 4, None, &RUNS));
    cluster.show(workload("el", "el-2", 8, &["Waits"], &metadata));
    let (state, message) = cluster.evaluate("el-2");
    assert_eq!(state, "Pending", "16 and 32 are more than 40: {message}");
}

fn variant(flavor: &str, pods: u32, states: &[&str]) -> Workload {
    let metadata = json!({
        "annotations": {"kueue.x-k8s.io/workload-allowed-resource-flavors": flavor},
        "ownerReferences": [{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "name": "parent", "uid": "parent", "controller": true}],
    });
    workload("job", flavor, pods, states, &metadata)
}

#[test]
fn a_variant_that_takes_the_place_of_another_is_charged_the_difference() {
    let mut cluster = Cluster::new("20");
    cluster.ledgers.set_concurrent("cq", true, now());
    cluster.show(variant("spot", 3, &RUNS));
    assert_eq!(cluster.total(), Amount::units(12));
    cluster.show(variant("reserved", 5, &[]));
    assert_eq!(cluster.evaluate("reserved").0, "Ready", "8 more");
    assert_eq!(cluster.total(), Amount::units(20));
}

/// Users write the annotation that makes a Workload a variant. Only a policy of the ClusterQueue
/// ensures that one of them starts.
#[test]
fn variants_count_as_one_only_where_kueue_starts_one() {
    let mut cluster = Cluster::new("20");
    for flavor in ["a", "b"] {
        cluster.show(variant(flavor, 3, &[]));
    }
    assert!(cluster.ledgers.has_variants());
    assert_eq!(cluster.evaluate("a").0, "Ready");
    assert_eq!(cluster.evaluate("b").0, "Pending", "24 are more than 20");
    cluster.ledgers.set_concurrent("cq", true, now());
    assert_eq!(cluster.evaluate("b").0, "Ready");
    assert_eq!(cluster.total(), Amount::units(12));
    cluster.ledgers.set_concurrent("cq", false, now());
    assert_eq!(cluster.total(), Amount::units(24));
}
