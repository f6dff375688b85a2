//! `balance`: balances of accounts, and the Workloads that hold them.

use std::collections::BTreeMap;
use std::fmt::Write;

use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use kueue_check::Family;
use kueue_check::api::{Uid, Workload};

use super::{BalanceArguments, CommandError};
use crate::config::BudgetConfig;
use crate::controller::{CONTROLLER, VERSIONS, resource};
use crate::ledger::{RunState, RunningPods, run_of};
use crate::resource::{AccountStatus, Budget, NamespaceBudget};

/// Returns the text to print.
///
/// # Errors
/// If the cluster can't be reached, or there is no such Budget.
pub async fn balance(arguments: &BalanceArguments) -> Result<String, CommandError> {
    let client = Client::try_default()
        .await
        .map_err(|error| CommandError::new("no cluster", error))?;
    let budgets: Api<Budget> = Api::all(client.clone());
    let budget = budgets
        .get(&arguments.budget)
        .await
        .map_err(|error| CommandError::new("the Budget", error))?;
    let budgets_checks = checks_of(&client, &arguments.budget).await?;
    let own: Api<NamespaceBudget> = Api::all(client.clone());
    let own = own
        .list(&ListParams::default())
        .await
        .map_err(|error| CommandError::new("the NamespaceBudgets", error))?;
    let list = list(&client, "Workload", "workloads").await?;
    let seen = list
        .iter()
        .filter_map(|object| Workload::from_json(serde_json::to_value(object).ok()?).ok());
    written(
        &budget,
        &own.items,
        &budgets_checks,
        &seen.collect::<Vec<_>>(),
        arguments.namespace.as_deref(),
    )
}

/// Lists all objects of a Kueue kind, in the newest version that the cluster serves.
async fn list(
    client: &Client,
    kind: &str,
    plural: &str,
) -> Result<Vec<DynamicObject>, CommandError> {
    let mut failed = None;
    for version in VERSIONS {
        let resource = resource(version, kind, plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match api.list(&ListParams::default()).await {
            Ok(list) => return Ok(list.items),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let why = failed.map_or_else(String::new, |error| error.to_string());
    Err(CommandError::new(&format!("the {plural}"), why))
}

/// Returns the AdmissionChecks that refer to the Budget.
async fn checks_of(client: &Client, budget: &str) -> Result<Vec<String>, CommandError> {
    let checks = list(client, "AdmissionCheck", "admissionchecks").await?;
    let ours = checks.iter().filter(|check| {
        let spec = &check.data["spec"];
        spec["controllerName"] == CONTROLLER && spec["parameters"]["name"] == budget
    });
    Ok(ours.map(ResourceExt::name_any).collect())
}

fn written(
    budget: &Budget,
    own: &[NamespaceBudget],
    checks: &[String],
    workloads: &[Workload],
    namespace: Option<&str>,
) -> Result<String, CommandError> {
    let terms =
        BudgetConfig::of(budget).map_err(|invalid| CommandError::new("the Budget", invalid))?;
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
            terms.schedule.unit_name(),
            period.start,
            period.end
        );
    }
    let _ = writeln!(
        text,
        "\n{:<24} {:>12} {:>12} {:>12} {:>12} {:>5}",
        "ACCOUNT", "LIMIT", "SPENT", "COMMITTED", "REMAINING", "HELD"
    );
    let shown = |account: &&AccountStatus| {
        namespace.is_none_or(|namespace| account.name == namespace || account.pool)
    };
    let mut named = Vec::new();
    for account in status.accounts.iter().filter(shown) {
        named.push(account.name.as_str());
        let _ = writeln!(text, "{}", line(account));
    }
    // Accounts that the Budget's status omits are only in the status of their NamespaceBudget.
    let own = own
        .iter()
        .filter(|object| object.spec.budget_ref == budget.name_any());
    let own = own.filter_map(|object| object.status.as_ref()?.account.as_ref());
    for account in own.filter(shown) {
        if !named.contains(&account.name.as_str()) {
            named.push(account.name.as_str());
            let _ = writeln!(text, "{}", line(account));
        }
    }
    if let Some(namespace) = namespace.filter(|namespace| !named.contains(namespace)) {
        let _ = writeln!(
            text,
            "{namespace:<24} nothing is committed, and at most half of the limit is used"
        );
    }
    let _ = writeln!(
        text,
        "\n{:<40} {:>12} {:>10}  STATE",
        "WORKLOAD", "ESTIMATE", "AN HOUR"
    );
    let mut jobs: BTreeMap<&Uid, Vec<&Workload>> = BTreeMap::new();
    for workload in workloads {
        jobs.entry(workload.family_key())
            .or_default()
            .push(workload);
    }
    for workload in workloads {
        if namespace.is_some_and(|namespace| workload.namespace() != namespace) {
            continue;
        }
        let of_job = jobs.get(workload.family_key()).into_iter().flatten();
        let family = Family::of(workload, of_job.copied());
        let checks = checks.iter().map(String::as_str);
        let Some(run) = run_of(workload, Some(&family), &terms, checks) else {
            continue;
        };
        let state = match (run.state, run.grows) {
            (RunState::Evaluated, Some(RunningPods::Known(pods))) => {
                &format!("waits to grow; {pods} pods run; the estimate is of all")
            }
            (RunState::Evaluated, Some(RunningPods::Unknown)) => "waits to grow",
            (RunState::Evaluated, None) => "waits",
            (RunState::Approved(_), _) => "may start",
            (RunState::Running(_), _) if run.replaced => "runs until its growth starts",
            (RunState::Running(_), _) => "runs",
        };
        let _ = writeln!(
            text,
            "{:<40} {:>12} {:>10}  {state}",
            workload.to_string(),
            run.estimate.total().cents(),
            run.estimate.rate.per_hour().cents()
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
        account.remaining.cents_down(),
        account.held
    )
}
