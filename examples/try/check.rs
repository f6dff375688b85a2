//! The process of the check.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio::process::{Child, ChildStdin, Command};

use crate::Failure;

/// The running check. It is killed when this is dropped.
pub(crate) struct Check {
    process: Child,
    // Only held: if this process is killed, the pipe ends, and the check stops by itself.
    _input: Option<ChildStdin>,
}

impl Check {
    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }
}

/// Starts the check on the cluster of `kubeconfig`.
pub(crate) fn start(
    program: &Path,
    kubeconfig: &Path,
    admin: SocketAddr,
    log: &Path,
) -> Result<Check, Failure> {
    let log = File::create(log)?;
    let mut process = Command::new(program)
        .args(["run", "--stop-at-end-of-input", "--admin-secure=false"])
        .args(["--admin-address", &admin.to_string()])
        .env("KUBECONFIG", kubeconfig)
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()?;
    // Taken, because waiting for the process would close it.
    let input = process.stdin.take();
    Ok(Check {
        process,
        _input: input,
    })
}

/// Returns the definitions of the parameters, which the check prints itself.
pub(crate) async fn definitions(program: &Path) -> Result<Vec<CustomResourceDefinition>, Failure> {
    let printed = Command::new(program)
        .arg("crds")
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("{} does not start: {error}", program.display()))?;
    if !printed.status.success() {
        return Err(String::from_utf8_lossy(&printed.stderr).into_owned().into());
    }
    let documents: Vec<Option<CustomResourceDefinition>> =
        serde_saphyr::from_multiple(&String::from_utf8(printed.stdout)?)?;
    Ok(documents.into_iter().flatten().collect())
}
