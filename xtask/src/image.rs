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

/// What a base image brings that is not the program: authorities of TLS and time zones.
const BASE: [&str; 2] = ["etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo"];

/// The section with the list of crates, which scanners read.
const CRATES: &str = ".dep-v0";

/// Builds the images of the `named` programs, or of all, as the Dockerfile does: static, with the
/// list of their crates, and the program and [`BASE`] as the whole file system. Then runs each in
/// it, as its user.
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
    if !tools::answers("musl-gcc", "--version") {
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

/// The package of a program, as the Dockerfile finds it.
fn package(program: &str) -> String {
    format!("kueue-check-{}", program.trim_end_matches("-check"))
}

/// Makes the file system, and returns its folder.
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

/// Runs it where nothing but the image is, as the image's user: what is printed must be what it is
/// for, and a cluster that is missing an error that says so.
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
        // The provisioning check's parameters are defined by Kueue.
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
