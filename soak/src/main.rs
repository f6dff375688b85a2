//! A soak test: both shipped checks for minutes with a real API server, under random jobs, faults
//! and kills, and a judge that bypasses the faults.

mod autoscaler;
mod calendar;
mod chaos;
mod cluster;
mod driver;
mod jobs;
mod judge;
mod meter;
mod plan;
mod program;
mod proxy;
mod random;
mod run;
mod scene;
mod source;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Runs budget-check and provisioning-check, two replicas of each, beside a real API server under
/// random jobs, faults and kills, and prints what came of it.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask soak")]
struct Arguments {
    /// For how long. What has to end ends afterwards: that takes some minutes more.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1440))]
    minutes: u32,
    /// Where random numbers begin: jobs, faults, kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// With the real Kueue 0.19.2 and the real Job controller instead of a Kueue that is played.
    /// They are built first: ten minutes, once.
    #[arg(long)]
    kueue: bool,
    /// Where the programs' logs and the history are written.
    #[arg(long, default_value = "target/soak")]
    out: PathBuf,
    /// The folder of the programs. Default: that of this one.
    #[arg(long, hide = true)]
    programs: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run::run(&Arguments::parse()).await {
        Ok(report) => {
            print!("{report}");
            if report.is_good() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
