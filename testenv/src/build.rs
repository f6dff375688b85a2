//! The programs, built from their pinned Go modules.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that `go.mod` pins. kube-apiserver and kubectl require it at link time; otherwise
/// clients cannot read it.
const KUBERNETES: &str = "v1.36.3";

/// The paths of the programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// kube-apiserver.
    pub apiserver: PathBuf,
    /// etcd.
    pub etcd: PathBuf,
    /// kubectl, of the API server's version.
    pub kubectl: PathBuf,
}

/// The reason why there are no programs.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// There is no Go toolchain to build them.
    #[error(
        "there is no Go toolchain (`go version` does not run): install Go 1.26 to run what needs a real server"
    )]
    NoGo,
    /// Building or unpacking them failed.
    #[error("making {package} failed: {reason}")]
    Build {
        /// The Go package, or Debian's.
        package: &'static str,
        /// The reason.
        reason: String,
    },
    /// The folder can't be used.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Returns the programs, built if they are missing or older than `go.mod`. Prints its progress
/// while it builds.
///
/// # Errors
/// [`Unavailable`] without a Go toolchain, or if the build fails.
pub fn programs() -> Result<Programs, Unavailable> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bin = module.join("bin");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Unavailable::Io { path, source }
    };
    fs::create_dir_all(&bin).map_err(at(&bin))?;
    // Two test processes must not build at once.
    let lock = File::create(bin.join(".lock")).map_err(at(&bin))?;
    lock.lock().map_err(at(&bin))?;
    let programs = Programs {
        apiserver: bin.join("kube-apiserver"),
        etcd: bin.join("etcd"),
        kubectl: bin.join("kubectl"),
    };
    let wanted = fs::read_to_string(module.join("go.sum")).map_err(at(module))?;
    let stamp = bin.join(".built-from");
    let built = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
    let all = [&programs.apiserver, &programs.etcd, &programs.kubectl];
    if built && all.iter().all(|program| program.exists()) {
        return Ok(programs);
    }
    if !has_go() {
        return Err(Unavailable::NoGo);
    }
    eprintln!(
        "building kube-apiserver {KUBERNETES}, kubectl and etcd from their Go modules, once (about 5 minutes on 2 cores) ..."
    );
    let (major, minor) = ("1", KUBERNETES.split('.').nth(1).unwrap_or_default());
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    );
    for (package, program) in [
        ("k8s.io/kubernetes/cmd/kube-apiserver", &programs.apiserver),
        ("k8s.io/kubernetes/cmd/kubectl", &programs.kubectl),
    ] {
        build(module, package, &flags, program)?;
    }
    build(module, "go.etcd.io/etcd/server/v3", "-s -w", &programs.etcd)?;
    fs::write(&stamp, wanted).map_err(at(&stamp))?;
    Ok(programs)
}

/// Returns true if there is a Go toolchain.
pub(crate) fn has_go() -> bool {
    let version = Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

pub(crate) fn build(
    module: &Path,
    package: &'static str,
    flags: &str,
    to: &Path,
) -> Result<(), Unavailable> {
    eprintln!("  go build {package}");
    let output = Command::new("go")
        .args(["build", "-trimpath", "-ldflags", flags, "-o"])
        .arg(to)
        .arg(package)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(|error| Unavailable::Build {
            package,
            reason: error.to_string(),
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Unavailable::Build {
        package,
        reason: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
