//! The book's program. Under its own name it writes the generated files. Under the name of another
//! program it runs as that program, so one binary runs all programs of the book.
//!
//! ```console
//! $ book write          # book/src/pictures and book/src/reference/generated
//! $ book programs       # the names by which it can be called
//! ```

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser, Subcommand};
use kueue_check::App;
use kueue_check_book::tutorials::{
    composing, first_check, licence_server, metrics_budget, parameters,
};
use kueue_check_book::{generated, repository};
use kueue_check_budget::command::{self, BudgetCommand};
use kueue_check_budget::controller::BudgetCheck;
use kueue_check_budget::source::Credentials;
use kueue_check_provisioning::{CONTROLLER_NAME, ProvisioningCheck};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// A program and its name.
type Program = (&'static str, fn() -> Result);

const PROGRAMS: [Program; 7] = [
    ("window", || Ok(first_check::program()?)),
    ("window-with-policy", || Ok(parameters::program()?)),
    ("licences", || Ok(licence_server::program()?)),
    ("small-budget", || Ok(metrics_budget::program()?)),
    ("scratch", || Ok(composing::program()?)),
    ("provisioning-check", provisioning),
    ("budget-check", budget),
];

fn main() -> Result {
    let mut arguments = std::env::args_os();
    let called = PathBuf::from(arguments.next().unwrap_or_default());
    let name = called.file_stem().and_then(OsStr::to_str).unwrap_or("book");
    if let Some((_, program)) = PROGRAMS.iter().find(|(known, _)| *known == name) {
        return program();
    }
    match arguments.next().as_ref().and_then(|word| word.to_str()) {
        Some("write") => write(),
        Some("programs") => {
            for (name, _) in PROGRAMS {
                println!("{name}");
            }
            Ok(())
        }
        _ => Err("usage: book write | book programs".into()),
    }
}

/// Writes the generated files that differ from those on disk.
fn write() -> Result {
    let folder = repository().join("book/src");
    for (file, text) in generated(&std::env::current_exe()?) {
        let path: &Path = &folder.join(&file);
        if std::fs::read_to_string(path).is_ok_and(|current| current == text) {
            continue;
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
        println!("wrote {file}");
    }
    Ok(())
}

#[tokio::main]
async fn provisioning() -> Result {
    let name = const { kueue_check::ControllerName::from_static(CONTROLLER_NAME) };
    let make = move |client| ProvisioningCheck::new(client, name.clone());
    let app = App::new().name("provisioning-check").check_on(make);
    Ok(app.main().await?)
}

#[tokio::main]
async fn budget() -> Result {
    match Budget::parse().command {
        BudgetProgram::Own(BudgetCommand::Estimate(arguments)) => {
            print!("{}", command::estimate(&arguments)?);
            Ok(())
        }
        BudgetProgram::Own(_) => Err("the book shows only `estimate`".into()),
        BudgetProgram::Check(command) => {
            let app = App::new()
                .name("budget-check")
                .command_line(Budget::command());
            let check = BudgetCheck::new(Credentials::from_environment()?);
            Ok(app.check(check).execute(command).await?)
        }
    }
}

/// The command line of `budget-check`.
#[derive(Parser)]
#[command(name = "budget-check", version, arg_required_else_help = true)]
struct Budget {
    #[command(subcommand)]
    command: BudgetProgram,
}

#[derive(Subcommand)]
enum BudgetProgram {
    #[command(flatten)]
    Check(kueue_check::cli::Command),
    #[command(flatten)]
    Own(BudgetCommand),
}
