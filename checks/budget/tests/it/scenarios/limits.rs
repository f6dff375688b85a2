//! NamespaceBudgets that cannot be listed at first: jobs are decided by the limits that apply, or
//! not at all.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::api::CheckState;
use kueue_check_sim::apiserver::{Faults, RequestFault, RequestInfo, Resource, Status, Verb};
use kueue_check_sim::kueue::Actor;
use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value, json};

use super::{of_spec, spec, try_out};

/// A fault: lists of NamespaceBudgets get this status.
struct NoList(u16);

impl Faults for NoList {
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let call = &request.call;
        let fails = call.verb == Verb::List && call.resource.plural == "namespacebudgets";
        fails.then(|| RequestFault::Refuse {
            status: Status::new(self.0, "Tested", "tested"),
            retry_after: None,
        })
    }
}

/// Does nothing.
struct Idle;

impl Actor for Idle {
    fn step(&mut self) -> bool {
        false
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        None
    }
}

fn own(limit: &str) -> Value {
    json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "NamespaceBudget", "metadata": {"name": "own", "namespace": "default"},
        "spec": {"budgetRef": "budget", "limit": limit}})
}

fn with_limits(limits: Value) -> Simulation {
    let mut spec = spec("1");
    spec["namespaceLimits"] = limits;
    of_spec(&spec)
}

/// Sets the fault before the first process begins.
fn failing(simulation: Simulation, code: u16) -> Simulation {
    simulation.actor(move |server, _| {
        server.set_faults(Arc::new(NoList(code)));
        Idle
    })
}

/// Returns the condition of that type of the Budget.
fn condition(cluster: &Cluster, kind: &str) -> Value {
    let budgets = Resource::new("budget.kueue-check.dev", "v1alpha1", "budgets");
    let budget = cluster.server().get(&budgets, "", "budget").unwrap();
    let conditions = budget["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    conditions
        .find(|condition| condition["type"] == kind)
        .unwrap_or_default()
}

#[test]
fn no_job_is_rejected_or_let_through_before_namespace_budgets_are_listed() {
    for (limits, given, admitted) in [
        (json!({"default": "1"}), "3", true),
        (json!({"max": "5"}), "3", true),
        (json!({"max": "5"}), "1", false),
    ] {
        for (code, advice) in [
            (
                503,
                "cannot list namespacebudgets.budget.kueue-check.dev now; will retry",
            ),
            (
                403,
                "forbidden (403); apply the output of `budget-check manifests`",
            ),
            (
                404,
                "not installed (404); apply the output of `budget-check crds`",
            ),
        ] {
            let simulation = failing(with_limits(limits.clone()), code).object(&own(given));
            simulation.run(async |cluster: &Cluster| {
                cluster.submit(Job::new("job").cpus(2));
                cluster.expect_message("job", advice).await;
                let written = cluster.requests("apply workloads/status");
                cluster.advance(Duration::from_secs(3600)).await;
                assert_eq!(cluster.state("job"), Some(CheckState::Pending));
                let message = cluster.message("job");
                let expected = "waiting for the list of NamespaceBudgets; cannot list";
                assert!(message.starts_with(expected), "{message}");
                let writes = cluster.requests("apply workloads/status") - written;
                assert_eq!(writes, 0, "{code}: the same is not written again");
                let (known, ready) = (
                    condition(cluster, "LimitsKnown"),
                    condition(cluster, "Ready"),
                );
                for condition in [&known, &ready] {
                    assert_eq!(condition["status"], "False", "{condition}");
                    assert_eq!(condition["reason"], "NamespaceBudgetsUnknown");
                }
                assert!(
                    known["message"].as_str().unwrap().contains(advice),
                    "{known}"
                );
                cluster.server().clear_faults();
                if admitted {
                    cluster.expect_admitted("job").await;
                } else {
                    cluster.expect_deactivated("job").await;
                }
                cluster
                    .expect("limits are known", |cluster| {
                        condition(cluster, "LimitsKnown")["status"] == "True"
                    })
                    .await;
            });
        }
    }
}

#[test]
fn a_namespace_budget_above_the_default_counts_from_the_start() {
    let simulation = with_limits(json!({"default": "1"})).object(&own("3"));
    try_out("limits, own", &simulation, async |cluster: &Cluster| {
        cluster.submit(Job::new("a").cpus(2));
        cluster.expect_admitted("a").await;
        cluster.crash(0);
        cluster.submit(Job::new("b").cpus(2));
        cluster.expect_message("b", "needs about 2.00 USD").await;
        cluster.complete("a");
        cluster.expect_admitted("b").await;
    });
}

#[test]
fn a_budget_of_pools_alone_waits_for_no_namespace_budgets() {
    let mut pools = spec("1");
    pools.as_object_mut().unwrap().remove("namespaceLimits");
    pools["pools"] = json!([{"name": "all", "limit": "3", "namespaceSelector": {}}]);
    let simulation = failing(of_spec(&pools), 403).object(&own("1"));
    simulation.run(async |cluster: &Cluster| {
        cluster.submit(Job::new("job").cpus(2));
        cluster.expect_admitted("job").await;
        assert_eq!(condition(cluster, "LimitsKnown")["status"], "True");
        cluster.server().clear_faults();
        // The status shows that the limit has no effect.
        let own = Resource::new("budget.kueue-check.dev", "v1alpha1", "namespacebudgets");
        cluster
            .expect("the NamespaceBudget is not effective", |cluster| {
                let own = cluster.server().get(&own, "default", "own").unwrap();
                let conditions = own["status"]["conditions"].as_array().cloned();
                conditions.unwrap_or_default().iter().any(|condition| {
                    condition["type"] == "Effective" && condition["status"] == "False"
                })
            })
            .await;
    });
}
