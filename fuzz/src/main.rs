//! The command `cargo xtask fuzz`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use kueue_check_fuzz::{Bound, Campaign, MemoryMeter, Report, TARGETS, Target, corpus, execution};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MEMORY: MemoryMeter = MemoryMeter {
    reset: || ALLOCATOR.reset_peak_usage(),
    peak: || ALLOCATOR.peak_usage(),
};
/// The stack size of a thread that reads foreign input, as tokio sets it.
const STACK: usize = 2 * 1024 * 1024;
/// The time after which the process ends because of one input.
const HANG: Duration = Duration::from_secs(60);

/// Runs the fuzz targets and writes their findings into fuzz/corpus.
#[derive(Parser)]
#[command(name = "cargo xtask fuzz")]
struct Arguments {
    /// The targets. Default: all.
    targets: Vec<String>,
    /// The seconds for which each target runs. Default: 10, unless `--executions` is given.
    #[arg(long, conflicts_with = "executions")]
    seconds: Option<u64>,
    /// The number of executions of each target. The same seed gives the same executions.
    #[arg(long)]
    executions: Option<u64>,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs the inputs in these files once, and nothing else.
    #[arg(long)]
    input: Vec<PathBuf>,
    /// Prints the targets.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for target in TARGETS {
            println!("{:<14} {}", target.name, target.about);
        }
        return ExitCode::SUCCESS;
    }
    let mut targets = Vec::new();
    for name in &arguments.targets {
        let Some(target) = TARGETS.iter().find(|target| target.name == *name) else {
            eprintln!("`{name}` is no target; --list prints them");
            return ExitCode::FAILURE;
        };
        targets.push(target);
    }
    if targets.is_empty() {
        targets.extend(TARGETS);
    }
    std::thread::spawn(watch);
    let thread = std::thread::Builder::new().stack_size(STACK);
    let run = thread.spawn(move || run(&arguments, &targets));
    match run.map(std::thread::JoinHandle::join) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false) | Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot start a thread: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends the process if an execution hangs. Its input is in the file that was printed.
fn watch() {
    let mut before = 0;
    loop {
        std::thread::park_timeout(HANG);
        let now = execution::STEPS.load(Ordering::Relaxed);
        if now % 2 == 1 && now == before {
            eprintln!("an execution takes longer than {HANG:?}; its input is in the file above");
            std::process::exit(2);
        }
        before = now;
    }
}

/// Returns true if nothing was found.
fn run(arguments: &Arguments, targets: &[&'static Target]) -> bool {
    if !arguments.input.is_empty() {
        return replay(arguments, targets);
    }
    let bound = match (arguments.executions, arguments.seconds) {
        (Some(executions), _) => Bound::Executions(executions),
        (None, seconds) => Bound::Time(Duration::from_secs(seconds.unwrap_or(10))),
    };
    let mut all = Report::default();
    println!("target           executions   per second   outcomes   found");
    for target in targets {
        let current = std::env::temp_dir().join(format!(
            "kueue-check-fuzz-{}-{}",
            target.name,
            std::process::id()
        ));
        let campaign = Campaign {
            target,
            seed: arguments.seed,
            bound,
            memory: Some(MEMORY),
            current: Some(current.clone()),
        };
        eprintln!("{}: what runs now is in {}", target.name, current.display());
        let report = campaign.run();
        let _ = std::fs::remove_file(current);
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                eprintln!("{}: {error}", target.name);
                return false;
            }
        };
        print(target.name, &report);
        for (failure, input) in report.found.values() {
            println!("  {}: {}", failure.place, failure.message);
            match corpus::add(target.name, input) {
                Ok(path) => println!("  {}", path.display()),
                Err(error) => println!("  cannot write it: {error}"),
            }
        }
        all.executions += report.executions;
        all.took += report.took;
        all.outcomes += report.outcomes;
        all.found.extend(report.found);
    }
    print("all", &all);
    all.found.is_empty()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people"
)]
fn print(name: &str, report: &Report) {
    let rate = report.executions as f64 / report.took.as_secs_f64().max(0.001);
    println!(
        "{name:<14} {:>12} {:>12} {:>10} {:>7}",
        report.executions,
        rate as u64,
        report.outcomes,
        report.found.len()
    );
}

/// Runs the inputs of files.
fn replay(arguments: &Arguments, targets: &[&'static Target]) -> bool {
    let mut passed = true;
    for path in &arguments.input {
        let input = match std::fs::read(path) {
            Ok(input) => input,
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                passed = false;
                continue;
            }
        };
        for target in targets {
            match execution::execute(target, &input, Some(MEMORY)) {
                Ok(outcome) => println!("{}: {}: outcome {outcome:x}", target.name, path.display()),
                Err(failure) => {
                    println!("{}: {}: {}", target.name, failure.place, failure.message);
                    passed = false;
                }
            }
        }
    }
    passed
}
