//! `budget-check`: a job starts only while its namespace has budget.

use kueue_check_budget::controller::BudgetCheck;
use kueue_check_budget::source::Credentials;

#[tokio::main]
async fn main() -> kueue_check::Result<()> {
    let check = BudgetCheck::new(Credentials::from_environment());
    kueue_check::App::new()
        .name("budget-check")
        .version(env!("CARGO_PKG_VERSION"))
        .check(check)
        .main()
        .await
}
