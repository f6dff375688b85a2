//! Demo of a scenario: progress while it runs, the timeline, a page, and optionally a port for
//! kubectl.
//!
//! Check binaries use it behind their own feature (`demo`), so that production builds do not
//! contain a simulated cluster.

mod kubeconfig;
mod progress;

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::net::TcpListener;

use kueue_check_sim::scenarios::Scenario;
use kueue_check_sim::timeline::Timeline;
use kueue_check_sim::{Cluster, Simulation};

/// The options of a demo. These are the flags of `demo`.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use clap::Parser;
/// use kueue_check_sim::{Job, Simulation};
/// use kueue_check_sim_cli::demo::Demo;
///
/// #[derive(Parser)]
/// struct Arguments { #[command(flatten)] demo: Demo }
///
/// # let page = std::env::temp_dir().join(format!("kueue-check-demo-{}.html", std::process::id()));
/// # let page = page.to_str().expect("a path of text");
/// let Arguments { demo } = Arguments::parse_from(["example", "--speed", "0", "--html", page]);
/// demo.run("one job starts", &Simulation::new(|| open), async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// })?;
/// assert!(std::fs::read_to_string(page)?.contains("<h1>One job starts</h1>"));
/// # std::fs::remove_file(page)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, clap::Args)]
pub struct Demo {
    /// The file of the page with the timeline.
    #[arg(long, value_name = "FILE", default_value = "demo.html")]
    pub html: PathBuf,
    /// Simulated seconds per real second. 0: as fast as possible.
    #[arg(long, value_name = "TIMES", default_value_t = 600)]
    pub speed: u32,
    /// Keeps the cluster running afterwards, in real time, on a port of 127.0.0.1 for kubectl.
    /// Without a number, any free port.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    pub serve: Option<u16>,
    /// The file of the kubeconfig for that port.
    #[arg(long, value_name = "FILE", default_value = "demo.kubeconfig")]
    pub kubeconfig: PathBuf,
}

/// An error of a demo.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// # use kueue_check_sim::Simulation;
/// # use kueue_check_sim_cli::demo::Demo;
/// # use clap::Parser;
/// # #[derive(Parser)] struct Arguments { #[command(flatten)] demo: Demo }
/// let Arguments { demo } = Arguments::parse_from(["example", "--html", "no-such-directory/demo.html"]);
/// let error = demo.run("nothing happens", &Simulation::new(|| open), async |_| {}).unwrap_err();
/// assert_eq!(error.to_string(), "no-such-directory/demo.html: No such file or directory (os error 2)");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The scenario failed.
    #[error("{0}")]
    Scenario(String),
    /// A file or the port failed.
    #[error("{what}: {source}")]
    Io {
        /// The file or the port.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl DemoError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io {
            what: what.into(),
            source,
        }
    }
}

/// Returns the time to simulate after a scenario of this length. The timeline then shows its last
/// phases.
fn tail(length: SignedDuration) -> Duration {
    length
        .unsigned_abs()
        .div_f64(10.0)
        .max(Duration::from_secs(10))
}

/// The width of the timeline, in columns.
const WIDTH: usize = 120;

impl Demo {
    /// Runs `scenario` and shows it under `title`. Must not be called inside a tokio runtime: it
    /// creates its own, whose time is virtual.
    ///
    /// # Errors
    /// [`DemoError`].
    pub fn run(
        &self,
        title: &str,
        simulation: &Simulation,
        scenario: impl AsyncFn(&Cluster),
    ) -> Result<(), DemoError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .map_err(DemoError::io("the runtime"))?;
        runtime.block_on(self.execute(title, simulation, scenario))
    }

    /// Runs a scenario of the simulator and shows it.
    ///
    /// # Errors
    /// [`DemoError`].
    pub fn run_scenario(&self, scenario: &Scenario) -> Result<(), DemoError> {
        let steps = async |cluster: &Cluster| scenario.run_on(cluster).await;
        self.run(scenario.about, &scenario.simulation(), steps)
    }

    async fn execute(
        &self,
        title: &str,
        simulation: &Simulation,
        scenario: impl AsyncFn(&Cluster),
    ) -> Result<(), DemoError> {
        println!("{title}\n");
        let mut progress = None;
        let show = |cluster: &Cluster| {
            let (server, clock) = (cluster.server().clone(), cluster.clock().clone());
            let task = tokio::spawn(progress::show(server, clock, self.speed));
            progress = Some((task, cluster.now()));
        };
        let (cluster, result) = simulation.run_in_place(show, scenario).await;
        if let Some((task, start)) = progress {
            let length = cluster.now().duration_since(start);
            cluster.advance(tail(length)).await;
            task.abort();
        }
        let timeline = cluster.timeline();
        println!("\n{}", timeline.chart(WIDTH));
        self.write_page(title, &timeline)?;
        if let Err(failure) = result {
            return Err(DemoError::Scenario(failure.0));
        }
        match self.serve {
            None => Ok(()),
            Some(port) => self.keep(&cluster, port).await,
        }
    }

    fn write_page(&self, title: &str, timeline: &Timeline) -> Result<(), DemoError> {
        let path = &self.html;
        fs::write(path, timeline.html(title)).map_err(DemoError::io(path.display().to_string()))?;
        println!("the same as a page: {}", path.display());
        Ok(())
    }

    async fn keep(&self, cluster: &Cluster, port: u16) -> Result<(), DemoError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(DemoError::io(format!("port {port}")))?;
        let address = listener.local_addr().map_err(DemoError::io("the port"))?;
        let path = self.kubeconfig.display().to_string();
        fs::write(&self.kubeconfig, kubeconfig::text(address))
            .map_err(DemoError::io(path.clone()))?;
        println!("\nthe cluster goes on in real time until Ctrl-C; from another terminal:\n");
        println!("  kubectl --kubeconfig {path} get workloads,jobs,clusterqueues,admissionchecks");
        println!("  kubectl --kubeconfig {path} get workloads -o yaml");
        tokio::time::resume();
        match cluster.server().serve(listener).await {
            Ok(never) => match never {},
            Err(error) => Err(DemoError::io("the port")(error)),
        }
    }
}
