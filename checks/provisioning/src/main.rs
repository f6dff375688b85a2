//! `provisioning-check`: see `provisioning-check --help`.

use clap::{Parser, Subcommand};
use kueue_check::{App, ControllerName};
use kueue_check_provisioning::{CONTROLLER_NAME, ProvisioningCheck};

/// Asks Cluster Autoscaler for capacity before a job starts.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    /// The spec.controllerName of the AdmissionChecks to answer. Kueue's own is kueue.x-k8s.io/provisioning-request: only where that is switched off.
    #[arg(long, global = true, value_name = "NAME", env = "KUEUE_CHECK_CONTROLLER_NAME", default_value = CONTROLLER_NAME)]
    controller_name: ControllerName,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Check(kueue_check::cli::Command),
    /// Shows the check on a simulated cluster with an autoscaler: a retry, a booking that expires, capacity that is revoked.
    #[cfg(feature = "demo")]
    Demo,
}

#[tokio::main]
async fn main() -> kueue_check::Result<()> {
    let Arguments {
        controller_name,
        command,
    } = Arguments::parse();
    let command = match command {
        Command::Check(command) => command,
        #[cfg(feature = "demo")]
        Command::Demo => return demo().await,
    };
    App::new()
        .name("provisioning-check")
        .check_on(move |client| ProvisioningCheck::new(client, controller_name.clone()))
        .execute(command)
        .await
}

/// The simulation has a runtime of its own, whose time is virtual.
#[cfg(feature = "demo")]
async fn demo() -> kueue_check::Result<()> {
    let shown =
        tokio::task::spawn_blocking(|| kueue_check_provisioning::demo::run().timeline().table(140));
    let text = shown.await.map_err(std::io::Error::other)?;
    println!("{text}");
    Ok(())
}
