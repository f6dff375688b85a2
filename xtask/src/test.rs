//! The command `test`.

use std::time::{Duration, Instant};

use crate::tools::{REQUIRE, SKIP};
use crate::{Failure, docs, features, tools, try_example, workflows};

type Step = (&'static str, fn() -> Result<(), Failure>);

/// The steps of `test`, which require only crates.
const SHORT: [&str; 5] = ["format", "workflows", "lints", "documents", ON_SIMULATOR];

/// The step that repeats a part of [`ON_SIMULATOR`].
const SUITE_ON_SIMULATOR: &str = "the SDK's suite on the simulated API server";

/// The step that repeats a part of `tests`.
const ON_SIMULATOR: &str = "tests on the simulator";

/// The message about the steps that the short test omits.
const LEFT_OUT: &str = "left out: the real API server, single faults beyond a sample, the book, charts, templates, packages, licences (`cargo xtask test --rest`)";

/// The number of single faults of each scenario that the short test tries.
const SAMPLE: &str = "8";

/// The packages whose tests require more than the simulator. The renderer of templates is not among
/// them: without its dependencies, the dependencies of the others would have other features.
const NOT_SIMULATED: [&str; 5] = [
    "kueue-check-book",
    "kueue-check-chart-tests",
    "kueue-check-soak",
    "kueue-check-testenv",
    "kueue-check-twin",
];

/// The steps, fastest first, so that a mistake is reported early.
const STEPS: [Step; 14] = [
    ("format", || tools::cargo(&["fmt", "--all", "--check"], &[])),
    ("workflows", workflows::check),
    ("lints", || {
        tools::cargo(
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ],
            &[],
        )
    }),
    ("lints without features", || {
        tools::cargo(
            &[
                "clippy",
                "--package",
                "kueue-check",
                "--lib",
                "--no-default-features",
                "--",
                "-D",
                "warnings",
            ],
            &[],
        )
    }),
    ("documents", docs::build),
    (ON_SIMULATOR, simulated),
    ("dependencies", || {
        features::check(&NOT_SIMULATED)?;
        tools::deny()
    }),
    ("packages", tools::package),
    ("API server", servers),
    ("tests", || {
        // Tests wait for a server more than they compute.
        tools::cargo(
            &["test", "--workspace", "--all-features", "--no-fail-fast"],
            &[("RUST_TEST_THREADS", "4")],
        )
    }),
    (SUITE_ON_SIMULATOR, || {
        tools::cargo(
            &[
                "test",
                "--all-features",
                "--workspace",
                "--test",
                "it",
                "--",
                "real::",
            ],
            &[
                ("RUST_TEST_THREADS", "8"),
                ("KUEUE_CHECK_TEST_SERVER", "simulated"),
            ],
        )
    }),
    ("templates", tools::check_templates),
    ("book", book),
    ("example", example),
];

/// Runs the short steps, all with `--all`, those that the short test omits with `--rest`, or those
/// with these names. Stops at the first failure.
pub(crate) fn run(names: &[&str]) -> Result<(), Failure> {
    let short = names.is_empty();
    let mut all = STEPS.map(|(name, _)| name).to_vec();
    let names = match names {
        [] => &SHORT[..],
        ["--all"] => {
            all.retain(|name| *name != ON_SIMULATOR);
            &all
        }
        ["--rest"] => {
            all.retain(|name| !SHORT.contains(name) && *name != SUITE_ON_SIMULATOR);
            &all
        }
        names => names,
    };
    if let Some(unknown) = names
        .iter()
        .find(|name| STEPS.iter().all(|(known, _)| known != *name))
    {
        let known = STEPS.map(|(name, _)| name).join("`, `");
        return Err(format!("there is no step `{unknown}`: expected `{known}`"));
    }
    let mut took = Vec::new();
    for (name, step) in STEPS {
        if !names.contains(&name) {
            continue;
        }
        println!("==== {name}");
        #[expect(clippy::disallowed_methods, reason = "how long a person waits")]
        let began = Instant::now();
        step().map_err(|failure| format!("{name}: {failure}"))?;
        let time = began.elapsed();
        println!("==== {name}: {} s", time.as_secs());
        took.push((name, time));
    }
    println!("==== all passed");
    for (name, time) in &took {
        println!("{:>5}s  {name}", time.as_secs());
    }
    let whole: Duration = took.iter().map(|(_, time)| *time).sum();
    println!("{:>5}s  in all", whole.as_secs());
    if short {
        println!("{LEFT_OUT}");
    } else if !has_go() {
        println!("{SKIPPED}");
    }
    Ok(())
}

/// What runs beside the tests called `it`, and leaves it most of one processor: tests that make
/// requests to a server in real time mostly wait, those called `heap` have one thread, and so does
/// the compiler of documents.
const BESIDE: [&[&str]; 3] = [
    &["--test", "it", "--", "real::"],
    &["--lib", "--bins", "--examples", "--test", "heap"],
    &["--doc"],
];

/// Runs the tests of the SDK, the simulator and the shipped checks, without a real server.
fn simulated() -> Result<(), Failure> {
    let mut arguments = vec!["test", "--workspace", "--all-features", "--no-fail-fast"];
    arguments.extend(NOT_SIMULATED.iter().flat_map(|name| ["--exclude", name]));
    let environment = [
        (SKIP, "1"),
        ("KUEUE_CHECK_SAMPLE", SAMPLE),
        ("KUEUE_CHECK_SEARCH", "small"),
        ("KUEUE_CHECK_TEST_SERVER", "simulated"),
        ("RUST_TEST_THREADS", "8"),
    ];
    let with = |more: &[&'static str]| [&arguments, more].concat();
    tools::cargo(&with(&["--no-run"]), &environment)?;
    std::thread::scope(|scope| {
        let beside = BESIDE.map(|more| {
            let arguments = with(more);
            scope.spawn(move || tools::cargo_beside(&arguments, &environment))
        });
        let tests = with(&["--test", "it", "--", "--skip", "real::"]);
        let mut ended = tools::cargo(&tests, &environment);
        for thread in beside {
            let other = thread.join().map_err(|_| "a thread panicked".to_owned());
            ended = ended.and(other?);
        }
        ended
    })
}

const SKIPPED: &str = "SKIPPED: the suite on a real API server, the Helm chart, and the example: `go version` does not run, and Go builds the server (install Go 1.26)";

fn has_go() -> bool {
    tools::is_installed("go", "version")
}

fn servers() -> Result<(), Failure> {
    if has_go() {
        return tools::build_servers();
    }
    if std::env::var_os(REQUIRE).is_some() {
        return Err(format!("{REQUIRE} is set, but `go version` does not run"));
    }
    println!("{SKIPPED}");
    Ok(())
}

/// Builds the book if mdBook is available. The tests cover its programs, commands and links.
fn book() -> Result<(), Failure> {
    match tools::mdbook() {
        Ok(mdbook) => tools::book(&mdbook),
        Err(failure) if std::env::var_os(REQUIRE).is_some() => Err(failure),
        Err(failure) => {
            println!("SKIPPED: the book, because mdBook can't be installed from here: {failure}");
            Ok(())
        }
    }
}

fn example() -> Result<(), Failure> {
    if has_go() {
        try_example::once(&["--real"])
    } else {
        Ok(())
    }
}
