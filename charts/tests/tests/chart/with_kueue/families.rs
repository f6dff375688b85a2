//! Jobs with several Workloads, with a real Kueue and the real Job controller: elastic ones, and
//! those with a variant for each flavor.

use std::time::Duration;

use kueue_check::DynCheck;
use kueue_check_budget::controller::{BudgetCheck, Feature};
use kueue_check_budget::source::Credentials;
use kueue_check_provisioning::{CONTROLLER_NAME, ProvisioningCheck};
use kueue_check_testenv::{Kueue, KueueOptions};
use serde_json::{Value, json};

use super::scenario::Scenario;
use super::{CLASS, Setup, budget, define, is_true, licences, open};
use crate::harness::{eventually, kueue, stage};

/// The webhooks of Kueue's own kinds, and of Jobs, whose pods get their scheduling gates from it.
const WEBHOOKS: &[&str] = &["kueue.x-k8s.io", "batch"];

/// Returns the feature gates for elastic jobs in this Kueue.
fn elastic() -> KueueOptions<'static> {
    let version = Kueue::version();
    let minor = version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    KueueOptions {
        webhooks: WEBHOOKS,
        gates: if minor < 18 {
            &["ElasticJobsViaWorkloadSlices=true"]
        } else {
            &[]
        },
        ..KueueOptions::default()
    }
}

fn budget_check() -> DynCheck {
    // Variants count as one job.
    let check = BudgetCheck::new(Credentials::default());
    DynCheck::new(check.with([Feature::ClusterQueues]))
}

/// Starts a scenario with a budget of `limit` and a quota of `cpus`.
async fn under_a_budget(name: &str, limit: &str, cpus: u32) -> Scenario {
    let stage = stage(name).await.unwrap();
    define(&stage, &budget_check()).await;
    let setup = Setup {
        checks: vec![(budget_check(), budget(name, limit))],
        flavors: &[name],
        queue: quota(name, cpus),
        kueue: elastic(),
        ..Setup::default()
    };
    let town = open(stage.client.clone(), name, setup).await.unwrap();
    let mut scenario = Scenario::begin(town).await;
    scenario.counted(name);
    scenario
}

/// Returns a quota of `cpus` CPUs, with preemption by urgent jobs.
fn quota(flavor: &str, cpus: u32) -> Value {
    let quota =
        json!({"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpus.to_string()}]});
    json!({
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    })
}

#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn an_elastic_job_grows_once_the_budget_suffices_and_runs_on_until_then() {
    let name = "elastic-town";
    let scenario = under_a_budget(name, "7", 100).await;
    scenario.submit_elastic("el", 2).await;
    scenario.runs("el", 2).await;
    scenario.scale("el", 4).await;
    scenario.runs("el", 4).await;
    // More than the whole limit, for which another job would be rejected for good.
    scenario.scale("el", 8).await;
    scenario
        .waits("el", 8, "is more than the whole limit")
        .await;
    scenario.waits("el", 8, "the job runs on with 4 pods").await;
    scenario.runs_on("el", 4).await;
    // They are committed, even after Kueue has marked their Workload as finished.
    scenario.submit("other", 4).await;
    scenario.waits("other", 4, "needs about 4.0").await;
    scenario.scale("el", 4).await;
    scenario
        .newest("el", "it is admitted", |w| is_true(w, "Admitted"))
        .await;
    scenario.runs_on("el", 4).await;
    scenario.scale("el", 3).await;
    scenario.runs("el", 3).await;
    scenario.runs("other", 4).await;
    // The job fits into the limit, and others can use the rest.
    scenario.town.stage.apply(&budget(name, "9")).await;
    scenario.scale("el", 8).await;
    scenario.waits("el", 8, "USD more than the 3 pods").await;
    scenario.runs_on("el", 3).await;
    scenario.town.stage.apply(&budget(name, "13")).await;
    scenario.runs("el", 8).await;
    scenario.complete("other").await;
    scenario.complete("el").await;
    scenario.end();
}

#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn jobs_are_preempted_and_come_back_with_what_they_still_need() {
    let name = "preemption-town";
    let scenario = under_a_budget(name, "14", 5).await;
    // Two of its four pods have succeeded when it is preempted.
    scenario.submit("half", 4).await;
    scenario.runs("half", 4).await;
    scenario.succeed("half", 2);
    scenario.runs("half", 2).await;
    scenario.may_stop("half");
    scenario.submit_urgent("urgent", 5).await;
    scenario.runs("half", 0).await;
    scenario.runs("urgent", 5).await;
    scenario.complete("urgent").await;
    scenario.runs("half", 2).await;
    scenario.complete("half").await;
    // An elastic job that has grown.
    scenario.submit_elastic("el", 2).await;
    scenario.runs("el", 2).await;
    scenario.scale("el", 4).await;
    scenario.runs("el", 4).await;
    scenario.may_stop("el");
    scenario.submit_urgent("again", 5).await;
    scenario.runs("el", 0).await;
    scenario.runs("again", 5).await;
    scenario.complete("again").await;
    scenario.runs("el", 4).await;
    scenario.complete("el").await;
    scenario.end();
}

#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn one_licence_is_never_given_to_two_jobs_and_none_is_lost() {
    let name = "licence-town";
    let stage = stage(name).await.unwrap();
    let setup = Setup {
        external: vec![licences::pool(&stage, name, 1).await],
        flavors: &[name],
        queue: quota(name, 8),
        kueue: elastic(),
        ..Setup::default()
    };
    let _program = licences::start(&stage);
    let town = open(stage.client.clone(), name, setup).await.unwrap();
    let scenario = Scenario::begin(town).await;
    let none = "all 1 licences are in use";
    scenario.submit_elastic("el", 2).await;
    scenario.runs("el", 2).await;
    scenario.submit("other", 1).await;
    scenario.waits("other", 1, none).await;
    scenario.scale("el", 4).await;
    scenario.runs("el", 4).await;
    scenario.scale("el", 3).await;
    scenario.runs("el", 3).await;
    scenario.scale("el", 6).await;
    scenario.runs("el", 6).await;
    scenario.waits("other", 1, none).await;
    // The job is stopped, and its pods take some seconds to end.
    scenario.may_stop("el");
    scenario.deactivate("el").await;
    scenario.runs("other", 1).await;
    scenario.complete("other").await;
    scenario.activate("el").await;
    scenario.runs("el", 6).await;
    scenario.submit("last", 1).await;
    scenario.waits("last", 1, none).await;
    scenario.complete("el").await;
    scenario.runs("last", 1).await;
    scenario.complete("last").await;
    scenario.end_with_seats(1);
}

impl Scenario {
    /// Waits for attempt `attempt` for the newest Workload of `job`, and for its pods.
    async fn requested(&self, job: &str, attempt: u32, pods: u32) -> Value {
        eventually(
            &format!("attempt {attempt} of {pods} pods for {job}"),
            async || {
                let workload = self.town.slices(job).await.pop().unwrap_or_default();
                let name = workload["metadata"]["name"].as_str().unwrap_or_default();
                let check = &self.town.stage.namespace;
                let object = self.town.request_of(&format!("{name}-{check}-{attempt}"));
                let request = self.town.stage.get(&object).await;
                let fits = request["spec"]["podSets"][0]["count"] == pods;
                (fits, (request, self.in_short(job).await))
            },
        )
        .await
        .0
    }
}

#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn capacity_is_requested_as_an_elastic_job_grows_and_its_pods_start() {
    let name = "growing-town";
    let stage = stage(name).await.unwrap();
    let strategy = json!({"backoffLimitCount": 1, "backoffBaseSeconds": 2, "backoffMaxSeconds": 5});
    let config = json!({"provisioningClassName": CLASS, "managedResources": ["cpu"], "retryStrategy": strategy});
    let config = kueue("ProvisioningRequestConfig", None, name, config);
    let controller = kueue_check::ControllerName::from_static(CONTROLLER_NAME);
    let check = DynCheck::new(ProvisioningCheck::new(stage.client.clone(), controller));
    let setup = Setup {
        checks: vec![(check, config)],
        flavors: &[name],
        kueue: elastic(),
        ..Setup::default()
    };
    let town = open(stage.client.clone(), name, setup).await.unwrap();
    let scenario = Scenario::begin(town).await;
    let provisioned = ["Accepted", "Provisioned"];
    scenario.submit_elastic("el", 2).await;
    let first = scenario.requested("el", 1, 2).await;
    scenario.town.set_conditions(&first, &provisioned).await;
    scenario.runs("el", 2).await;
    scenario.scale("el", 4).await;
    let second = scenario.requested("el", 1, 2).await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    scenario.town.set_conditions(&second, &provisioned).await;
    scenario.runs("el", 4).await;
    // Grown and scaled back before there is a verdict: nothing is requested any more.
    scenario.scale("el", 5).await;
    scenario.requested("el", 1, 1).await;
    scenario.scale("el", 4).await;
    scenario
        .newest("el", "it is admitted", |w| is_true(w, "Admitted"))
        .await;
    scenario.runs_on("el", 4).await;
    // The request fails as often as allowed, and the running pods continue.
    scenario.scale("el", 9).await;
    for attempt in [1, 2] {
        let request = scenario.requested("el", attempt, 5).await;
        scenario
            .town
            .set_conditions(&request, &["Accepted", "Failed"])
            .await;
    }
    scenario
        .waits("el", 9, "attempt 2, and no other follows")
        .await;
    scenario.runs_on("el", 4).await;
    // A deletion of the request starts the attempts again.
    let failed = scenario.requested("el", 2, 5).await;
    scenario.town.delete(&failed).await;
    let again = scenario.requested("el", 1, 5).await;
    scenario.town.set_conditions(&again, &provisioned).await;
    scenario.runs("el", 9).await;
    for kept in [&first, &second, &again] {
        let there = scenario
            .town
            .stage
            .get(
                &scenario
                    .town
                    .request_of(kept["metadata"]["name"].as_str().unwrap()),
            )
            .await;
        assert_eq!(
            there["metadata"]["uid"], kept["metadata"]["uid"],
            "its pods run"
        );
    }
    scenario.complete("el").await;
    for request in [&first, &second, &again] {
        scenario.town.wait_gone(request).await;
    }
    scenario.end();
}

#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn a_job_with_a_variant_for_each_flavor_is_paid_for_once_and_has_one_licence() {
    let name = "variants-town";
    let stage = stage(name).await.unwrap();
    define(&stage, &budget_check()).await;
    let flavors = ["best", "good", "fair", "last"].map(|flavor| format!("{name}-{flavor}"));
    let flavors = flavors.each_ref().map(String::as_str);
    let setup = Setup {
        checks: vec![(budget_check(), budget(name, "1.1"))],
        external: vec![licences::pool(&stage, "variants-town-pool", 1).await],
        flavors: &flavors,
        queue: json!({"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}),
        kueue: KueueOptions {
            webhooks: WEBHOOKS,
            gates: &["ConcurrentAdmission=true"],
            ..KueueOptions::default()
        },
    };
    let _program = licences::start(&stage);
    let town = open(stage.client.clone(), name, setup).await.unwrap();
    let mut scenario = Scenario::begin(town).await;
    scenario.counted(name);
    // Kueue stops a job that runs with one variant, to start it with a better one.
    scenario.may_stop("train");
    scenario.may_stop("next");
    scenario.submit("train", 1).await;
    scenario.runs("train", 1).await;
    scenario.submit("next", 1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    scenario.runs_on("train", 1).await;
    scenario.complete("train").await;
    scenario.runs("next", 1).await;
    scenario.complete("next").await;
    scenario.end_with_seats(1);
}
