//! A check binary as an operator meets it: its manifests, its rights, its endpoint, its signals.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::world::{World, unique, wait, world};

/// The example, which cargo builds with the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/maintenance_window")
}

/// The documents that `manifests` prints.
fn manifests(namespace: &str) -> Vec<Value> {
    let output = Command::new(program())
        .args([
            "manifests",
            "--image",
            "example.com/window:1",
            "--namespace",
            namespace,
            "--name",
            namespace,
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.split("---\n")
        .filter(|document| !document.trim().is_empty())
        .filter_map(|document| serde_saphyr::from_str::<Option<Value>>(document).unwrap())
        .collect()
}

/// Applies a document as `kubectl apply` would.
async fn apply(client: &Client, document: &Value) {
    let kind = document["kind"].as_str().unwrap();
    let api_version = document["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let plural = match kind {
        "PodDisruptionBudget" => "poddisruptionbudgets".to_owned(),
        kind => kind.to_lowercase() + "s",
    };
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: api_version.into(),
        kind: kind.into(),
        plural,
    };
    let name = document["metadata"]["name"].as_str().unwrap();
    let api: Api<DynamicObject> = match document["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(
        name,
        &PatchParams::apply("kubectl").force(),
        &Patch::Apply(document),
    )
    .await
    .unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
}

/// A program that ends with the test.
struct Program {
    child: Child,
    admin: u16,
}

impl Program {
    fn start(kubeconfig: &PathBuf, extra: &[&str]) -> Self {
        let admin = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = Command::new(program())
            .arg("run")
            .args([
                "--admin-address",
                &format!("127.0.0.1:{admin}"),
                "--log-format",
                "json",
            ])
            .args(extra)
            .env("KUEUE_CHECK_KUBECONFIG", kubeconfig)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self { child, admin }
    }

    /// Status and body of a path of the admin endpoint.
    async fn get(&self, path: &str) -> Option<(u16, String)> {
        use http_body_util::BodyExt;
        use hyper_util::client::legacy::Client;
        let client: Client<_, http_body_util::Empty<bytes::Bytes>> =
            Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let answer = client
            .get(
                format!("http://127.0.0.1:{}{path}", self.admin)
                    .parse()
                    .unwrap(),
            )
            .await
            .ok()?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        Some((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill")
                .args([signal, &self.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the program's end: its exit code, and how long it took.
    async fn end(mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(40) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), began.elapsed());
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("the program does not end");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Installs everything that `manifests` prints; a kubeconfig with exactly the rights of its ServiceAccount.
async fn install(world: &World, namespace: &str) -> PathBuf {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let metadata = ObjectMeta {
        name: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    namespaces
        .create(
            &PostParams::default(),
            &Namespace {
                metadata,
                ..Namespace::default()
            },
        )
        .await
        .unwrap();
    let documents = manifests(namespace);
    let kinds: Vec<&str> = documents
        .iter()
        .filter_map(|document| document["kind"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "CustomResourceDefinition",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Deployment",
            "PodDisruptionBudget"
        ]
    );
    for document in &documents {
        apply(&world.client, document).await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: Vec::new(),
            expiration_seconds: Some(3600),
            ..Default::default()
        },
        ..Default::default()
    };
    let token = wait("a token", async || {
        let answer = accounts
            .create_token_request(namespace, &PostParams::default(), &request)
            .await;
        let token = answer
            .ok()
            .and_then(|answer| answer.status)
            .map(|status| status.token);
        (token.is_some(), token)
    })
    .await;
    world
        .access
        .kubeconfig_with_token(namespace, &token.unwrap())
        .unwrap()
}

async fn window(world: &World, name: &str, opens: &str, closes: &str) {
    let document = json!({"apiVersion": "example.com/v1alpha1", "kind": "Window", "metadata": {"name": name},
                          "spec": {"opens": opens, "closes": closes, "timeZone": "UTC"}});
    apply(&world.client, &document).await;
}

#[tokio::test]
async fn the_example_runs_with_exactly_the_rights_that_its_manifests_give() {
    let Some(world) = world(V0_19_2).await else {
        return;
    };
    let (namespace, name) = (unique("program"), unique("window"));
    let kubeconfig = install(&world, &namespace).await;
    world
        .admission_check(
            &name,
            "example.com/window",
            json!({"apiGroup": "example.com", "kind": "Window", "name": name}),
        )
        .await;
    let program = Program::start(
        &kubeconfig,
        &["--lease-namespace", &namespace, "--lease-name", &namespace],
    );

    world
        .wait_active(&name, "False", "ParametersNotFound")
        .await;
    window(&world, &name, "00:00:00", "00:00:00").await;
    world.wait_active(&name, "True", "Active").await;
    world.workload("a").await;
    world.reserve("a", &[&name]).await;
    let entry = world.wait_message("a", &name, "opens at").await;
    assert_eq!(entry["state"], "Pending");
    // A changed threshold changes the verdict.
    window(&world, &name, "00:00:00", "23:59:59.999").await;
    world.wait_state("a", &name, "Ready").await;
    world
        .wait_event(&world.namespace, "a", "AdmissionCheckReady")
        .await;

    assert_eq!(program.get("/livez").await, Some((200, "ok\n".to_owned())));
    assert_eq!(program.get("/readyz").await, Some((200, "ok\n".to_owned())));
    let (status, metrics) = program.get("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(
        metrics.contains("kueue_check_leader 1") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    assert!(
        !metrics.contains("code=\"403\""),
        "no request was forbidden: {metrics}"
    );
    let (_, diagnostics) = program.get("/diagnostics").await.unwrap();
    let diagnostics: Value = serde_json::from_str(&diagnostics).unwrap();
    let ours = diagnostics["admissionChecks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == name.as_str())
        .unwrap();
    assert_eq!(
        (
            &ours["active"],
            &ours["parametersGeneration"],
            &ours["workloads"]
        ),
        (&json!(true), &json!(2), &json!(1))
    );

    program.signal("-TERM");
    let (code, took) = program.end().await;
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(5), "{took:?}");
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(world.client.clone(), &namespace);
    assert_eq!(
        leases
            .get(&namespace)
            .await
            .unwrap()
            .spec
            .unwrap()
            .holder_identity
            .as_deref(),
        Some(""),
        "the lease was given back"
    );
}

#[tokio::test]
async fn errors_at_the_start_say_what_to_do_and_have_an_exit_code() {
    let run = |arguments: &[&str]| {
        let output = Command::new(program())
            .args(arguments)
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = run(&["run", "--kubeconfig", "/does/not/exist"]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("no cluster") && text.contains("--kubeconfig"),
        "{text}"
    );
    let (code, text) = run(&["run", "--concurrency", "many"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--concurrency <NUMBER>"), "{text}");
    let (code, text) = run(&["manifests"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--image <IMAGE>"), "{text}");
    assert_eq!(run(&[]).0, Some(2));
}

#[tokio::test]
async fn a_cluster_without_kueue_is_waited_for_and_said() {
    let cluster = match kueue_check_testenv::Cluster::start().await {
        Ok(cluster) => cluster,
        Err(error) => return super::world::skip(&error),
    };
    let program = Program::start(
        &cluster.access().kubeconfig().unwrap(),
        &["--lease-namespace", "default"],
    );
    wait("the reason", async || {
        let answer = program.get("/readyz").await;
        let said = answer.as_ref().is_some_and(|(status, text)| {
            *status == 503 && text.contains("kueue: Kueue is not installed")
        });
        (said, answer)
    })
    .await;
    super::world::install(&cluster, V0_19_2).await;
    let client = cluster.client().unwrap();
    let crds = Command::new(super::program::program())
        .arg("crds")
        .output()
        .unwrap();
    apply(
        &client,
        &serde_saphyr::from_str::<Value>(
            String::from_utf8(crds.stdout)
                .unwrap()
                .trim_start_matches("---\n"),
        )
        .unwrap(),
    )
    .await;
    wait("readiness", async || {
        let answer = program.get("/readyz").await;
        (
            answer.as_ref().is_some_and(|(status, _)| *status == 200),
            answer,
        )
    })
    .await;
}
