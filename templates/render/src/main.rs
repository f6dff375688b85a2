//! Renders the template of a check in all its variants, and builds and tests them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use kueue_check_template::{Project, variants};
use kueue_check_testenv::Cluster;

const HELP: &str = "\
usage: kueue-check-template COMMAND

  write FOLDER  every project that templates/check can make, as one workspace
  check         writes them into target/templates, lints all, runs the tests of as many as have every pair of answers,
                with a sample of every single fault, and those on a real API server where there can be one
  compare CARGO_GENERATE
                renders them with that program too, and says where it makes another project
";

/// The variable with the kubeconfig for the tests of the rendered projects.
const KUBECONFIG: &str = "KUEUE_CHECK_TEST_KUBECONFIG";

/// The variable with the number of single faults of each scenario that the projects' tests try.
const SAMPLE: &str = "KUEUE_CHECK_SAMPLE";

/// That number. The SDK's own tests try all faults.
const FAULTS: &str = "12";

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["write", folder] => write(Path::new(folder)),
        ["check"] => check().await,
        ["compare", program] => compare(Path::new(program)),
        _ => Err(HELP.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_owned()
}

fn write(folder: &Path) -> Result<(), Failure> {
    let number = variants::write_workspace(&repository(), folder)?;
    println!("{number} projects in {}", folder.display());
    Ok(())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

fn compare(cargo_generate: &Path) -> Result<(), Failure> {
    let cargo_generate = fs::canonicalize(cargo_generate)
        .map_err(|error| format!("{}: {error}", cargo_generate.display()))?;
    let template = repository().join("templates/check");
    let (ours, theirs) = (
        target().join("templates-ours"),
        target().join("templates-theirs"),
    );
    for folder in [&ours, &theirs] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    let mut different = Vec::new();
    let variants = variants::all();
    for variant in &variants {
        let name = variant.name();
        let mut command = Command::new(&cargo_generate);
        command.args(["generate", "--silent", "--vcs", "none", "--name", &name]);
        // It requires an author, whether the template uses one or not.
        command.env("USER", "kueue-check");
        command.arg("--path").arg(&template);
        for (question, answer) in variant.answers(&repository()) {
            command.args(["--define", &format!("{question}={answer}")]);
        }
        let output = command.current_dir(&theirs).output()?;
        if !output.status.success() {
            let problem = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?} failed: {problem}").into());
        }
        // Before 0.26 it did not format files.
        let generated = Project::read(&name, &theirs.join(&name))?;
        let generated = formatted(&generated, &name, &theirs)?;
        let rendered = variant.render(&template, &repository())?;
        let rendered = formatted(&rendered, &name, &ours)?;
        let files = rendered.differences(&generated);
        different.extend(
            files
                .iter()
                .map(|file| format!("{name}/{}", file.display())),
        );
    }
    if !different.is_empty() {
        let (ours, theirs) = (ours.display(), theirs.display());
        let files = different.join("\n  ");
        return Err(format!("{ours} and {theirs} differ:\n  {files}").into());
    }
    println!("cargo-generate makes the same {} projects", variants.len());
    Ok(())
}

/// Returns the project as written to disk, which formats it.
fn formatted(project: &Project, name: &str, folder: &Path) -> Result<Project, Failure> {
    let folder = folder.join(name);
    project.write(&folder)?;
    Ok(Project::read(name, &folder)?)
}

async fn check() -> Result<(), Failure> {
    let target = target();
    let folder = target.join("templates");
    write(&folder)?;
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .args(arguments)
            .current_dir(&folder)
            .env("CARGO_TARGET_DIR", &target);
        command
    };
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run(&mut cargo(&lints))?;
    let tried: Vec<String> = variants::covering()
        .iter()
        .map(variants::Variant::name)
        .collect();
    let packages = tried.iter().flat_map(|name| ["--package", name]);
    let mut test = vec!["test"];
    test.extend(packages);
    let mut test = cargo(&test);
    test.env(SAMPLE, FAULTS);
    let cluster = Cluster::start_or_skip("the rendered projects on a real API server").await;
    if let Some(cluster) = &cluster {
        test.env(KUBECONFIG, cluster.access().kubeconfig()?);
    }
    run(&mut test)
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed: {status}").into())
    }
}
