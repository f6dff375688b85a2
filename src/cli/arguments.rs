//! The command line arguments. A flag with `env` can also be set in the environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::explain::Target;
use crate::check::HumanDuration;

#[derive(Debug, Parser)]
#[command(arg_required_else_help = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The commands of a check binary.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Runs the admission check controller until SIGTERM or SIGINT.
    Run(Box<RunArguments>),
    /// Explains why a Workload waits, and what this program would return for it now. Writes
    /// nothing.
    Explain(Box<ExplainArguments>),
    /// Checks files with parameters, without a cluster: against the definitions of `crds` and this
    /// program's own rules.
    Validate(ValidateArguments),
    /// Prints what to apply to a cluster to run this: `manifests --image IMAGE | kubectl apply -f
    /// -`.
    Manifests(Box<ManifestArguments>),
    /// Prints the definitions of the parameters: `crds | kubectl apply -f -`.
    Crds,
    /// Prints the values of the Helm chart for this program: `helm-values > check.yaml`, then
    /// `helm install NAME charts/kueue-check --values check.yaml --set image.repository=IMAGE`.
    HelmValues,
    /// Prints a script that completes this command line in a shell: `source <(PROGRAM completions
    /// bash)`.
    Completions(CompletionsArguments),
}

/// The flags that choose the cluster.
#[derive(Debug, Default, Args)]
pub(super) struct ClusterArguments {
    /// The kubeconfig to use. Default: $KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount.
    #[arg(long, value_name = "FILE", env = "KUEUE_CHECK_KUBECONFIG")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "KUEUE_CHECK_CONTEXT")]
    pub(super) context: Option<String>,
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The Workload, or its job as KIND/NAME: `job/train`, `pod/train-0`.
    #[arg(value_name = "WORKLOAD")]
    pub(super) target: Target,

    /// Its namespace. Default: that of the kubeconfig's context.
    #[arg(long, short, value_name = "NAME")]
    pub(super) namespace: Option<String>,

    /// The form: for people or for machines.
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    pub(super) output: OutputFormat,

    #[command(flatten)]
    pub(super) cluster: ClusterArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For people.
    Text,
    /// For machines, one object.
    Json,
}

/// The arguments of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArguments {
    /// Files in YAML or JSON, with one or more documents each; `-` for the standard input.
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
}

/// The arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(super) shell: clap_complete::Shell,
}

/// The flags of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub(super) cluster: ClusterArguments,

    /// Address of health, metrics and diagnostics.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "KUEUE_CHECK_ADMIN_ADDRESS",
        default_value = "0.0.0.0:8443"
    )]
    pub(super) admin_address: SocketAddr,

    /// Serves the admin address over TLS, to users whom Kubernetes allows the path. Disable it only
    /// for a local run.
    #[arg(long, value_name = "BOOL", env = "KUEUE_CHECK_ADMIN_SECURE", default_value_t = true, action = ArgAction::Set)]
    pub(super) admin_secure: bool,

    /// A folder with tls.crt and tls.key, which are read again when they change. Default: a
    /// certificate that this process makes and signs itself.
    #[arg(long, value_name = "FOLDER", env = "KUEUE_CHECK_ADMIN_CERTIFICATES")]
    pub(super) admin_certificates: Option<PathBuf>,

    /// Address of /livez and /readyz without authentication or reasons, for the kubelet. Default:
    /// nowhere.
    #[arg(long, value_name = "ADDRESS", env = "KUEUE_CHECK_PROBE_ADDRESS")]
    pub(super) probe_address: Option<SocketAddr>,

    /// Maximum number of parallel evaluations.
    #[arg(long, value_name = "NUMBER", env = "KUEUE_CHECK_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) concurrency: u16,

    /// How long a check may take for a verdict, unless it sets its own timeout.
    #[arg(
        long,
        value_name = "DURATION",
        env = "KUEUE_CHECK_EVALUATION_TIMEOUT",
        default_value = "30s"
    )]
    pub(super) evaluation_timeout: HumanDuration,

    /// How long running evaluations may go on after SIGTERM; the Lease is held meanwhile.
    #[arg(
        long,
        value_name = "DURATION",
        env = "KUEUE_CHECK_GRACE_PERIOD",
        default_value = "5s"
    )]
    pub(super) grace_period: HumanDuration,

    #[command(flatten)]
    pub(super) lease: LeaseArguments,

    /// Stops when the standard input ends: the parent process holds the other end of the pipe.
    #[arg(long, hide = true)]
    pub(super) stop_at_end_of_input: bool,

    /// The form of the log.
    #[arg(
        long,
        value_name = "FORMAT",
        env = "KUEUE_CHECK_LOG_FORMAT",
        default_value = "text"
    )]
    pub(super) log_format: LogFormat,

    /// What is logged, such as `info` or `kueue_check=debug`.
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "info")]
    pub(super) log_filter: String,
}

#[derive(Debug, Args)]
pub(super) struct LeaseArguments {
    /// Enables leader election. Disable it only if exactly one replica ever runs.
    #[arg(long, value_name = "BOOL", env = "KUEUE_CHECK_LEADER_ELECT", default_value_t = true, action = ArgAction::Set)]
    pub(super) leader_elect: bool,

    /// The Lease's namespace. Default: that of the pod, or of the kubeconfig's context.
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    pub(super) lease_namespace: Option<String>,

    /// The Lease's name: the same for all replicas. Default: the program's name.
    #[arg(long, value_name = "NAME", env = "KUEUE_CHECK_LEASE_NAME")]
    pub(super) lease_name: Option<String>,

    /// This replica's name, which no other has. Default: the host's name and a random number.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub(super) identity: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// For machines, an object a line.
    Json,
}

/// The flags of `manifests`.
#[derive(Debug, Args)]
pub struct ManifestArguments {
    /// The container image of this program.
    #[arg(long, value_name = "IMAGE", env = "KUEUE_CHECK_IMAGE")]
    pub(super) image: String,

    /// The namespace to run in.
    #[arg(long, value_name = "NAME", default_value = "kueue-system")]
    pub(super) namespace: String,

    /// The name of the Deployment, the ServiceAccount, the roles and the Lease. Default: the
    /// program's name.
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Number of replicas. One leads; the rest stand by.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..=10))]
    pub(super) replicas: i32,

    /// The address on which the pods listen: `[::]` in a cluster without IPv4.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0",
        value_parser = ["0.0.0.0", "[::]"]
    )]
    pub(super) listen_address: String,

    /// The user that Kueue is to the API server, such as
    /// `system:serviceaccount:kueue-system:kueue-controller-manager`. With it, an admission policy
    /// rejects changes of this program's admission check states by every other user. Can be given
    /// several times.
    #[arg(long, value_name = "USER", value_parser = user)]
    pub(super) kueue_account: Vec<String>,

    /// The version of Kueue's API in which that policy reads AdmissionChecks; v1beta1 for Kueue
    /// 0.14.
    #[arg(long, value_name = "VERSION", default_value = "v1beta2", value_parser = ["v1beta1", "v1beta2"])]
    pub(super) kueue_version: String,

    /// An environment variable of the container. Can be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(super) env: Vec<(String, String)>,

    /// A Secret whose keys are files in a folder of the container, for credentials. Can be given
    /// several times.
    #[arg(long, value_name = "SECRET=FOLDER", value_parser = pair)]
    pub(super) mount_secret: Vec<(String, String)>,
}

/// Parses a user name that needs no escapes in a policy.
fn user(text: &str) -> std::result::Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ":.-_@".contains(c);
    if text.is_empty() || !text.chars().all(plain) {
        return Err("a user name has letters, digits, `:`, `.`, `-`, `_` and `@` only".to_owned());
    }
    Ok(text.to_owned())
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| format!("`{text}` has no `=` after a name"))?;
    Ok((name.to_owned(), value.to_owned()))
}
