//! The binary as a process, with the permissions of its manifests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use kueue_check_testenv::{Killed, free_address, token};
use serde_json::{Value, json};

use super::harness::Stage;

const BINARY: &str = env!("CARGO_BIN_EXE_budget-check");

/// Returns what the binary prints without a cluster.
pub(crate) fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    output_of(
        Command::new(BINARY)
            .args(arguments)
            .env_remove("KUBECONFIG"),
    )
}

/// Returns what the binary prints with `kubeconfig`.
pub(crate) fn output_to(kubeconfig: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    output_of(
        Command::new(BINARY)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig),
    )
}

fn output_of(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Installs the output of `manifests` into a namespace of its own. Returns a kubeconfig with
/// exactly the permissions of its ServiceAccount.
pub(crate) async fn install(stage: &Stage, name: &str) -> PathBuf {
    stage.namespace(name).await;
    let (code, text, error) = output(&[
        "manifests",
        "--image",
        "example.com/budget-check:1",
        "--namespace",
        name,
        "--name",
        name,
    ]);
    assert_eq!(code, Some(0), "{error}");
    let documents = text
        .split("---\n")
        .filter(|document| !document.trim().is_empty());
    for document in
        documents.filter_map(|document| serde_saphyr::from_str::<Option<Value>>(document).unwrap())
    {
        stage.apply(&document).await;
    }
    let token = token(&stage.client, name, name, 3600).await.unwrap();
    stage.access.kubeconfig_with_token(name, &token).unwrap()
}

/// A process that ends with the test, and its log.
pub(crate) struct Program {
    child: Killed,
    admin: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Program {
    /// Starts the process. The files of `credentials` may be sent to the server of the URL beside
    /// them, over plain HTTP too.
    pub(crate) fn start(name: &str, kubeconfig: &Path, credentials: Option<(&Path, &str)>) -> Self {
        let (folder, sources) =
            credentials.map_or((Path::new("/nowhere"), json!([])), |(folder, url)| {
                let source = json!({"url": url, "credentials": ".", "allowInsecure": true});
                (folder, json!([source]))
            });
        let admin = free_address().unwrap();
        let mut child = Command::new(BINARY)
            .args([
                "run",
                "--admin-address",
                &admin.to_string(),
                "--lease-namespace",
                name,
                "--lease-name",
                name,
            ])
            .env("KUEUE_CHECK_KUBECONFIG", kubeconfig)
            .env("KUEUE_CHECK_ADMIN_SECURE", "false")
            .env("BUDGET_CHECK_CREDENTIALS", folder)
            .env("BUDGET_CHECK_SOURCES", sources.to_string())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (kept, mut from) = (Arc::clone(&log), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            use std::io::Read;
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                eprint!("{text}");
                kept.lock().unwrap().push_str(&text);
            }
        });
        Self {
            child: Killed(child),
            admin,
            log,
        }
    }

    /// Returns the body of a path of the admin endpoint.
    pub(crate) async fn get(&self, path: &str) -> String {
        use http_body_util::BodyExt;
        use hyper_util::client::legacy::Client;
        let client: Client<_, http_body_util::Empty<bytes::Bytes>> =
            Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let url = format!("http://{}{path}", self.admin);
        match client.get(url.parse().unwrap()).await {
            Ok(response) => {
                String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes())
                    .into_owned()
            }
            Err(_) => String::new(),
        }
    }

    /// Returns the value of the metric whose line begins with `name`; 0 if there is none.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await;
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or(0.0)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Kills the process, without a warning.
    pub(crate) fn kill(self) {
        drop(self.child);
    }
}
