//! The command line of the simulator.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use futures::{FutureExt, StreamExt, stream};
use kueue_check::Clock;
use kueue_check_sim::apiserver::CompiledDefinitions;
use kueue_check_sim::explore::Progress;
use kueue_check_sim::scenarios::{self, Scenario};
use kueue_check_sim::{Exploration, definitions};
use kueue_check_sim_cli::demo::Demo;
use kueue_check_sim_cli::record::{RecordError, Recorder};
use kueue_check_sim_cli::replay;
use tokio::task::spawn_blocking;

/// A third of what simulated clusters do is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A simulated cluster for Kueue admission checks.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replays recorded traces on the model and prints the differences.
    Replay {
        /// A directory of CustomResourceDefinitions; may be given more than once. Replaces those of
        /// Kueue 0.19.2 and of the autoscaler.
        #[arg(long)]
        crds: Vec<PathBuf>,
        /// Stops after the first trace that differs.
        #[arg(long)]
        first: bool,
        /// Trace files, or directories of trace files.
        #[arg(required = true)]
        traces: Vec<PathBuf>,
    },
    /// Records a cluster as a trace with pseudonyms; lists and watches only.
    Record {
        #[command(flatten)]
        recorder: Recorder,
        /// The file of the trace.
        #[arg(long, value_name = "FILE", default_value = "trace.json")]
        out: PathBuf,
    },
    /// Runs a scenario with each single fault at each injection point. Prints the failed runs and
    /// how to reproduce them.
    Explore {
        /// The scenario; without one, all are run. `list` lists them.
        scenario: Option<String>,
        /// The seed of the random numbers.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Instead of each single fault, this number of runs with two to four random faults.
        #[arg(long, value_name = "RUNS", conflicts_with = "pairs")]
        random: Option<usize>,
        /// Instead of each single fault, each pair of them.
        #[arg(long)]
        pairs: bool,
        /// The maximum number of pairs, chosen by the seed; without it, all are tried.
        #[arg(long, value_name = "RUNS", requires = "pairs")]
        limit: Option<usize>,
        /// The file of a page with the timeline of the first failed run.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Runs a scenario, and keeps its cluster running on a port for kubectl.
    Serve {
        /// The scenario.
        #[arg(default_value = "approve")]
        scenario: String,
        #[command(flatten)]
        demo: Demo,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Replay {
            crds,
            first,
            traces,
        } => replay_all(&crds, &traces, first),
        Command::Record { recorder, out } => match record(&recorder, &out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::FAILURE
            }
        },
        Command::Explore {
            scenario: Some(name),
            ..
        } if name == "list" => list(),
        Command::Explore {
            scenario,
            seed,
            random,
            pairs,
            limit,
            html,
        } => {
            let how = match random {
                Some(runs) => How::Random(runs),
                None if pairs => How::Pairs(limit.unwrap_or(usize::MAX)),
                None => How::Single,
            };
            explore(scenario.as_deref(), seed, how, html.as_deref())
        }
        Command::Serve { scenario, demo } => serve(&scenario, demo),
    }
}

fn list() -> ExitCode {
    for scenario in scenarios::all() {
        println!("{:<15} {}", scenario.name, scenario.about);
    }
    ExitCode::SUCCESS
}

fn unknown(name: &str) -> ExitCode {
    eprintln!("there is no scenario `{name}`; `explore list` lists them");
    ExitCode::from(2)
}

/// The faults of an exploration.
#[derive(Clone, Copy)]
enum How {
    Single,
    Random(usize),
    Pairs(usize),
}

/// Prints progress to standard error, every hundred runs and at the end.
fn progress(name: &str) -> impl FnMut(Progress) {
    move |Progress { done, of, failed }| {
        if done.is_multiple_of(100) || done == of {
            eprintln!("{name:<15} {done} of {of} runs, {failed} failed");
        }
    }
}

fn explore(name: Option<&str>, seed: u64, how: How, html: Option<&Path>) -> ExitCode {
    let all = match name {
        None => scenarios::all(),
        Some(name) => match Scenario::named(name) {
            Some(scenario) => vec![scenario],
            None => return unknown(name),
        },
    };
    let mut failed = 0;
    for scenario in all {
        let (simulation, steps) = (scenario.simulation().seed(seed), scenario.steps());
        let explored: Exploration = match how {
            How::Single => simulation.explore(steps),
            How::Random(runs) => simulation.explore_at_random(runs, steps),
            How::Pairs(limit) => simulation.explore_pairs(limit, progress(scenario.name), steps),
        };
        println!("{:<15} {explored}", scenario.name);
        for run in &explored.failed {
            println!("\n{run}");
        }
        if let (Some(path), Some(run)) = (html, explored.failed.first())
            && let Err(error) = std::fs::write(path, run.timeline().html(scenario.name))
        {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
        failed += explored.failed.len();
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn serve(name: &str, mut demo: Demo) -> ExitCode {
    let Some(scenario) = Scenario::named(name) else {
        return unknown(name);
    };
    demo.serve.get_or_insert(0);
    match demo.run_scenario(&scenario) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// An error of `record`.
#[derive(Debug, thiserror::Error)]
enum RecordFailure {
    /// The recording failed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The runtime or the file failed.
    #[error("{what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
}

fn record(recorder: &Recorder, out: &Path) -> Result<(), RecordFailure> {
    let io = |what: &str| {
        let what = what.to_owned();
        |source| RecordFailure::Io { what, source }
    };
    let file = out.display().to_string();
    // Fails before the recording if the file cannot be written. An earlier trace is kept until then.
    let mut options = std::fs::OpenOptions::new();
    let writable = options.create(true).write(true).truncate(false);
    drop(writable.open(out).map_err(io(&file))?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io("the runtime"))?;
    let seconds = recorder.seconds;
    let trace = runtime.block_on(async {
        let client = recorder.client().await?;
        eprintln!("recording for {seconds} s, or until Ctrl-C");
        let interrupt = async { drop(tokio::signal::ctrl_c().await) };
        recorder.record(client, &Clock::system(), interrupt).await
    })?;
    let steps = trace["steps"].as_array().map_or(0, Vec::len);
    let objects = trace["objects"].as_array().map_or(0, Vec::len);
    std::fs::write(out, replay::to_text(&trace)).map_err(io(&file))?;
    println!("{file}: {objects} initial objects, {steps} requests");
    println!("to play it: kueue-check-sim replay {file}");
    Ok(())
}

fn replay_all(crds: &[PathBuf], traces: &[PathBuf], first: bool) -> ExitCode {
    let mut all = Vec::new();
    for directory in crds {
        match definitions::read(directory) {
            Ok(found) => all.extend(found),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let kinds = (!all.is_empty()).then(|| CompiledDefinitions::new(all));
    let traces: Vec<PathBuf> = traces.iter().flat_map(|path| files(path)).collect();
    if traces.is_empty() {
        eprintln!("no trace was found: a directory has none with the extension .json");
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(std::thread::available_parallelism().map_or(1, NonZero::get))
        .build();
    match runtime.map(|runtime| runtime.block_on(replay_each(traces, kinds, first))) {
        Ok((equal, played)) => {
            println!("{equal} of {played} traces reproduced");
            if equal == played {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The maximum number of traces that are replayed before an earlier one is finished.
const AHEAD: usize = 64;

/// Replays the traces, one at a time on each processor, and prints the differences in the order of
/// the traces. With `first`, stops at the first trace that differs. Returns the numbers of equal
/// and of played traces.
async fn replay_each(
    traces: Vec<PathBuf>,
    kinds: Option<CompiledDefinitions>,
    first: bool,
) -> (usize, usize) {
    let mut replays = stream::iter(traces)
        .map(|trace| {
            let kinds = kinds.clone();
            let path = trace.clone();
            let replay = spawn_blocking(move || replay::run(&path, kinds.as_ref()));
            replay.map(|replayed| (trace, replayed))
        })
        .buffered(AHEAD);
    let (mut equal, mut played) = (0, 0);
    while let Some((trace, replayed)) = replays.next().await {
        played += 1;
        match replayed {
            // The panic has already printed its message.
            Err(error) => println!("== {}\nthe replay ended early: {error}", trace.display()),
            Ok(Ok(differences)) if differences.is_empty() => equal += 1,
            Ok(Ok(differences)) => {
                println!("== {}", trace.display());
                for difference in differences {
                    println!("{difference}");
                }
            }
            Ok(Err(error)) => println!("== {}\n{error}", trace.display()),
        }
        if first && equal < played {
            break;
        }
    }
    (equal, played)
}

/// Returns a file itself, or the `.json` files of a directory, by name.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_trace = |path: &PathBuf| path.extension().is_some_and(|e| e == "json");
    let mut found: Vec<PathBuf> = paths.filter(is_trace).collect();
    found.sort();
    found
}
