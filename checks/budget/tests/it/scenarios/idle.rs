//! Nothing changes, and nothing is written.

use std::time::Duration;

use kueue_check_sim::{Cluster, Job};
use serde_json::json;

use super::{of_spec, spec};

#[test]
fn while_nothing_changes_nothing_is_written_but_how_far_spending_is_known() {
    let mut spent = spec("3");
    spent["source"]["fixed"] = json!({"spent": {"default": "3"}});
    let simulation = of_spec(&spent);
    simulation.run(async |cluster: &Cluster| {
        cluster.apply(&json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "NamespaceBudget", "metadata": {"name": "own", "namespace": "default"},
            "spec": {"budgetRef": "budget", "limit": "3"}}));
        for number in 0..20 {
            cluster.submit(Job::new(format!("job-{number}")));
        }
        for number in 0..20 {
            let job = format!("job-{number}");
            cluster.expect_message(&job, "needs about 1.00 USD, 0.00 is left").await;
        }
        cluster.advance(Duration::from_secs(60)).await;
        let writes = |cluster: &Cluster| {
            ["workloads/status", "namespacebudgets/status", "budgets/status", ""].map(|what| cluster.requests(&format!("apply {what}")))
        };
        let before = writes(cluster);
        cluster.advance(Duration::from_secs(3600)).await;
        let after = writes(cluster);
        let [workloads, own, budgets, all] = std::array::from_fn(|kind| after[kind] - before[kind]);
        println!("writes in a quiet hour: {workloads} of Workloads, {own} of NamespaceBudgets, {budgets} of Budgets, {all} in all");
        assert_eq!((workloads, own), (0, 0));
        assert!(budgets <= 6 && all == budgets, "of the Budget, once in ten minutes, how far spending is known");
        assert_eq!(cluster.requests("update") + cluster.requests("patch") + cluster.requests("delete"), 0);
    });
}
