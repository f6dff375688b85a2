//! Annotations of pods with their estimated cost.

use kueue_check::api::CheckState;
use kueue_check_sim::{Cluster, Job};
use serde_json::{Value, json};

use super::{of_spec, spec};

/// Returns what the check adds to the pods of `job`.
fn updates(cluster: &Cluster, job: &str) -> Vec<Value> {
    let workload = cluster.workload(job).unwrap();
    let updates = &workload["status"]["admissionChecks"][0]["podSetUpdates"];
    updates.as_array().cloned().unwrap_or_default()
}

#[test]
fn pods_are_annotated_with_the_estimate_where_the_budget_requires_it() {
    for mark in [true, false] {
        let mut spec = spec("1");
        spec["markPods"] = mark.into();
        of_spec(&spec).run(async |cluster: &Cluster| {
            cluster.submit(Job::new("a"));
            cluster.expect_admitted("a").await;
            let marks = json!({"name": "main", "annotations": {"budget.kueue-check.dev/budget": "1.00 USD"}});
            let expected = if mark { vec![marks] } else { Vec::new() };
            assert_eq!(updates(cluster, "a"), expected);
            cluster.submit(Job::new("b"));
            cluster.expect_state("b", CheckState::Pending).await;
            cluster.expect_message("b", "needs about 1.00 USD").await;
            assert!(updates(cluster, "b").is_empty(), "it has not started");
        });
    }
}
