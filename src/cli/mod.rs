//! The command line of each check binary.
//!
//! ```no_run
//! # use kueue_check::{Verdict, admission_check};
//! #[admission_check(controller = "example.com/open")]
//! async fn open() -> Verdict {
//!     Verdict::ready("always open")
//! }
//!
//! #[tokio::main]
//! async fn main() -> kueue_check::Result<()> {
//!     kueue_check::main(open).await
//! }
//! ```
//!
//! | command | what it does |
//! | --- | --- |
//! | `run` | runs the admission check controller on a cluster |
//! | `explain` | explains why a Workload waits, and what the check would return for it now; writes nothing |
//! | `validate` | checks files with parameters, without a cluster |
//! | `manifests` | prints what to apply: definitions, ServiceAccount, least-privilege roles, Deployment, PodDisruptionBudget |
//! | `crds` | prints the definitions of the parameters |
//! | `helm-values` | prints values of `charts/kueue-check`: controllers, permissions, definitions |
//! | `completions` | prints a script for a shell |
//!
//! # Exit codes
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | failed: no cluster, Workload or permission; invalid parameters. The error names the fix |
//! | 2 | the command line is invalid |
//!
//! # `explain`
//!
//! It reads what the generated ClusterRole lets the program read, so it also works in the program's
//! own pod. Nothing is written: the client that it uses, and that it passes to checks made with
//! [`App::check_on`], refuses every request that is not a read. A check is evaluated only through
//! [`preview`](crate::AdmissionCheckController::preview), which by default returns that it is
//! skipped.
//!
//! State in the memory of the running program is left out: the counts of evaluations and failures,
//! and the exact time of the next evaluation. `recheck` is what would follow from the verdict that
//! is shown.
//!
//! # `validate`
//!
//! Each document of a kind that the checks take is validated against its definition, as
//! kube-apiserver does it (unknown fields are errors, defaults are filled in). The check then
//! decodes and validates it. Rules in CEL (`x-kubernetes-validations`) run with the feature `cel`;
//! without it, a note reports that they were not run.

mod arguments;
mod cluster;
mod explain;
mod helm;
mod log;
mod manifests;
mod run;
mod status_policy;
mod validate;

use std::fmt;
use std::io::{self, Write};

use clap::{CommandFactory, FromArgMatches};
use kube::Client;
use kube::client::Body;

use crate::Clock;
use crate::check::{AdmissionCheckController, DynCheck};
use crate::runtime::{BuildError, RunError};
use arguments::{Cli, ExplainArguments, OutputFormat};

#[doc(hidden)]
pub use explain::TargetError;
pub use explain::{Explanation, Target};

/// The error of a command. Its text names what to do.
///
/// ```
/// # use kueue_check::{App, Verdict, admission_check};
/// # use kueue_check_sim::{Cluster, Job, Simulation};
/// # #[admission_check(controller = "example.com/window")] async fn window() -> Verdict { Verdict::pending("jobs start at 22:00") }
/// # async fn example(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
/// # let (client, clock) = (cluster.server().client(), cluster.clock());
/// // The Job is called `train`.
/// let error = App::new().check(window).explain(&client, None, &"job/trian".parse()?, clock).await.unwrap_err();
/// assert_eq!(error.to_string(), "there is no Workload for `job/trian` in namespace default: did you mean job/train?");
/// assert_eq!(format!("{error:?}"), error.to_string(), "what Rust prints when `main` returns it");
/// # Ok(()) }
/// # Simulation::new(|| window).run(async |cluster| {
/// #     cluster.submit(Job::new("train"));
/// #     cluster.expect_message("train", "jobs start at 22:00").await;
/// #     example(cluster).await.unwrap();
/// # });
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no cluster to connect to.
    #[error(
        "no cluster: {0}. Set KUBECONFIG or --kubeconfig, or run in a pod with a ServiceAccount"
    )]
    NoCluster(String),
    /// The client cannot be made.
    #[error("cannot make a client for the API server: {0}")]
    Client(#[source] Box<kube::Error>),
    /// A port cannot be used.
    #[error(
        "the {name} endpoint cannot listen on {address}: {source}. Choose another with --{name}-address"
    )]
    Listen {
        /// The endpoint: `admin` or `probe`.
        name: &'static str,
        /// The address.
        address: std::net::SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The admin endpoint has no certificate.
    #[error("the admin endpoint has no certificate: {0}")]
    Certificate(#[from] crate::admin::CertificateError),
    /// The checks cannot run in one program.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The runtime stopped by itself.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Kueue cannot be used.
    #[error("{0}")]
    Kueue(String),
    /// The Workload does not exist.
    #[error("there is no Workload for `{target}` in namespace {namespace}: {hint}")]
    NoSuchWorkload {
        /// The Workload or job of the command line.
        target: String,
        /// The namespace that was searched.
        namespace: String,
        /// What to do.
        hint: String,
    },
    /// The job has more than one Workload.
    #[error("`{target}` has several Workloads: name one of {names}")]
    SeveralWorkloads {
        /// The job of the command line.
        target: String,
        /// Their names.
        names: String,
    },
    /// Permission to read something is missing.
    #[error(
        "you may not {verb} {resource}{place}: request a role with the verb `{verb}` on it, or run this in the check's own pod"
    )]
    Forbidden {
        /// The verb that is missing.
        verb: &'static str,
        /// The resource, with its group.
        resource: String,
        /// The namespace.
        place: String,
    },
    /// The API server did not authenticate the client.
    #[error("the API server does not accept the kubeconfig's credentials (401): log in again")]
    Unauthorized,
    /// Something cannot be read.
    #[error("{what} cannot be read: {why}")]
    Read {
        /// What.
        what: String,
        /// The cause.
        why: String,
    },
    /// Parameters are invalid; the errors have been printed.
    #[error("{0}")]
    Invalid(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// Something cannot be written as YAML.
    #[error("cannot write the manifests: {0}")]
    Yaml(String),
    /// A command of the program's own failed: see [`own`](Self::own).
    #[error("{0}")]
    Own(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Makes the error of a command of the program's own, for a `main` that also runs [`App`]'s.
    /// Its text is printed as it is.
    pub fn own(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Own(error.into())
    }
}

/// `main` returns the error, and Rust prints its `Debug` form: that is for people too.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The result of a command, and of a program's `main`. Commands of the program's own can return it
/// too:
///
/// ```
/// use kueue_check::Error;
///
/// /// Prints the prices that the check goes by.
/// fn print_prices(file: &str) -> kueue_check::Result<()> {
///     let prices = std::fs::read_to_string(file).map_err(|error| Error::own(format!("the prices in {file}: {error}")))?;
///     print!("{prices}");
///     Ok(())
/// }
/// let error = print_prices("no/such/file.csv").unwrap_err();
/// assert_eq!(error.to_string(), "the prices in no/such/file.csv: No such file or directory (os error 2)");
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Runs the command line of a binary with one check.
///
/// ```no_run
/// use kueue_check::{Verdict, admission_check};
///
/// #[admission_check(controller = "example.com/open")]
/// async fn open() -> Verdict {
///     Verdict::ready("always open")
/// }
///
/// #[tokio::main]
/// async fn main() -> kueue_check::Result<()> {
///     kueue_check::main(open).await
/// }
/// ```
///
/// # Errors
/// [`Error`]. Invalid arguments end the process with exit code 2 and a usage message.
pub async fn main(check: impl AdmissionCheckController) -> Result<()> {
    App::new().check(check).main().await
}

/// The command line of a binary with several checks.
///
/// ```no_run
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/a")] async fn window() -> Verdict { Verdict::ready("") }
/// # #[admission_check(controller = "example.com/b")] async fn budget() -> Verdict { Verdict::ready("") }
/// # async fn example() -> kueue_check::Result<()> {
/// kueue_check::App::new().name("gatekeeper").check(window).check(budget).main().await
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct App {
    name: Option<String>,
    version: Option<String>,
    checks: Vec<MakeCheck>,
    run_arguments: Vec<String>,
    command_line: Option<clap::Command>,
}

/// A function that makes a check, for a cluster.
struct MakeCheck(Box<dyn Fn(Client) -> DynCheck + Send + Sync>);

impl fmt::Debug for MakeCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeCheck")
    }
}

/// The commands, for a program with commands of its own: flatten them into those, and pass one to
/// [`App::execute`].
///
/// ```
/// #[derive(clap::Parser)]
/// struct Program {
///     #[command(subcommand)]
///     command: Command,
/// }
///
/// #[derive(clap::Subcommand)]
/// enum Command {
///     #[command(flatten)]
///     Check(kueue_check::cli::Command),
///     /// Shows it on a simulated cluster.
///     Demo,
/// }
/// # use clap::Parser;
/// assert!(matches!(Program::parse_from(["x", "demo"]).command, Command::Demo));
/// assert!(matches!(Program::parse_from(["x", "crds"]).command, Command::Check(_)));
/// ```
pub use arguments::Command;

impl App {
    /// Makes an app without checks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the program, for its help, its Lease, its manifests and its events.
    /// Default: the name of the executable.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the program's version: `env!("CARGO_PKG_VERSION")` in its own crate. Default: that of
    /// this SDK.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Adds an argument that the Deployment of `manifests` passes to `run`, for a program with
    /// flags of its own. An argument of `manifests` can thus apply to the program that it installs.
    pub fn run_argument(mut self, argument: impl Into<String>) -> Self {
        self.run_arguments.push(argument.into());
        self
    }

    /// Adds a check. Several may have one controller name if each takes parameters of another kind:
    /// the kind of an AdmissionCheck's parameters selects the check.
    pub fn check(mut self, check: impl AdmissionCheckController) -> Self {
        let check = DynCheck::new(check);
        self.checks
            .push(MakeCheck(Box::new(move |_| check.clone())));
        self
    }

    /// Adds a check that accesses the cluster itself. `make` receives a client for the cluster of
    /// the command line. For commands that need no cluster, it receives one that reaches none.
    pub fn check_on<C: AdmissionCheckController>(
        mut self,
        make: impl Fn(Client) -> C + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(MakeCheck(Box::new(move |client| {
            DynCheck::new(make(client))
        })));
        self
    }

    /// Sets the whole command line of a program with commands of its own, for its completions:
    /// `Program::command()`. Default: that of [`main`](Self::main).
    pub fn command_line(mut self, command: clap::Command) -> Self {
        self.command_line = Some(command);
        self
    }

    /// Runs the command of the command line.
    ///
    /// # Errors
    /// As [`main`].
    pub async fn main(self) -> Result<()> {
        let cli = match self
            .command()
            .try_get_matches()
            .and_then(|matches| Cli::from_arg_matches(&matches))
        {
            Ok(cli) => cli,
            Err(error) => error.exit(),
        };
        self.execute(cli.command).await
    }

    /// Runs `command`, for a program that parses its command line itself.
    ///
    /// # Errors
    /// As [`main`].
    pub async fn execute(self, command: Command) -> Result<()> {
        let name = self.program();
        match command {
            Command::Run(arguments) => {
                let version = self.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
                run::run(&name, version, |client| self.make(client), *arguments).await
            }
            Command::Manifests(arguments) => print(&manifests::manifests(
                &name,
                &self.make(&offline_client()),
                &arguments,
                &self.run_arguments,
            )?),
            Command::Crds => print(&manifests::crds(&self.make(&offline_client()))?),
            Command::HelmValues => print(&helm::values(&name, &self.make(&offline_client()))?),
            Command::Explain(arguments) => self.print_explanation(*arguments).await,
            Command::Validate(arguments) => {
                let report = validate::validate(&self.make(&offline_client()), &arguments.files)?;
                print(&report.text)?;
                report.result
            }
            Command::Completions(arguments) => {
                let mut command = self.command_line.clone().unwrap_or_else(|| self.command());
                let mut script = Vec::new();
                clap_complete::generate(arguments.shell, &mut command, &name, &mut script);
                print(&String::from_utf8_lossy(&script))
            }
        }
    }

    /// Returns why the Workload of `target` waits, and what the checks would return for it at
    /// `clock`'s time. Default of the namespace: the client's.
    ///
    /// Nothing is written: `client` is used behind a guard that refuses every request that is not a
    /// read, also for checks made with [`check_on`](Self::check_on).
    ///
    /// # Errors
    /// [`Error::NoSuchWorkload`], [`Error::SeveralWorkloads`], [`Error::Forbidden`],
    /// [`Error::Unauthorized`], [`Error::Kueue`] or [`Error::Read`].
    pub async fn explain(
        &self,
        client: &Client,
        namespace: Option<&str>,
        target: &Target,
        clock: &Clock,
    ) -> Result<Explanation> {
        let client = explain::read_only(client);
        let namespace = namespace.unwrap_or(client.default_namespace());
        explain::explain(&client, &self.make(&client), namespace, target, clock).await
    }

    async fn print_explanation(&self, arguments: ExplainArguments) -> Result<()> {
        let client = cluster::client(&cluster::config(&arguments.cluster).await?)?;
        let namespace = arguments.namespace.as_deref();
        let explanation = self
            .explain(&client, namespace, &arguments.target, &Clock::system())
            .await?;
        match arguments.output {
            OutputFormat::Text => print(&explanation.to_string()),
            OutputFormat::Json => {
                let text = serde_json::to_string_pretty(&explanation)
                    .map_err(|error| Error::Output(error.into()))?;
                print(&format!("{text}\n"))
            }
        }
    }

    fn command(&self) -> clap::Command {
        let version = self
            .version
            .clone()
            .unwrap_or_else(|| concat!("(kueue-check ", env!("CARGO_PKG_VERSION"), ")").to_owned());
        Cli::command()
            .name(self.program())
            .version(version)
            .about(self.about())
    }

    fn program(&self) -> String {
        dns_label(&self.name.clone().unwrap_or_else(executable))
    }

    fn make(&self, client: &Client) -> Vec<DynCheck> {
        let all = self.checks.iter();
        all.map(|make| (make.0)(client.clone())).collect()
    }

    fn about(&self) -> String {
        let checks = self.make(&offline_client());
        let names = checks.iter();
        let names = names.map(|check| check.controller_name().to_string());
        let names = manifests::distinct(names.collect());
        format!(
            "Runs the controller of AdmissionChecks with spec.controllerName {}",
            names.join(" or ")
        )
    }
}

/// Returns a client for commands that need no cluster.
fn offline_client() -> Client {
    let service = tower::service_fn(|_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(io::Error::other("this command uses no cluster"))
    });
    Client::new(service, "default")
}

fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `| head` has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Error::Output),
    }
}

fn executable() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let stem = std::path::Path::new(&path)
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| "kueue-check".to_owned())
}

/// Returns `name` as Kubernetes accepts it for a Deployment: lower-case letters, digits and `-`, at
/// most 63.
fn dns_label(name: &str) -> String {
    let mapped = name.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    let label: String = mapped.take(63).collect();
    let label = label.trim_matches('-');
    if label.is_empty() {
        "kueue-check".to_owned()
    } else {
        label.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clap::Parser;
    use k8s_openapi::api::rbac::v1::PolicyRule;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use serde_json::{Value, json};

    use super::*;
    use crate::check::Check;
    use crate::check::samples::{self, Limit, Quota};

    /// Returns a check with a kind of its own, in addition to parameters.
    fn own_kind() -> Check {
        let mut definition = CustomResourceDefinition::default();
        definition.metadata.name = Some("entries.example.com".to_owned());
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            verbs: vec!["create".to_owned()],
            ..PolicyRule::default()
        };
        samples::check("example.com/own-kind")
            .definitions([definition])
            .namespace_permissions([rule])
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_programs_own_definitions_and_arguments_are_in_its_manifests() {
        let checks = [DynCheck::new(own_kind()), DynCheck::new(own_kind())];
        let text = manifests::crds(&checks).unwrap();
        assert_eq!(
            text.matches("name: entries.example.com").count(),
            1,
            "{text}"
        );
        let arguments = [
            "x",
            "manifests",
            "--image=i",
            "--env=A=b=c",
            "--mount-secret=one=/credentials",
            "--mount-secret=two=/more",
            "--listen-address=[::]",
        ];
        let Command::Manifests(arguments) = Cli::parse_from(arguments).command else {
            panic!("another command");
        };
        let own = ["--tier=top".to_owned()];
        let all = manifests::manifests("x", &checks, &arguments, &own).unwrap();
        assert!(all.starts_with(&text), "definitions come first");
        assert!(all.contains("- --tier=top\n"), "{all}");
        let of_kind = |kind: &str| -> Value {
            let mut documents = all
                .split("---\n")
                .filter_map(|document| serde_saphyr::from_str::<Option<Value>>(document).unwrap());
            documents.find(|document| document["kind"] == kind).unwrap()
        };
        let pod = &of_kind("Deployment")["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(
            container["env"][2],
            json!({"name": "A", "value": "b=c"}),
            "after those of every check"
        );
        let listens = |address: &str| {
            let arguments = container["args"].as_array();
            arguments.is_some_and(|all| all.contains(&json!(address)))
        };
        assert!(listens("--admin-address=[::]:8443") && listens("--probe-address=[::]:8081"));
        for (number, secret, folder) in [(0, "one", "/credentials"), (1, "two", "/more")] {
            let (volume, mount) = (&pod["volumes"][number], &container["volumeMounts"][number]);
            assert_eq!(volume["secret"]["secretName"], secret);
            assert_eq!(volume["name"], mount["name"]);
            assert_eq!(mount["mountPath"], folder);
        }
        // Its permissions in its own namespace are in the Role, and nowhere else.
        let configmaps =
            json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]});
        let has = |kind: &str| {
            of_kind(kind)["rules"]
                .as_array()
                .unwrap()
                .contains(&configmaps)
        };
        assert_eq!((has("Role"), has("ClusterRole")), (true, false));
        let wrong = ["x", "manifests", "--image=i", "--env==b"];
        assert!(Cli::try_parse_from(wrong).is_err());
    }

    #[test]
    fn the_manifests_of_two_checks_of_one_name_have_what_both_need() {
        let checks = [
            DynCheck::new(samples::check::<Limit>("example.com/shared")),
            DynCheck::new(samples::check::<Quota>("example.com/shared")),
        ];
        let Command::Manifests(arguments) =
            Cli::parse_from(["x", "manifests", "--image=i", "--kueue-account=kueue"]).command
        else {
            panic!("another command");
        };
        let all = manifests::manifests("x", &checks, &arguments, &[]).unwrap();
        for needed in [
            "name: limits.example.com",
            "name: quotas.example.com",
            "  - limits\n",
            "  - quotas\n",
            "#   name: limit\n# spec:\n#   controllerName: example.com/shared\n#   parameters:\n#     apiGroup: example.com\n#     kind: Limit\n",
            "#   name: quota\n# spec:\n#   controllerName: example.com/shared\n#   parameters:\n#     apiGroup: example.com\n#     kind: Quota\n",
            "['example.com/shared']",
        ] {
            assert_eq!(all.matches(needed).count(), 1, "{needed} in {all}");
        }
    }

    #[tokio::test]
    async fn a_check_that_uses_the_cluster_is_made_for_it() {
        let made: Arc<Mutex<Vec<Client>>> = Arc::default();
        let app = || {
            let made = Arc::clone(&made);
            App::new().check_on(move |client| {
                made.lock().unwrap().push(client);
                own_kind()
            })
        };
        let service = tower::service_fn(|_: http::Request<Body>| async {
            let response = http::Response::new(Body::from(b"here".to_vec()));
            Ok::<_, io::Error>(response)
        });
        assert_eq!(app().make(&Client::new(service, "default")).len(), 1);
        let version = async || {
            let client = made.lock().unwrap().pop().unwrap();
            let request = http::Request::get("/version").body(Vec::new()).unwrap();
            client.request_text(request).await
        };
        assert_eq!(version().await.unwrap(), "here");
        // Commands that need no cluster get none.
        app().execute(Command::Crds).await.unwrap();
        let error = version().await.unwrap_err().to_string();
        assert!(error.contains("uses no cluster"), "{error}");
        let run = ["x", "run", "--kubeconfig", "/there/is/none"];
        let ran = app().execute(Cli::parse_from(run).command).await;
        assert!(matches!(ran, Err(Error::NoCluster(_))), "{ran:?}");
        assert!(
            made.lock().unwrap().is_empty(),
            "no check without a cluster"
        );
    }

    #[test]
    fn a_name_becomes_one_that_kubernetes_accepts() {
        for (name, label) in [
            ("maintenance_window", "maintenance-window"),
            ("Budget Check!", "budget-check"),
            ("---", "kueue-check"),
            (&"x".repeat(100), &"x".repeat(63)),
        ] {
            assert_eq!(dns_label(name), label);
        }
    }
}
