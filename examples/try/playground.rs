//! The samples on the cluster, and the check that evaluates them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Write, stdout};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::check;
use crate::cluster::{Cluster, Kind};
use crate::samples::{Samples, changed_at};

/// How often the cluster and the sample file are read.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long `--once` waits for verdicts after the start of the check.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);

/// The options of a run.
pub(crate) struct Options {
    pub(crate) cluster: Kind,
    pub(crate) once: bool,
    /// The time that passed before this program started.
    pub(crate) elapsed: Duration,
}

/// A directory that is removed when this is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The printed lines, and the start of the time count.
struct Report {
    began: Instant,
    elapsed: Duration,
    /// The last line about each object.
    shown: BTreeMap<String, String>,
    verdicts: usize,
}

/// Runs `program` on a cluster with the objects of `samples`, for ever, or until there is a verdict
/// for each Workload.
pub(crate) async fn run(program: &Path, samples: &Path, options: &Options) -> Result<(), Failure> {
    let mut report = Report {
        began: Instant::now(),
        elapsed: options.elapsed,
        shown: BTreeMap::new(),
        verdicts: 0,
    };
    let name = format!("kueue-check-try-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    fs::create_dir_all(&folder.0)?;
    report.line(options.cluster.description())?;
    let definitions = check::definitions(program).await?;
    let cluster = Cluster::start(options.cluster, definitions, &folder.0).await?;
    let log = folder.0.join("check.log");
    let admin = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    report.line(&format!("applying {}", samples.display()))?;
    let mut changed = changed_at(samples);
    Samples::read(samples)?.submit(&cluster.client).await?;
    report.line("starting the check")?;
    note(&format!("its log       {}", log.display()))?;
    note(&format!("why jobs wait http://{admin}/diagnostics"))?;
    let kubeconfig = cluster.kubeconfig.display();
    note(&format!("for kubectl   export KUBECONFIG={kubeconfig}"))?;
    let mut check = check::start(program, &cluster.kubeconfig, admin, &log)?;
    let started = Instant::now();
    loop {
        let decided = report.show(&cluster.client).await?;
        if options.once && decided {
            return Ok(());
        }
        if options.once && started.elapsed() > VERDICT_TIMEOUT {
            let missing = format!("not every Workload has a verdict after {VERDICT_TIMEOUT:?}");
            return Err(failed(&missing, &log));
        }
        #[cfg(feature = "real")]
        cluster.imitate_kueue().await?;
        let edited = changed_at(samples);
        if edited.is_some() && edited != changed {
            changed = edited;
            report.line("the file has changed; submitting the Workloads again")?;
            report.shown.retain(|key, _| !key.starts_with("Workload"));
            // A mistake in the file is reported, and can be corrected.
            let submitted = match Samples::read(samples) {
                Ok(samples) => samples.submit(&cluster.client).await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = submitted {
                report.line(&failure.to_string())?;
            }
        }
        tokio::select! {
            () = sleep(INTERVAL) => {}
            status = check.ended() => {
                return Err(failed(&format!("the check ended: {}", status?), &log));
            }
        }
    }
}

/// Makes a failure with the last lines of the check's log, whose file is removed.
fn failed(what: &str, log: &Path) -> Failure {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().rev().take(20).collect();
    let lines: Vec<&str> = lines.into_iter().rev().collect();
    format!("{what}; the end of its log:\n{}", lines.join("\n")).into()
}

/// Prints a line that belongs to the one before.
fn note(text: &str) -> Result<(), Failure> {
    Ok(writeln!(stdout(), "         {text}")?)
}

impl Report {
    /// Prints a line with the seconds since the beginning. Fails if no process reads it.
    fn line(&self, text: &str) -> Result<(), Failure> {
        let seconds = (self.elapsed + self.began.elapsed()).as_secs_f32();
        Ok(writeln!(stdout(), "{seconds:>6.1}s  {text}")?)
    }

    /// Prints the state of an object if it is new.
    fn print_state(&mut self, key: String, now: String) -> Result<(), Failure> {
        if now.is_empty() || self.shown.get(&key) == Some(&now) {
            return Ok(());
        }
        self.line(&format!("{key}: {now}"))?;
        self.shown.insert(key, now);
        Ok(())
    }

    /// Prints changes on the cluster. Returns true if each check of each Workload has returned a
    /// verdict.
    async fn show(&mut self, client: &Client) -> Result<bool, Failure> {
        for check in list(client, "AdmissionCheck").await? {
            let name = format!("AdmissionCheck {}", text(&check["metadata"]["name"]));
            let conditions = array(&check["status"]["conditions"]);
            if let Some(active) = conditions.iter().find(|c| c["type"] == "Active") {
                let now = format!(
                    "Active={} {}",
                    text(&active["status"]),
                    text(&active["message"])
                );
                self.print_state(name, now)?;
            }
        }
        let workloads = list(client, "Workload").await?;
        let mut decided = !workloads.is_empty();
        for workload in &workloads {
            let name = text(&workload["metadata"]["name"]);
            self.print_state(format!("Workload {name}"), phase(workload).to_owned())?;
            let entries = array(&workload["status"]["admissionChecks"]);
            decided &= !entries.is_empty();
            for entry in entries {
                decided &= entry["message"] != "";
                let check = format!("Workload {name}, check {}", text(&entry["name"]));
                self.verdict(check, described(entry))?;
            }
        }
        Ok(decided)
    }

    fn verdict(&mut self, key: String, now: String) -> Result<(), Failure> {
        let is_first = self.verdicts == 0 && !now.is_empty();
        self.verdicts += usize::from(!now.is_empty());
        self.print_state(key, now)?;
        if is_first {
            let seconds = (self.elapsed + self.began.elapsed()).as_secs_f32();
            self.line(&format!("the first verdict, after {seconds:.1} s"))?;
        }
        Ok(())
    }
}

/// Returns the phase of a Workload in Kueue.
fn phase(workload: &Value) -> &'static str {
    let is = |kind: &str| {
        array(&workload["status"]["conditions"])
            .iter()
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    match () {
        () if is("Finished") => "finished",
        () if is("Admitted") => "admitted",
        () if is("QuotaReserved") => "has quota",
        () if is("Evicted") => "evicted",
        () => "",
    }
}

fn described(entry: &Value) -> String {
    let message = text(&entry["message"]);
    // Kueue's own entry, before the first verdict.
    if message.is_empty() {
        return String::new();
    }
    let updates = array(&entry["podSetUpdates"]);
    let updates = if updates.is_empty() {
        String::new()
    } else {
        format!(" with {}", json!(updates))
    };
    format!("{} ({message}){updates}", text(&entry["state"]))
}

pub(crate) async fn list(client: &Client, kind: &str) -> Result<Vec<Value>, Failure> {
    let objects = api(client, kind).list(&ListParams::default()).await?;
    Ok(objects
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<_, _>>()?)
}

/// Returns the API of a kind. The samples are all in the namespace `default`.
pub(crate) fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        api_version: "kueue.x-k8s.io/v1beta2".to_owned(),
        kind: kind.to_owned(),
        plural: kind.to_lowercase() + "s",
    };
    match kind {
        "Workload" | "LocalQueue" => Api::namespaced_with(client.clone(), "default", &resource),
        _ => Api::all_with(client.clone(), &resource),
    }
}

pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
