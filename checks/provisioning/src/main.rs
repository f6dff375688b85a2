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
}

#[tokio::main]
async fn main() -> kueue_check::Result<()> {
    let Arguments {
        controller_name,
        command: Command::Check(command),
    } = Arguments::parse();
    App::new()
        .name("provisioning-check")
        .check_on(move |client| ProvisioningCheck::new(client, controller_name.clone()))
        .execute(command)
        .await
}
