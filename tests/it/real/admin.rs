//! The admin endpoint as manifests run it: over TLS, for users that the API server allows.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ObjectMeta, PostParams};
use kube::client::ClientBuilder;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::json;

use super::harness::{test_cluster_with_port, unique, wait};
use super::process::{Program, install, token};

const EXAMPLE: &str = "maintenance_window";

/// Makes a client that does not verify the certificate, as the chart's `ServiceMonitor`.
fn client(port: u16, token: Option<&str>) -> Client {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.default_retry = false;
    if let Some(token) = token {
        config.auth_info = serde_json::from_value::<AuthInfo>(json!({"token": token})).unwrap();
    }
    ClientBuilder::try_from(config).unwrap().build()
}

/// Returns status and body; `None` while there is no connection.
async fn get(client: &Client, path: &str) -> Option<(u16, String)> {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    match client.request_text(request).await {
        Ok(text) => Some((200, text)),
        Err(kube::Error::Api(status)) => Some((status.code, status.message.clone())),
        Err(_) => None,
    }
}

/// Waits for a status.
async fn wait_status(client: &Client, path: &str, status: u16) -> String {
    wait(&format!("{status} for {path}"), async || {
        let response = get(client, path).await;
        (
            response.as_ref().is_some_and(|(code, _)| *code == status),
            response,
        )
    })
    .await
    .unwrap()
    .1
}

#[tokio::test]
async fn metrics_and_diagnostics_require_a_token_with_permission() {
    let Some(cluster) = test_cluster_with_port(V0_19_2).await else {
        return;
    };
    let namespace = unique("admin");
    let kubeconfig = install(&cluster, EXAMPLE, &namespace).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), &namespace);
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let reader = ServiceAccount {
        metadata: named("prometheus"),
        ..ServiceAccount::default()
    };
    accounts
        .create(&PostParams::default(), &reader)
        .await
        .unwrap();
    let reader = token(&cluster.client, &namespace, "prometheus").await;
    let program = Program::start(
        EXAMPLE,
        &kubeconfig,
        &[
            "--lease-namespace",
            &namespace,
            "--lease-name",
            &namespace,
            "--admin-secure=true",
        ],
    );

    let nobody = client(program.admin, None);
    let prometheus = client(program.admin, Some(&reader));
    for path in ["/metrics", "/diagnostics", "/readyz", "/livez", "/"] {
        wait_status(&nobody, path, 401).await;
        wait_status(&client(program.admin, Some("made-up")), path, 401).await;
        wait_status(&prometheus, path, 403).await;
    }
    assert_eq!(program.get("/metrics").await, None, "not in clear text");

    let bind = |role: &str| {
        let binding = json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace}],
        });
        serde_json::from_value::<ClusterRoleBinding>(binding).unwrap()
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    let reads_metrics = format!("{namespace}-metrics-reader");
    bindings
        .create(&PostParams::default(), &bind(&reads_metrics))
        .await
        .unwrap();
    let metrics = wait_status(&prometheus, "/metrics", 200).await;
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    wait_status(&prometheus, "/diagnostics", 403).await;

    let reads_all = format!("{namespace}-admin");
    let role = json!({"metadata": {"name": reads_all}, "rules": [{"nonResourceURLs": ["/diagnostics"], "verbs": ["get"]}]});
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    let roles: Api<ClusterRole> = Api::all(cluster.client.clone());
    roles.create(&PostParams::default(), &role).await.unwrap();
    bindings
        .create(&PostParams::default(), &bind(&reads_all))
        .await
        .unwrap();
    let diagnostics = wait_status(&prometheus, "/diagnostics", 200).await;
    assert!(diagnostics.contains("admissionChecks"), "{diagnostics}");
    wait_status(&prometheus, "/readyz", 200).await;
    wait_status(&nobody, "/metrics", 401).await;
}
