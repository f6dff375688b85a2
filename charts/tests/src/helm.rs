//! The program Helm.

use std::path::{Path, PathBuf};
use std::process::Command;

use kueue_check_testenv::Unavailable;
use serde_json::Value;

/// The Kubernetes version for rendered templates: that of the API server of the tests.
const KUBERNETES: &str = "1.36.3";

/// Helm in the pinned version.
#[derive(Clone, Debug)]
pub struct Helm(PathBuf);

/// Returns the chart's folder.
pub fn chart() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.join("../kueue-check")
}

impl Helm {
    /// Returns the Helm of the test environment, built if it is missing.
    ///
    /// # Errors
    /// As of [`kueue_check_testenv::helm`].
    pub fn find() -> Result<Self, Unavailable> {
        kueue_check_testenv::helm().map(Self)
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
