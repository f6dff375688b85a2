//! `rule-check`: jobs start by rules of the cluster's administrators. A rule is a `CELCheck`, whose
//! expressions decide, a `WebhookCheck`, for which an HTTP service decides, or an `ApprovalCheck`,
//! for which people decide.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use kueue_check::Clock;
use kueue_check_rule::celcheck::watched::Watched;
use kueue_check_rule::{
    AllowedServer, ApprovalCheck, CELCheck, ServerPolicy, Unlisted, WebhookCheck, document, mock,
    tools,
};

/// Starts jobs by rules: expressions in CEL, an HTTP service, or people.
#[derive(Debug, Parser)]
#[command(name = "rule-check", version, arg_required_else_help = true)]
struct Arguments {
    /// A server that rules may name: `https://HOST[:PORT]`, with `=FOLDER` if the files of
    /// this folder below `--credentials` may be sent to it. Repeat it, or separate several by
    /// commas. Default: none.
    #[arg(
        long = "allow-host",
        global = true,
        value_name = "SERVER",
        value_delimiter = ',',
        env = "RULE_CHECK_ALLOW_HOST"
    )]
    servers: Vec<AllowedServer>,

    /// An annotation of Workloads that rules and services see: a whole key, or a domain with its
    /// slash. Repeat it, or separate several by commas. Default: none.
    #[arg(
        long = "annotation",
        global = true,
        value_name = "KEY",
        value_delimiter = ',',
        env = "RULE_CHECK_ANNOTATION"
    )]
    annotations: Vec<String>,

    /// A resource whose objects CELChecks may read: `configmaps`, or `GROUP/VERSION/RESOURCE`.
    /// They are watched in the whole cluster, and what a rule writes into its message everybody
    /// reads. Repeat it, or separate several by commas. Default: none.
    #[arg(
        long = "watch",
        global = true,
        value_name = "RESOURCE",
        value_delimiter = ',',
        env = "RULE_CHECK_WATCH"
    )]
    watched: Vec<Watched>,

    /// The folder below which tokens, keys and certificates are. No other file is read.
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        env = "RULE_CHECK_CREDENTIALS",
        default_value = "/var/run/secrets/rule-check"
    )]
    credentials: PathBuf,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Check(kueue_check::cli::Command),
    /// Prints the verdict of a CELCheck for a Workload, without a cluster.
    Render(Render),
    /// Tries a table of Workloads and expected verdicts, without a cluster. Exit code 1: a case
    /// failed.
    Test {
        /// The table, in YAML.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        /// Writes a report in the XML that CI systems read, too.
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
    /// Serves a WebhookCheck's requests from a table of cases, on this machine.
    ServeMock {
        /// The table, in YAML. It is read again for each request.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        /// Where to listen: an address of loopback. Port 0 is any that is free.
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// A file with the key of `spec.signingKeyFile`: requests without its signature are
        /// refused.
        #[arg(long, value_name = "FILE")]
        signing_key: Option<PathBuf>,
    },
    /// Prints the schema of the documents that services receive and return.
    Schema {
        #[arg(value_enum, default_value = "json-schema")]
        format: Format,
    },
}

/// The arguments of `render`.
#[derive(Debug, Args)]
struct Render {
    /// The CELCheck, in YAML. Other documents in the file are skipped.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Which CELCheck, if the file has several.
    #[arg(long)]
    name: Option<String>,
    /// The Workload, in YAML. What is missing is filled in. Default: one pod in the namespace
    /// `default`.
    #[arg(short, long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// Other inputs of the rule, in YAML: `objects`, lists by resource, `sources`, values by
    /// name, and `starting`, Workloads.
    #[arg(short, long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// When it is, RFC 3339. Default: now.
    #[arg(long, value_name = "TIME")]
    now: Option<jiff::Timestamp>,
}

/// How schemas are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// JSON Schema, draft 2020-12.
    JsonSchema,
    /// `OpenAPI` 3.1.
    #[value(name = "openapi")]
    OpenApi,
}

impl Arguments {
    /// Returns the arguments of `run` in the Deployment that `manifests` prints: the arguments of
    /// `manifests` apply to its output.
    fn of_run(&self) -> Vec<String> {
        let servers = self.servers.iter().map(|server| {
            let folder = server.credentials.as_ref();
            let folder = folder.map_or_else(String::new, |path| format!("={}", path.display()));
            format!("--allow-host={}{folder}", server.origin)
        });
        let annotations = self.annotations.iter();
        let annotations = annotations.map(|key| format!("--annotation={key}"));
        let watched = self.watched.iter();
        let watched = watched.map(|resource| format!("--watch={resource}"));
        servers.chain(annotations).chain(watched).collect()
    }

    /// Returns the first server that is named twice: it is ambiguous which of the two folders
    /// counts.
    fn named_twice(&self) -> Option<&AllowedServer> {
        let mut servers = self.servers.iter().enumerate();
        let twice = servers.find(|(number, server)| {
            let mut before = self.servers[..*number].iter();
            before.any(|other| other.origin == server.origin)
        });
        twice.map(|(_, server)| server)
    }
}

impl Render {
    /// Returns the text to print.
    fn text(&self) -> Result<String, String> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let in_file = |path: &Path, problem: String| format!("{}: {problem}", path.display());
        let rule = tools::read_rule(&read(&self.file)?, self.name.as_deref());
        let rule = rule.map_err(|problem| in_file(&self.file, problem))?;
        let workload = match &self.workload {
            Some(path) => tools::read_document(&read(path)?).map_err(|e| in_file(path, e))?,
            None => serde_json::Value::Null,
        };
        let data = match &self.data {
            Some(path) => tools::GivenData::read(&read(path)?).map_err(|e| in_file(path, e))?,
            None => tools::GivenData::default(),
        };
        let now = self.now.unwrap_or_else(|| Clock::system().now());
        let decided = tools::decide(&rule, &workload, &data, now);
        decided.map(|decided| tools::describe(&decided))
    }
}

/// Returns the result of a tool, or prints its problem to standard error and exits with code 2.
fn or_exit<T>(found: Result<T, String>) -> T {
    found.unwrap_or_else(|problem| {
        eprintln!("{problem}");
        std::process::exit(2)
    })
}

#[tokio::main(worker_threads = 1)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    if let Some(server) = arguments.named_twice() {
        let problem = format!("--allow-host names {} twice\n", server.origin);
        Arguments::command()
            .error(ErrorKind::ValueValidation, problem)
            .exit();
    }
    let of_run = arguments.of_run();
    let command = match arguments.command {
        Command::Check(command) => command,
        Command::Render(render) => {
            print!("{}", or_exit(render.text()));
            return Ok(());
        }
        Command::Test { file, junit } => {
            let report = or_exit(tools::try_table(&file, Clock::system().now()));
            print!("{report}");
            if let Some(junit) = junit {
                let written = std::fs::write(&junit, report.to_junit());
                or_exit(written.map_err(|error| format!("{}: {error}", junit.display())));
            }
            std::process::exit(i32::from(!report.passed()));
        }
        Command::ServeMock {
            file,
            listen,
            signing_key,
        } => {
            let table = file.display().to_string();
            let options = mock::Options {
                table: file,
                listen,
                signing_key,
            };
            let running = or_exit(mock::serve(&options).await);
            println!("{} serves {table}", running.url()?);
            return Ok(running.run().await?);
        }
        Command::Schema { format } => {
            let schema = match format {
                Format::JsonSchema => document::json_schema(),
                Format::OpenApi => document::openapi(),
            };
            println!("{}", serde_json::to_string_pretty(&schema)?);
            return Ok(());
        }
    };
    let servers = ServerPolicy {
        folder: arguments.credentials,
        servers: arguments.servers,
        unlisted: Unlisted::Refuse,
        setting: "--allow-host",
    };
    let webhook = WebhookCheck::new(servers.clone()).annotations(arguments.annotations.clone());
    let cel = CELCheck::new(servers)
        .annotations(arguments.annotations)
        .watched(arguments.watched);
    let app = kueue_check::App::new()
        .name("rule-check")
        .command_line(Arguments::command());
    let app = of_run.into_iter().fold(app, kueue_check::App::run_argument);
    let app = app
        .check(cel)
        .check(webhook)
        .check(ApprovalCheck::default());
    Ok(app.execute(command).await?)
}
