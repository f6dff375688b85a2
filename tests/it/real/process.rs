//! A check binary as a process: the examples, which cargo builds with the tests.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use kube::Client;
use kueue_check_testenv::{Killed, free_address};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::harness::TestCluster;

/// Returns an example's binary, which cargo builds with the tests.
pub(crate) fn binary(example: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples")
        .join(example);
    assert!(
        program.exists(),
        "{} is not built: cargo build --package kueue-check-examples --examples",
        program.display()
    );
    program
}

/// Returns the documents that `manifests` prints.
fn manifests(example: &str, namespace: &str) -> Vec<Value> {
    let output = Command::new(binary(example))
        .args([
            "manifests",
            "--image",
            "example.com/check:1",
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
pub(crate) async fn apply(client: &Client, document: &Value) {
    kueue_check_testenv::apply(client, document)
        .await
        .unwrap_or_else(|error| panic!("{document}: {error}"));
}

/// A program that ends with the test.
pub(crate) struct Program {
    child: Killed,
    pub(crate) admin: u16,
}

impl Program {
    pub(crate) fn start(example: &str, kubeconfig: &PathBuf, extra: &[&str]) -> Self {
        let admin = free_address().unwrap().port();
        let child = Command::new(binary(example))
            .arg("run")
            .args([
                "--admin-address",
                &format!("127.0.0.1:{admin}"),
                "--log-format",
                "json",
            ])
            .args(extra)
            .env("KUEUE_CHECK_KUBECONFIG", kubeconfig)
            .env("KUEUE_CHECK_ADMIN_SECURE", "false")
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self {
            child: Killed(child),
            admin,
        }
    }

    /// Returns status and body of a path of the admin endpoint.
    pub(crate) async fn get(&self, path: &str) -> Option<(u16, String)> {
        use http_body_util::BodyExt;
        use hyper_util::client::legacy::Client;
        let client: Client<_, http_body_util::Empty<bytes::Bytes>> =
            Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let response = client
            .get(
                format!("http://127.0.0.1:{}{path}", self.admin)
                    .parse()
                    .unwrap(),
            )
            .await
            .ok()?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((status, String::from_utf8_lossy(&body).into_owned()))
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill")
                .args([signal, &self.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the program's end. Returns its exit code, and how long it took.
    pub(crate) async fn end(mut self) -> (Option<i32>, Duration) {
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

/// Installs everything that `manifests` prints. Returns a kubeconfig with exactly the permissions
/// of its ServiceAccount.
pub(crate) async fn install(cluster: &TestCluster, example: &str, namespace: &str) -> PathBuf {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    apply(&cluster.client, &object).await;
    let documents = manifests(example, namespace);
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
            "ClusterRoleBinding",
            "ClusterRole",
            "Role",
            "RoleBinding",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "Deployment",
            "PodDisruptionBudget"
        ]
    );
    for document in &documents {
        apply(&cluster.client, document).await;
    }
    let token = token(&cluster.client, namespace, namespace).await;
    cluster
        .access
        .as_ref()
        .unwrap()
        .kubeconfig_with_token(namespace, &token)
        .unwrap()
}

/// Returns a token of a ServiceAccount.
pub(crate) async fn token(client: &Client, namespace: &str, account: &str) -> String {
    kueue_check_testenv::token(client, namespace, account, 3600)
        .await
        .unwrap()
}
