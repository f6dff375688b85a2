//! `onExhausted.quota: CloseLocalQueues`.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::apiserver::Resource;
use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value, json};

use super::super::harness::budget;
use super::{of_spec, spec, try_out};

fn closing(limit: &str) -> Value {
    let mut spec = spec(limit);
    spec["onExhausted"] = json!({"quota": "CloseLocalQueues"});
    spec
}

fn simulation(limit: &str) -> Simulation {
    of_spec(&closing(limit))
}

fn queue() -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "queue", "namespace": "default"}})
}

/// Returns whether the LocalQueue is stopped, and whether this check stopped it.
fn stopped(cluster: &Cluster) -> (bool, bool) {
    let resource = Resource::new("kueue.x-k8s.io", "v1beta2", "localqueues");
    let object = cluster.server().object(&resource, "default", "queue");
    let object = object.unwrap();
    let policy = object["spec"]["stopPolicy"].as_str();
    let annotations = &object["metadata"]["annotations"];
    (
        policy.is_some_and(|policy| policy != "None"),
        !annotations["budget.kueue-check.dev/closed-by"].is_null(),
    )
}

async fn expect_stopped(cluster: &Cluster, expected: (bool, bool)) {
    cluster
        .expect(&format!("the LocalQueue is {expected:?}"), |cluster| {
            stopped(cluster) == expected
        })
        .await;
}

/// Returns how often the LocalQueue was stopped or started.
fn turns(cluster: &Cluster) -> usize {
    let policies: Vec<Value> = cluster
        .server()
        .history()
        .iter()
        .filter(|change| change.resource.plural == "localqueues")
        .map(|change| change.object["spec"]["stopPolicy"].clone())
        .collect();
    let stopped = |policy: &Value| policy.as_str().is_some_and(|policy| policy != "None");
    policies
        .windows(2)
        .filter(|pair| stopped(&pair[0]) != stopped(&pair[1]))
        .count()
}

#[test]
fn a_queue_in_which_nothing_fits_is_closed_until_there_is_money() {
    let simulation = simulation("1");
    try_out("closing", &simulation, async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b"));
        expect_stopped(cluster, (true, true)).await;
        cluster.expect_without_quota("b").await;
        // A restarted process has neither spend data nor Budgets at first, and opens nothing.
        cluster.crash(0);
        cluster.advance(Duration::from_secs(300)).await;
        assert_eq!((stopped(cluster), turns(cluster)), ((true, true), 1));
        assert!(cluster.is_admitted("a"), "what runs goes on");
        cluster.complete("a");
        expect_stopped(cluster, (false, false)).await;
        cluster.expect_admitted("b").await;
        assert_eq!(turns(cluster), 2);
    });
}

#[test]
fn a_top_up_opens_a_queue() {
    let simulation = simulation("1");
    try_out("closing, top-up", &simulation, async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b"));
        expect_stopped(cluster, (true, true)).await;
        cluster.apply(&json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "NamespaceBudget", "metadata": {"name": "own", "namespace": "default"},
            "spec": {"budgetRef": "budget", "topUps": [{"amount": "1", "validUntil": "2026-12-01T00:00:00Z"}]}}));
        expect_stopped(cluster, (false, false)).await;
        cluster.expect_admitted("b").await;
    });
}

/// Kueue needs some time to try all that waits in it.
#[test]
fn a_queue_that_is_opened_stays_open_for_a_minute() {
    simulation("4").run(async |cluster: &Cluster| {
        cluster.submit(Job::new("runs"));
        cluster.expect_admitted("runs").await;
        cluster.submit(Job::new("large").cpus(4));
        expect_stopped(cluster, (true, true)).await;
        cluster.advance(Duration::from_mins(59)).await;
        for _ in 0..180 {
            if !stopped(cluster).0 {
                break;
            }
            cluster.advance(Duration::from_secs(1)).await;
        }
        cluster.advance(Duration::from_secs(50)).await;
        assert_eq!(stopped(cluster), (false, false));
        expect_stopped(cluster, (true, true)).await;
    });
}

#[test]
fn no_queue_is_closed_where_a_priority_class_is_exempt() {
    let class = |name: &str, namespace: &str| json!({"name": name, "namespaces": [namespace]});
    let exempt = |class: &Value| {
        let mut spec = closing("1");
        spec["exempt"] = json!({"priorityClasses": [class]});
        spec
    };
    let elsewhere = exempt(&class("sla", "serving"));
    let here = exempt(&class("sla", "default"));
    of_spec(&elsewhere).run(async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b"));
        expect_stopped(cluster, (true, true)).await;
        cluster.apply(&budget("budget", &here));
        expect_stopped(cluster, (false, false)).await;
        cluster.advance(Duration::from_mins(150)).await;
        assert_eq!((stopped(cluster), turns(cluster)), ((false, false), 2));
    });
}

/// A smaller job that arrives in a closed queue has no quota, so the check cannot evaluate it. The
/// one for which it was closed may be deleted.
#[test]
fn a_closed_queue_is_opened_from_time_to_time() {
    let simulation = simulation("4");
    simulation.run(async |cluster: &Cluster| {
        cluster.submit(Job::new("runs"));
        cluster.expect_admitted("runs").await;
        cluster.submit(Job::new("large").cpus(4));
        expect_stopped(cluster, (true, true)).await;
        cluster.submit(Job::new("small"));
        cluster.advance(Duration::from_mins(50)).await;
        assert_eq!(stopped(cluster), (true, true));
        cluster.advance(Duration::from_mins(15)).await;
        cluster.expect_admitted("small").await;
        expect_stopped(cluster, (true, true)).await;
        cluster.delete(
            &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "default", "name": "large"}}),
        );
        cluster.advance(Duration::from_mins(65)).await;
        assert_eq!(stopped(cluster), (false, false), "nothing waits in it");
        cluster.submit(Job::new("larger").cpus(4));
        expect_stopped(cluster, (true, true)).await;
        let opened = turns(cluster);
        cluster.advance(Duration::from_mins(150)).await;
        let turns = turns(cluster) - opened;
        assert!((2..=6).contains(&turns), "{turns}");
    });
}

#[test]
fn a_queue_that_a_user_has_stopped_is_not_changed() {
    let simulation = simulation("1");
    simulation.run(async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.merge(&queue(), &json!({"spec": {"stopPolicy": "Hold"}}));
        cluster.submit(Job::new("b"));
        cluster.advance(Duration::from_secs(300)).await;
        assert_eq!(stopped(cluster), (true, false));
        cluster.complete("a");
        cluster.advance(Duration::from_secs(300)).await;
        assert_eq!(stopped(cluster), (true, false), "it is not opened either");
        // A user takes over a queue that the check closed: the user's value stays.
        cluster.merge(&queue(), &json!({"spec": {"stopPolicy": "None"}}));
        cluster.expect_admitted("b").await;
        cluster.submit(Job::new("c"));
        expect_stopped(cluster, (true, true)).await;
        cluster.merge(&queue(), &json!({"spec": {"stopPolicy": "HoldAndDrain"}}));
        cluster.advance(Duration::from_secs(600)).await;
        assert!(stopped(cluster).0, "the setting of the user stays");
    });
}

#[test]
fn a_queue_is_opened_when_its_budget_goes_or_does_not_want_it_closed() {
    for goes in [true, false] {
        let simulation = simulation("1");
        simulation.run(async |cluster: &Cluster| {
            cluster.submit(Job::new("a"));
            cluster.expect_admitted("a").await;
            cluster.submit(Job::new("b"));
            expect_stopped(cluster, (true, true)).await;
            if goes {
                cluster.delete(&budget("budget", &Value::Null));
            } else {
                let mut holding = spec("1");
                holding["onExhausted"] = json!({"quota": "Hold"});
                cluster.apply(&budget("budget", &holding));
            }
            expect_stopped(cluster, (false, false)).await;
            if !goes {
                cluster.expect_state("b", CheckState::Pending).await;
                cluster.expect_message("b", "needs about 1.00 USD").await;
            }
            cluster.advance(Duration::from_secs(300)).await;
            assert_eq!(turns(cluster), 2);
        });
    }
}
