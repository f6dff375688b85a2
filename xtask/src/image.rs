//! The image of a shipped check, assembled and run without a container engine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, root, tools};

/// The shipped checks.
const PROGRAMS: [&str; 3] = ["budget-check", "provisioning-check", "rule-check"];

/// The version that the Dockerfile installs.
const CARGO_AUDITABLE: &str = "0.7.7";

/// The features that the Dockerfile enables.
const FEATURES: &str = "otel";

/// The user and the group of the image.
const USER: &str = "65532";

/// The files of a base image besides the program: TLS authorities and time zones.
const BASE: [&str; 2] = ["etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo"];

/// The section with the list of crates, which scanners read.
const CRATES: &str = ".dep-v0";

/// Builds the images of the `named` programs, or of all, as the Dockerfile does. They are static,
/// with the list of their crates. The program and [`BASE`] are the whole file system. Then runs
/// each in it, as its user.
pub(crate) fn check(named: &[&str]) -> Result<(), Failure> {
    if let Some(unknown) = named.iter().find(|name| !PROGRAMS.contains(name)) {
        let known = PROGRAMS.join("`, `");
        return Err(format!(
            "there is no program `{unknown}`: expected `{known}`"
        ));
    }
    let programs = if named.is_empty() {
        &PROGRAMS[..]
    } else {
        named
    };
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let installed = Command::new("rustup")
        .args(["target", "add", &target])
        .status();
    if !installed.is_ok_and(|status| status.success()) {
        return Err(format!("`rustup target add {target}` failed"));
    }
    if !tools::is_installed("musl-gcc", "--version") {
        return Err(
            "a C compiler for musl is needed (Debian: `apt-get install musl-tools`)".into(),
        );
    }
    let auditable = tools::installed("cargo-auditable", CARGO_AUDITABLE, &[])?;
    let mut arguments = vec!["auditable", "build", "--release", "--locked", "--target"];
    arguments.extend([&*target, "--features", FEATURES]);
    let packages: Vec<String> = programs.iter().map(|name| package(name)).collect();
    arguments.extend(packages.iter().flat_map(|name| ["--package", name]));
    tools::run(&auditable, &arguments, &[])?;
    for name in programs {
        let built = tools::target().join(&target).join("release").join(name);
        let image = assemble(name, &built)?;
        try_out(name, &image)?;
    }
    Ok(())
}

/// Returns the package of a program, as the Dockerfile determines it.
fn package(program: &str) -> String {
    format!("kueue-check-{}", program.trim_end_matches("-check"))
}

/// Creates the file system; returns its folder.
fn assemble(name: &str, program: &Path) -> Result<PathBuf, Failure> {
    let image = tools::target().join("images").join(name);
    let failed = |error| format!("{}: {error}", image.display());
    if image.exists() {
        fs::remove_dir_all(&image).map_err(failed)?;
    }
    fs::create_dir_all(&image).map_err(failed)?;
    fs::copy(program, image.join("check")).map_err(failed)?;
    let readable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(image.join("check"), readable).map_err(failed)?;
    for part in BASE {
        let from = Path::new("/").join(part);
        if from.exists() {
            let to = image.join(part);
            fs::create_dir_all(to.parent().unwrap_or(&to)).map_err(failed)?;
            let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
            tools::run(Path::new("cp"), &["-rL", &from, &to], &[])?;
        }
    }
    let bytes = fs::read(program).map_err(failed)?;
    if !bytes
        .windows(CRATES.len())
        .any(|part| part == CRATES.as_bytes())
    {
        return Err(format!("{name} does not have the list of its crates"));
    }
    println!("{name}: {} KiB", bytes.len() >> 10);
    Ok(image)
}

/// Runs the program with only the image's files, as the image's user. Its output must be as
/// expected, and a missing cluster must be reported as an error.
fn try_out(name: &str, image: &Path) -> Result<(), Failure> {
    for (arguments, success, expected) in [
        (&["--version"][..], true, name),
        (&["crds"], true, "kind: CustomResourceDefinition"),
        (
            &["manifests", "--image", "example.com/check"],
            true,
            "kind: Deployment",
        ),
        (&["run"], false, "no cluster"),
    ] {
        // Kueue defines the provisioning check's parameters.
        if arguments == ["crds"] && name == "provisioning-check" {
            continue;
        }
        let shown = format!("{name} {}", arguments.join(" "));
        let output = Command::new("unshare")
            .args([
                "--user",
                "--map-user",
                USER,
                "--map-group",
                USER,
                "--pid",
                "--fork",
            ])
            .arg("--root")
            .arg(image)
            .arg("/check")
            .args(arguments)
            .env_clear()
            .current_dir(root())
            .output()
            .map_err(|error| format!("`unshare` does not start: {error}"))?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() != success || !text.contains(expected) {
            return Err(format!("`{shown}` in its image: {}\n{text}", output.status));
        }
        println!("{shown}: as user {USER}, with nothing but the image: ok");
    }
    Ok(())
}
