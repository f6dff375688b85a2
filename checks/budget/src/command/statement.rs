//! `statement`: balances, and who holds what.

use std::fmt::Write;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use kueue_check::api::Workload;

use super::{Failed, StatementArguments};
use crate::ledger::{RunState, run_of};
use crate::resource::{AccountStatus, Budget};
use crate::terms::Terms;

/// What is printed.
///
/// # Errors
/// If the cluster can't be reached, or there is no such Budget.
pub async fn statement(arguments: &StatementArguments) -> Result<String, Failed> {
    let client = Client::try_default()
        .await
        .map_err(|error| Failed::new("no cluster", error))?;
    let budgets: Api<Budget> = Api::all(client.clone());
    let budget = budgets
        .get(&arguments.budget)
        .await
        .map_err(|error| Failed::new("the Budget", error))?;
    let resource = ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        api_version: "kueue.x-k8s.io/v1beta2".to_owned(),
        kind: "Workload".to_owned(),
        plural: "workloads".to_owned(),
    };
    let workloads: Api<DynamicObject> = match &arguments.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let list = workloads
        .list(&ListParams::default())
        .await
        .map_err(|error| Failed::new("the Workloads", error))?;
    let seen = list
        .items
        .iter()
        .filter_map(|object| Workload::from_json(serde_json::to_value(object).ok()?).ok());
    written(
        &budget,
        &seen.collect::<Vec<_>>(),
        arguments.namespace.as_deref(),
    )
}

fn written(
    budget: &Budget,
    workloads: &[Workload],
    namespace: Option<&str>,
) -> Result<String, Failed> {
    let terms = Terms::of(budget).map_err(|invalid| Failed::new("the Budget", invalid))?;
    let status = budget.status.clone().unwrap_or_default();
    let mut text = format!(
        "Budget {} ({}), as of {}\n",
        budget.name_any(),
        terms.unit,
        status.as_of.as_deref().unwrap_or("never")
    );
    if let Some(period) = &status.period {
        let _ = writeln!(
            text,
            "{} from {} to {}",
            terms.schedule.word(),
            period.start,
            period.end
        );
    }
    let _ = writeln!(
        text,
        "\n{:<24} {:>12} {:>12} {:>12} {:>12} {:>5}",
        "ACCOUNT", "LIMIT", "SPENT", "COMMITTED", "REMAINING", "HELD"
    );
    for account in status.accounts.iter().filter(|account| {
        namespace.is_none_or(|namespace| account.name == namespace || account.pool)
    }) {
        let _ = writeln!(text, "{}", line(account));
    }
    let _ = writeln!(
        text,
        "\n{:<40} {:>12} {:>10}  STATE",
        "WORKLOAD", "ESTIMATE", "AN HOUR"
    );
    for workload in workloads {
        // Whatever check of it is this Budget's, its state is shown.
        let names: Vec<&str> = workload
            .checks()
            .iter()
            .map(kueue_check::api::CheckEntry::name)
            .collect();
        let Some(run) = run_of(workload, &terms, names.into_iter()) else {
            continue;
        };
        let state = match run.state {
            RunState::Asking => "waits",
            RunState::Approved(_) => "may start",
            RunState::Running(_) => "runs",
        };
        let _ = writeln!(
            text,
            "{:<40} {:>12} {:>10}  {state}",
            workload.to_string(),
            run.quote.total().cents(),
            run.quote.rate.per_hour().cents()
        );
    }
    Ok(text)
}

fn line(account: &AccountStatus) -> String {
    let committed =
        account.committed.running + account.committed.reserved + account.committed.settling;
    format!(
        "{:<24} {:>12} {:>12} {:>12} {:>12} {:>5}",
        account.name,
        account.limit.cents(),
        account.spent.cents(),
        committed.cents(),
        account.remaining.cents(),
        account.held
    )
}
