//! Quota that is borrowed from another ClusterQueue, and reclaimed by its owner.

use std::time::Duration;

use kueue_check::Request;
use serde_json::{Value, json};

use super::{MINUTE, expect_quota};
use crate::simulation::{CHECK, Cluster, Job, QUEUE, Simulation};

const OWNER: &str = "owner";

fn cluster_queue(name: &str, cohort: &str, cpus: &str) -> Value {
    let flavor = json!({"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpus}]});
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": {
        "namespaceSelector": {}, "cohortName": cohort,
        "preemption": {"reclaimWithinCohort": "Any"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
    }})
}

/// Adds two ClusterQueues below one cohort: one of two CPUs, two levels down, and one of four CPUs
/// that the other may borrow.
pub(super) fn sharing(simulation: Simulation) -> Simulation {
    let kueue = "kueue.x-k8s.io/v1beta2";
    let cohort = |name: &str, spec: Value| json!({"apiVersion": kueue, "kind": "Cohort", "metadata": {"name": name}, "spec": spec});
    let owners = json!({"apiVersion": kueue, "kind": "LocalQueue", "metadata": {"name": OWNER, "namespace": "default"}, "spec": {"clusterQueue": OWNER}});
    simulation
        .object(&cohort("company", json!({})))
        .object(&cohort("research", json!({"parentName": "company"})))
        .object(&cluster_queue(QUEUE, "research", "2"))
        .object(&cluster_queue(OWNER, "company", "4"))
        .object(&owners)
}

/// Returns the latency of an evaluation: 25 s for jobs that borrow, else none.
pub(super) fn long_for_borrowers(request: &Request) -> Duration {
    let borrows = request.workload().name().contains("borrow");
    Duration::from_secs(if borrows { 25 } else { 0 })
}

fn owners(name: &str) -> Job {
    Job::new(name).queue(OWNER).pods(4)
}

/// Runs a job that borrows four CPUs and loses its quota twice to the owner's jobs: while the check
/// evaluates it, and while it runs.
pub(super) async fn reclaimed(cluster: &Cluster) {
    cluster.submit(Job::new("borrows").pods(6));
    expect_quota(cluster, "borrows").await;
    cluster.advance(Duration::from_secs(5)).await;
    for job in ["first", "second"] {
        cluster.submit(owners(job));
        cluster.expect_without_quota("borrows").await;
        cluster.expect_admitted(job).await;
        cluster.complete(job);
        cluster.expect_admitted("borrows").await;
        cluster.advance(MINUTE).await;
    }
}
