//! Helm, as a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The version that `cargo xtask helm` installs (`xtask/src/chart.rs`).
const VERSION: &str = "v3.22.0";
/// The Kubernetes that templates are rendered for: that of the API server of the tests.
const KUBERNETES: &str = "1.36.3";

/// There is no Helm.
#[derive(Debug)]
pub struct NoHelm(String);

impl std::fmt::Display for NoHelm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Helm of the pinned version.
#[derive(Clone, Debug)]
pub struct Helm(PathBuf);

/// The chart's folder.
pub fn chart() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.join("../kueue-check")
}

impl Helm {
    /// The one that `cargo xtask helm` has installed.
    ///
    /// # Errors
    /// If there is none, or another version.
    pub fn find() -> Result<Self, NoHelm> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin/helm");
        let output = Command::new(&path)
            .args(["version", "--template", "{{.Version}}"])
            .output()
            .map_err(|error| {
                NoHelm(format!(
                    "there is no Helm ({error}): `cargo xtask helm` installs it"
                ))
            })?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        if version == VERSION {
            Ok(Self(path))
        } else {
            Err(NoHelm(format!(
                "Helm is {version}, not {VERSION}: `cargo xtask helm` installs that"
            )))
        }
    }

    /// What `helm template` renders for the release `release` in `namespace`.
    ///
    /// # Errors
    /// What Helm says.
    pub fn template(
        &self,
        release: &str,
        namespace: &str,
        arguments: &[&str],
    ) -> Result<Vec<Value>, String> {
        let first = ["template", release, "--namespace", namespace];
        let text = self.run(&[&first, arguments].concat())?;
        let documents = text.split("\n---").filter_map(|document| {
            let document = document.strip_prefix("---").unwrap_or(document);
            serde_saphyr::from_str::<Option<Value>>(document).transpose()
        });
        documents
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{error}\n{text}"))
    }

    /// What `helm lint --strict` says.
    ///
    /// # Errors
    /// What it says, if it finds anything wrong.
    pub fn lint(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(&[&["lint", "--strict"], arguments].concat())
    }

    /// The notes that an installation prints, without installing anything.
    ///
    /// # Errors
    /// What Helm says.
    pub fn notes(&self, release: &str, arguments: &[&str]) -> Result<String, String> {
        // A client-side dry run speaks to no cluster.
        let first = ["install", release, "--dry-run=client"];
        let text = self.run(&[&first, arguments].concat())?;
        let (_, notes) = text.split_once("\nNOTES:\n").unwrap_or_default();
        Ok(notes.to_owned())
    }

    /// Runs a command on the chart.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let (command, rest) = arguments.split_first().ok_or("no command")?;
        let mut call = Command::new(&self.0);
        call.arg(command);
        if matches!(*command, "template" | "install") {
            let (release, rest) = rest.split_first().ok_or("no release")?;
            call.arg(release).arg(chart()).args(rest);
        } else {
            call.arg(chart()).args(rest);
        }
        if *command != "install" {
            call.args(["--kube-version", KUBERNETES]);
        }
        // No cluster, whatever the environment says.
        let output = call
            .env("KUBECONFIG", "/dev/null")
            .output()
            .map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr) + &text(&output.stdout))
        }
    }
}
