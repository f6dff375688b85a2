//! The test cluster's command line. `cargo xtask` calls it; it also works on its own.

mod slim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A real kube-apiserver and etcd on loopback, with Kueue's definitions.
#[derive(Parser)]
#[command(name = "testenv")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build kube-apiserver, etcd, kubectl and Helm from their Go modules, unless they are up to date.
    Build,
    /// Write Kueue's definitions without descriptions and Pod schemas.
    SlimCrds {
        /// The folder with the originals, one folder for each version.
        from: PathBuf,
        /// The folder to write to.
        to: PathBuf,
    },
    /// Write one definition as JSON, for inclusion in a program.
    CrdJson {
        /// The definition, in YAML.
        from: PathBuf,
        /// The file to write.
        to: PathBuf,
    },
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<(), Failure> {
    match task {
        Task::Build => {
            // Building blocks for minutes; nothing else runs.
            kueue_check_testenv::programs()?;
            kueue_check_testenv::helm()?;
            Ok(())
        }
        Task::SlimCrds { from, to } => slim::write(&from, &to),
        Task::CrdJson { from, to } => slim::write_json(&from, &to),
    }
}
