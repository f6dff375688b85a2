//! Commands besides those of every check: `balance` and `estimate`.

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

/// The commands that this program has besides those of every check: to be flattened into them.
#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Prints the balance of a namespace, and who holds what of it.
    Balance(BalanceArguments),
    /// Shows a week of two teams in a simulated cluster.
    #[cfg(feature = "demo")]
    Demo(kueue_check_sim_cli::demo::Demo),
    /// Says what a job would cost, and what it would be told now.
    Estimate(EstimateArguments),
}

/// Whose statement.
#[derive(Debug, Args)]
pub struct BalanceArguments {
    /// The Budget.
    pub budget: String,
    /// The namespace. Default: all that the Budget shows.
    #[arg(long, short)]
    pub namespace: Option<String>,
}

/// Which job, in which Budget.
#[derive(Debug, Args)]
pub struct EstimateArguments {
    /// A file with the Budget.
    #[arg(long, short)]
    pub budget: PathBuf,
    /// A file with the job: a batch/v1 Job, or a Workload of Kueue's.
    #[arg(long, short = 'f')]
    pub job: PathBuf,
    /// The ResourceFlavor that it would get.
    #[arg(long, default_value = "default")]
    pub flavor: String,
    /// What its namespace has spent in this period.
    #[arg(long, default_value = "0")]
    pub spent: crate::money::Amount,
}

/// Why a command failed, in a sentence.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct CommandError(String);

/// `main` returns it, and Rust prints its `Debug` form: that is for people too.
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
