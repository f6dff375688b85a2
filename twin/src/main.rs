//! Random histories, played on a real Kueue and on the model, and compared.

mod bodies;
mod compare;
mod generate;
mod history;
mod minimise;
mod random;
mod record;
mod stage;
mod summary;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use futures::{StreamExt, stream};
use kueue_check::Clock;
use kueue_check_sim_cli::record::{RecordError, Recorder};
use kueue_check_sim_cli::replay::{Difference, ReplayError, to_text};
use kueue_check_testenv::Kueue;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::compare::{between, differences};
use self::generate::Scope;
use self::history::History;
use self::record::record;
use self::stage::{Stage, StageError};
use self::summary::{Outcome, Summary};

/// Plays random histories on a real Kueue and on the model, and prints where they differ.
#[derive(Parser)]
#[command(name = "cargo xtask twin")]
struct Arguments {
    /// Which release of Kueue, from 0.15.0 on: 0.14 does not serve the API's version `v1beta2`.
    #[arg(long, value_name = "VERSION", default_value_t = Kueue::version())]
    kueue: String,
    /// How many histories.
    #[arg(long, default_value_t = 50)]
    histories: u64,
    /// Where random numbers begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first history.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only the histories of these numbers, such as `12,40`.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["first", "histories"])]
    only: Vec<u64>,
    /// How many histories are played at once.
    #[arg(long, default_value_t = 16)]
    side_by_side: usize,
    /// In how many of 100 histories the ClusterQueues are in cohorts.
    #[arg(long, default_value_t = 40)]
    cohorts: usize,
    /// How many of 100 histories have more of something that is rare.
    #[arg(long, default_value_t = 70)]
    rare: usize,
    /// How often a history that differs is played again, to see whether the real Kueue varies.
    #[arg(long, default_value_t = 5)]
    again: usize,
    /// Searches the shortest history that still differs.
    #[arg(long)]
    minimise: bool,
    /// Where traces are written.
    #[arg(long, default_value = "target/twin")]
    out: PathBuf,
    /// Also records all histories as one trace there, as `kueue-check-sim record` does it on a
    /// cluster of which it sees nothing but the objects.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Of the whole run: until it is over.
const RECORDER: Recorder = Recorder {
    seconds: u64::MAX / 1_000_000,
    limit: usize::MAX,
    kueue: None,
    requests: NonZeroU32::MAX,
};

/// Why the comparison could not be made.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The real one.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The model.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The recording of the whole run.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The same.
    #[error("the recording has ended: {0}")]
    Recording(#[from] std::io::Error),
    /// A trace could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A history that was played on both.
struct Played {
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

async fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let stage = Stage::start(&arguments.kueue).await?;
    let scope = Scope {
        cohorts: arguments.cohorts,
        rare: arguments.rare,
    };
    let began = Instant::now();
    let mut numbers = arguments.only.clone();
    if numbers.is_empty() {
        numbers.extend(arguments.first..arguments.first + arguments.histories);
    }
    let histories = numbers
        .into_iter()
        .map(|number| generate::history(arguments.seed, number, scope));
    let end = Arc::new(Notify::new());
    let recording = arguments.record.as_ref().map(|_| {
        let (client, end) = (stage.client(), Arc::clone(&end));
        tokio::spawn(async move {
            let clock = Clock::system();
            RECORDER.record(client, &clock, end.notified()).await
        })
    });
    let mut playing = stream::iter(histories)
        .map(|history| play(&stage, history))
        .buffer_unordered(arguments.side_by_side);
    let (mut summary, mut differing) = (Summary::default(), Vec::new());
    while let Some(played) = playing.next().await {
        let played = played?;
        write(&arguments.out, &played)?;
        if played.differences.is_empty() {
            summary.count(&played.history, Outcome::Agrees);
        } else {
            print(&played);
            differing.push(played);
        }
    }
    drop(playing);
    let took = began.elapsed();
    if let (Some(path), Some(recording)) = (&arguments.record, recording) {
        end.notify_one();
        let trace = recording.await.map_err(std::io::Error::other)??;
        write_trace(path, &trace)?;
        // That it is about what the model does not have is no reason to lose the histories.
        match differences(&trace).await {
            Ok(differences) => {
                for difference in &differences {
                    println!("{difference}");
                }
                println!("{}: {} differences", path.display(), differences.len());
            }
            Err(error) => println!("{}: {error}", path.display()),
        }
    }
    let at_once = (arguments.side_by_side / arguments.again.max(1)).max(1);
    let mut judging = stream::iter(differing)
        .map(async |played| {
            let outcome = judge(arguments, &stage, &played).await;
            outcome.map(|outcome| (played, outcome))
        })
        .buffer_unordered(at_once);
    while let Some(judged) = judging.next().await {
        let (played, outcome) = judged?;
        summary.count(&played.history, outcome);
        if outcome == Outcome::Differs && arguments.minimise {
            shorten(arguments, &stage, played).await?;
        }
    }
    println!("{}", summary.table(&arguments.kueue, arguments.seed, took));
    Ok(summary.unexplained() == 0)
}

/// Whether a difference is a race of the real Kueue: the history is played again on it, and every
/// outcome is allowed.
async fn judge(arguments: &Arguments, stage: &Stage, played: &Played) -> Result<Outcome, Failure> {
    let name = &played.history.name;
    let others = again(stage, &played.history, arguments.again).await?;
    let allowed = others.iter().find(|other| other.differences.is_empty());
    if let Some(other) = allowed {
        println!("{name}: the real Kueue varies, and the model does one of its outcomes:");
        for difference in between(&played.trace, &other.trace)? {
            println!("  {difference}");
        }
        write(&arguments.out.join("races"), played)?;
        write(&arguments.out.join("races/other"), other)?;
        return Ok(Outcome::Races);
    }
    for other in &others {
        let varies = between(&played.trace, &other.trace)?;
        if let Some(first) = varies.first() {
            println!("{name}: the real Kueue varies, and the model does none of its outcomes:");
            println!("  {first}");
            break;
        }
    }
    Ok(Outcome::Differs)
}

async fn play(stage: &Stage, history: History) -> Result<Played, Failure> {
    let trace = record(stage, &history).await?;
    let differences = differences(&trace).await?;
    Ok(Played {
        history,
        trace,
        differences,
    })
}

/// The history, played so many times more.
async fn again(stage: &Stage, history: &History, times: usize) -> Result<Vec<Played>, Failure> {
    let plays = (0..times).map(|_| play(stage, history.clone()));
    futures::future::try_join_all(plays).await
}

async fn shorten(arguments: &Arguments, stage: &Stage, played: Played) -> Result<(), Failure> {
    let Played { history, trace, .. } = played;
    let (history, trace) =
        minimise::minimise(stage, history, trace, arguments.side_by_side).await?;
    let differences = differences(&trace).await?;
    let shortest = Played {
        history,
        trace,
        differences,
    };
    println!("shortest:");
    print(&shortest);
    write(&arguments.out.join("minimal"), &shortest)
}

fn print(played: &Played) {
    println!(
        "== {} ({} steps)",
        played.history.name,
        played.history.steps.len()
    );
    for difference in &played.differences {
        println!("{difference}");
    }
}

fn write(folder: &Path, played: &Played) -> Result<(), Failure> {
    let path = folder.join(format!("{}.json", played.history.name));
    write_trace(&path, &played.trace)
}

fn write_trace(path: &Path, trace: &Value) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, to_text(trace)))
        .map_err(|source| Failure::Write {
            path: path.to_owned(),
            source,
        })
}
