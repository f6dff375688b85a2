//! Several AdmissionChecks that refer to one Budget share its ledger.

use kueue_check::api::CheckState;
use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value, json};

use super::{approved, simulation, try_out};

const KUEUE: &str = "kueue.x-k8s.io/v1beta2";

/// Returns one more AdmissionCheck that refers to the Budget.
fn second() -> Value {
    json!({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": "second"}, "spec": {
        "controllerName": "kueue-check.dev/budget", "parameters": {"apiGroup": "budget.kueue-check.dev", "kind": "Budget", "name": "budget"}}})
}

fn cluster_queue(name: &str, checks: &[&str]) -> Value {
    let checks: Vec<Value> = checks.iter().map(|name| json!({"name": name})).collect();
    json!({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": {
        "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "admissionChecksStrategy": {"admissionChecks": checks},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "100"}]}]}]}})
}

/// Returns a simulation in which one ClusterQueue has both AdmissionChecks.
fn both() -> Simulation {
    simulation("2")
        .object(&second())
        .object(&cluster_queue("queue", &["check", "second"]))
}

#[test]
fn a_job_that_both_evaluate_is_counted_once_and_starts_when_both_agree() {
    try_out("both checks", &both(), async |cluster: &Cluster| {
        for job in ["a", "b", "c"] {
            cluster.submit(Job::new(job));
        }
        cluster
            .expect("two are admitted", |cluster| {
                ["a", "b", "c"]
                    .iter()
                    .filter(|job| cluster.is_admitted(job))
                    .count()
                    == 2
            })
            .await;
        let jobs = ["a", "b", "c"];
        let waits = *jobs
            .iter()
            .find(|job| !cluster.is_admitted(job))
            .unwrap_or(&"c");
        for check in ["check", "second"] {
            cluster
                .expect_state_of(check, waits, CheckState::Pending)
                .await;
        }
        cluster.expect_message(waits, "needs about 1.00 USD").await;
        let runs = jobs.iter().find(|job| cluster.is_admitted(job));
        cluster.complete(runs.unwrap_or(&"a"));
        cluster.expect_admitted(waits).await;
        assert_eq!(approved(cluster, &jobs), 3);
        for job in jobs
            .iter()
            .filter(|job| !cluster.condition(job, "Finished"))
        {
            cluster.complete(job);
        }
    });
}

#[test]
fn two_queues_spend_the_same_money() {
    let other = json!({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "other", "namespace": "default"}, "spec": {"clusterQueue": "other"}});
    let simulation = simulation("2")
        .object(&second())
        .object(&cluster_queue("other", &["second"]))
        .object(&other);
    try_out("two queues", &simulation, async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b").queue("other"));
        cluster.expect_admitted("b").await;
        cluster.submit(Job::new("c"));
        cluster.expect_message("c", "needs about 1.00 USD").await;
        cluster.submit(Job::new("d").queue("other"));
        cluster
            .expect("the message of `d` has the remaining amount", |cluster| {
                cluster
                    .message_of("second", "d")
                    .contains("needs about 1.00 USD")
            })
            .await;
        // Money that one queue frees is available to the other: `c` has waited longer.
        cluster.complete("b");
        cluster.expect_admitted("c").await;
        cluster
            .expect_waiting("d", std::time::Duration::from_secs(120))
            .await;
    });
}
