//! The example `licences` as a program of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Stage, admission_check};

/// The program, which ends when this is dropped.
pub(super) struct Licences(Child);

impl Drop for Licences {
    fn drop(&mut self) {
        // The program may have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the program's path. Cargo builds it beside the tests: `cargo xtask kueue` does.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.ancestors().nth(2).unwrap();
    let program = folder.join("examples/licences");
    assert!(
        program.exists(),
        "cargo build -p kueue-check-examples --example licences"
    );
    program
}

/// Starts the program on the stage's cluster.
pub(super) fn start(stage: &Stage) -> Licences {
    let log = std::env::temp_dir().join(format!("licences-{}.log", std::process::id()));
    let log = std::fs::File::create(log).unwrap();
    let child = Command::new(program())
        .args(["run", "--stop-at-end-of-input", "--admin-secure=false"])
        .args(["--leader-elect=false", "--admin-address=127.0.0.1:0"])
        .env("KUBECONFIG", stage.access.kubeconfig().unwrap())
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn();
    Licences(child.unwrap())
}

/// Creates the pool `name` of `total` licences, with the definition of pools and the
/// AdmissionCheck.
pub(super) async fn pool(stage: &Stage, name: &str, total: u32) -> Value {
    let printed = Command::new(program()).arg("crds").output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    let definitions: Vec<Option<Value>> = serde_saphyr::from_multiple(&text).unwrap();
    let definitions: Vec<Value> = definitions.into_iter().flatten().collect();
    stage.install(&definitions).await;
    let pool = json!({"apiVersion": "example.com/v1alpha1", "kind": "LicencePool", "metadata": {"name": name}, "spec": {"total": total}});
    stage.apply(&pool).await;
    admission_check(name, "example.com/licences", "example.com", "LicencePool")
}
