//! `budget-check`: a job starts only while its namespace has budget.

use clap::Parser;
use kueue_check_budget::command::{self, Own, OwnCommand};
use kueue_check_budget::controller::BudgetCheck;
use kueue_check_budget::source::Credentials;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if command::is_own(std::env::args().nth(1).as_deref()) {
        let text = match Own::parse().command {
            OwnCommand::Statement(arguments) => command::statement(&arguments).await?,
            #[cfg(feature = "demo")]
            OwnCommand::Demo(shown) => {
                // The simulation has a runtime of its own, whose time is virtual.
                let story = tokio::task::spawn_blocking(move || command::demo(&shown));
                story.await??;
                String::new()
            }
            OwnCommand::Quote(arguments) => command::quote(&arguments)?,
        };
        print!("{text}");
        return Ok(());
    }
    let check = BudgetCheck::new(Credentials::from_environment());
    let app = kueue_check::App::new()
        .name("budget-check")
        .version(env!("CARGO_PKG_VERSION"));
    Ok(app.check(check).main().await?)
}
