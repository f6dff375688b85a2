//! The program with a real Kueue: not part of every run, because Kueue takes 10 min to build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kube::{Api, Client};
use kueue_check_rule::document::{REVIEW, ReviewRequest};
use kueue_check_testenv::KueueVersion::V0_19_2;
use kueue_check_testenv::{Cluster, Killed, Kueue, apply, crds, token};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

mod examples;

use crate::program::{BINARY, documents, output};
use crate::server::{Received, Reply, Server};
use crate::service::document;

/// The namespace of the check.
const NAMESPACE: &str = "rule-check";
/// The maximum time for a change in another process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Installs the output of `manifests` for a program that watches `watched`. Returns a kubeconfig
/// with the permissions of its ServiceAccount.
async fn install(cluster: &Cluster, client: &Client, watched: &str) -> PathBuf {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(client, &namespace).await.unwrap();
    let (code, text, error) = output(&[
        "manifests",
        "--image=example.com/rule-check:1",
        "--watch",
        watched,
        "--namespace",
        NAMESPACE,
    ]);
    assert_eq!(code, Some(0), "{error}");
    for document in documents(&text) {
        let applied = apply(client, &document).await;
        applied.unwrap_or_else(|error| panic!("{document}: {error}"));
    }
    let token = token(client, NAMESPACE, "rule-check", 3600).await.unwrap();
    let access = cluster.access();
    access.kubeconfig_with_token(NAMESPACE, &token).unwrap()
}

/// Starts the program, which ends with the test.
fn start(kubeconfig: &Path, watched: &str, servers: &str) -> Killed {
    let mut command = Command::new(BINARY);
    command
        .args(["run", "--watch", watched, "--allow-host", servers])
        .args(["--admin-address", "127.0.0.1:0"])
        .args(["--lease-namespace", NAMESPACE])
        .env("KUEUE_CHECK_KUBECONFIG", kubeconfig)
        .env("KUEUE_CHECK_ADMIN_SECURE", "false")
        .stdin(Stdio::null());
    Killed(command.spawn().unwrap())
}

/// Polls the object until `done` returns true. Returns it.
async fn eventually(
    client: &Client,
    document: &Value,
    what: &str,
    done: impl Fn(&Value) -> bool,
) -> Value {
    let began = Instant::now();
    loop {
        // An empty apply changes nothing and returns the object.
        let object = apply(client, document).await.map(|o| json!(o));
        match object {
            Ok(object) if done(&object) => return object,
            last => assert!(
                began.elapsed() < TIMEOUT,
                "waited {TIMEOUT:?} for {what}; last seen: {last:#?}"
            ),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the response of a service that lets jobs of team `a` start.
fn respond(received: &Received) -> Reply {
    let review: ReviewRequest = serde_json::from_str(&received.body).unwrap();
    let items = review.request.items.iter().map(|item| {
        let may = item
            .workload
            .labels
            .get("team")
            .is_some_and(|team| team == "a");
        let state = if may { "Ready" } else { "Pending" };
        json!({"uid": item.uid, "state": state, "message": format!("may start: {may}")})
    });
    let items: Vec<Value> = items.collect();
    Reply::json(200, &document(REVIEW, &json!({"items": items})))
}

fn webhook(url: &str) -> Value {
    json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "teams"},
        "spec": {"url": url},
    })
}

fn admission_check() -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "teams"},
        "spec": {"controllerName": "kueue-check.dev/rule",
            "parameters": {"apiGroup": "kueue-check.dev", "kind": "WebhookCheck", "name": "teams"}},
    })
}

fn workload(name: &str, team: &str) -> Value {
    let pod = json!({"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": team}},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]},
    })
}

/// Returns the condition `kind` of `object` if its status is True or False.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == kind)
}

/// Creates a queue that requires `checks`.
async fn queue(client: &Client, checks: &[Value]) {
    let names: Vec<Value> = checks
        .iter()
        .map(|check| json!({"name": check["metadata"]["name"]}))
        .collect();
    let resources = json!([{"name": "cpu", "nominalQuota": 10}]);
    let objects = [
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}),
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "cq"},
            "spec": {"namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
                "admissionChecksStrategy": {"admissionChecks": names},
                "resourceGroups": [{"coveredResources": ["cpu"],
                    "flavors": [{"name": "default", "resources": resources}]}]},
        }),
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
            "metadata": {"name": "lq", "namespace": "default"}, "spec": {"clusterQueue": "cq"},
        }),
    ];
    for object in checks.iter().chain(&objects) {
        let applied = apply(client, object).await;
        applied.unwrap_or_else(|error| panic!("{object}: {error}"));
    }
}

/// With the permissions of the manifests and a real Kueue, the AdmissionCheck becomes active when
/// its server is allowed. Each job gets the verdict of the service.
#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn jobs_start_when_the_service_returns_ready() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client().unwrap();
    let definitions = crds(V0_19_2).unwrap();
    cluster.install(&client, definitions).await.unwrap();
    let kubeconfig = install(&cluster, &client, "configmaps").await;
    let _kueue = Kueue::start(&cluster).await.unwrap();
    let server = Server::start(respond).await;
    apply(&client, &webhook("https://other.example/review"))
        .await
        .unwrap();
    queue(&client, &[admission_check()]).await;
    let _program = start(&kubeconfig, "configmaps", &server.url);
    let refused = eventually(&client, &admission_check(), "a refusal", |object| {
        condition(object, "Active").is_some_and(|active| active["status"] == "False")
    })
    .await;
    let message = condition(&refused, "Active").unwrap()["message"].to_string();
    let advice = "add `--allow-host https://other.example:443`";
    assert!(message.contains(advice), "{message}");

    let review = webhook(&format!("{}/review", server.url));
    apply(&client, &review).await.unwrap();
    eventually(&client, &admission_check(), "an active check", |object| {
        condition(object, "Active").is_some_and(|active| active["status"] == "True")
    })
    .await;
    for (name, team) in [("job-a", "a"), ("job-b", "b")] {
        apply(&client, &workload(name, team)).await.unwrap();
    }
    let admitted = eventually(&client, &workload("job-a", "a"), "an admission", |object| {
        condition(object, "Admitted").is_some_and(|admitted| admitted["status"] == "True")
    })
    .await;
    let entry = &admitted["status"]["admissionChecks"][0];
    assert_eq!(entry["state"], "Ready");
    assert_eq!(entry["message"], "may start: true");
    let held = eventually(&client, &workload("job-b", "b"), "its verdict", |object| {
        object["status"]["admissionChecks"][0]["message"] == "may start: false"
    })
    .await;
    assert_eq!(held["status"]["admissionChecks"][0]["state"], "Pending");
    let admitted = condition(&held, "Admitted");
    assert!(admitted.is_none_or(|admitted| admitted["status"] == "False"));
}

/// A rule in CEL over a watched object and an HTTP document, and a webhook for the same queue, with
/// the permissions of the manifests.
#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn jobs_start_when_the_expression_is_true() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client().unwrap();
    let definitions = crds(V0_19_2).unwrap();
    cluster.install(&client, definitions).await.unwrap();
    let kubeconfig = install(&cluster, &client, "configmaps").await;
    let _kueue = Kueue::start(&cluster).await.unwrap();
    let server = Server::start(|received: &Received| match received.body.as_str() {
        "" => Reply::json(200, r#"{"free": 3}"#),
        _ => respond(received),
    })
    .await;
    let rule = |ready: &str| {
        json!({
            "apiVersion": "kueue-check.dev/v1alpha1", "kind": "CELCheck", "metadata": {"name": "pause"},
            "spec": {
                "ready": ready,
                "message": "'paused: ' + variables.pause.?data.?why.orValue('no reason is given')",
                "variables": [{"name": "pause", "expression": "object('configmaps', workload.namespace, 'pause')"}],
                "data": [{"name": "free", "http": {"url": format!("{}/free", server.url)}, "interval": "5s"}],
                "podSetUpdates": [{"annotations": {"example.com/pods": "string(podSet.count)"}}],
            },
        })
    };
    apply(&client, &rule("variables.pause == nul"))
        .await
        .unwrap();
    apply(&client, &webhook(&format!("{}/review", server.url)))
        .await
        .unwrap();
    let check = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "pause"},
        "spec": {"controllerName": "kueue-check.dev/rule",
            "parameters": {"apiGroup": "kueue-check.dev", "kind": "CELCheck", "name": "pause"}},
    });
    queue(&client, &[check.clone(), admission_check()]).await;
    let _program = start(&kubeconfig, "configmaps", &server.url);
    let wrong = eventually(&client, &check, "the mistake", |object| {
        condition(object, "Active").is_some_and(|active| active["status"] == "False")
    })
    .await;
    let message = condition(&wrong, "Active").unwrap()["message"].to_string();
    assert!(message.contains("there is no variable `nul`"), "{message}");

    apply(
        &client,
        &rule("variables.pause == null && http('free').free > 0"),
    )
    .await
    .unwrap();
    let pause = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "pause"}, "data": {"why": "maintenance"}});
    apply(&client, &pause).await.unwrap();
    let active = |object: &Value| {
        condition(object, "Active").is_some_and(|active| active["status"] == "True")
    };
    eventually(&client, &check, "an active check", active).await;
    eventually(&client, &admission_check(), "an active check", active).await;
    apply(&client, &workload("job-a", "a")).await.unwrap();
    let entry = |object: &Value, check: &str| {
        let mut entries = object["status"]["admissionChecks"].as_array()?.iter();
        entries.find(|entry| entry["name"] == check).cloned()
    };
    eventually(
        &client,
        &workload("job-a", "a"),
        "both verdicts",
        |object| {
            let message = |check| entry(object, check).map(|entry| entry["message"].clone());
            message("pause") == Some(json!("paused: maintenance"))
                && message("teams") == Some(json!("may start: true"))
        },
    )
    .await;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(client.clone(), "default");
    maps.delete("pause", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let admitted = eventually(&client, &workload("job-a", "a"), "an admission", |object| {
        condition(object, "Admitted").is_some_and(|admitted| admitted["status"] == "True")
    })
    .await;
    let update = &entry(&admitted, "pause").unwrap()["podSetUpdates"][0];
    assert_eq!(update["annotations"]["example.com/pods"], "1");
}
