//! The explanation of a Workload, from what was read. Pure.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::forecast::{CheckForecast, later};
use crate::api::{AdmissionCheck, CheckState, Workload};
use crate::check::{Family, FamilyRole};

/// Why a Workload waits, or does not. As text by [`Display`](std::fmt::Display), for machines by
/// [`Serialize`].
///
/// ```
/// # use kueue_check::{App, Verdict, admission_check};
/// # use kueue_check_sim::{Cluster, Job, Simulation};
/// # #[admission_check(controller = "example.com/window")] async fn window() -> Verdict { Verdict::pending("jobs start at 22:00") }
/// # async fn example(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
/// # let (client, clock) = (cluster.server().client(), cluster.clock());
/// let app = App::new().check(window);
/// let explanation = app.explain(&client, Some("default"), &"job/train".parse()?, clock).await?;
/// assert!(explanation.to_string().contains("waits for 1 of 1 admission checks (check), and holds quota since"));
///
/// let shown = serde_json::to_value(&explanation)?;
/// assert_eq!(shown["phase"], "WaitsForChecks");
/// assert_eq!(shown["checks"][0]["message"], "jobs start at 22:00");
/// # Ok(()) }
/// # Simulation::new(|| window).run(async |cluster| {
/// #     cluster.submit(Job::new("train"));
/// #     cluster.expect_message("train", "jobs start at 22:00").await;
/// #     example(cluster).await.unwrap();
/// # });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Such as `Job/train`.
    pub(super) owners: Vec<String>,
    pub(super) local_queue: Option<String>,
    pub(super) cluster_queue: Option<String>,
    /// Its role among the Workloads of its job; none if it is the only one.
    pub(super) family: Option<String>,
    pub(super) phase: Phase,
    pub(super) since: Option<Timestamp>,
    /// Kueue's message about the phase.
    pub(super) message: String,
    /// When Kueue requeues an evicted Workload.
    pub(super) requeue_at: Option<Timestamp>,
    /// The admission checks that are not Ready.
    pub(super) waits_for: Vec<String>,
    pub(super) checks: Vec<CheckExplanation>,
    /// The time of the evaluation.
    pub(super) now: Timestamp,
}

/// The phase of a Workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Phase {
    WaitsForQuota,
    WaitsForChecks,
    /// All checks are Ready, and Kueue has not admitted it yet.
    WaitsForAdmission,
    Admitted,
    /// It was evicted, and has no quota again yet.
    Evicted,
    Deactivated,
    Finished,
    Deleting,
}

/// The explanation of one of its admission checks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckExplanation {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) since: Option<Timestamp>,
    pub(super) message: String,
    pub(super) retry_count: Option<u64>,
    pub(super) requeue_after_seconds: Option<u64>,
    /// When Kueue acts on a Retry: after the delays of all checks.
    pub(super) evicts_at: Option<Timestamp>,
    /// The name of its controller; none where the AdmissionCheck is missing.
    pub(super) controller_name: Option<String>,
    /// Whether that is this program.
    pub(super) ours: bool,
    /// Such as `Window/night`.
    pub(super) parameters: Option<String>,
    pub(super) active: Option<Active>,
    /// What this program would do now.
    pub(super) forecast: Option<CheckForecast>,
}

/// The AdmissionCheck's condition `Active`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Active {
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Option<Timestamp>,
}

/// What was read.
pub(super) struct Facts<'a> {
    pub(super) whole: &'a Value,
    pub(super) workload: &'a Workload,
    pub(super) family: &'a Family,
    pub(super) admission_checks: &'a [AdmissionCheck],
    pub(super) now: Timestamp,
}

/// Makes the explanation. `forecast_of` returns the forecast of an AdmissionCheck, if this program
/// serves it.
pub(super) fn explain_workload(
    facts: &Facts<'_>,
    mut forecast_of: impl FnMut(&str) -> Option<CheckForecast>,
) -> Explanation {
    let Facts {
        whole,
        workload,
        now,
        ..
    } = *facts;
    let requeue_at = whole
        .pointer("/status/requeueState")
        .and_then(|state| time(state, "requeueAt"));
    let entries = list(whole, "/status/admissionChecks");
    let delays = entries.iter().filter_map(end_of_delay);
    let evicts_at = delays.chain(requeue_at.filter(|at| *at > now)).max();
    let checks: Vec<CheckExplanation> = entries
        .iter()
        .map(|entry| {
            let name = text(entry, "name");
            check(facts, entry, evicts_at, forecast_of(&name))
        })
        .collect();
    let waits_for: Vec<String> = checks
        .iter()
        .filter(|check| check.state != "Ready")
        .map(|check| check.name.clone())
        .collect();
    let (phase, condition) = phase(workload, whole, waits_for.is_empty());
    Explanation {
        namespace: workload.namespace().to_owned(),
        name: workload.name().to_owned(),
        owners: list(whole, "/metadata/ownerReferences")
            .iter()
            .map(|owner| format!("{}/{}", text(owner, "kind"), text(owner, "name")))
            .collect(),
        local_queue: workload.queue().map(str::to_owned),
        cluster_queue: workload.cluster_queue().map(str::to_owned),
        family: of_job(workload, facts.family),
        phase,
        since: condition.and_then(|condition| time(condition, "lastTransitionTime")),
        message: condition.map_or_else(String::new, |condition| text(condition, "message")),
        requeue_at,
        waits_for,
        checks,
        now,
    }
}

/// Returns the role of `workload` among the Workloads of its job.
fn of_job(workload: &Workload, family: &Family) -> Option<String> {
    let running = family.running("").map(|running| running.name().to_owned());
    match (family.role(), running) {
        _ if family.pods_still_run() => Some(
            "a growth of the job has replaced it; its pods run until that is admitted".to_owned(),
        ),
        (FamilyRole::Growth, Some(running)) => {
            let sets = workload.pod_sets().iter();
            let more: u32 = sets.map(|set| family.increase(set)).sum();
            let run = family.all_running_pods().unwrap_or_default();
            Some(format!(
                "requests {more} more pods for the job; {run} run by Workload {running}"
            ))
        }
        (FamilyRole::Growth, None) => {
            Some("requests more pods for the job; the number of running pods is unknown".to_owned())
        }
        (FamilyRole::Variant { flavor }, Some(running)) => Some(format!(
            "the job's variant for flavor {flavor}; the job runs by Workload {running}"
        )),
        (FamilyRole::Variant { flavor }, None) => {
            Some(format!("the job's variant for flavor {flavor}"))
        }
        (FamilyRole::Parent, _) => {
            Some("it has variants, by one of which the job starts; explain those".to_owned())
        }
        _ => None,
    }
}

/// Returns the phase, and the condition that reports it.
fn phase<'a>(workload: &Workload, whole: &'a Value, all_ready: bool) -> (Phase, Option<&'a Value>) {
    let conditions = workload.conditions();
    let (phase, word) = if conditions.finished().is_true() {
        (Phase::Finished, "Finished")
    } else if workload.is_being_deleted() {
        (Phase::Deleting, "")
    } else if !workload.is_active() {
        (Phase::Deactivated, "Evicted")
    } else if conditions.evicted().is_true() {
        (Phase::Evicted, "Evicted")
    } else if workload.is_admitted() {
        (Phase::Admitted, "Admitted")
    } else if !workload.holds_quota() {
        (Phase::WaitsForQuota, "QuotaReserved")
    } else if all_ready {
        (Phase::WaitsForAdmission, "QuotaReserved")
    } else {
        (Phase::WaitsForChecks, "QuotaReserved")
    };
    let condition = list(whole, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == word);
    (phase, condition)
}

/// Returns the end of an entry's delay, if it is in state Retry. Kueue evicts at the last of those
/// of all checks, and not before `requeueAt` (Kueue 0.19.2, `GetMaxRetryTime` in
/// `pkg/workload/admissionchecks.go`).
fn end_of_delay(entry: &Value) -> Option<Timestamp> {
    let seconds = entry["requeueAfterSeconds"].as_u64()?;
    let counts = seconds > 0 && state(entry) == CheckState::Retry;
    let since = time(entry, "lastTransitionTime").filter(|_| counts)?;
    later(since, seconds)
}

fn state(entry: &Value) -> CheckState {
    CheckState::new(&text(entry, "state"))
}

fn check(
    facts: &Facts<'_>,
    entry: &Value,
    evicts_at: Option<Timestamp>,
    forecast: Option<CheckForecast>,
) -> CheckExplanation {
    let name = text(entry, "name");
    let object = facts
        .admission_checks
        .iter()
        .find(|check| check.name() == name);
    let state = state(entry);
    CheckExplanation {
        state: state.as_str().to_owned(),
        since: time(entry, "lastTransitionTime"),
        message: text(entry, "message"),
        retry_count: entry["retryCount"].as_u64(),
        requeue_after_seconds: entry["requeueAfterSeconds"].as_u64(),
        evicts_at: evicts_at.filter(|_| state == CheckState::Retry),
        controller_name: object.map(|object| object.controller_name().to_owned()),
        ours: forecast.is_some(),
        parameters: object
            .and_then(AdmissionCheck::parameters)
            .map(|reference| format!("{}/{}", reference.kind, reference.name)),
        active: object
            .and_then(|object| object.active.as_ref())
            .map(|active| Active {
                status: active.status.clone(),
                reason: active.reason.clone(),
                message: active.message.clone(),
                since: active.since,
            }),
        forecast,
        name,
    }
}

fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    let found = object.pointer(path).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}

fn time(object: &Value, field: &str) -> Option<Timestamp> {
    object[field].as_str()?.parse().ok()
}
