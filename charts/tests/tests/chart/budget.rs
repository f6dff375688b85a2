//! The budget check: it lets a job start, holds one, closes a queue, withdraws a verdict, and
//! writes balances.

use kube::Client;
use kueue_check::DynCheck;
use kueue_check_budget::controller::{BudgetCheck, CONTROLLER, Feature};
use kueue_check_budget::source::Credentials;
use serde_json::{Value, json};

use crate::harness::{
    Stage, admission_check, condition, is_active, is_in, kueue, reserved, workload,
};
use crate::rbac::{Scenario, each_permission_is_needed};

struct Money;

const GROUP: &str = "budget.kueue-check.dev";

/// Returns a budget of `limit` for each namespace and a pool, in which a CPU costs 1 per hour. Its
/// period is far from its end, whenever the test runs: near the end a job costs less within it.
fn budget(name: &str, limit: &str, quota: &str) -> Value {
    let pool = json!({"name": "all", "limit": "1000", "namespaceSelector": {"matchLabels": {"team": "budget"}}});
    let spec = json!({
        "unit": "USD", "period": {"term": {"from": "2020-01-01T00:00:00Z", "until": "2400-01-01T00:00:00Z"}},
        "source": {"fixed": {}, "interval": "15s", "settleDelay": "1s"},
        "namespaceLimits": {"default": limit}, "pools": [pool], "onExhausted": {"quota": quota},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "estimate": {"safetyFactor": "1"},
    });
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Budget", "metadata": {"name": name}, "spec": spec})
}

fn own_budget(namespace: &str, name: &str) -> Value {
    let spec = json!({"budgetRef": name, "topUps": [{"amount": "5", "validUntil": "2999-01-01T00:00:00Z"}]});
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "NamespaceBudget", "metadata": {"name": "own", "namespace": namespace}, "spec": spec})
}

fn queue(namespace: &str) -> Value {
    kueue(
        "LocalQueue",
        Some(namespace),
        "lq",
        json!({"clusterQueue": "cq"}),
    )
}

impl Scenario for Money {
    const RELEASE: &'static str = "budget";
    const VALUES: &'static str = "values-budget.yaml";
    const SET: &'static str =
        "features.closeLocalQueues.enabled=true,features.clusterQueues.enabled=true";

    fn check(_: &Client) -> DynCheck {
        let check = BudgetCheck::new(Credentials::default());
        DynCheck::new(check.with([Feature::CloseLocalQueues, Feature::ClusterQueues]))
    }

    async fn run(stage: &Stage, name: &str) {
        let namespace = &*stage.namespace;
        let tight = format!("{name}-tight");
        let [check, tight_check] =
            [name, &tight].map(|name| admission_check(name, CONTROLLER, GROUP, "Budget"));
        stage.apply(&queue(namespace)).await;
        stage.apply(&budget(name, "20", "Yield")).await;
        stage
            .apply(&budget(&tight, "1.5", "CloseLocalQueues"))
            .await;
        stage.apply(&own_budget(namespace, name)).await;
        for check in [&check, &tight_check] {
            stage.apply(check).await;
            stage
                .wait(check, "an active check", |check| is_active(check, "True"))
                .await;
        }

        // A job may start; balances are written.
        let job = workload(namespace, &format!("a-{name}"));
        stage.apply(&job).await;
        stage.status(&job, reserved(name)).await;
        stage.wait(&job, "Ready", |job| is_in(job, "Ready")).await;
        for shown in [budget(name, "20", "Yield"), own_budget(namespace, name)] {
            stage
                .wait(&shown, "a balance", |shown| shown["status"].is_object())
                .await;
        }

        // Quota is lost, which is like a deletion: the check has to read the Workload.
        let lost = json!({"conditions": [condition("QuotaReserved", "False")], "admissionChecks": [{"name": name, "state": "Ready", "message": "", "lastTransitionTime": crate::harness::now()}]});
        stage.status(&job, lost).await;
        stage
            .wait(&job, "Pending", |job| is_in(job, "Pending"))
            .await;

        // The budget is enough for one of two: the queue is closed.
        for number in 0..2 {
            let job = workload(namespace, &format!("t{number}-{name}"));
            stage.apply(&job).await;
            stage.status(&job, reserved(&tight)).await;
        }
        stage
            .wait(&queue(namespace), "a closed queue", |queue| {
                queue["spec"]["stopPolicy"] == "Hold"
            })
            .await;

        // An event that is published twice is one object, which is updated.
        stage.delete(&budget(name, "20", "Yield")).await;
        stage
            .wait(&check, "an inactive check", |check| {
                is_active(check, "False")
            })
            .await;
        stage.apply(&budget(name, "20", "Yield")).await;
        stage
            .wait(&check, "an active check", |check| is_active(check, "True"))
            .await;
    }

    async fn clear(stage: &Stage, name: &str) {
        let namespace = &*stage.namespace;
        for name in [name, &format!("{name}-tight")] {
            stage
                .delete(&admission_check(name, CONTROLLER, GROUP, "Budget"))
                .await;
            stage.delete(&budget(name, "", "")).await;
        }
        stage.delete_all(&own_budget(namespace, name)).await;
        stage.delete_all(&workload(namespace, "any")).await;
        stage.delete_all(&queue(namespace)).await;
    }
}

#[tokio::test]
async fn the_budget_check_needs_each_of_its_permissions_and_no_others() {
    each_permission_is_needed::<Money>().await;
}
