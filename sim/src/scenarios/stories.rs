//! The stories.

use std::time::Duration;

use jiff::Timestamp;
use kueue_check::api::CheckState;
use kueue_check::{
    AdmissionCheckController, AfterAdmission, CheckError, CheckRequest, ControllerName,
    NoParameters, OnFailure, PodSetUpdates, Policy, Request, Verdict,
};
use serde_json::json;

use super::{Scenario, Scripted, Vendor};
use crate::apiserver::{Call, Patch, Verb};
use crate::simulation::{CHECK, Cluster, Job, QUEUE, Simulation};

const MINUTE: Duration = Duration::from_secs(60);

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "approve",
            about: "two jobs are approved with pod set updates; one completes",
            simulation: || Simulation::new(|| Scripted::new(approve)),
            play: |cluster| Box::pin(approved(cluster)),
        },
        Scenario {
            name: "wait",
            about: "a job waits until ten past nine",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(until_ten_past(r)))),
            play: |cluster| Box::pin(waited(cluster)),
        },
        Scenario {
            name: "retry",
            about: "a job gives its quota back twice, after a delay, before it may start",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(third_time(r)))),
            play: |cluster| Box::pin(retried(cluster)),
        },
        Scenario {
            name: "reject",
            about: "a job is rejected, another is not",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(no_giants(r)))),
            play: |cluster| Box::pin(rejected(cluster)),
        },
        Scenario {
            name: "errors",
            about: "the check fails for five minutes, and nothing is lost",
            simulation: || Simulation::new(|| Scripted::new(fails_at_first)),
            play: |cluster| Box::pin(failed(cluster)),
        },
        Scenario {
            name: "two-checks",
            about: "two checks of one process answer for the same jobs, one of them later",
            simulation: || {
                Simulation::new(|| Scripted::new(approve))
                    .and("second", |tools| tools.outside(|| Vendor::new(1)))
            },
            play: |cluster| Box::pin(two(cluster)),
        },
        Scenario {
            name: "preempted",
            about: "a job loses its quota to another and gets it back, all while the check thinks",
            simulation: || preempting(|| Scripted::new(|r| Ok(by_name(r))).takes(long_for_low)),
            play: |cluster| Box::pin(preempted(cluster)),
        },
        Scenario {
            name: "slow-to-stop",
            about: "a Workload without a job is evicted while the check thinks, and nobody stops it",
            simulation: || preempting(|| Scripted::new(|r| Ok(by_name(r))).takes(long_for_low)),
            play: |cluster| Box::pin(slow_to_stop(cluster)),
        },
        Scenario {
            name: "overwritten",
            about: "somebody writes an older copy over the check's entry",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(until_ten_past(r)))),
            play: |cluster| Box::pin(overwritten(cluster)),
        },
        Scenario {
            name: "objection",
            about: "a check that watches running jobs stops one after three objections",
            simulation: || {
                Simulation::new(|| Scripted::new(|r| Ok(until_budget_is_gone(r))).policy(stops()))
            },
            play: |cluster| Box::pin(objected(cluster)),
        },
        Scenario {
            name: "licences",
            about: "three jobs share two licences of a server outside the cluster",
            simulation: || Simulation::with_tools(|tools| tools.outside(|| Vendor::new(2))),
            play: |cluster| Box::pin(licensed(cluster)),
        },
        Scenario {
            name: "failover",
            about: "two replicas; the one that acts dies, and the other goes on",
            simulation: || Simulation::new(|| Scripted::new(|r| Ok(until_ten_past(r)))).replicas(2),
            play: |cluster| Box::pin(failed_over(cluster)),
        },
        Scenario {
            name: "hold",
            about: "the queue is stopped while a job waits for a second check, and goes on",
            simulation: || {
                let first =
                    || Scripted::new(|r| Ok(until_five_past(r))).takes(longer_after_five_past);
                Simulation::new(first).and("second", |_| AfterFivePast)
            },
            play: |cluster| Box::pin(held(cluster)),
        },
    ]
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_default()
}

fn wait_until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

fn class(name: &str, value: i64) -> serde_json::Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value})
}

fn approve(request: &Request) -> Result<Verdict, CheckError> {
    let names = request
        .workload()
        .pod_sets()
        .iter()
        .map(kueue_check::api::PodSet::name);
    let updates = PodSetUpdates::builder()
        .pod_sets(names, |pods| pods.annotation("example.com/approved", "yes"))
        .build()?;
    Ok(Verdict::ready("approved").with_updates(updates))
}

async fn approved(cluster: &Cluster) {
    cluster.submit(Job::new("a"));
    cluster.submit(Job::new("b").pods(3));
    cluster.expect_admitted("a").await;
    cluster.expect_admitted("b").await;
    cluster.complete("a");
    cluster.expect_finished("a").await;
}

fn until_ten_past(request: &Request) -> Verdict {
    let opens = at("2026-11-21T09:10:00Z");
    if request.now() >= opens {
        return Verdict::ready("open");
    }
    Verdict::pending("opens at 09:10").recheck_in(wait_until(request.now(), opens))
}

async fn waited(cluster: &Cluster) {
    cluster.submit(Job::new("early"));
    cluster.expect_message("early", "opens at").await;
    cluster.advance_to("2026-11-21T09:05:00Z").await;
    cluster.submit(Job::new("later"));
    cluster.expect_message("later", "opens at").await;
    cluster.expect_admitted("early").await;
    cluster.expect_admitted("later").await;
}

fn third_time(request: &Request) -> Verdict {
    if request.attempt() >= 3 {
        return Verdict::ready("third time");
    }
    Verdict::retry_after(2 * MINUTE, "not yet")
}

async fn retried(cluster: &Cluster) {
    cluster.submit(Job::new("stubborn"));
    cluster.expect_state("stubborn", CheckState::Retry).await;
    cluster.advance(MINUTE).await;
    cluster.expect_without_quota("stubborn").await;
    cluster.expect_admitted("stubborn").await;
}

fn no_giants(request: &Request) -> Verdict {
    if request.workload().name().contains("giant") {
        return Verdict::rejected("no giants");
    }
    Verdict::ready("small")
}

async fn rejected(cluster: &Cluster) {
    cluster.submit(Job::new("giant").pods(50));
    cluster.submit(Job::new("dwarf"));
    cluster.expect_deactivated("giant").await;
    cluster.expect_admitted("dwarf").await;
}

fn fails_at_first(request: &Request) -> Result<Verdict, CheckError> {
    if request.now() < at("2026-11-21T09:05:00Z") {
        return Err(CheckError::transient("the server does not answer"));
    }
    Ok(Verdict::ready("the server answers"))
}

async fn failed(cluster: &Cluster) {
    cluster.submit(Job::new("patient"));
    cluster.expect_message("patient", "does not answer").await;
    cluster.expect_admitted("patient").await;
}

async fn two(cluster: &Cluster) {
    cluster.submit(Job::new("a"));
    cluster.submit(Job::new("b"));
    cluster
        .expect("one of two jobs is admitted", |c| {
            c.is_admitted("a") || c.is_admitted("b")
        })
        .await;
    let (first, other) = if cluster.is_admitted("a") {
        ("a", "b")
    } else {
        ("b", "a")
    };
    cluster
        .expect_state_of(CHECK, other, CheckState::Ready)
        .await;
    cluster.complete(first);
    cluster.expect_admitted(other).await;
    cluster.complete(other);
    cluster.expect_finished(other).await;
}

fn by_name(request: &Request) -> Verdict {
    Verdict::ready(format!("{} may start", request.workload().name()))
}

fn long_for_low(request: &Request) -> Duration {
    let low = request.workload().name().contains("low");
    Duration::from_secs(if low { 25 } else { 0 })
}

fn preempting(make: fn() -> Scripted) -> Simulation {
    let flavor = json!({"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]});
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": {
        "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
    }});
    Simulation::new(make)
        .object(&queue)
        .object(&class("high", 1000))
}

fn high() -> Job {
    Job::new("high")
        .pods(4)
        .label("kueue.x-k8s.io/priority-class", "high")
}

async fn preempted(cluster: &Cluster) {
    cluster.submit(Job::new("low").pods(4));
    cluster
        .expect("`low` has quota", |c| c.condition("low", "QuotaReserved"))
        .await;
    cluster.advance(Duration::from_secs(5)).await;
    cluster.submit(high());
    cluster.expect_without_quota("low").await;
    cluster.expect_admitted("high").await;
    cluster.complete("high");
    cluster.expect_admitted("low").await;
}

async fn slow_to_stop(cluster: &Cluster) {
    let container =
        json!({"name": "main", "image": "job", "resources": {"requests": {"cpu": "4"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    cluster.apply(&json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "low", "namespace": "default"},
        "spec": {"queueName": QUEUE, "podSets": [{"name": "main", "count": 1, "template": template}]},
    }));
    cluster
        .expect("`low` has quota", |c| c.condition("low", "QuotaReserved"))
        .await;
    cluster.advance(Duration::from_secs(5)).await;
    cluster.submit(high());
    cluster
        .expect("`low` is being evicted", |c| c.condition("low", "Evicted"))
        .await;
    cluster.advance(2 * MINUTE).await;
    cluster.expect_state("low", CheckState::Pending).await;
}

async fn overwritten(cluster: &Cluster) {
    cluster.submit(Job::new("waits"));
    cluster.expect_message("waits", "opens at").await;
    cluster.advance(MINUTE).await;
    reset_entry(cluster, "waits");
    cluster.advance(MINUTE).await;
    cluster.expect_message("waits", "opens at").await;
    cluster.advance_to("2026-11-21T09:09:00Z").await;
    cluster.expect_admitted("waits").await;
}

/// What Kueue's scheduler does when it writes from an older copy.
fn reset_entry(cluster: &Cluster, job: &str) {
    let Some(workload) = cluster.workload(job) else {
        return;
    };
    let metadata = &workload["metadata"];
    let entries = json!([{"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": metadata["creationTimestamp"]}]);
    let body = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "status": {"admissionChecks": entries},
    });
    let resource = crate::kueue::api::kueue("workloads");
    let call = Call::new(Verb::Patch(Patch::Apply), &resource)
        .namespace("default")
        .name(metadata["name"].as_str().unwrap_or_default())
        .subresource("status")
        .query("fieldManager", "older-copy")
        .query("force", "true")
        .agent("kueue")
        .body(body);
    cluster.server().call(&call);
}

fn stops() -> Policy {
    Policy {
        after_admission: Some(AfterAdmission {
            on_failure: Some(OnFailure::Evict),
            ..AfterAdmission::default()
        }),
        ..Policy::default()
    }
}

fn until_budget_is_gone(request: &Request) -> Verdict {
    let (gone, back) = (at("2026-11-21T09:05:00Z"), at("2026-11-21T09:30:00Z"));
    if (at("2026-11-21T09:02:00Z")..at("2026-11-21T09:04:00Z")).contains(&request.now()) {
        return Verdict::pending("counting").recheck_in(MINUTE);
    }
    if request.now() < gone || request.now() >= back {
        return Verdict::ready("there is money").recheck_in(MINUTE);
    }
    if request.workload().is_admitted() {
        return Verdict::retry_now("the money is gone").recheck_in(MINUTE);
    }
    Verdict::pending("no money until half past").recheck_in(MINUTE)
}

async fn objected(cluster: &Cluster) {
    cluster.submit(Job::new("spender"));
    cluster.expect_admitted("spender").await;
    cluster.advance_to("2026-11-21T09:05:00Z").await;
    cluster.expect_without_quota("spender").await;
    cluster.expect_message("spender", "no money").await;
    cluster.advance_to("2026-11-21T09:29:00Z").await;
    cluster.expect_admitted("spender").await;
}

async fn licensed(cluster: &Cluster) {
    let jobs = ["a", "b", "c"];
    for job in jobs {
        cluster.submit(Job::new(job));
    }
    let admitted = |c: &Cluster| jobs.into_iter().filter(|job| c.is_admitted(job)).count();
    cluster
        .expect("two of three jobs are admitted", |c| admitted(c) == 2)
        .await;
    cluster.advance(2 * MINUTE).await;
    let running = jobs
        .into_iter()
        .find(|job| cluster.is_admitted(job))
        .unwrap_or("a");
    cluster.complete(running);
    for job in jobs {
        cluster.expect_admitted(job).await;
    }
    let vendor: Vendor = cluster.outside();
    cluster
        .expect("two licences are out", |_| vendor.sold() == 2)
        .await;
    assert!(vendor.most() <= 2, "{} licences were out", vendor.most());
}

async fn failed_over(cluster: &Cluster) {
    cluster.submit(Job::new("early"));
    cluster.expect_message("early", "opens at").await;
    cluster.crash(0);
    cluster.advance(MINUTE).await;
    cluster.submit(Job::new("later"));
    cluster.expect_message("later", "opens at").await;
    cluster.crash(1);
    cluster.expect_admitted("early").await;
    cluster.expect_admitted("later").await;
}

fn until_five_past(request: &Request) -> Verdict {
    if request.reservation().since() < at("2026-11-21T09:05:00Z") {
        return Verdict::ready("before five past");
    }
    Verdict::pending("after five past")
}

fn longer_after_five_past(request: &Request) -> Duration {
    let late = request.now() >= at("2026-11-21T09:05:00Z");
    Duration::from_secs(if late { 10 } else { 0 })
}

/// The other check: it approves what gets its quota after five past.
struct AfterFivePast;

impl AdmissionCheckController for AfterFivePast {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/after-five-past") }
    }

    async fn check(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        if request.reservation().since() < at("2026-11-21T09:05:00Z") {
            return Ok(Verdict::pending("not before five past"));
        }
        Ok(Verdict::ready("after five past"))
    }
}

async fn held(cluster: &Cluster) {
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": QUEUE}});
    cluster.submit(Job::new("waits"));
    cluster.expect_state("waits", CheckState::Ready).await;
    cluster.advance(MINUTE).await;
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
    cluster.expect_without_quota("waits").await;
    cluster.advance_to("2026-11-21T09:06:00Z").await;
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
    cluster
        .expect("`waits` has quota again", |c| {
            c.condition("waits", "QuotaReserved")
        })
        .await;
    cluster.expect_waiting("waits", 2 * MINUTE).await;
    cluster.expect_state("waits", CheckState::Pending).await;
    cluster.expect_message("waits", "after five past").await;
}
