//! The Job controller of a real kube-controller-manager beside a test cluster.

use std::io;
use std::path::PathBuf;

use crate::build::{GoProgram, Unavailable};
use crate::cluster::{Cluster, StartError};
use crate::process::Process;

/// The Job controller, which creates and deletes the pods of Jobs and counts them in their status.
/// Dropping it ends the process. Nothing schedules or runs the pods.
#[derive(Debug)]
pub struct JobController {
    _process: Process,
}

impl JobController {
    /// Starts it on `cluster`. The first call builds it: about 1 min.
    ///
    /// # Errors
    /// If it can't be built or started.
    pub async fn start(cluster: &Cluster) -> Result<Self, StartError> {
        let program = tokio::task::spawn_blocking(program)
            .await
            .map_err(io::Error::other)??;
        let access = cluster.access();
        let arguments = [format!("--kubeconfig={}", access.kubeconfig()?.display())];
        let log = access.folder().join("job-controller.log");
        Ok(Self {
            _process: Process::start(&program, &arguments, &log, None)?,
        })
    }
}

/// Returns the program, built if it is missing or older than its source.
fn program() -> Result<PathBuf, Unavailable> {
    GoProgram {
        sources: &["go.sum", "job-controller/main.go"],
        ..GoProgram::new("job-controller", "./job-controller")
    }
    .path()
}
