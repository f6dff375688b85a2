//! Programs with a Go module each, so that none determines the dependencies of another.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::build::{Unavailable, build, has_go};

/// Returns Alertmanager 0.31. It is built from its Go module into `testenv/bin` if it is missing or
/// has another version: about 1 min. It is the last version whose module has the files of its web
/// pages, without which it does not compile.
///
/// # Errors
/// [`Unavailable`] without a Go toolchain, or if the build fails.
pub fn alertmanager() -> Result<PathBuf, Unavailable> {
    let package = "github.com/prometheus/alertmanager/cmd/alertmanager";
    go_program("alertmanager", package)
}

/// Returns Open Policy Agent 1.22. It is built from its Go module into `testenv/bin` if it is
/// missing or has another version: about 1 min.
///
/// # Errors
/// As of [`alertmanager`].
pub fn opa() -> Result<PathBuf, Unavailable> {
    go_program("opa", "github.com/open-policy-agent/opa")
}

/// Returns the program `package` of the module in the folder `name`.
fn go_program(name: &str, package: &'static str) -> Result<PathBuf, Unavailable> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (module, bin) = (folder.join(name), folder.join("bin"));
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Unavailable::Io { path, source }
    };
    fs::create_dir_all(&bin).map_err(at(&bin))?;
    // Two test processes must not build at once.
    let lock = File::create(bin.join(format!(".{name}.lock"))).map_err(at(&bin))?;
    lock.lock().map_err(at(&bin))?;
    let (program, stamp) = (bin.join(name), bin.join(format!(".{name}-built-from")));
    let wanted = fs::read_to_string(module.join("go.sum")).map_err(at(&module))?;
    let built = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
    if built && program.exists() {
        return Ok(program);
    }
    if !has_go() {
        return Err(Unavailable::NoGo);
    }
    eprintln!("building {name} from its Go module, once (about a minute on 2 cores) ...");
    build(&module, package, "-s -w", &program)?;
    fs::write(&stamp, wanted).map_err(at(&stamp))?;
    Ok(program)
}
