//! Comparison of a real Kueue and the model on random histories.

mod bodies;
mod compare;
mod generate;
mod history;
mod lateness;
mod minimise;
mod random;
mod record;
mod request;
mod stage;
mod summary;

use std::num::{NonZero, NonZeroU32};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};
use kueue_check::Clock;
use kueue_check_sim_cli::record::{RecordError, Recorder};
use kueue_check_sim_cli::replay::{Difference, ReplayError, Trace, VersionEvidence, to_text};
use kueue_check_testenv::{Kueue, KueueOptions};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::compare::{between, differences, shows};
use self::generate::{Feature, Scope};
use self::history::History;
use self::record::record;
use self::stage::{Stage, StageError};
use self::summary::{Outcome, Summary};

/// Runs random histories on a real Kueue and on the model, and prints the differences.
#[derive(Parser)]
#[command(name = "cargo xtask twin")]
struct Arguments {
    /// The release of Kueue, from 0.15.0 on: 0.14 does not serve the API's version `v1beta2`.
    #[arg(long, value_name = "VERSION", default_value_t = Kueue::version())]
    kueue: String,
    /// The number of histories.
    #[arg(long, default_value_t = 50)]
    histories: u64,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first history.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only the histories with these numbers, such as `12,40`.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["first", "histories"])]
    only: Vec<u64>,
    /// The number of histories that run at once.
    #[arg(long, default_value_t = 16)]
    side_by_side: usize,
    /// The percentage of histories with ClusterQueues in cohorts.
    #[arg(long, default_value_t = 40)]
    cohorts: usize,
    /// The percentage of histories in which rare features are frequent.
    #[arg(long, default_value_t = 70)]
    rare: usize,
    /// Features that are frequent in all histories.
    #[arg(long, value_name = "FEATURE", value_delimiter = ',')]
    often: Vec<Feature>,
    /// How often a history that differs is run again, to test whether the real Kueue varies.
    #[arg(long, default_value_t = 5)]
    again: usize,
    /// Searches for the shortest history that still differs.
    #[arg(long)]
    minimise: bool,
    /// Also searches for the shortest history that shows each of these differences between versions,
    /// fields of `KueueVersion`: the model reproduces it only with the behavior of its version.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    shows: Vec<String>,
    /// The directory for traces.
    #[arg(long, default_value = "target/twin")]
    out: PathBuf,
    /// Writes Kueue's log to this file, with all actions of its controllers, which explain a
    /// difference. Use it for few histories: three take a megabyte.
    #[arg(long, value_name = "FILE")]
    kueue_log: Option<PathBuf>,
    /// Needs no Kueue: prints which of the histories in this directory, recorded on several
    /// versions, the model reproduces only with the behavior of their version, for each difference
    /// between versions.
    #[arg(long, value_name = "FOLDER")]
    versions: Option<PathBuf>,
    /// More fields of Kueue's `Configuration`, as JSON; they are part of the traces. The model has
    /// `fairSharing` and `waitForPodsReady`. Histories show the effects of the latter if its times
    /// are of seconds: `{"waitForPodsReady": {"timeout": "4s", "requeuingStrategy":
    /// {"backoffBaseSeconds": 2, "backoffLimitCount": 2}}}`.
    #[arg(long, value_name = "JSON", value_parser = json)]
    settings: Option<Value>,
    /// Also records all histories as one trace in this file, as `kueue-check-sim record` does on a
    /// cluster of which it observes only the objects.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl Arguments {
    /// Returns the seed with the features that are frequent.
    fn shown_seed(&self) -> String {
        let names = self.often.iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        match names.as_slice() {
            [] => self.seed.to_string(),
            names => format!("{}, `--often {}`", self.seed, names.join(",")),
        }
    }
}

fn json(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

/// The recorder of all histories as one trace, without limits.
const RECORDER: Recorder = Recorder {
    seconds: u64::MAX / 1_000_000,
    limit: usize::MAX,
    kueue: None,
    requests: NonZeroU32::MAX,
};

/// An error that prevents the comparison.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The real Kueue failed.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The model failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The recording of all histories as one trace failed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A trace, or the recording of all histories, was lost.
    #[error("a recording is lost: {0}")]
    Recording(#[from] std::io::Error),
    /// A trace could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// A history that was run on both.
struct ComparedHistory {
    history: History,
    trace: Value,
    differences: Vec<Difference>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Records all histories first and compares them afterwards. Concurrent replays of the model would
/// slow Kueue down and delay its immediate reactions to requests.
async fn run(arguments: &Arguments) -> Result<bool, Failure> {
    if let Some(folder) = &arguments.versions {
        let evidence = evidence(folder).await?;
        for (field, release, names) in evidence.all() {
            let some: Vec<&str> = names.keys().map(String::as_str).take(20).collect();
            eprintln!("{field}, {release}: {}", some.join(" "));
        }
        println!("{evidence}");
        return Ok(true);
    }
    let options = KueueOptions {
        release: Some(&arguments.kueue),
        settings: arguments.settings.as_ref(),
        log_level: if arguments.kueue_log.is_some() { 6 } else { 0 },
        ..KueueOptions::default()
    };
    let stage = Stage::start(options).await?;
    let histories = histories(arguments);
    let began = Instant::now();
    record_all(arguments, &stage, &histories).await?;
    let took = began.elapsed();
    shortest_that_show(arguments, &stage, &histories).await?;
    let mut summary = Summary::default();
    let differing = compare_all(arguments, histories, &mut summary).await?;
    let others = record_again(arguments, &stage, &differing).await?;
    let mut classifying = stream::iter(differing.into_iter().zip(others))
        .map(async |(compared, others)| {
            let outcome = classify(arguments, &compared, &others).await;
            outcome.map(|outcome| (compared, outcome))
        })
        .buffered(processors());
    while let Some(classified) = classifying.next().await {
        let (compared, outcome) = classified?;
        summary.count(&compared.history, outcome);
        if outcome == Outcome::Differs && arguments.minimise {
            shorten(arguments, &stage, compared).await?;
        }
    }
    if let Some(path) = &arguments.kueue_log {
        write_text(path, &stage.log())?;
    }
    let seed = arguments.shown_seed();
    let repeated = arguments.again > 0;
    println!("{}", summary.table(&arguments.kueue, &seed, repeated, took));
    Ok(summary.unexplained() == 0)
}

/// Returns the histories that the arguments select.
fn histories(arguments: &Arguments) -> Vec<History> {
    let setting = |name| {
        let settings = arguments.settings.as_ref();
        settings.is_some_and(|settings| !settings[name].is_null())
    };
    let mut often = arguments.often.clone();
    // Queues and cohorts then have weights and little quota of their own.
    if setting("fairSharing") {
        often.push(Feature::FairSharing);
    }
    let scope = Scope {
        cohorts: arguments.cohorts,
        rare: arguments.rare,
        short_timeouts: setting("waitForPodsReady"),
        often,
    };
    let mut numbers = arguments.only.clone();
    if numbers.is_empty() {
        numbers.extend(arguments.first..arguments.first + arguments.histories);
    }
    let numbers = numbers.into_iter();
    numbers
        .map(|number| generate::history(arguments.seed, number, &scope))
        .collect()
}

/// Records each history on the real Kueue, and with `--record` all of them as one trace.
async fn record_all(
    arguments: &Arguments,
    stage: &Stage,
    histories: &[History],
) -> Result<(), Failure> {
    let end = Arc::new(Notify::new());
    let whole = arguments.record.as_ref().map(|_| {
        let (client, end) = (stage.client(), Arc::clone(&end));
        tokio::spawn(async move {
            let clock = Clock::system();
            RECORDER.record(client, &clock, end.notified()).await
        })
    });
    let mut recording = stream::iter(histories)
        .map(async |history| (history, record(stage, history).await))
        .buffer_unordered(arguments.side_by_side);
    while let Some((history, trace)) = recording.next().await {
        write_trace(&path_of(&arguments.out, history), &trace?)?;
    }
    drop(recording);
    let (Some(path), Some(whole)) = (&arguments.record, whole) else {
        return Ok(());
    };
    end.notify_one();
    let trace = whole.await.map_err(std::io::Error::other)??;
    write_trace(path, &trace)?;
    // A trace that the model does not support must not end the run: the histories would be lost.
    match differences(&trace).await {
        Ok(differences) => {
            for difference in &differences {
                println!("{difference}");
            }
            println!("{}: {} differences", path.display(), differences.len());
        }
        Err(error) => println!("{}: {error}", path.display()),
    }
    Ok(())
}

/// Runs each recorded history on the model, one at a time on each processor. Returns the histories
/// that differ.
async fn compare_all(
    arguments: &Arguments,
    histories: Vec<History>,
    summary: &mut Summary,
) -> Result<Vec<ComparedHistory>, Failure> {
    let mut comparing = stream::iter(histories)
        .map(async |history| {
            let trace = read(&arguments.out, &history)?;
            compare(history, trace).await
        })
        .buffered(processors());
    let mut differing = Vec::new();
    while let Some(compared) = comparing.next().await {
        let compared = compared?;
        if compared.differences.is_empty() {
            summary.count(&compared.history, Outcome::Agrees);
        } else {
            print(&compared);
            differing.push(compared);
        }
    }
    Ok(differing)
}

/// Returns what the traces in `folder` and the folders in it show about versions of Kueue.
async fn evidence(folder: &Path) -> Result<VersionEvidence, Failure> {
    let mut showing = stream::iter(traces(folder)?)
        .map(|path| tokio::task::spawn_blocking(move || evidence_of(&path)))
        .buffered(processors());
    let mut evidence = VersionEvidence::default();
    while let Some(shown) = showing.next().await {
        evidence.merge(shown.map_err(std::io::Error::other)??);
    }
    Ok(evidence)
}

fn evidence_of(path: &Path) -> Result<VersionEvidence, Failure> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    match VersionEvidence::of(&name, &Trace::read(path)?) {
        Err(ReplayError::NotModelled(_)) => Ok(VersionEvidence::default()),
        other => Ok(other?),
    }
}

/// Returns the files whose name ends in `.json`.
fn traces(folder: &Path) -> Result<Vec<PathBuf>, std::io::Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(traces(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

async fn compare(history: History, trace: Value) -> Result<ComparedHistory, Failure> {
    let differences = differences(&trace).await?;
    Ok(ComparedHistory {
        history,
        trace,
        differences,
    })
}

/// The number of histories that are recorded again at once, if not fewer: a Kueue with little to do
/// is not late.
const CALM: usize = 8;

/// Records each history that differs `again` times more. Returns the traces of each.
async fn record_again(
    arguments: &Arguments,
    stage: &Stage,
    differing: &[ComparedHistory],
) -> Result<Vec<Vec<Value>>, Failure> {
    let times = arguments.again;
    let all = differing
        .iter()
        .flat_map(|compared| (0..times).map(move |_| &compared.history));
    let traces: Vec<Value> = stream::iter(all)
        .map(|history| record(stage, history))
        .buffered(arguments.side_by_side.min(CALM))
        .try_collect()
        .await?;
    let mut traces = traces.into_iter();
    let of_history = |_| traces.by_ref().take(times).collect();
    Ok(differing.iter().map(of_history).collect())
}

/// Returns `Races` if the model agrees with any of the other recordings, else `Differs`.
async fn classify(
    arguments: &Arguments,
    compared: &ComparedHistory,
    others: &[Value],
) -> Result<Outcome, Failure> {
    let name = &compared.history.name;
    for trace in others {
        if !differences(trace).await?.is_empty() {
            continue;
        }
        println!("{name}: the real Kueue varies, and the model does one of its outcomes:");
        for difference in between(&compared.trace, trace)? {
            println!("  {difference}");
        }
        write(&arguments.out.join("races"), compared)?;
        let other = path_of(&arguments.out.join("races/other"), &compared.history);
        write_trace(&other, trace)?;
        return Ok(Outcome::Races);
    }
    for trace in others {
        let varies = between(&compared.trace, trace)?;
        if let Some(first) = varies.first() {
            println!("{name}: the real Kueue varies, and the model does none of its outcomes:");
            println!("  {first}");
            break;
        }
    }
    Ok(Outcome::Differs)
}

async fn shorten(
    arguments: &Arguments,
    stage: &Stage,
    compared: ComparedHistory,
) -> Result<(), Failure> {
    let ComparedHistory { history, trace, .. } = compared;
    let differs = async |trace: &Value| Ok(!differences(trace).await?.is_empty());
    let (history, trace) =
        minimise::minimise(stage, history, trace, arguments.side_by_side, differs).await?;
    let shortest = compare(history, trace).await?;
    println!("shortest:");
    print(&shortest);
    write(&arguments.out.join("minimal"), &shortest)
}

/// Writes the shortest history that shows each difference of `--shows`, found from the first one
/// that does, and prints the numbers of steps.
async fn shortest_that_show(
    arguments: &Arguments,
    stage: &Stage,
    histories: &[History],
) -> Result<(), Failure> {
    for field in &arguments.shows {
        let shows = async |trace: &Value| Ok(shows(trace, field).await?);
        let mut first = None;
        for history in histories {
            let trace = read(&arguments.out, history)?;
            if shows(&trace).await? {
                first = Some((history.clone(), trace));
                break;
            }
        }
        let Some((history, trace)) = first else {
            println!("{field}: no history shows it");
            continue;
        };
        let (name, steps) = (history.name.clone(), history.steps.len());
        let (shortest, trace) =
            minimise::minimise(stage, history, trace, arguments.side_by_side, shows).await?;
        println!("{field}: {name}, {} of {steps} steps", shortest.steps.len());
        let file = format!("minimal/{field}-{}.json", arguments.kueue);
        write_trace(&arguments.out.join(file), &trace)?;
    }
    Ok(())
}

fn print(compared: &ComparedHistory) {
    println!(
        "== {} ({} steps)",
        compared.history.name,
        compared.history.steps.len()
    );
    for difference in &compared.differences {
        println!("{difference}");
    }
}

fn write(folder: &Path, compared: &ComparedHistory) -> Result<(), Failure> {
    write_trace(&path_of(folder, &compared.history), &compared.trace)
}

fn path_of(folder: &Path, history: &History) -> PathBuf {
    folder.join(format!("{}.json", history.name))
}

fn read(folder: &Path, history: &History) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(path_of(folder, history))?;
    Ok(serde_json::from_str(&text).map_err(std::io::Error::other)?)
}

fn write_trace(path: &Path, trace: &Value) -> Result<(), Failure> {
    write_text(path, &to_text(trace))
}

fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|source| Failure::Write {
            path: path.to_owned(),
            source,
        })
}
