//! A real Prometheus, from Debian's package: unpacked, not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{Unavailable, at, locked};

/// The paths of Prometheus' programs.
#[derive(Clone, Debug)]
pub struct Prometheus {
    /// The server.
    pub prometheus: PathBuf,
    /// The tool that checks rules and fills a database.
    pub promtool: PathBuf,
}

/// Returns Prometheus in Debian's version (2.42 in Debian 12). It is fetched with `apt-get
/// download` into `testenv/bin` if it is missing.
///
/// # Errors
/// [`Unavailable`] if `apt-get` or `dpkg` is missing, or the package cannot be downloaded.
pub fn prometheus() -> Result<Prometheus, Unavailable> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bin/prometheus");
    // Two test processes must not unpack at once.
    let _lock = locked(&folder, "prometheus")?;
    let programs = Prometheus {
        prometheus: folder.join("usr/bin/prometheus"),
        promtool: folder.join("usr/bin/promtool"),
    };
    if programs.promtool.exists() {
        return Ok(programs);
    }
    if run(&folder, "apt-get", &["download", "prometheus"]).is_err() {
        // A bare machine has no package lists. Lists in this folder leave the machine's unchanged
        // and require no permissions.
        let lists = folder.join("lists");
        fs::create_dir_all(lists.join("partial")).map_err(at(&lists))?;
        let own = format!("Dir::State::lists={}", lists.display());
        run(&folder, "apt-get", &["-o", &own, "update"])?;
        run(&folder, "apt-get", &["-o", &own, "download", "prometheus"])?;
    }
    let files = fs::read_dir(&folder).map_err(at(&folder))?;
    let package = files
        .flatten()
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| failed("apt-get downloaded no package"))?;
    run(
        &folder,
        "dpkg",
        &["-x", package.to_str().unwrap_or_default(), "."],
    )?;
    Ok(programs)
}

fn failed(reason: impl Into<String>) -> Unavailable {
    Unavailable::Build {
        package: "prometheus",
        reason: reason.into(),
    }
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), Unavailable> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| failed(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{program} {arguments:?}: {stderr}")))
}
