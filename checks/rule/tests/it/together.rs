//! Both kinds of rules in one program: the kind of the parameters selects the check.

use std::time::Duration;

use kueue_check_rule::CELCheck;
use kueue_check_sim::simulation::CheckContext;
use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value, json};

use crate::service::*;

fn cel(ready: &str) -> Value {
    json!({"apiVersion": "kueue-check.dev/v1alpha1", "kind": "CELCheck", "metadata": {"name": "rule"}, "spec": {"ready": ready}})
}

/// Returns a simulation in which `check` refers to a `WebhookCheck`, and `second` to a `CELCheck`.
fn both(ready: &str) -> Simulation {
    simulation(&licences(), || Service::new(2, None))
        .and("second", |_: &CheckContext| CELCheck::new(allowed()))
        .parameters(&cel(ready))
}

fn refer(cluster: &Cluster, check: &str, kind: &str, name: &str) {
    let object = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": check}});
    let parameters = json!({"apiGroup": "kueue-check.dev", "kind": kind, "name": name});
    cluster.merge(&object, &json!({"spec": {"parameters": parameters}}));
}

#[test]
fn each_admission_check_is_evaluated_by_the_check_of_its_kind() {
    both("workload.name.contains('train')").run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_admitted("train").await;
        cluster.submit(Job::new("other"));
        cluster
            .expect("the webhook returns a verdict", |cluster| {
                cluster.message_of("check", "other").contains("licence")
            })
            .await;
        cluster.advance(Duration::from_secs(30)).await;
        assert!(
            cluster
                .message_of("second", "other")
                .contains("workload.name.contains('train')")
        );
        assert!(!cluster.is_admitted("other"));
    });
}

/// The service of another WebhookCheck has decided nothing, whatever the generations are.
#[test]
fn another_webhook_check_is_asked_although_the_earlier_verdict_is_still_valid() {
    let mut other = webhook(&json!({}));
    other["metadata"]["name"] = json!("other");
    let simulation = simulation(&webhook(&json!({})), || Service::new(0, None)).object(&other);
    simulation.run(async |cluster| {
        let service: Service = cluster.external();
        let waits = json!({"state": "Pending", "message": "no", "recheckAfterSeconds": 36_000});
        service.state().fixed_response = Some(waits);
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "no").await;
        service.state().fixed_response = Some(json!({"state": "Ready", "message": "yes"}));
        cluster.advance(Duration::from_mins(5)).await;
        assert!(!cluster.is_admitted("train"), "the verdict is valid");
        refer(cluster, "check", "WebhookCheck", "other");
        cluster.expect_admitted("train").await;
    });
}

/// Rules can read the state of another check, and a change of it takes effect at once.
#[test]
fn a_rule_may_wait_for_another_check() {
    let ready = "checks.exists(c, c.name == 'check' && c.state == 'Ready')";
    simulation(&licences(), || Service::new(0, None))
        .and("second", |_: &CheckContext| CELCheck::new(allowed()))
        .parameters(&cel(ready))
        .run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.advance(Duration::from_secs(30)).await;
            assert!(
                cluster
                    .message_of("second", "train")
                    .contains("waits until")
            );
            let service: Service = cluster.external();
            service.state().licences = 1;
            cluster.expect_admitted("train").await;
        });
}

#[test]
fn a_reference_to_another_kind_reports_the_accepted_kinds() {
    both("true").run(async |cluster| {
        cluster.expect_active("second").await;
        refer(cluster, "second", "Budget", "rule");
        let expected = "but this check takes a WebhookCheck (group kueue-check.dev) or a CELCheck (group kueue-check.dev)";
        cluster.expect_inactive("second", expected).await;
        refer(cluster, "second", "CELCheck", "rule");
        cluster.expect_active("second").await;
    });
}

/// Returns a simulation of a switch between kinds: the old check releases what it has allocated,
/// and the new one decides.
fn from_one_kind_to_the_other() -> Simulation {
    both("workload.name.contains('train')")
        .invariant("nothing is lost", nothing_lost)
        .invariant("no job is harmed", no_harm)
}

async fn changes(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    cluster.submit(Job::new("other"));
    let service: Service = cluster.external();
    let both_held = |_: &Cluster| service.state().held.len() == 2;
    cluster.expect("both have a licence", both_held).await;
    cluster.expect_admitted("train").await;
    refer(cluster, "check", "CELCheck", "rule");
    let nothing_held = |_: &Cluster| service.state().held.is_empty();
    cluster.expect("licences are returned", nothing_held).await;
    let decided = |cluster: &Cluster| {
        cluster
            .message_of("check", "other")
            .contains("workload.name")
    };
    cluster.expect("the expression decides", decided).await;
    assert!(!cluster.is_admitted("other"));
    refer(cluster, "check", "WebhookCheck", "webhook");
    cluster
        .expect("the webhook decides again", |cluster| {
            cluster.message_of("check", "other").contains("licence")
        })
        .await;
}

#[test]
fn a_change_of_the_kind_loses_nothing() {
    from_one_kind_to_the_other().run(changes);
}

#[test]
fn a_change_of_the_kind_loses_nothing_with_each_single_fault() {
    let simulation = from_one_kind_to_the_other().points_of_a_kind(2).sample(20);
    println!("{}", simulation.run_with_each_fault(changes));
}
