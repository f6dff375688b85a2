//! The cluster in a box, as a command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kueue_check_sim::apiserver::Prepared;
use kueue_check_sim::{definitions, replay};

/// A cluster in a box for Kueue admission checks.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plays recorded traces to the model and prints what differs.
    Replay {
        /// A directory of CustomResourceDefinitions to use instead of Kueue 0.19.2's and the autoscaler's; may be given more than once.
        #[arg(long)]
        crds: Vec<PathBuf>,
        /// Trace files.
        #[arg(required = true)]
        traces: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Replay { crds, traces } => replay_all(&crds, &traces),
    }
}

fn replay_all(crds: &[PathBuf], traces: &[PathBuf]) -> ExitCode {
    let mut all = Vec::new();
    for directory in crds {
        match definitions::read(directory) {
            Ok(found) => all.extend(found),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let kinds = (!all.is_empty()).then(|| Prepared::new(all));
    let mut equal = 0;
    for trace in traces {
        match replay::run(trace, kinds.as_ref()) {
            Ok(differences) if differences.is_empty() => equal += 1,
            Ok(differences) => {
                println!("== {}", trace.display());
                for difference in differences {
                    println!("{difference}");
                }
            }
            Err(error) => println!("== {}\n{error}", trace.display()),
        }
    }
    println!("{equal} of {} traces reproduced", traces.len());
    if equal == traces.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
