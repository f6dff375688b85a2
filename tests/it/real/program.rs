//! A check binary for an administrator: its manifests, permissions, endpoint and signals.

use std::process::Command;
use std::time::Duration;

use kube::Api;
use kueue_check_testenv::KueueVersion::V0_19_2;
use serde_json::{Value, json};

use super::harness::{TestCluster, start_or_skip, test_cluster_with_port, unique, wait};
use super::process::{Program, apply, binary, install};

const EXAMPLE: &str = "maintenance_window";

async fn window(cluster: &TestCluster, name: &str, opens: &str, closes: &str) {
    let document = json!({"apiVersion": "example.com/v1alpha1", "kind": "Window", "metadata": {"name": name},
                          "spec": {"opens": opens, "closes": closes, "timeZone": "UTC"}});
    apply(&cluster.client, &document).await;
}

#[tokio::test]
async fn the_example_runs_with_exactly_the_permissions_of_its_manifests() {
    let Some(cluster) = test_cluster_with_port(V0_19_2).await else {
        return;
    };
    let (namespace, name) = (unique("program"), unique("window"));
    let kubeconfig = install(&cluster, EXAMPLE, &namespace).await;
    cluster
        .admission_check(
            &name,
            "example.com/window",
            json!({"apiGroup": "example.com", "kind": "Window", "name": name}),
        )
        .await;
    let program = Program::start(
        EXAMPLE,
        &kubeconfig,
        &[
            "--lease-namespace",
            &namespace,
            "--lease-name",
            &namespace,
            "--grace-period=60s",
        ],
    );

    cluster
        .wait_active(&name, "False", "ParametersNotFound")
        .await;
    window(&cluster, &name, "00:00:00", "00:00:00").await;
    cluster.wait_active(&name, "True", "Active").await;
    cluster.workload("a").await;
    cluster.reserve("a", &[&name]).await;
    let entry = cluster.wait_message("a", &name, "opens at").await;
    assert_eq!(entry["state"], "Pending");
    // A changed threshold changes the verdict.
    window(&cluster, &name, "00:00:00", "23:59:59.999").await;
    cluster.wait_state("a", &name, "Ready").await;
    cluster
        .wait_event(&cluster.namespace, "a", "AdmissionCheckReady")
        .await;

    assert_eq!(program.get("/livez").await, Some((200, "ok\n".to_owned())));
    // Other tests apply the same definition, after which the watches begin anew.
    wait("readiness", async || {
        let response = program.get("/readyz").await;
        (response == Some((200, "ok\n".to_owned())), response)
    })
    .await;
    let (status, metrics) = program.get("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(
        metrics.contains("kueue_check_leader 1") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let mut forbidden = metrics.lines().filter(|line| line.contains("code=\"403\""));
    assert!(
        forbidden.all(|line| line.ends_with(" 0")),
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
    assert!(
        took < Duration::from_secs(30),
        "{took:?}: no grace is needed"
    );
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(cluster.client.clone(), &namespace);
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
        "the lease was released"
    );
}

#[tokio::test]
async fn errors_at_the_start_name_the_next_step_and_have_an_exit_code() {
    let run = |arguments: &[&str]| {
        let output = Command::new(binary(EXAMPLE))
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
async fn a_cluster_without_kueue_is_waited_for_and_reported() {
    let Some(cluster) = start_or_skip().await else {
        return;
    };
    let program = Program::start(
        EXAMPLE,
        &cluster.access().kubeconfig().unwrap(),
        &["--lease-namespace", "default"],
    );
    wait("the reason", async || {
        let response = program.get("/readyz").await;
        let reported = response.as_ref().is_some_and(|(status, text)| {
            *status == 503 && text.contains("kueue: Kueue is not installed")
        });
        (reported, response)
    })
    .await;
    super::harness::install(&cluster, V0_19_2).await;
    let client = cluster.client().unwrap();
    let crds = Command::new(binary(EXAMPLE)).arg("crds").output().unwrap();
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
        let response = program.get("/readyz").await;
        (
            response.as_ref().is_some_and(|(status, _)| *status == 200),
            response,
        )
    })
    .await;
}
