//! A growth of an elastic job with a failing verdict, on the simulated cluster.
//!
//! The test makes the slices, without a job: a Workload that is admitted, and one that replaces it.
//! With Retry or Rejected for the growth, Kueue stops the whole job (recordings
//! `elastic-grow-retry` and `elastic-grow-rejected`).

use std::sync::Arc;
use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check::{
    AfterAdmission, CheckError, OnError, OnFailure, OnTimeout, PendingTimeout, Policy, Request,
    Verdict,
};
use kueue_check_sim::apiserver::Resource;
use kueue_check_sim::scenarios::Scripted;
use kueue_check_sim::{Cluster, Simulation};
use serde_json::{Value, json};

/// Makes a slice of the elastic job `el` with `pods` pods of one CPU each.
fn slice(name: &str, replaces: Option<&str>, pods: u32) -> Value {
    let mut annotations = json!({
        "kueue.x-k8s.io/elastic-job": "true",
        "kueue.x-k8s.io/workload-slice-name": "el-1",
    });
    if let Some(replaces) = replaces {
        annotations["kueue.x-k8s.io/workload-slice-replacement-for"] =
            json!(format!("default/{replaces}"));
    }
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"namespace": "default", "name": name, "annotations": annotations},
        "spec": {"queueName": "queue", "podSets": [{
            "name": "main", "count": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        }]},
    })
}

/// Returns the notes of suppressed evictions in events about `name`.
fn suppressions(cluster: &Cluster, name: &str) -> Vec<String> {
    let all = cluster
        .server()
        .objects(&Resource::new("events.k8s.io", "v1", "events"), "default");
    let workload = cluster.workload(name).unwrap();
    let about = |event: &&Arc<Value>| {
        event["regarding"]["uid"] == workload["metadata"]["uid"]
            && event["reason"] == "EvictionSuppressed"
    };
    let notes = all.iter().filter(about).map(|event| event["note"].as_str());
    notes.map(|note| note.unwrap().to_owned()).collect()
}

type Decide = fn() -> Result<Verdict, CheckError>;

/// Simulates a check that approves the first slice, and evaluates others with `decide`.
fn simulation(policy: &Policy, decide: Decide) -> Simulation {
    let policy = policy.clone();
    let check = move |request: &Request| match request.workload().name() {
        "el-1" => Ok(Verdict::ready("ok")),
        _ => decide(),
    };
    Simulation::new(move || Scripted::new(check).policy(policy.clone())).quota(20)
}

/// Applies a job that runs with two pods, and its growth to four.
async fn grows(cluster: &Cluster) {
    cluster.apply(&slice("el-1", None, 2));
    cluster.expect_admitted("el-1").await;
    cluster.apply(&slice("el-2", Some("el-1"), 4));
}

fn timeout() -> Policy {
    Policy {
        pending_timeout: Some(PendingTimeout {
            after: Duration::from_secs(60).into(),
            then: OnTimeout::Reject,
        }),
        ..Policy::default()
    }
}

fn errors() -> Policy {
    Policy {
        on_error: Some(OnError::Retry),
        on_error_after: Some(Duration::from_secs(60).into()),
        // Set by the check author, so it does not apply to growths.
        after_admission: Some(AfterAdmission {
            on_failure: Some(OnFailure::Evict),
            consecutive: Some(1),
            ..AfterAdmission::default()
        }),
        ..Policy::default()
    }
}

#[test]
fn a_rejected_growth_leaves_the_job_running() {
    let cases: [(&str, Policy, Decide, &str); 5] = [
        (
            "Rejected",
            Policy::default(),
            || Ok(Verdict::rejected("too large")),
            "too large",
        ),
        (
            "Retry",
            Policy::default(),
            || Ok(Verdict::retry_now("no money")),
            "no money",
        ),
        (
            "Retry later",
            Policy::default(),
            || Ok(Verdict::retry_after(Duration::from_secs(300), "no money")),
            "no money",
        ),
        (
            "pendingTimeout",
            timeout(),
            || Ok(Verdict::pending("closed").recheck_in(Duration::from_secs(600))),
            "`pendingTimeout` applies: closed",
        ),
        (
            "onError",
            errors(),
            || Err(CheckError::transient("source down")),
            "`onError: Retry` applies: source down",
        ),
    ];
    for (case, policy, decide, reason) in cases {
        simulation(&policy, decide).run(async |cluster| {
            grows(cluster).await;
            let message = format!("would be refused: {reason}; the job runs on with 2 pods");
            cluster.expect_message("el-2", &message).await;
            let replaced = |cluster: &Cluster| cluster.condition("el-1", "Finished");
            cluster.expect("`el-1` is replaced", replaced).await;
            cluster.advance(Duration::from_secs(3600)).await;
            assert_eq!(cluster.message("el-2"), message, "{case}");
            assert_eq!(cluster.state("el-2"), Some(CheckState::Pending), "{case}");
            assert!(cluster.condition("el-2", "QuotaReserved"), "{case}");
            assert!(!cluster.condition("el-2", "Evicted"), "{case}");
            let events = suppressions(cluster, "el-2");
            let expected = format!(
                "running job not evicted, because this Workload only requests more pods for it: {reason}"
            );
            assert!(
                !events.is_empty() && events.iter().all(|note| note.ends_with(&expected)),
                "{case}: {events:?}"
            );
            let verdicts = cluster.verdicts().all();
            let about = verdicts
                .iter()
                .filter(|verdict| verdict.reservation.name() == "el-2")
                .count();
            assert!((2..30).contains(&about) || case == "onError", "{case}: evaluated {about} times in an hour");
        });
    }
}

#[test]
fn a_growth_that_is_approved_later_is_admitted() {
    let check = |request: &Request| match request.workload().name() {
        "el-2" if request.evaluation_count() < 3 => Ok(Verdict::rejected("too large")),
        _ => Ok(Verdict::ready("ok")),
    };
    Simulation::new(move || Scripted::new(check))
        .quota(20)
        .run(async |cluster| {
            grows(cluster).await;
            cluster
                .expect_message("el-2", "would be refused: too large")
                .await;
            cluster.expect_admitted("el-2").await;
        });
}

#[test]
fn a_rejected_growth_is_never_stopped_with_any_fault() {
    let refuse: Decide = || Ok(Verdict::rejected("too large"));
    let explored = simulation(&Policy::default(), refuse).run_with_each_fault(async |cluster| {
        grows(cluster).await;
        cluster
            .expect_message("el-2", "would be refused: too large; the job runs on")
            .await;
        cluster.advance(Duration::from_secs(120)).await;
        assert!(cluster.condition("el-2", "QuotaReserved"));
        assert!(cluster.is_admitted("el-1"));
    });
    println!("{explored}");
}

/// If no pods of a job run, its growth is a Workload like any other.
#[test]
fn a_rejected_growth_without_running_pods_is_written() {
    let check = |request: &Request| match request.workload().name() {
        "el-1" => Ok(Verdict::pending("not yet")),
        _ => Ok(Verdict::rejected("too large")),
    };
    Simulation::new(move || Scripted::new(check))
        .quota(20)
        .run(async |cluster| {
            cluster.apply(&slice("el-1", None, 2));
            cluster.expect_message("el-1", "not yet").await;
            cluster.apply(&slice("el-2", Some("el-1"), 4));
            cluster
                .expect("`el-2` is evicted", |cluster| {
                    cluster.condition("el-2", "Evicted")
                })
                .await;
        });
}
