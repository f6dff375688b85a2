//! `estimate`: the estimated cost of a job, from files alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::Clock;
use kueue_check::api::Workload;
use serde_json::{Value, json};

use super::{CommandError, EstimateArguments};
use crate::config::BudgetConfig;
use crate::ledger::{BudgetLedger, Observation, run_of};
use crate::messages::MessageFormatter;
use crate::resource::Budget;

/// Returns the text to print.
///
/// # Errors
/// If a file can't be read or is invalid.
pub fn estimate(arguments: &EstimateArguments) -> Result<String, CommandError> {
    let budget: Budget = serde_json::from_value(read(&arguments.budget)?)
        .map_err(|error| CommandError::new("the Budget", error))?;
    let terms =
        BudgetConfig::of(&budget).map_err(|invalid| CommandError::new("the Budget", invalid))?;
    let object = reserved(read(&arguments.job)?, &arguments.flavor);
    let workload =
        Workload::from_json(object).map_err(|error| CommandError::new("the job", error))?;
    estimate_text(
        &Arc::new(terms),
        &workload,
        arguments,
        Clock::system().now(),
    )
}

fn estimate_text(
    terms: &Arc<BudgetConfig>,
    workload: &Workload,
    arguments: &EstimateArguments,
    now: Timestamp,
) -> Result<String, CommandError> {
    let run = run_of(workload, None, terms, ["check"].into_iter())
        .ok_or_else(|| CommandError::new("the job", "it has no pods"))?;
    let mut ledger = BudgetLedger::new(Arc::clone(terms));
    ledger.set_namespaces(BTreeMap::from([(
        workload.namespace().to_owned(),
        BTreeMap::new(),
    )]));
    ledger.set_own_limits(BTreeMap::new());
    ledger.watched_since(now);
    if let Some(period) = ledger.period(now) {
        let spent = BTreeMap::from([(Arc::from(workload.namespace()), arguments.spent)]);
        ledger.observe(
            &Observation {
                spent,
                ..Observation::of(period, now)
            },
            now,
        );
    }
    let decision = ledger.decide(&run, now);
    let verdict = MessageFormatter {
        terms,
        workload,
        run: &run,
    }
    .verdict(&decision);
    let word = match (verdict.is_ready(), verdict.is_rejected()) {
        (true, _) => "Ready",
        (_, true) => "Rejected",
        _ => "Pending",
    };
    Ok(format!(
        "{} {} an hour for {}{}: {} {}\n{word}: {}\n",
        run.estimate.rate.per_hour().cents(),
        terms.unit,
        run.estimate.time(),
        if run.estimate.bounded {
            ""
        } else {
            " (a guess: it has no maximumExecutionTimeSeconds)"
        },
        run.estimate.total().cents(),
        terms.unit,
        verdict.message()
    ))
}

fn read(path: &Path) -> Result<Value, CommandError> {
    let what = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| CommandError::new(&what, error))?;
    serde_saphyr::from_str(&text).map_err(|error| CommandError::new(&what, error))
}

/// Returns the Workload that Kueue would create for `job`, with `flavor` reserved for all requests.
fn reserved(job: Value, flavor: &str) -> Value {
    let mut spec = if job["kind"] == "Workload" {
        job["spec"].clone()
    } else {
        let label = &job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"];
        let seconds = label
            .as_str()
            .and_then(|seconds| seconds.parse::<u32>().ok());
        let count = job["spec"]["parallelism"].as_u64().unwrap_or(1);
        json!({"podSets": [{"name": "main", "count": count, "template": job["spec"]["template"]}], "maximumExecutionTimeSeconds": seconds})
    };
    let sets = spec["podSets"].as_array().cloned().unwrap_or_default();
    let base =
        json!({"metadata": {"namespace": "x", "name": "x", "uid": "x"}, "spec": spec.clone()});
    let requested = Workload::from_json(base).ok();
    let assignments = requested.iter().flat_map(Workload::pod_sets).map(|pods| {
        let usage = |resource: &str| (pods.requests(resource) * pods.count()).to_string();
        let names: Vec<String> = pods.resources().map(|resource| resource.name().to_owned()).collect();
        let flavors: BTreeMap<&String, &str> = names.iter().map(|name| (name, flavor)).collect();
        let used: BTreeMap<&String, String> = names.iter().map(|name| (name, usage(name))).collect();
        json!({"name": pods.name(), "count": pods.count(), "flavors": flavors, "resourceUsage": used})
    });
    let assignments: Vec<Value> = assignments.collect();
    spec["podSets"] = json!(sets);
    let metadata = &job["metadata"];
    json!({
        "metadata": {"namespace": metadata["namespace"].as_str().unwrap_or("default"), "name": metadata["name"].as_str().unwrap_or("job"), "uid": "estimate"},
        "spec": spec,
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {"clusterQueue": "estimate", "podSetAssignments": assignments},
            "admissionChecks": [{"name": "check", "state": "Pending"}],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(limit: &str) -> Arc<BudgetConfig> {
        let spec = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": limit},
            "prices": [{"flavor": "a100", "resources": {"nvidia.com/gpu": "2"}}], "estimate": {"safetyFactor": "1"}});
        Arc::new(BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap())
    }

    #[test]
    fn the_estimate_has_the_message_of_the_check() {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "vision", "labels": {"kueue.x-k8s.io/max-exec-time-seconds": "7200"}},
            "spec": {"parallelism": 4, "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]}}},
        });
        let workload = Workload::from_json(reserved(job, "a100")).unwrap();
        let now = "2026-11-21T09:00:00Z".parse().unwrap();
        for (limit, spent, expected) in [
            (
                "100",
                "0",
                "Ready: estimate 32.13 USD committed to namespace vision (100.00 USD per week); 67.86 left until Mon 23 Nov 00:00 UTC",
            ),
            (
                "100",
                "80",
                "Pending: needs about 32.13 USD, 20.00 is left of namespace vision's 100.00 USD",
            ),
            (
                "100",
                "101",
                "Pending: namespace vision has spent 101.00 of 100.00 USD this week; next reset Mon 23 Nov 00:00 UTC",
            ),
            (
                "10",
                "0",
                "Rejected: estimate 32.13 USD (8× nvidia.com/gpu a100 for 2h and 30s to terminate) is more than the whole limit of namespace vision (10.00 USD)",
            ),
        ] {
            let arguments = EstimateArguments {
                budget: "b".into(),
                job: "j".into(),
                flavor: "a100".to_owned(),
                spent: spent.parse().unwrap(),
            };
            let text = estimate_text(&terms(limit), &workload, &arguments, now).unwrap();
            assert!(
                text.starts_with("16.00 USD an hour for 2h and 30s to terminate: 32.13 USD\n")
                    && text.contains(expected),
                "{text}"
            );
        }
    }
}
