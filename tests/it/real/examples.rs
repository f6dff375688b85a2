//! The examples that need more than a cluster, as a user runs them: with the permissions of their
//! manifests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{StatusCode, Uri};
use axum::routing::get;
use axum::{Json, Router};
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::{Value, json};

use super::harness::{test_cluster_with_port, unique, wait};
use super::process::{Program, apply, install};

/// Starts a Prometheus server that has the spending of `namespace`, and counts the requests.
async fn prometheus(namespace: String, requests: Arc<AtomicUsize>) -> String {
    let respond = async move |uri: Uri| {
        requests.fetch_add(1, Ordering::Relaxed);
        let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let query: Vec<(String, String)> = query.into_owned().collect();
        if query != [("query".to_owned(), "sum by (namespace) (spent)".to_owned())] {
            let error =
                json!({"status": "error", "errorType": "bad_data", "error": format!("{query:?}")});
            return (StatusCode::BAD_REQUEST, Json(error));
        }
        let series =
            json!([{"metric": {"namespace": namespace}, "value": [1_795_000_000, "80.5"]}]);
        (
            StatusCode::OK,
            Json(json!({"status": "success", "data": {"resultType": "vector", "result": series}})),
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/api/v1/query", get(respond));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test]
async fn budget_holds_the_jobs_of_a_namespace_that_has_spent_its_limit() {
    let Some(cluster) = test_cluster_with_port(V0_19_2).await else {
        return;
    };
    let (own, name) = (unique("program"), unique("budget"));
    let requests = Arc::new(AtomicUsize::new(0));
    let server = prometheus(cluster.namespace.clone(), requests.clone()).await;
    let kubeconfig = install(&cluster, "budget", &own).await;
    let budget = async |server: &str, query: &str, limit: f64| {
        let spec =
            json!({"prometheus": server, "query": query, "limits": {&*cluster.namespace: limit}});
        let document = json!({"apiVersion": "example.com/v1alpha1", "kind": "Budget", "metadata": {"name": name}, "spec": spec});
        apply(&cluster.client, &document).await;
    };
    budget(&server, "sum by (namespace) (spent)", 80.0).await;
    let reference = json!({"apiGroup": "example.com", "kind": "Budget", "name": name});
    cluster
        .admission_check(&name, "example.com/budget", reference)
        .await;
    let _program = Program::start(
        "budget",
        &kubeconfig,
        &["--lease-namespace", &own, "--lease-name", &own],
    );
    cluster.wait_active(&name, "True", "Active").await;
    for job in ["a", "b", "c"] {
        cluster.workload(job).await;
        cluster.reserve(job, &[&name]).await;
    }
    for job in ["a", "b", "c"] {
        let entry = cluster
            .wait_message(job, &name, "has spent its budget of 80.00")
            .await;
        assert_eq!(entry["state"], "Pending");
    }
    assert_eq!(requests.load(Ordering::Relaxed), 1, "one query serves all");

    // An outage and a bad query are reported, and change no state.
    budget("http://127.0.0.1:9", "sum by (namespace) (spent)", 80.0).await;
    let entry = cluster.wait_message("a", &name, "onnect").await;
    assert_eq!(entry["state"], "Pending");
    budget(&server, "nonsense", 80.0).await;
    let entry = cluster
        .wait_message("a", &name, "Prometheus returned 400")
        .await;
    assert_eq!(entry["state"], "Pending");

    // A changed limit changes the verdict.
    budget(&server, "sum by (namespace) (spent)", 80.6).await;
    for job in ["a", "b", "c"] {
        cluster.wait_state(job, &name, "Ready").await;
    }
}

#[tokio::test]
async fn licences_are_counted_across_a_restart_and_handed_on() {
    let Some(cluster) = test_cluster_with_port(V0_19_2).await else {
        return;
    };
    let (own, name) = (unique("program"), unique("pool"));
    let kubeconfig = install(&cluster, "licences", &own).await;
    let pool = json!({"apiVersion": "example.com/v1alpha1", "kind": "LicencePool", "metadata": {"name": name}, "spec": {"total": 2}});
    apply(&cluster.client, &pool).await;
    let reference = json!({"apiGroup": "example.com", "kind": "LicencePool", "name": name});
    cluster
        .admission_check(&name, "example.com/licences", reference)
        .await;
    let start = || {
        Program::start(
            "licences",
            &kubeconfig,
            &["--lease-namespace", &own, "--lease-name", &own],
        )
    };
    let program = start();
    cluster.wait_active(&name, "True", "Active").await;
    for job in ["a", "b"] {
        cluster.workload(job).await;
        cluster.reserve(job, &[&name]).await;
        let entry = cluster.wait_state(job, &name, "Ready").await;
        assert!(
            entry["podSetUpdates"][0]["annotations"]["example.com/licence"].is_string(),
            "{entry}"
        );
        cluster.admit(job).await;
    }
    cluster.workload("c").await;
    cluster.reserve("c", &[&name]).await;
    cluster
        .wait_message("c", &name, "all 2 licences are in use")
        .await;

    // Approved jobs keep their licence although the new process has no record of it. Others get
    // none.
    program.signal("-TERM");
    program.end().await;
    cluster.workload("d").await;
    cluster.reserve("d", &[&name]).await;
    let _program = start();
    cluster
        .wait_message("d", &name, "all 2 licences are in use")
        .await;
    let states = async || {
        let entry = async |job| cluster.entry(job, &name).await["state"].clone();
        Value::from(vec![
            entry("a").await,
            entry("b").await,
            entry("c").await,
            entry("d").await,
        ])
    };
    assert_eq!(
        states().await,
        json!(["Ready", "Ready", "Pending", "Pending"])
    );

    // A job that ends passes its licence to exactly one that waits.
    cluster
        .set_condition("a", "Finished", "True", "Succeeded")
        .await;
    wait("one more Ready", async || {
        let seen = states().await;
        let ready = seen
            .as_array()
            .unwrap()
            .iter()
            .filter(|state| *state == "Ready")
            .count();
        (ready == 3, seen)
    })
    .await;
}
