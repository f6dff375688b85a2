//! The generated values of the Helm chart.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, root, tools};

/// The beginning of the line before the generated part of a values file.
const MARK: &str = "# ---- printed by ";

/// The values files, and the command that prints the generated part of each.
const VALUES: [(&str, &str, &[&str]); 4] = [
    (
        "values-provisioning.yaml",
        "provisioning-check",
        &["helm-values"],
    ),
    (
        "values-provisioning-as-kueue.yaml",
        "provisioning-check",
        &[
            "--controller-name",
            "kueue.x-k8s.io/provisioning-request",
            "helm-values",
        ],
    ),
    ("values-budget.yaml", "budget-check", &["helm-values"]),
    ("values-rule.yaml", "rule-check", &["helm-values"]),
];

/// Regenerates the generated part of each values file.
pub(crate) fn update() -> Result<(), Failure> {
    let programs = ["provisioning-check", "budget-check", "rule-check"];
    let programs = programs.iter().flat_map(|program| ["--bin", program]);
    let arguments: Vec<&str> = tools::AS_TESTS.into_iter().chain(programs).collect();
    tools::cargo(&arguments, &[])?;
    for (file, program, arguments) in VALUES {
        let path = root().join("charts/kueue-check").join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        let Some(mark) = text.lines().find(|line| line.starts_with(MARK)) else {
            return Err(format!("{file} has no line that begins with `{MARK}`"));
        };
        let own = text.find(mark).map_or("", |at| &text[..at]);
        let printed = output(tools::target().join("debug").join(program), arguments)?;
        fs::write(&path, format!("{own}{mark}\n{printed}"))
            .map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

fn output(program: PathBuf, arguments: &[&str]) -> Result<String, Failure> {
    let shown = program.display().to_string();
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{shown} failed: {errors}"))
    }
}
