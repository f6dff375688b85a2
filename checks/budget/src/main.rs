//! `budget-check`: a job starts only while its namespace has budget.

use clap::{CommandFactory, Parser, Subcommand};
use kueue_check_budget::command::{self, BudgetCommand};
use kueue_check_budget::controller::{BudgetCheck, Feature};
use kueue_check_budget::source::Credentials;

/// Starts a job only while its namespace has budget.
#[derive(Debug, Parser)]
#[command(name = "budget-check", version, arg_required_else_help = true)]
struct Arguments {
    /// An optional part of the check with permissions of its own, which `manifests` then prints
    /// too. Repeat the flag, or separate several values by commas.
    #[arg(
        long = "with",
        global = true,
        value_name = "FEATURE",
        value_delimiter = ',',
        env = "BUDGET_CHECK_WITH"
    )]
    features: Vec<Feature>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Check(kueue_check::cli::Command),
    #[command(flatten)]
    Own(BudgetCommand),
}

#[tokio::main(worker_threads = 1)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { features, command } = Arguments::parse();
    let text = match command {
        Command::Check(command) => {
            let app = kueue_check::App::new()
                .name("budget-check")
                .command_line(Arguments::command());
            let app = features.iter().fold(app, |app, feature| {
                app.run_argument(format!("--with={}", feature.name()))
            });
            let check = BudgetCheck::new(Credentials::from_environment()?).with(features);
            return Ok(app.check(check).execute(command).await?);
        }
        Command::Own(BudgetCommand::Balance(arguments)) => command::balance(&arguments).await?,
        Command::Own(BudgetCommand::Estimate(arguments)) => command::estimate(&arguments)?,
        #[cfg(feature = "demo")]
        Command::Own(BudgetCommand::Demo(shown)) => {
            // The simulator has its own runtime with virtual time.
            let demo = tokio::task::spawn_blocking(move || command::demo(&shown));
            demo.await??;
            String::new()
        }
    };
    print!("{text}");
    Ok(())
}
