//! Runs a check on a cluster with sample objects and prints its verdicts: `cargo xtask try`.
//!
//! By default the cluster is simulated: an API server in this process, on a port of 127.0.0.1, and
//! a model of Kueue, in real time. The check is an ordinary program, the only child of this
//! process.

mod check;
mod cluster;
#[cfg(feature = "real")]
mod imitation;
mod playground;
mod samples;

use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use cluster::Kind;

/// Runs a check on a cluster with sample objects and prints its verdicts.
#[derive(Parser)]
#[command(name = "kueue-check-try")]
struct Arguments {
    /// The check: a program made with kueue-check.
    program: PathBuf,
    /// A YAML file with AdmissionChecks, parameters, ClusterQueues, LocalQueues and Workloads. It
    /// may be edited while this runs.
    samples: PathBuf,
    /// Stop when each check has returned a verdict for each Workload.
    #[arg(long)]
    once: bool,
    /// A real kube-apiserver with etcd instead of the simulated one; Kueue's two steps are
    /// imitated.
    #[cfg(feature = "real")]
    #[arg(long, conflicts_with = "kueue")]
    real: bool,
    /// A real kube-apiserver with etcd, and a real Kueue.
    #[cfg(feature = "real")]
    #[arg(long)]
    kueue: bool,
    /// How many milliseconds passed before this program started: they count for the time to the
    /// first verdict.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0, hide = true)]
    elapsed: u64,
}

impl Arguments {
    fn cluster(&self) -> Kind {
        #[cfg(feature = "real")]
        if self.kueue || self.real {
            return Kind::Real { kueue: self.kueue };
        }
        Kind::Simulated
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let ran = tokio::runtime::Runtime::new()
        .map_err(Failure::from)
        .and_then(|runtime| {
            let ran = runtime.block_on(run(Arguments::parse()));
            // A program that is being built is not waited for.
            runtime.shutdown_background();
            ran
        });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The terminal may be closed.
            let _ = writeln!(stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs until all is done or a signal arrives. In both cases the check and the cluster are dropped,
/// which ends their processes.
async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // A shell starts background processes with this signal ignored.
    let mut quit = signal(SignalKind::quit())?;
    let options = playground::Options {
        cluster: arguments.cluster(),
        once: arguments.once,
        elapsed: Duration::from_millis(arguments.elapsed),
    };
    tokio::select! {
        biased;
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
        _ = quit.recv() => Ok(()),
        ran = playground::run(&arguments.program, &arguments.samples, &options) => ran,
    }
}
