//! kubectl against a served API server.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kueue_check_apiserver::ApiServer;
use kueue_check_testenv::{or_skipped, programs};
use tokio::net::TcpListener;

struct Kubectl {
    program: PathBuf,
    address: SocketAddr,
    home: PathBuf,
}

impl Kubectl {
    /// Runs kubectl with `text` as its input. Panics with its output if it fails.
    async fn run(&self, arguments: &str, text: &str) -> String {
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--server=http://{}", self.address))
            .args(arguments.split(' '))
            .env("HOME", &self.home)
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let text = text.to_owned();
        let run = move || {
            let mut child = command.spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            input.write_all(text.as_bytes()).unwrap();
            drop(input);
            child.wait_with_output().unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {arguments}: {wrong}{stdout}"
        );
        stdout
    }
}

const CHECK: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: window}
spec: {controllerName: example.com/window}
";

const QUEUE: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q, namespace: default}
spec: {clusterQueue: c}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m, namespace: default}
data: {k: v}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_against_a_served_server() {
    let Some(programs) = or_skipped("kubectl on the simulated API server", programs) else {
        return;
    };
    let server = ApiServer::with_definitions(
        kueue_check_apiserver::system_time(),
        kueue_check_kueue_model::definitions::kueue(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { server.serve(listener).await });
    let home = std::env::temp_dir().join(format!("kueue-check-sim-kubectl-{}", std::process::id()));
    let kubectl = Kubectl {
        program: programs.kubectl,
        address,
        home,
    };
    let apply = kubectl.run("apply --server-side -f -", CHECK).await;
    assert!(
        apply.contains("admissioncheck.kueue.x-k8s.io/window serverside-applied"),
        "{apply}"
    );
    let apply = kubectl.run("apply -f -", QUEUE).await;
    assert!(
        apply.contains("localqueue.kueue.x-k8s.io/q created")
            && apply.contains("configmap/m created"),
        "{apply}"
    );
    let apply = kubectl
        .run("apply -f -", &QUEUE.replace("k: v", "k: w"))
        .await;
    assert!(
        apply.contains("localqueue.kueue.x-k8s.io/q unchanged")
            && apply.contains("configmap/m configured"),
        "{apply}"
    );
    let table = kubectl.run("get localqueues -A", "").await;
    assert!(
        table.contains("CLUSTERQUEUE") && table.contains("default"),
        "{table}"
    );
    let table = kubectl
        .run("get admissionchecks,configmaps -n default", "")
        .await;
    assert!(
        table.contains("admissioncheck.kueue.x-k8s.io/window") && table.contains("configmap/m"),
        "{table}"
    );
    let value = kubectl
        .run("get configmap m -n default -o jsonpath={.data.k}", "")
        .await;
    assert_eq!(value, "w");
    let yaml = kubectl
        .run(
            "get admissioncheck window -o yaml --show-managed-fields",
            "",
        )
        .await;
    assert!(
        yaml.contains("controllerName: example.com/window") && yaml.contains("manager: kubectl"),
        "{yaml}"
    );
    kubectl.run("label admissioncheck window a=b", "").await;
    kubectl.run("patch admissioncheck window --type=merge --subresource=status -p {\"status\":{\"conditions\":[{\"type\":\"Active\",\"status\":\"True\",\"reason\":\"R\",\"message\":\"m\",\"lastTransitionTime\":\"2025-03-01T09:00:00Z\"}]}}", "").await;
    let waited = kubectl
        .run(
            "wait --for=condition=Active admissioncheck/window --timeout=10s",
            "",
        )
        .await;
    assert!(waited.contains("condition met"), "{waited}");
    let gone = kubectl
        .run("delete admissioncheck window --timeout=10s", "")
        .await;
    assert!(gone.contains("\"window\" deleted"), "{gone}");
    let left = kubectl.run("get admissionchecks -o name", "").await;
    assert_eq!(left, "");
    serving.abort();
    let _ = std::fs::remove_dir_all(&kubectl.home);
}
