//! Commands of `budget-check` itself: `balance`, `estimate` and `demo`.

mod balance;
#[cfg(feature = "demo")]
mod demo;
mod estimate;

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub use balance::balance;
#[cfg(feature = "demo")]
pub use demo::demo;
pub use estimate::estimate;

/// The commands of `budget-check` itself, to be flattened into those of every check.
#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Prints the balance of a namespace and the Workloads that hold it.
    Balance(BalanceArguments),
    /// Shows a week of two teams in a simulated cluster.
    #[cfg(feature = "demo")]
    Demo(kueue_check_sim_cli::demo::Demo),
    /// Prints the estimated cost of a job, and the verdict that it would get now.
    Estimate(EstimateArguments),
}

/// The arguments of `balance`.
#[derive(Debug, Args)]
pub struct BalanceArguments {
    /// The Budget.
    pub budget: String,
    /// The namespace. Default: all that the Budget shows.
    #[arg(long, short)]
    pub namespace: Option<String>,
}

/// The arguments of `estimate`.
#[derive(Debug, Args)]
pub struct EstimateArguments {
    /// A file with the Budget.
    #[arg(long, short)]
    pub budget: PathBuf,
    /// A file with the job: a batch/v1 Job, or a Kueue Workload.
    #[arg(long, short = 'f')]
    pub job: PathBuf,
    /// The ResourceFlavor to assign.
    #[arg(long, default_value = "default")]
    pub flavor: String,
    /// The spend of its namespace in this period.
    #[arg(long, default_value = "0")]
    pub spent: crate::money::Amount,
}

/// The error of a command, as a sentence.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct CommandError(String);

/// `main` returns the error, and Rust prints its `Debug` form: it is the sentence too.
impl std::fmt::Debug for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl CommandError {
    pub(crate) fn new(what: &str, why: impl std::fmt::Display) -> Self {
        Self(format!("{what}: {why}"))
    }
}
