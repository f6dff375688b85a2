//! `provisioning-check`: see `provisioning-check --help`.

use clap::{CommandFactory, Parser, Subcommand};
use kueue_check::{App, ControllerName};
use kueue_check_provisioning::{CONTROLLER_NAME, ProvisioningCheck};

/// Requests capacity from Cluster Autoscaler before a job starts.
#[derive(Debug, Parser)]
#[command(name = "provisioning-check", version, arg_required_else_help = true)]
struct Arguments {
    /// The spec.controllerName of the AdmissionChecks to evaluate. Kueue's own is
    /// kueue.x-k8s.io/provisioning-request: only for a Kueue without its own check.
    #[arg(long, global = true, value_name = "NAME", env = "KUEUE_CHECK_CONTROLLER_NAME", default_value = CONTROLLER_NAME)]
    controller_name: ControllerName,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Check(kueue_check::cli::Command),
    /// Shows the check on a simulated cluster with an autoscaler: a retry, a booking that expires,
    /// capacity that is revoked.
    #[cfg(feature = "demo")]
    Demo(kueue_check_sim_cli::demo::Demo),
}

#[tokio::main(worker_threads = 1)]
async fn main() -> kueue_check::Result<()> {
    let Arguments {
        controller_name,
        command,
    } = Arguments::parse();
    #[cfg_attr(
        not(feature = "demo"),
        expect(
            clippy::infallible_destructuring_match,
            reason = "the feature adds a command"
        )
    )]
    let command = match command {
        #[cfg(feature = "demo")]
        Command::Demo(shown) => {
            // The simulator has its own runtime, with virtual time.
            let demo = tokio::task::spawn_blocking(move || {
                kueue_check_provisioning::demo::run_and_print(&shown)
            });
            return demo
                .await
                .map_err(kueue_check::Error::own)?
                .map_err(kueue_check::Error::own);
        }
        Command::Check(command) => command,
    };
    App::new()
        .name("provisioning-check")
        .run_argument(format!("--controller-name={controller_name}"))
        .command_line(Arguments::command())
        .check_on(move |client| ProvisioningCheck::new(client, controller_name.clone()))
        .execute(command)
        .await
}
