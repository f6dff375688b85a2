//! The program Helm.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The version that `cargo xtask helm` installs (`xtask/src/chart.rs`).
const VERSION: &str = "v3.22.0";
/// The Kubernetes version for rendered templates: that of the API server of the tests.
const KUBERNETES: &str = "1.36.3";

/// Helm is missing, or has another version.
#[derive(Debug)]
pub struct HelmUnavailable(String);

impl std::fmt::Display for HelmUnavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Helm in the pinned version.
#[derive(Clone, Debug)]
pub struct Helm(PathBuf);

/// Returns the chart's folder.
pub fn chart() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.join("../kueue-check")
}

impl Helm {
    /// Returns the Helm that `cargo xtask helm` has installed.
    ///
    /// # Errors
    /// If there is none, or another version.
    pub fn find() -> Result<Self, HelmUnavailable> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin/helm");
        let output = Command::new(&path)
            .args(["version", "--template", "{{.Version}}"])
            .output()
            .map_err(|error| {
                HelmUnavailable(format!(
                    "there is no Helm ({error}): `cargo xtask helm` installs it"
                ))
            })?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        if version == VERSION {
            Ok(Self(path))
        } else {
            Err(HelmUnavailable(format!(
                "Helm is {version}, not {VERSION}: `cargo xtask helm` installs that"
            )))
        }
    }

    /// Returns the output of `helm template` for the release `release` in `namespace`.
    ///
    /// # Errors
    /// Helm's error output.
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

    /// Returns the output of `helm lint --strict`.
    ///
    /// # Errors
    /// Its output, if it reports a problem.
    pub fn lint(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(&[&["lint", "--strict"], arguments].concat())
    }

    /// Runs a command on the cluster of `kubeconfig`, such as `install RELEASE CHART`. Returns its
    /// output.
    ///
    /// # Errors
    /// Helm's error output.
    pub fn on(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut call = Command::new(&self.0);
        outcome(call.args(arguments).env("KUBECONFIG", kubeconfig))
    }

    /// Runs a command on the chart without a cluster, independent of the environment.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut call = Command::new(&self.0);
        call.args(arguments)
            .arg(chart())
            .args(["--kube-version", KUBERNETES]);
        outcome(call.env("KUBECONFIG", "/dev/null"))
    }
}

fn outcome(call: &mut Command) -> Result<String, String> {
    let output = call.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr) + &text(&output.stdout))
    }
}
