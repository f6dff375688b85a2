//! Conditions of a Budget.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::shared::SourceResult;
use crate::ledger::{AccountIndex, Awaited, Balance, BudgetLedger, HoldReason};
use crate::source::SourceWarning;

/// The seconds that a job must have run before missing spend is reported.
const UNMATCHED: i64 = 900;

/// One condition, without its times.
struct Observation {
    kind: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

/// Returns the conditions of the Budget of `ledger`, with the times of `before` where the status is
/// the same.
pub(super) fn conditions(
    ledger: &BudgetLedger,
    source_result: Option<&SourceResult>,
    index: &AccountIndex<'_>,
    balances: &[Balance],
    before: &[Condition],
    now: Timestamp,
) -> Vec<Condition> {
    let unpriced = ledger.unpriced().next();
    let names = |matches: &dyn Fn(&Balance) -> bool| {
        let all: Vec<String> = balances
            .iter()
            .filter(|balance| matches(balance))
            .take(10)
            .map(|balance| balance.account.to_string())
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    let exhausted = names(&|balance| {
        index
            .held(&balance.account)
            .1
            .is_some_and(|smallest| smallest > balance.remaining())
    });
    let overspent = names(&|balance| balance.overspent().is_some());
    let (limits, fresh) = (limits_known(ledger), is_fresh(ledger, source_result, now));
    let observation = |kind, status, reason, message: Option<String>| Observation {
        kind,
        status,
        reason,
        message: message.unwrap_or_default(),
    };
    let all = [
        observation(
            "Ready",
            limits.status && fresh.status,
            match (limits.status, fresh.status) {
                (false, _) => limits.reason,
                (true, false) => fresh.reason,
                (true, true) => "Ready",
            },
            None,
        ),
        limits,
        fresh,
        match unpriced {
            None => observation("PricesComplete", true, "Complete", None),
            Some((resource, flavor)) => observation(
                "PricesComplete",
                false,
                "PriceMissing",
                Some(format!("no price for {resource} on flavor {flavor}")),
            ),
        },
        observation(
            "Exhausted",
            exhausted.is_some(),
            if exhausted.is_some() {
                "NothingFits"
            } else {
                "MoneyLeft"
            },
            exhausted.map(|names| format!("not even the smallest waiting job fits: {names}")),
        ),
        observation(
            "Overspent",
            overspent.is_some(),
            if overspent.is_some() {
                "OverLimit"
            } else {
                "WithinLimits"
            },
            overspent,
        ),
    ];
    all.into_iter()
        .map(|observation| with_times(observation, ledger.terms().generation, before, now))
        .collect()
}

/// Returns the condition that a namespace has several NamespaceBudgets for one Budget.
pub(super) fn conflicting(
    overlapping: &[&str],
    generation: i64,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let observation = Observation {
        kind: "Conflicting",
        status: !overlapping.is_empty(),
        reason: if overlapping.is_empty() {
            "OnlyOne"
        } else {
            "Several"
        },
        message: if overlapping.is_empty() {
            String::new()
        } else {
            format!(
                "the namespace has others for the same Budget, and the lower limit holds: {}",
                overlapping.join(", ")
            )
        },
    };
    with_times(observation, generation, before, now)
}

/// Returns the condition that a NamespaceBudget changes a limit of the Budget of `ledger`.
pub(super) fn effective(
    ledger: &BudgetLedger,
    generation: i64,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let counts = ledger.terms().limits_namespaces();
    let observation = Observation {
        kind: "Effective",
        status: counts,
        reason: if counts {
            "LimitApplies"
        } else {
            "NoNamespaceLimits"
        },
        message: if counts {
            String::new()
        } else {
            format!(
                "Budget {} has no spec.namespaceLimits, so it has no limits of single namespaces; set namespaceLimits: {{}} there",
                ledger.terms().budget
            )
        },
    };
    with_times(observation, generation, before, now)
}

/// Returns the condition that limits are known. Until then jobs wait.
fn limits_known(ledger: &BudgetLedger) -> Observation {
    let (reason, problem) = match ledger.limits_are_known() {
        Err(HoldReason::ColdStart {
            awaits: Awaited::NamespaceBudgets,
            problem,
            ..
        }) => ("NamespaceBudgetsUnknown", problem),
        Err(HoldReason::ColdStart { problem, .. }) => ("NamespacesUnknown", problem),
        Ok(()) | Err(_) => {
            return Observation {
                kind: "LimitsKnown",
                status: true,
                reason: "Listed",
                message: String::new(),
            };
        }
    };
    let problem = problem.unwrap_or_else(|| "the first list has not been read yet".to_owned());
    Observation {
        kind: "LimitsKnown",
        status: false,
        reason,
        message: format!("jobs wait: {problem}"),
    }
}

/// Returns the condition that spend data is fresh.
fn is_fresh(
    ledger: &BudgetLedger,
    last_result: Option<&SourceResult>,
    now: Timestamp,
) -> Observation {
    let observation = |status, reason, message: String| Observation {
        kind: "Fresh",
        status,
        reason,
        message,
    };
    let Some(last_result) = last_result else {
        let message = if ledger.terms().source.has_credentials() {
            "the source has not responded yet; with credentials it is queried once an AdmissionCheck refers to the Budget"
        } else {
            "the source has not responded yet"
        };
        return observation(false, "NotQueriedYet", message.to_owned());
    };
    match &last_result.result {
        Err(error) => observation(false, error.reason(), error.to_string()),
        Ok(_) if !last_result.taken.decreased.is_empty() => observation(
            false,
            "SpendDecreased",
            format!(
                "less was reported than before, and the higher figure stays: {}",
                last_result.taken.decreased.join(", ")
            ),
        ),
        Ok(_) if !last_result.taken.unmeasured.is_empty() => observation(
            false,
            "JobsNotMeasured",
            format!(
                "jobs run in these namespaces, and the query has no current sample of them: {}",
                last_result.taken.unmeasured.join(", ")
            ),
        ),
        Ok(_) if !ledger.spend().is_covered() => observation(
            false,
            "PeriodNotCovered",
            "the source has nothing about the beginning of the period: what was spent then is unknown, and onUncovered applies".to_owned(),
        ),
        Ok(notes) => {
            let stale = ledger
                .spend()
                .watermarks()
                .common
                .is_none_or(|known| now.as_second() - known > ledger.terms().staleness);
            let first = notes.iter().find_map(|note| noted(note, ledger, now));
            match first {
                Some((reason, message)) => observation(false, reason, message),
                None if stale => observation(
                    false,
                    "Stale",
                    "the newest known spending is older than stalenessBound".to_owned(),
                ),
                None => observation(true, "Fresh", remarks(notes).join("; ")),
            }
        }
    }
}

/// Returns remarks about a response that is nevertheless usable.
fn remarks(notes: &[SourceWarning]) -> Vec<String> {
    let remark = |note: &SourceWarning| {
        match note {
        SourceWarning::InvalidNames { .. } => Some(
            "the source reports names that no namespace can have; they are left out, and the log names one"
                .to_owned(),
        ),
        SourceWarning::Corrected {
            namespace,
            overstated,
            by,
        } => Some(format!("corrected by {by}: {namespace} has spent {overstated} less")),
        _ => None,
    }
    };
    notes.iter().filter_map(remark).collect()
}

fn noted(
    note: &SourceWarning,
    ledger: &BudgetLedger,
    now: Timestamp,
) -> Option<(&'static str, String)> {
    match note {
        SourceWarning::NotANumber(namespace) => Some((
            "NotANumber",
            format!("the figure of namespace {namespace} is no amount of money"),
        )),
        SourceWarning::ClockSkew(seconds) => Some((
            "ClockSkew",
            format!("the source's samples are {seconds} s ahead of this clock"),
        )),
        SourceWarning::NoSpendMatched if ledger.has_run_for(UNMATCHED, now) => Some((
            "NoSpendMatched",
            "jobs run, and the source has no figure for any namespace: see the query and its label"
                .to_owned(),
        )),
        SourceWarning::NoSpendMatched
        | SourceWarning::Duplicate(_)
        | SourceWarning::InvalidNames { .. }
        | SourceWarning::Corrected { .. }
        | SourceWarning::SlowDown => None,
    }
}

fn with_times(
    observation: Observation,
    generation: i64,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let status = if observation.status { "True" } else { "False" };
    let known = before
        .iter()
        .find(|condition| condition.type_ == observation.kind && condition.status == status);
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        last_transition_time: known.map_or(Time(second), |condition| {
            condition.last_transition_time.clone()
        }),
        message: kueue_check::Message::new(observation.message)
            .as_str()
            .to_owned(),
        observed_generation: Some(generation),
        reason: observation.reason.to_owned(),
        status: status.to_owned(),
        type_: observation.kind.to_owned(),
    }
}
