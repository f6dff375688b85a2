//! Recordings of a simulated cluster, and their replay.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use kueue_check::api::{Owner, Workload};
use kueue_check::runtime::Runtime;
use kueue_check::{Verdict, admission_check};
use kueue_check_sim::apiserver::{
    ApiRequest, ApiServer, Faults, Patch, RequestFault, RequestInfo, Resource, Status, Verb,
};
use kueue_check_sim::definitions::{self, KueueApi};
use kueue_check_sim::{Cluster, Job, Simulation};
use kueue_check_sim_cli::record::{RecordError, Recorder};
use kueue_check_sim_cli::replay::{Replay, Trace};
use serde_json::{Value, json};
use tokio::sync::Notify;

const RECORDER: Recorder = Recorder {
    seconds: 600,
    limit: 100_000,
    kueue: None,
    requests: NonZeroU32::MIN,
};

#[admission_check(controller = "acme.example/licences")]
async fn licences(workload: Workload) -> Verdict {
    let job = workload.owner().map(Owner::name);
    match job.unwrap_or(workload.name()) {
        "later" => Verdict::retry_after(Duration::from_secs(20), "alice has no licence"),
        "never" => Verdict::rejected("alice may not"),
        _ => Verdict::ready("a licence for alice"),
    }
}

/// Records a scenario that runs after `before`.
fn recorded(before: impl AsyncFn(&Cluster), scenario: impl AsyncFn(&Cluster)) -> Value {
    let trace = RefCell::new(Value::Null);
    Simulation::new(|| licences).quota(4).run(async |cluster| {
        before(cluster).await;
        cluster.advance(Duration::from_secs(3)).await;
        let end = Notify::new();
        let client = cluster.server().client_as("recorder");
        let record = RECORDER.record(client, cluster.clock(), end.notified());
        let run = async {
            // The initial lists are complete at once.
            cluster.advance(Duration::from_secs(1)).await;
            scenario(cluster).await;
            cluster.advance(Duration::from_secs(5)).await;
            end.notify_one();
        };
        let (recorded, ()) = tokio::join!(record, run);
        *trace.borrow_mut() = recorded.unwrap();
    });
    trace.into_inner()
}

/// Returns the differences of the replay.
fn differences(trace: &Value) -> String {
    let trace: Trace = serde_json::from_value(trace.clone()).unwrap();
    let all = Replay::new(trace).run().unwrap();
    let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Counts requests by method and resource.
fn requests(trace: &Value) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let steps = trace["steps"].as_array().unwrap();
    for step in steps {
        for call in step["calls"].as_array().unwrap() {
            let path = call["path"].as_str().unwrap();
            let path = path.split('?').next().unwrap();
            let (_, kind) = path.rsplit_once("/t/").or(path.rsplit_once('/')).unwrap();
            let mut parts: Vec<&str> = kind.split('/').collect();
            if parts.len() > 1 {
                parts.remove(1);
            }
            let method = call["method"].as_str().unwrap();
            *counts
                .entry(format!("{method} {}", parts.join("/")))
                .or_default() += 1;
        }
    }
    counts
}

#[test]
fn jobs_and_verdicts_are_recorded_and_reproduced() {
    let trace = recorded(
        async |_| {},
        async |cluster| {
            cluster.submit(Job::new("nightly").namespace("team-a").cpus(3));
            cluster.expect_admitted("team-a/nightly").await;
            cluster.submit(Job::new("nightly").namespace("team-b").cpus(2));
            cluster.advance(Duration::from_secs(3)).await;
            cluster.complete("team-a/nightly");
            cluster.expect_admitted("team-b/nightly").await;
        },
    );
    assert_eq!(differences(&trace), "");
    let counts = requests(&trace);
    assert_eq!(counts.get("POST jobs"), Some(&2), "{counts:?}");
    assert_eq!(counts.get("PATCH workloads/status"), Some(&2), "{counts:?}");
    assert_eq!(
        counts.get("PATCH jobs/status"),
        Some(&3),
        "two run, one ends: {counts:?}"
    );
    assert_eq!(counts.get("POST workloads"), None, "Kueue makes them");
}

#[test]
fn initial_objects_continue_from_their_state() {
    let trace = recorded(
        async |cluster| {
            cluster.submit(Job::new("nightly").namespace("team-a").cpus(3));
            cluster.expect_admitted("team-a/nightly").await;
            cluster.submit(Job::new("waits").namespace("team-a").cpus(2));
            cluster.submit(Job::new("over").namespace("team-a").cpus(1));
            cluster.expect_admitted("team-a/over").await;
            cluster.complete("team-a/over");
            cluster.advance(Duration::from_secs(3600)).await;
        },
        async |cluster| {
            cluster.complete("team-a/nightly");
            cluster.expect_admitted("team-a/waits").await;
        },
    );
    assert_eq!(differences(&trace), "");
    let objects = trace["objects"].as_array().unwrap();
    let of_kind = |kind: &str| {
        objects
            .iter()
            .filter(|object| object["kind"] == kind)
            .count()
    };
    assert_eq!(
        (of_kind("Job"), of_kind("Workload")),
        (2, 2),
        "without the one that is over"
    );
    let counts = requests(&trace);
    let expected = [("PATCH jobs/status", 2), ("PATCH workloads/status", 1)];
    let expected = expected.map(|(request, count)| (request.to_owned(), count));
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn retries_rejections_and_deletions_are_reproduced() {
    let trace = recorded(
        async |_| {},
        async |cluster| {
            cluster.submit(Job::new("later"));
            cluster.submit(Job::new("never"));
            cluster.advance(Duration::from_secs(30)).await;
            cluster.delete(&job("later"));
            cluster.submit(Job::new("off"));
            cluster.expect_admitted("off").await;
            cluster.merge_workload("off", &json!({"spec": {"active": false}}));
            cluster.advance(Duration::from_secs(5)).await;
        },
    );
    assert_eq!(differences(&trace), "");
    let counts = requests(&trace);
    assert_eq!(counts.get("DELETE jobs"), Some(&1), "{counts:?}");
    assert_eq!(
        counts.get("PATCH workloads"),
        Some(&1),
        "a user's, not Kueue's: {counts:?}"
    );
}

/// A Workload of an owner whose integration the model does not have is recorded without an owner.
#[test]
fn a_workload_of_another_kind_of_job_is_recorded_as_one_without() {
    let trace = recorded(
        async |_| {},
        async |cluster| {
            cluster.apply(&owner());
            let owners = cluster
                .server()
                .objects(&Resource::new("", "v1", "configmaps"), "default");
            let owner = owners
                .iter()
                .find(|map| map["metadata"]["name"] == "ray")
                .unwrap();
            let of_ray = || of(owner);
            cluster.apply(&of_ray());
            cluster.expect_admitted("ray").await;
            let finished = json!({"status": {"conditions": [{
                "type": "Finished", "status": "True", "reason": "Succeeded", "message": "for alice",
                "lastTransitionTime": "2026-11-21T09:00:00Z",
            }]}});
            let mut body = of_ray();
            body["status"] = finished["status"].clone();
            let workloads = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
            let apply = ApiRequest::new(Verb::Patch(Patch::Apply), &workloads);
            let apply = apply
                .namespace("default")
                .name("rayjob-ray-1a2b3")
                .subresource("status");
            let response = cluster
                .server()
                .call(&apply.query("fieldManager", "ray").body(body));
            assert_eq!(response.code, 200, "{}", response.body);
        },
    );
    assert_eq!(differences(&trace), "");
    let counts = requests(&trace);
    assert_eq!(counts.get("POST workloads"), Some(&1), "{counts:?}");
    assert_eq!(
        counts.get("PATCH workloads/status"),
        Some(&2),
        "verdict and end: {counts:?}"
    );
    let text = trace.to_string();
    assert!(!text.contains("alice"), "{}", around(&text, "alice"));
}

/// A stand-in for a `RayJob`: an owner without an integration in the model.
fn owner() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ray", "namespace": "default"},
    })
}

fn of(owner: &Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {
            "name": "rayjob-ray-1a2b3", "namespace": "default",
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "ray", "controller": true,
                "uid": owner["metadata"]["uid"],
            }],
        },
        "spec": {"queueName": "queue", "podSets": [{
            "name": "head", "count": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        }]},
    })
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
    })
}

/// A trace contains no names, messages of checks or images.
#[test]
fn names_and_messages_of_others_are_replaced() {
    let trace = recorded(
        async |cluster| {
            let label = ("acme.example/owner", "alice");
            cluster.submit(
                Job::new("secret-project")
                    .namespace("team-a")
                    .label(label.0, label.1)
                    .node_selector("acme.example/rack", "r2d2"),
            );
            cluster.advance(Duration::from_secs(3)).await;
        },
        async |cluster| {
            cluster.submit(Job::new("secret-sequel").namespace("team-a").cpus(9));
            cluster.advance(Duration::from_secs(3)).await;
            cluster.submit(Job::new("never").namespace("team-a"));
            cluster.advance(Duration::from_secs(3)).await;
        },
    );
    let text = trace.to_string();
    for name in [
        "acme", "alice", "secret", "team-a", "r2d2", "licences", "never",
    ] {
        assert!(!text.contains(name), "{name}: {}", around(&text, name));
    }
    // Inputs of Kueue are kept.
    for kept in ["insufficient quota for cpu", "\"cpu\":\"9\"", "message-1"] {
        assert!(text.contains(kept), "{kept}");
    }
}

/// The entry of the check was reset before the recording. Its message lives on in conditions.
#[test]
fn messages_of_an_earlier_eviction_are_replaced() {
    let trace = recorded(
        async |cluster| {
            cluster.submit(Job::new("never"));
            cluster.expect_deactivated("never").await;
        },
        async |cluster| cluster.advance(Duration::from_secs(5)).await,
    );
    assert_eq!(differences(&trace), "");
    let text = trace.to_string();
    assert!(text.contains("in Rejected state: "), "{text}");
    for secret in ["alice", "may not"] {
        assert!(!text.contains(secret), "{}", around(&text, secret));
    }
}

#[admission_check(controller = "acme.example/closed")]
async fn closed() -> Verdict {
    Verdict::pending("closed")
}

/// Another check runs on the jobs of a recorded cluster.
#[test]
fn another_check_decides_about_what_was_recorded() {
    let trace = recorded(
        async |_| {},
        async |cluster| {
            cluster.submit(Job::new("nightly"));
            cluster.expect_admitted("nightly").await;
        },
    );
    let trace: Trace = serde_json::from_value(trace).unwrap();
    let replay = Replay::new(trace).decided_by("acme.example/closed", "check-1");
    let replay = replay.with(|server, clock| {
        let runtime = Runtime::builder(server.client())
            .check(closed)
            .clock(clock.clone());
        tokio::spawn(runtime.build().unwrap().run(std::future::pending()));
    });
    let all = replay.run().unwrap();
    let workload = all
        .iter()
        .find(|d| d.at.starts_with("Workload/job-1"))
        .unwrap();
    assert!(
        workload.recorded.contains(r#""state":"Ready""#),
        "{workload}"
    );
    assert!(
        workload.simulated.contains(r#""message":"closed""#),
        "{workload}"
    );
}

fn around<'a>(text: &'a str, word: &str) -> &'a str {
    let at = text.find(word).unwrap_or_default();
    &text[at.saturating_sub(200)..(at + 100).min(text.len())]
}

/// A resource that is forbidden or not served is an error.
#[test]
fn a_resource_that_cannot_be_listed_is_an_error() {
    let old = Simulation::new(|| licences).kueue_api(KueueApi::V1beta1);
    old.run(async |cluster| {
        let client = cluster.server().client_as("recorder");
        let end = Notify::new();
        let result = RECORDER
            .record(client, cluster.clock(), end.notified())
            .await;
        let error = result.unwrap_err();
        assert!(matches!(error, RecordError::Read { .. }), "{error}");
        assert!(
            error.to_string().contains("(kueue.x-k8s.io/v1beta2): "),
            "{error}"
        );
    });
}

/// Refuses every list, as an API server that does not come up.
struct NoLists;

impl Faults for NoLists {
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let status = Status::new(503, "ServiceUnavailable", "not yet");
        let refused = RequestFault::Refuse {
            status,
            retry_after: None,
        };
        (request.call.verb == Verb::List).then_some(refused)
    }
}

/// A recording has an end although the initial lists have none.
#[test]
fn a_recording_without_the_initial_lists_is_an_error() {
    Simulation::new(|| licences).run(async |cluster| {
        let client = || cluster.server().client_as("recorder");
        let at_once = std::future::ready(());
        let result = RECORDER.record(client(), cluster.clock(), at_once).await;
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "the initial lists are not complete");

        let server = ApiServer::with_definitions(cluster.clock().clone(), definitions::kueue());
        server.set_faults(Arc::new(NoLists));
        let client = server.client_as("recorder");
        let record = RECORDER.record(client, cluster.clock(), std::future::pending());
        let error = record.await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, RecordError::Incomplete { .. }), "{text}");
        assert!(
            text.contains("the last error: ") && text.contains("not yet"),
            "{text}"
        );
    });
}
