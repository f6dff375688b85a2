//! The setting `waitForPodsReady`.

use std::time::Duration;

use kueue_check_kueue_model::kueue::{KueueVersion, RequeuingTimestamp, WaitForPodsReady};
use serde_json::{Value, json};

use super::cluster::{Cluster, in_virtual_time};

const QUICK: WaitForPodsReady = WaitForPodsReady {
    timeout: Duration::from_secs(10),
    recovery_timeout: Some(Duration::from_secs(5)),
    backoff_base: Duration::from_secs(4),
    backoff_max: Duration::from_secs(8),
    ..WaitForPodsReady::DEFAULT
};

fn version(setting: WaitForPodsReady) -> KueueVersion {
    KueueVersion {
        wait_for_pods_ready: Some(setting),
        ..KueueVersion::V0_19
    }
}

/// Returns a cluster with a job `a`, which is admitted.
async fn with_job(setting: WaitForPodsReady) -> Cluster {
    let cluster = Cluster::new(version(setting));
    cluster.queue("1", &["c"], &json!({}));
    cluster.job("a", "1", None);
    cluster.pass(0.5).await;
    ready(&cluster, "a").await;
    assert_eq!(cluster.line(), "a:RA(c=Ready)");
    cluster
}

async fn ready(cluster: &Cluster, job: &str) {
    cluster.verdict(job, "c", "Ready", 0);
    cluster.pass(0.1).await;
}

/// Sets how many Pods of a job run, and how many of them are ready.
async fn pods(cluster: &Cluster, job: &str, active: u32, ready: u32) {
    let status = json!({"status": {"active": active, "ready": ready}});
    cluster.merge("jobs", "t", job, "status", &status);
    cluster.pass(0.1).await;
}

#[test]
fn pods_that_are_not_ready_in_time_cost_the_admission_and_a_delay_that_doubles() {
    in_virtual_time(async {
        let cluster = with_job(QUICK).await;
        cluster.pass(9.0).await;
        assert_eq!(cluster.line(), "a:RA(c=Ready)");
        cluster.pass(2.0).await;
        assert_eq!(cluster.line(), "a:EW(c=Pending)");
        let name = cluster.name_of("a");
        let message = format!("Exceeded the PodsReady timeout t/{name}");
        assert_eq!(cluster.notes("EvictedDueToPodsReadyTimeout"), [&*message]);
        let evicted = cluster.condition("a", "Evicted");
        assert_eq!(evicted["reason"], "PodsReadyTimeout");
        assert_eq!(evicted["message"], message);
        let status = cluster.get("a")["status"].clone();
        assert_eq!(status["requeueState"]["count"], 1);
        let counted =
            json!([{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}]);
        assert_eq!(status["schedulingStats"]["evictions"], counted);
        let delays = async || {
            let at = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
            let status = cluster.get("a")["status"].clone();
            let evicted = cluster.condition("a", "Evicted")["lastTransitionTime"].clone();
            let end = at(&status["requeueState"]["requeueAt"]);
            end.duration_since(at(&evicted)).as_secs()
        };
        let mut seen = vec![delays().await];
        for _ in 0..2 {
            cluster.pass(10.0).await;
            assert_eq!(cluster.line(), "a:R(c=Pending)");
            ready(&cluster, "a").await;
            cluster.pass(11.0).await;
            seen.push(delays().await);
        }
        assert_eq!(seen, [4, 8, 8]);
    });
}

#[test]
fn after_too_many_evictions_the_workload_is_deactivated() {
    in_virtual_time(async {
        let cluster = with_job(WaitForPodsReady {
            backoff_limit_count: Some(1),
            ..QUICK
        })
        .await;
        cluster.pass(16.0).await;
        assert_eq!(cluster.line(), "a:R(c=Pending)");
        ready(&cluster, "a").await;
        cluster.pass(11.0).await;
        assert_eq!(cluster.line(), "a:EWI(c=Pending)");
        let evicted = cluster.condition("a", "Evicted");
        assert_eq!(evicted["reason"], "DeactivatedDueToRequeuingLimitExceeded");
        let message =
            "The workload is deactivated due to exceeding the maximum number of re-queuing retries";
        assert_eq!(evicted["message"], message);
        assert_eq!(cluster.get("a")["status"]["requeueState"], Value::Null);
    });
}

#[test]
fn pods_that_were_ready_have_a_limit_of_their_own() {
    in_virtual_time(async {
        let cluster = with_job(QUICK).await;
        pods(&cluster, "a", 1, 1).await;
        cluster.pass(60.0).await;
        assert_eq!(cluster.line(), "a:RA(c=Ready)");
        pods(&cluster, "a", 1, 0).await;
        cluster.pass(4.0).await;
        assert_eq!(cluster.line(), "a:RA(c=Ready)");
        pods(&cluster, "a", 1, 1).await;
        cluster.pass(60.0).await;
        assert_eq!(cluster.condition("a", "PodsReady")["reason"], "Recovered");
        pods(&cluster, "a", 1, 0).await;
        cluster.pass(6.0).await;
        assert_eq!(
            cluster.condition("a", "Evicted")["reason"],
            "PodsReadyTimeout"
        );
        let evictions = cluster.get("a")["status"]["schedulingStats"]["evictions"].clone();
        assert_eq!(evictions[0]["underlyingCause"], "WaitForRecovery");
    });
}

/// Half of its Pods have succeeded, which is as many as run at once.
#[test]
fn a_job_that_is_admitted_again_has_its_pods_before_it_starts() {
    in_virtual_time(async {
        let cluster = Cluster::new(version(QUICK));
        cluster.queue("2", &["c"], &json!({}));
        cluster.job_of(
            "a",
            &json!({}),
            &json!({"parallelism": 2, "completions": 4}),
        );
        cluster.pass(0.5).await;
        ready(&cluster, "a").await;
        let status = json!({"status": {"active": 0, "ready": 0, "succeeded": 2}});
        cluster.merge("jobs", "t", "a", "status", &status);
        cluster.pass(0.5).await;
        cluster.verdict("a", "c", "Retry", 1);
        cluster.pass(5.0).await;
        assert_eq!(cluster.line(), "a:R(c=Pending1)");
        let before = cluster.server.history().len();
        ready(&cluster, "a").await;
        let changes = cluster.server.history();
        let seen = changes[before..].iter().filter_map(|change| {
            let conditions = change.object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let is_ready = conditions.any(|c| c["type"] == "PodsReady" && c["status"] == "True");
            match change.resource.plural.as_str() {
                "workloads" if is_ready => Some("ready"),
                "jobs" if change.object["spec"]["suspend"] == false => Some("starts"),
                _ => None,
            }
        });
        assert_eq!(seen.take(2).collect::<Vec<_>>(), ["ready", "starts"]);
    });
}

#[test]
fn one_after_the_other_is_admitted_if_admission_is_blocked() {
    in_virtual_time(async {
        let cluster = Cluster::new(version(WaitForPodsReady {
            block_admission: true,
            ..QUICK
        }));
        cluster.queue("3", &[], &json!({}));
        for name in ["a", "b", "c"] {
            cluster.job(name, "1", None);
            cluster.pass(0.1).await;
        }
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA b: c:");
        let waiting = cluster.condition("b", "QuotaReserved");
        assert_eq!(waiting["reason"], "Waiting");
        let message = "waiting for all admitted workloads to be in PodsReady condition";
        assert_eq!(waiting["message"], message);
        pods(&cluster, "a", 1, 1).await;
        assert_eq!(cluster.line(), "a:RA b:RA c:");
        // The end of a Workload, too, lets the next one go on.
        cluster.finish("b");
        cluster.pass(0.5).await;
        assert_eq!(cluster.line(), "a:RA b:RAF c:RA");
    });
}

#[test]
fn who_was_evicted_for_slow_pods_goes_behind_the_others_or_keeps_its_place() {
    for (by, next) in [
        (RequeuingTimestamp::Eviction, "a: b:R(c=Pending)"),
        (RequeuingTimestamp::Creation, "a:R(c=Pending) b:"),
    ] {
        let line = in_virtual_time(async {
            let cluster = with_job(WaitForPodsReady {
                requeuing_timestamp: by,
                ..QUICK
            })
            .await;
            // Something larger holds the queue until the delay of `a` is over.
            cluster.workload("large", "1", 9);
            cluster.pass(0.5).await;
            cluster.job("b", "1", None);
            cluster.pass(10.5).await;
            cluster.verdict("large", "c", "Ready", 0);
            cluster.pass(6.0).await;
            cluster.finish("large");
            cluster.pass(1.5).await;
            cluster.delete("workloads", "large");
            cluster.pass(1.5).await;
            cluster.line()
        });
        let reserved = |line: &str| -> Vec<bool> {
            let parts = line.split(' ');
            parts
                .map(|part| part.split(':').nth(1).unwrap().contains('R'))
                .collect()
        };
        assert_eq!(reserved(&line)[..2], reserved(next), "{by:?}: {line}");
    }
}

#[test]
fn before_0_19_admission_does_not_wait_for_pods() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_18);
        cluster.queue("1", &[], &json!({}));
        cluster.job("a", "1", None);
        cluster.pass(7200.0).await;
        assert_eq!(cluster.line(), "a:RA");
        assert_eq!(cluster.condition("a", "PodsReady"), Value::Null);
    });
}
