//! xtask commands. This crate has no dependencies, so a fresh clone can run it at once.

mod chart;
mod docs;
mod features;
mod image;
mod mutants;
mod release;
mod test;
mod tools;
mod try_example;
mod workflows;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  try [EXAMPLE] [--once] [--real | --kueue]
                          run an example (maintenance_window, licences) on a simulated cluster with sample objects and print
                          its verdicts; edit examples/EXAMPLE.yaml meanwhile to see others; --once stops when each job has one;
                          --real: on kube-apiserver and etcd, --kueue: with a real Kueue too (both are built with Go, once)
  test [STEP … | --all | --rest]
                          format, pins of workflows, lints, documents, and the tests on the simulator with a sample of every single fault; it needs
                          nothing but crates; --all: all that must pass, also on a real API server; --rest: what it omits;
                          or these steps
  book                    write what is generated in the book, and build it into target/book
  kueue [--kueue VERSION] [PART]
                          the shipped checks beside a real Kueue, which is built first (10 minutes): the pinned one, or another
                          VERSION such as 0.18.3; PART: only tests whose names begin with it, such as families; not part of `test`
  twin [--kueue VERSION] [--histories N] [--seed S] [--rare PERCENT] [--minimise] [--shows FIELD]
                          random histories on a real Kueue (from 0.15.0 on) and on the model, compared; --help has more; not part of `test`
  twin --versions FOLDER
                          write into the book, for each difference between versions of Kueue, how many of the histories in FOLDER
                          the model reproduces only with the behavior of their version; no Kueue is needed
  twin --mutants [FOLDER [PART]]
                          change the model as in twin/mutants.txt (those whose name contains PART), and show how many recorded
                          histories each change needs to be found: those of FOLDER, such as target/twin after a run, or those of
                          the tests, whose table is written into the book; no Kueue is needed
  fuzz [TARGET …] [--seconds N | --executions N] [--seed S] [--input FILE] [--list]
                          random inputs for what reads foreign bytes: 10 s for each target; what is found goes into fuzz/corpus,
                          where `test` runs it; --input: run a file's input once
  soak [--minutes N] [--seed S] [--kueue]
                          budget-check and provisioning-check, two replicas each, beside a real API server for N minutes (default: 30)
                          under random jobs, faults and kills, and a table of what came of it; --help has more; not part of `test`
  tutorials               the book's tutorials in an empty folder, by their own commands; not part of `test`
  release [REVISION]      what must pass before a release: packages that build, and no broken promise since REVISION (default: the last tag v*)
  image [PROGRAM …]       build the image's file system of the shipped checks (or of these) as the Dockerfile does: static, with the list of
                          crates; and run each in it as its user; minutes; not part of `test`
  mutants [PART]          change the runtime's code as in src/interleavings/mutants.txt (those whose name contains PART),
                          and show what finds each change, and for findings the search's shortest way; an hour; not part of `test`
  bench [--small] [--peer] [--rules]
                          figures: verdicts beside bare writes, CPU for a verdict, memory beside Workloads without quota;
                          --small takes small Workloads; --peer adds the same check on controller-runtime, which
                          needs Go; --rules adds rule-check
  chart                   write into the values of charts/kueue-check what the shipped checks say of themselves
  crds [FOLDER]           make sim/kueue-model/crds from the originals in FOLDER (default: ../shared/crds)
";

/// The reason why a command failed. The failed tool has printed more.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["try", arguments @ ..] => try_example::run(arguments),
        ["test", steps @ ..] => test::run(steps),
        ["book"] => tools::write_book().and_then(|()| tools::book(&tools::mdbook()?)),
        ["kueue", arguments @ ..] => tools::with_kueue(arguments),
        ["twin", "--versions", folder] => tools::versions(folder),
        ["twin", "--mutants"] => mutants::write_of_model(),
        ["twin", "--mutants", folder] => mutants::of_model(Path::new(folder), "").map(drop),
        ["twin", "--mutants", folder, part] => mutants::of_model(Path::new(folder), part).map(drop),
        ["twin", flags @ ..] => tools::twin(flags),
        ["fuzz", flags @ ..] => tools::fuzz(flags),
        ["soak", flags @ ..] => tools::soak(flags),
        ["tutorials"] => tools::tutorials(),
        ["release"] => release::check(None),
        ["release", revision] => release::check(Some(revision)),
        ["mutants"] => mutants::run(""),
        ["mutants", part] => mutants::run(part),
        ["bench", flags @ ..] => tools::bench(flags),
        ["image", programs @ ..] => image::check(programs),
        ["chart"] => chart::update(),
        ["crds"] => tools::crds(&root().join("../shared/crds")),
        ["crds", folder] => tools::crds(Path::new(folder)),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("`{}` is no command\n\n{HELP}", words.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
