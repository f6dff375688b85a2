//! The Job controller of a real kube-controller-manager beside a test cluster.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::build::{Unavailable, build};
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
    let module = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bin = module.join("bin");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Unavailable::Io { path, source }
    };
    let read = |name: &str| {
        let path = module.join(name);
        fs::read_to_string(&path).map_err(at(&path))
    };
    let lock = fs::File::create(bin.join(".job-controller.lock")).map_err(at(&bin))?;
    lock.lock().map_err(at(&bin))?;
    let wanted = read("go.sum")? + &read("job-controller/main.go")?;
    let (program, stamp) = (
        bin.join("job-controller"),
        bin.join(".job-controller-built-from"),
    );
    let built = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
    if !built || !program.exists() {
        build(module, "./job-controller", "-s -w", &program)?;
        fs::write(&stamp, wanted).map_err(at(&stamp))?;
    }
    Ok(program)
}
