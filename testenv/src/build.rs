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
    let (major, minor) = ("1", KUBERNETES.split('.').nth(1).unwrap_or_default());
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    );
    let program = |name, package| {
        let flags = &*flags;
        GoProgram {
            flags,
            ..GoProgram::new(name, package)
        }
        .path()
    };
    Ok(Programs {
        apiserver: program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver")?,
        etcd: GoProgram::new("etcd", "go.etcd.io/etcd/server/v3").path()?,
        kubectl: program("kubectl", "k8s.io/kubernetes/cmd/kubectl")?,
    })
}

/// The version of Helm that `go.mod` pins: one with the Kubernetes libraries of [`KUBERNETES`], most
/// of which are compiled with kubectl.
const HELM: &str = "v3.21.3";

/// Returns Helm 3.21, built if it is missing or older than `go.mod`.
///
/// # Errors
/// As of [`programs`].
pub fn helm() -> Result<PathBuf, Unavailable> {
    let flags = format!("-X helm.sh/helm/v3/internal/version.version={HELM}");
    GoProgram {
        flags: &flags,
        ..GoProgram::new("helm", "helm.sh/helm/v3/cmd/helm")
    }
    .path()
}

/// Returns Alertmanager 0.31, built if it is missing or has another version: about 1 min. It is the
/// last version whose module has the files of its web pages, without which it does not compile.
///
/// # Errors
/// As of [`programs`].
pub fn alertmanager() -> Result<PathBuf, Unavailable> {
    let package = "github.com/prometheus/alertmanager/cmd/alertmanager";
    GoProgram::of_own_module("alertmanager", package).path()
}

/// Returns Open Policy Agent 1.22, built if it is missing or has another version: about 1 min.
///
/// # Errors
/// As of [`programs`].
pub fn opa() -> Result<PathBuf, Unavailable> {
    GoProgram::of_own_module("opa", "github.com/open-policy-agent/opa").path()
}

/// A program that is built from a pinned Go module into `testenv/bin`.
pub(crate) struct GoProgram<'a> {
    pub(crate) name: &'static str,
    /// The folder of the module in this crate; empty for the crate's own.
    pub(crate) module: &'static str,
    pub(crate) package: &'static str,
    /// Flags of the linker.
    pub(crate) flags: &'a str,
    /// The files of the module that determine the program.
    pub(crate) sources: &'static [&'static str],
}

impl GoProgram<'_> {
    pub(crate) fn new(name: &'static str, package: &'static str) -> Self {
        Self {
            name,
            module: "",
            package,
            flags: "",
            sources: &["go.sum"],
        }
    }

    /// Returns a program with a Go module of its own, `name`, so that its dependencies and those of
    /// the others are independent.
    pub(crate) fn of_own_module(name: &'static str, package: &'static str) -> Self {
        Self {
            module: name,
            ..Self::new(name, package)
        }
    }

    /// Returns its path. Builds it if it is missing or was built from other `sources`.
    pub(crate) fn path(&self) -> Result<PathBuf, Unavailable> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (module, bin) = (own.join(self.module), own.join("bin"));
        // Two test processes must not build at once.
        let _lock = locked(&bin, self.name)?;
        let stamp = bin.join(format!(".{}-built-from", self.name));
        let program = bin.join(self.name);
        let mut wanted = String::new();
        for source in self.sources {
            let path = module.join(source);
            wanted += &fs::read_to_string(&path).map_err(at(&path))?;
        }
        let built = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
        if !built || !program.exists() {
            build(&module, self.package, self.flags, &program)?;
            fs::write(&stamp, wanted).map_err(at(&stamp))?;
        }
        Ok(program)
    }
}

/// Creates the folder `bin` and locks `name` in it until the returned file is closed.
pub(crate) fn locked(bin: &Path, name: &str) -> Result<File, Unavailable> {
    fs::create_dir_all(bin).map_err(at(bin))?;
    let path = bin.join(format!(".{name}.lock"));
    let lock = File::create(&path).map_err(at(&path))?;
    lock.lock().map_err(at(&path))?;
    Ok(lock)
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Unavailable {
    let path = path.to_owned();
    move |source| Unavailable::Io { path, source }
}

/// Returns true if there is a Go toolchain.
fn has_go() -> bool {
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
    if !has_go() {
        return Err(Unavailable::NoGo);
    }
    eprintln!("building {package} from its Go module, once (minutes on 2 cores) ...");
    let flags = format!("-s -w {flags}");
    let output = Command::new("go")
        .args(["build", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(to)
        .arg(package)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        // The compiler collects garbage less often: kubectl takes 128 s in place of 166 s.
        .env("GOGC", "400")
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
