//! Scenarios that no tutorial covers.

use std::time::Duration;

use kueue_check::prelude::*;
use kueue_check_sim::{Job, Simulation};
use serde_json::json;

use super::Scenario;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns one verdict for each job, according to the name of the job; then the job may start.
#[admission_check(controller = "example.com/by-job-name")]
async fn by_job_name(
    workload: Workload,
    reservation: Reservation,
    Attempt(attempt): Attempt,
    Now(now): Now,
) -> Verdict {
    let job = workload.name().trim_start_matches("job-");
    let after = |minutes| reservation.held_for(now) >= MINUTE * minutes;
    match (job.split('-').next().unwrap_or_default(), attempt) {
        ("pending", _) if !after(6) => Verdict::pending("not yet").recheck_in(MINUTE),
        ("retry", 1) if job.starts_with("retry-now") => {
            Verdict::retry_now("not now: others may have the quota")
        }
        ("retry", 1) => Verdict::retry_after(MINUTE * 4, "not for four minutes"),
        ("retry", _) if !after(2) => Verdict::pending("not yet").recheck_in(MINUTE),
        ("rejected", _) => Verdict::rejected("never"),
        _ => Verdict::ready("may start"),
    }
}

/// Five jobs, five verdicts.
pub(super) fn verdicts() -> (Simulation, Scenario) {
    let scenario: Scenario = |cluster| {
        Box::pin(async move {
            for job in ["ready", "pending", "retry-now", "retry-after", "rejected"] {
                cluster.submit(Job::new(job));
            }
            cluster.advance(MINUTE * 10).await;
        })
    };
    (Simulation::new(|| by_job_name), scenario)
}

/// Ready from five minutes past nine.
#[admission_check(controller = "example.com/five-past-nine")]
async fn five_past_nine(Now(now): Now) -> Verdict {
    let then = "2026-11-21T09:05:00Z".parse().unwrap_or(now);
    if now >= then {
        return Verdict::ready("it is five past nine");
    }
    Verdict::pending("not before 09:05").recheck_in(now.duration_until(then).unsigned_abs())
}

/// The queue is stopped while a job waits for the second check.
pub(super) fn lost_quota() -> (Simulation, Scenario) {
    let scenario: Scenario = |cluster| {
        Box::pin(async move {
            let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}});
            let stop = |policy: &str| json!({"spec": {"stopPolicy": policy}});
            cluster.submit(Job::new("train"));
            cluster.advance(MINUTE * 2).await;
            cluster.merge(&queue, &stop("Hold"));
            cluster.advance(MINUTE).await;
            cluster.merge(&queue, &stop("None"));
            cluster.advance(MINUTE * 4).await;
        })
    };
    let simulation = Simulation::new(|| by_job_name).and("second", |_| five_past_nine);
    (simulation, scenario)
}

/// A job of higher priority takes the quota of a job whose check has returned no final verdict.
pub(super) fn preempted() -> (Simulation, Scenario) {
    let class = |name: &str, value: i64| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value});
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]}],
    }});
    let scenario: Scenario = |cluster| {
        Box::pin(async move {
            let of = |name: &str, class: &str| {
                Job::new(name)
                    .cpus(4)
                    .label("kueue.x-k8s.io/priority-class", class)
            };
            cluster.submit(of("pending-low", "low"));
            cluster.advance(MINUTE * 2).await;
            cluster.submit(of("urgent", "high"));
            cluster.advance(MINUTE * 3).await;
            cluster.complete("urgent");
            cluster.advance(MINUTE * 8).await;
        })
    };
    let simulation = Simulation::new(|| by_job_name)
        .object(&queue)
        .object(&class("low", 1))
        .object(&class("high", 100));
    (simulation, scenario)
}
