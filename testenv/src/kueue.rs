//! A real Kueue beside a test cluster.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::build::{Unavailable, build};
use crate::cluster::{Cluster, StartError};
use crate::crds::read;
use crate::process::Process;

/// Kueue's controllers and scheduler. They end when this is dropped.
///
/// Its webhooks are not installed, so nothing is defaulted or refused but by the definitions: write Jobs with `suspend: true`, and ClusterQueues with a
/// `namespaceSelector`, a `queueingStrategy` and a `stopPolicy`.
#[derive(Debug)]
pub struct Kueue {
    _process: Process,
    log: PathBuf,
}

impl Kueue {
    /// Starts Kueue 0.19.2 on `cluster`, with its own definitions: for batch/v1 Jobs and, if the autoscaler's definitions are there, with its own check. Builds it
    /// first if that has not been done: on two cores that takes about ten minutes.
    ///
    /// # Errors
    /// If it can't be built or started. It is not waited for: what it does shows that it works.
    pub async fn start(cluster: &Cluster) -> Result<Self, StartError> {
        let (program, definitions) = tokio::task::spawn_blocking(program)
            .await
            .map_err(io::Error::other)??;
        let definitions = read(&definitions).map_err(io::Error::other)?;
        let installed = cluster.install(&cluster.client()?, definitions).await;
        installed.map_err(io::Error::other)?;
        let access = cluster.access();
        let folder = access.folder();
        // The webhooks' server wants a certificate, whoever calls it.
        let certificates = folder.join("kueue");
        fs::create_dir_all(&certificates)?;
        for (from, to) in [("apiserver.crt", "tls.crt"), ("apiserver.key", "tls.key")] {
            let from = folder.join("certificates").join(from);
            fs::copy(from, certificates.join(to))?;
        }
        let config = folder.join("kueue.json");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let text = json!({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
            "health": {"healthProbeBindAddress": "0"}, "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": certificates},
            "leaderElection": {"leaderElect": false}, "internalCertManagement": {"enable": false},
            "integrations": {"frameworks": ["batch/job"]},
        });
        fs::write(&config, text.to_string())?;
        let arguments = [
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", access.kubeconfig()?.display()),
            // It would want to be an API server of its own.
            "--feature-gates=VisibilityOnDemand=false".to_owned(),
        ];
        let log = folder.join("kueue.log");
        Ok(Self {
            _process: Process::start(&program, &arguments, &log, None)?,
            log,
        })
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Kueue, built from its pinned Go module if it is missing or older than that; and the folder of its definitions.
fn program() -> Result<(PathBuf, PathBuf), Unavailable> {
    const PACKAGE: &str = "sigs.k8s.io/kueue/cmd/kueue";
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("kueue");
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("bin");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Unavailable::Io { path, source }
    };
    let lock = fs::File::create(bin.join(".kueue.lock")).map_err(at(&bin))?;
    lock.lock().map_err(at(&bin))?;
    let (program, stamp) = (bin.join("kueue"), bin.join(".kueue-built-from"));
    let wanted = fs::read_to_string(module.join("go.sum")).map_err(at(&module))?;
    let built = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
    if !built || !program.exists() {
        eprintln!("building Kueue from its Go module, once (about 10 minutes on 2 cores) ...");
        build(&module, PACKAGE, "-s -w", &program)?;
        fs::write(&stamp, wanted).map_err(at(&stamp))?;
    }
    let folder = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue"])
        .current_dir(&module)
        .output()
        .map_err(at(&module))?;
    let folder = String::from_utf8_lossy(&folder.stdout).trim().to_owned();
    Ok((
        program,
        Path::new(&folder).join("config/components/crd/bases"),
    ))
}
