//! Scenarios with changes of the leader, of parameters and of the served API.

use std::time::Duration;

use kueue_check::api::{CheckState, PodSet};
use kueue_check::{AfterAdmission, CheckError, OnFailure, PodSetUpdates, Policy, Request, Verdict};
use serde_json::json;

use super::deleted::named;
use super::{MINUTE, SECOND, at, expect_quota};
use crate::apiserver::Backup;
use crate::definitions::KueueApi;
use crate::scenarios::{Depot, Worded};
use crate::simulation::{CHECK, Cluster, Job, QUEUE};

/// The leader loses the Lease and leads again; one of its jobs ends meanwhile.
pub(super) async fn lease_regained(cluster: &Cluster) {
    cluster.submit(Job::new("a"));
    cluster.submit(Job::new("b"));
    cluster.expect_admitted("a").await;
    cluster.expect_admitted("b").await;
    cluster.advance(MINUTE).await;
    cluster.depose(3 * MINUTE);
    cluster.advance(20 * SECOND).await;
    cluster.complete("a");
    cluster.expect_finished("a").await;
    cluster.advance(4 * MINUTE).await;
    cluster.submit(Job::new("c"));
    cluster.expect_admitted("c").await;
}

/// The Lease passes to another replica in the middle of an evaluation.
pub(super) async fn taken_over(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    expect_quota(cluster, "train").await;
    cluster.advance(Duration::from_secs(5)).await;
    cluster.depose(2 * MINUTE);
    cluster.expect_admitted("train").await;
    cluster.advance(3 * MINUTE).await;
}

/// The AdmissionCheck refers to other parameters, whose activation hangs once.
pub(super) async fn switched(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    cluster.expect_message("first", "by day").await;
    let worded: Worded = cluster.external();
    worded.hang_once();
    let other = json!({"spec": {"parameters": {"name": "by-night"}}});
    cluster.merge(&named("AdmissionCheck", CHECK), &other);
    // The activation times out after 30 s, and is retried.
    cluster.advance(5 * MINUTE).await;
    cluster.submit(Job::new("second"));
    cluster.expect_admitted("second").await;
    cluster.expect_message("second", "by night").await;
}

/// The check's code panics at the parameters of one AdmissionCheck; the other continues.
pub(super) async fn panicked(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    cluster.expect_admitted("first").await;
    let words = named("Word", "words");
    cluster.merge(&words, &json!({"spec": {"word": "panic"}}));
    cluster.expect_inactive(CHECK, "").await;
    cluster.merge(&words, &json!({"spec": {"word": "night"}}));
    cluster.expect_active(CHECK).await;
    cluster.submit(Job::new("second"));
    cluster.expect_admitted("second").await;
    cluster.expect_message("second", "by night").await;
}

/// The process dies just before the check would return a failing verdict. The verdict is for a
/// running job, and the next process must return it too.
pub(super) async fn objected_anew(cluster: &Cluster) {
    cluster.submit(Job::new("spender"));
    cluster.expect_admitted("spender").await;
    cluster.advance_to("2026-11-21T09:04:59.5Z").await;
    cluster.crash(0);
    cluster.expect_without_quota("spender").await;
    cluster.expect_message("spender", "no money").await;
}

/// Approves with a node selector.
pub(super) fn in_zone(request: &Request, zone: &str) -> Result<Verdict, CheckError> {
    let names = request.workload().pod_sets().iter().map(PodSet::name);
    let updates = PodSetUpdates::builder()
        .pod_sets(names, |pods| pods.node_selector("zone", zone))
        .build()?;
    Ok(Verdict::ready(format!("in zone {zone}")).with_updates(updates))
}

/// Two checks require two different zones for a job. It must wait, because Kueue would finish it as
/// FailedToStart.
pub(super) async fn two_zones(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    let ready = |c: &Cluster, check| c.state_of(check, "train") == Some(CheckState::Ready);
    cluster
        .expect("one check is Ready", |c| {
            ready(c, CHECK) || ready(c, "second")
        })
        .await;
    cluster.expect_waiting("train", 5 * MINUTE).await;
    assert!(!cluster.condition("train", "Finished"), "it is finished");
    let other = if ready(cluster, CHECK) {
        "second"
    } else {
        CHECK
    };
    assert!(!ready(cluster, other), "both are Ready");
    let message = cluster.message_of(other, "train");
    assert!(message.contains("zone"), "`{other}` returned {message:?}");
}

/// Kueue is upgraded from 0.14 to a version that serves `v1beta2` only. Meanwhile one machine
/// starts, one runs and one stops.
pub(super) async fn upgraded(cluster: &Cluster) {
    let depot: Depot = cluster.external();
    cluster.submit(Job::new("runs"));
    cluster.submit(Job::new("ends"));
    cluster.expect_admitted("runs").await;
    cluster.expect_admitted("ends").await;
    cluster.serve(KueueApi::Both);
    cluster.advance(2 * MINUTE).await;
    cluster.complete("ends");
    cluster.submit(Job::new("starts"));
    cluster.advance(Duration::from_secs(3)).await;
    cluster.serve(KueueApi::V1beta2);
    cluster.expect_admitted("starts").await;
    cluster
        .expect("the machine of `ends` is stopped", |_| depot.running() == 2)
        .await;
    cluster.advance(5 * MINUTE).await;
    cluster.submit(Job::new("after"));
    cluster.expect_admitted("after").await;
    assert_eq!(depot.running(), 3, "machines");
}

/// etcd is restored from a backup, with objects and versions of some minutes ago. One job is lost,
/// one runs as it did then, and one holds its quota without a verdict again.
pub(super) async fn restored(cluster: &Cluster) {
    let backup = with_backup(cluster).await;
    // The versions of the restored server stay below the last one of this Workload.
    raise_versions(cluster, cluster.server().resource_version() + 300);
    cluster.merge_workload("lost", &json!({"metadata": {"labels": {"last": "change"}}}));
    cluster.advance(MINUTE).await;
    cluster.restore(&backup);
    continues_from_backup(cluster).await;
}

/// As [`restored`], but the versions of the restored server pass the old ones before the check
/// compares them. So it has to replace newer versions of objects by older ones.
pub(super) async fn restored_ahead(cluster: &Cluster) {
    let backup = with_backup(cluster).await;
    cluster.advance(MINUTE).await;
    let newest = cluster.server().resource_version();
    cluster.restore(&backup);
    raise_versions(cluster, newest);
    continues_from_backup(cluster).await;
}

/// Returns a backup in which `runs` is admitted, `evaluated` has quota, and `lost` is missing. Then
/// all three are admitted.
async fn with_backup(cluster: &Cluster) -> Backup {
    cluster.submit(Job::new("runs"));
    cluster.expect_admitted("runs").await;
    cluster.submit(Job::new("evaluated"));
    expect_quota(cluster, "evaluated").await;
    // Kueue has written all that it writes before the verdict.
    cluster.advance(SECOND).await;
    let backup = cluster.server().backup();
    cluster.expect_admitted("evaluated").await;
    cluster.submit(Job::new("lost"));
    cluster.expect_admitted("lost").await;
    backup
}

/// Raises the server's version by changes of a `ConfigMap`. Nothing reads it, so they cost little.
fn raise_versions(cluster: &Cluster, version: u64) {
    let others = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "others"}
    });
    cluster.apply(&others);
    while cluster.server().resource_version() < version {
        let change = cluster.server().resource_version().to_string();
        cluster.merge(&others, &json!({"data": {"change": change}}));
    }
}

async fn continues_from_backup(cluster: &Cluster) {
    let depot: Depot = cluster.external();
    cluster.submit(Job::new("after"));
    cluster.expect_admitted("evaluated").await;
    cluster.expect_admitted("after").await;
    cluster
        .expect("the machine of `lost` is stopped", |_| depot.running() == 3)
        .await;
}

pub(super) fn stops_two_in_an_hour() -> Policy {
    Policy {
        after_admission: Some(AfterAdmission {
            on_failure: Some(OnFailure::Evict),
            consecutive: Some(1),
            max_evictions_per_hour: Some(2),
        }),
        ..Policy::default()
    }
}

pub(super) fn until_five_past_nine(request: &Request) -> Verdict {
    if request.now() < at("2026-11-21T09:05:00Z") {
        return Verdict::ready("there is money").recheck_in(MINUTE);
    }
    if request.workload().is_admitted() {
        return Verdict::retry_now("the money is gone").recheck_in(MINUTE);
    }
    Verdict::pending("the money is gone").recheck_in(10 * MINUTE)
}

/// The check starts to return failing verdicts for all of four running jobs.
pub(super) async fn objected_to_all(cluster: &Cluster) {
    let jobs = ["a", "b", "c", "d"];
    for job in jobs {
        cluster.submit(Job::new(job));
    }
    for job in jobs {
        cluster.expect_admitted(job).await;
    }
    cluster.advance_to("2026-11-21T09:05:00Z").await;
    let running = |c: &Cluster| jobs.iter().filter(|job| c.is_admitted(job)).count();
    cluster
        .expect("a job is stopped", |c| running(c) < jobs.len())
        .await;
    // The other two jobs are evicted when the hour is over. If a process died before an eviction
    // that it had recorded, one is evicted an hour later.
    cluster.advance(140 * MINUTE).await;
}

/// Stops the queue and resumes it.
async fn flap(cluster: &Cluster, job: &str) {
    let queue = named("ClusterQueue", QUEUE);
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
    cluster.expect_without_quota(job).await;
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
    expect_quota(cluster, job).await;
}

/// Quota is lost and reserved again at once after each write of the check.
pub(super) async fn flapped(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    for _ in 0..3 {
        cluster.expect_state("train", CheckState::Ready).await;
        flap(cluster, "train").await;
        // The first evaluation of the new reservation takes 5 s.
        cluster.advance(Duration::from_secs(3)).await;
        flap(cluster, "train").await;
        cluster.advance(MINUTE).await;
    }
    cluster.advance_to("2026-11-21T09:06:00Z").await;
    flap(cluster, "train").await;
    cluster.expect_admitted("train").await;
    cluster.advance(MINUTE).await;
    cluster.complete("train");
    cluster.advance(10 * MINUTE).await;
}
