//! Invariants: properties of every run, with any faults.

mod admitted;
mod calls;
mod evictions;
mod growths;
mod lease;
mod updates;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kueue_check::api::{CheckState, Uid};
use serde_json::{Map, Value};

use self::lease::Leases;
use crate::apiserver::{Change, ChangeVerb};
use crate::faults::PausedReplica;
use crate::simulation::{AuthorCall, LEASE, RecordedVerdict};
use crate::timeline::{condition, is_true};

/// The record of a run.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Job, Simulation};
/// use kueue_check_sim::explore::{RunRecord, violations};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     let (history, verdicts) = (cluster.server().history(), cluster.verdicts().all());
///     let evidence = RunRecord { checks: &["check"], history: &history, verdicts: &verdicts, replicas: 1, ..RunRecord::default() };
///     assert!(violations(&evidence).is_empty());
///     // The same writes, without an evaluation.
///     let unevaluated = RunRecord { verdicts: &[], ..evidence };
///     assert!(violations(&unevaluated)[0].ends_with("the check returned no such verdict for this reservation"));
/// });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RunRecord<'a> {
    /// The AdmissionChecks of the replicas' controllers.
    pub checks: &'a [&'a str],
    /// All writes, oldest first.
    pub history: &'a [Arc<Change>],
    /// All verdicts of the checks.
    pub verdicts: &'a [RecordedVerdict],
    /// All calls of the checks' code.
    pub calls: &'a [AuthorCall],
    /// The times in which replicas were paused.
    pub pauses: &'a [PausedReplica],
    /// The maximum number of running jobs that each check may evict in an hour, where it is fixed.
    pub eviction_limits: &'a [(&'a str, u32)],
    /// The checks whose Ready remains valid for later reservations.
    pub outliving: &'a [&'a str],
    /// The resource version after which the replicas ran.
    pub since: u64,
    /// The number of replicas.
    pub replicas: usize,
    /// Whether a replica took the Lease by force. The previous holder learns of it when it renews.
    pub second_leader: bool,
    /// Whether the wall clocks of replicas were off.
    pub clocks_differ: bool,
    /// The number of faults. Each may lengthen a limit of 1 min by another minute.
    pub faults: usize,
}

impl RunRecord<'_> {
    /// Returns how long a write, and an event, may be in transit.
    fn late(&self) -> SignedDuration {
        let minutes = i64::try_from(self.faults).unwrap_or(1).max(1);
        SignedDuration::from_mins(minutes)
    }
}

/// Returns the violations of invariants, each with its place, at most three of one invariant.
///
/// - one writer: of several replicas, only the holder of the Lease writes, and only while it is
///   valid, events apart; one that lost it by force may write until its own time is over
/// - own entry: a replica changes only its checks' entries of a Workload, and adds none that Kueue
///   has not listed
/// - guard: it writes a verdict only while the Workload holds quota and is neither evicted nor
///   finished nor inactive
/// - reservation: a written Ready was returned for the reservation that the Workload holds
/// - transition: `lastTransitionTime` changes exactly when the state does; after Retry and Rejected
///   nothing is written until Kueue has reset the entry
/// - verdict: Retry and Rejected come from a verdict or from the check's policy, never from an
///   error
/// - admitted: nothing is Pending once the Workload is admitted
/// - message: at the end, each entry of a Workload that holds quota has a message
/// - earlier: no Workload is admitted by a Ready of a reservation that ended more than 1 min before
/// - gone: no Workload is evaluated that has been deleted for more than 1 min
/// - overlap: two calls of the check's code for one Workload and check, or two activations of one
///   check, never run at one time; a process that lost the Lease by force, or was paused, may
///   finish a call in its own time
/// - updates: pod set updates of two checks never give one key two values
/// - evictions: in no hour a check evicts more running jobs than its `maxEvictionsPerHour`,
///   whichever replica leads
/// - growth: no running pods are evicted by Retry or Rejected of a growth, unless the administrator
///   sets `onFailure: Evict`
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// # use serde_json::json;
/// use kueue_check_sim::apiserver::{ApiRequest, Patch, Resource, Verb};
/// use kueue_check_sim::{Cluster, Job, FaultPlan, Simulation};
///
/// async fn touched(cluster: &Cluster) {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     // As a check would that labels Workloads with a client of its own.
///     let workloads = Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
///     let name = &cluster.workload("train").expect("it is admitted")["metadata"]["name"];
///     let patch = ApiRequest::new(Verb::Patch(Patch::Merge), &workloads).namespace("default").name(name.as_str().unwrap_or_default());
///     cluster.server().call(&patch.agent("check-0").body(json!({"metadata": {"labels": {"licence": "42"}}})));
/// }
/// let run = Simulation::new(|| open).run_with(&touched, &FaultPlan::none());
/// assert!(run.violations[0].starts_with("own entry: check-0 changed more than its entry at 2026-11-21T09:"));
/// ```
pub fn violations(evidence: &RunRecord<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut lease = Leases::new(evidence.clocks_differ);
    for change in history(evidence) {
        let (plural, by_replica) = (change.resource.plural.as_str(), is_replica(&change.agent));
        if by_replica && evidence.replicas > 1 && !matches!(plural, "leases" | "events") {
            one_writer(change, &lease, evidence.second_leader, &mut found);
        }
        match plural {
            "leases" if change.object["metadata"]["name"] == LEASE => lease.read(change),
            "workloads" if by_replica => written(change, evidence, &mut found),
            _ => {}
        }
    }
    without_message(evidence, &mut found);
    admitted::by_an_earlier_ready(evidence, &mut found);
    calls::about_deleted(evidence, &mut found);
    calls::overlapping(evidence, &mut found);
    updates::contradicting(evidence, &mut found);
    evictions::too_many(evidence, &mut found);
    growths::refused(evidence, &mut found);
    limited(found)
}

/// Returns the writes after the replicas started.
fn history<'a>(evidence: &RunRecord<'a>) -> impl Iterator<Item = &'a Arc<Change>> + use<'a> {
    let since = evidence.since;
    let all = evidence.history.iter();
    all.filter(move |change| change.resource_version > since)
}

/// Returns the changes of Workloads.
fn of_workloads<'a>(evidence: &RunRecord<'a>) -> impl Iterator<Item = &'a Arc<Change>> + use<'a> {
    history(evidence).filter(|change| change.resource.plural == "workloads")
}

/// Returns `namespace/name` of an object.
fn place(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{}/{}",
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

fn limited(found: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for violation in found {
        let kind = violation.split(':').next().unwrap_or_default();
        if kept.iter().filter(|known| known.starts_with(kind)).count() < 3 {
            kept.push(violation);
        }
    }
    kept
}

fn is_replica(agent: &str) -> bool {
    agent.starts_with("check-")
}

fn one_writer(change: &Change, lease: &Leases, by_force: bool, found: &mut Vec<String>) {
    let (writer, at) = (&change.agent, change.at);
    let (holder, until) = (lease.holder(), lease.until(writer));
    if (holder != writer && !by_force) || until < at {
        found.push(format!(
            "one writer: {writer} writes at {at}; the Lease is {holder:?}'s, {writer} had it until {until}"
        ));
    }
}

/// Checks one write of a replica to a Workload.
fn written(change: &Change, evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    let Some(before) = change.previous.as_deref() else {
        found.push(format!(
            "own entry: {} made or deleted a Workload at {}",
            change.agent, change.at
        ));
        return;
    };
    let after = &*change.object;
    let at = change.at;
    if foreign(before, evidence.checks) != foreign(after, evidence.checks) {
        found.push(format!(
            "own entry: {} changed more than its entry at {at}",
            change.agent
        ));
    }
    for name in evidence.checks {
        match (entry(before, name), entry(after, name)) {
            (Some(was), Some(is)) if was != is => {
                entry_written(change, before, name, (was, is), evidence, found);
            }
            (None, None) | (Some(_), Some(_)) => {}
            (None, Some(_)) => found.push(format!(
                "own entry: `{name}` was made, not listed by Kueue, at {at}"
            )),
            (Some(_), None) => found.push(format!("own entry: `{name}` was removed at {at}")),
        }
    }
}

fn entry_written(
    change: &Change,
    before: &Value,
    name: &str,
    (was, is): (&Value, &Value),
    evidence: &RunRecord<'_>,
    found: &mut Vec<String>,
) {
    let at = change.at;
    let job = place(before);
    let (old, new) = (
        CheckState::new(text(&was["state"])),
        CheckState::new(text(&is["state"])),
    );
    let mut report = |rule: &str, what: &str| {
        found.push(format!(
            "{rule}: {job} `{name}` {old} → {new} at {at}: {what}"
        ));
    };
    let holds = is_true(before, "QuotaReserved") && !before["status"]["admission"].is_null();
    let finished = is_true(before, "Finished");
    let over = is_true(before, "Evicted") || finished || before["spec"]["active"] == false;
    // A Ready of an ended reservation is withdrawn, also where an eviction has not reset it.
    let withdrawn = old == CheckState::Ready && new == CheckState::Pending && !holds && !finished;
    if (!holds || over) && !withdrawn {
        report(
            "guard",
            "it holds no quota, or is evicted, finished or inactive",
        );
    }
    if old == new && was["lastTransitionTime"] != is["lastTransitionTime"] {
        report(
            "transition",
            "lastTransitionTime changed, but the state did not",
        );
    }
    let since: Timestamp = text(&is["lastTransitionTime"]).parse().unwrap_or_default();
    if old != new && !evidence.clocks_differ && at.duration_since(since) > evidence.late() {
        report(
            "transition",
            "lastTransitionTime is not when the state changed",
        );
    }
    if matches!(old, CheckState::Retry | CheckState::Rejected) {
        report("transition", "Kueue has not reset it");
    }
    if new == CheckState::Pending && is_true(before, "Admitted") {
        report("admitted", "it is admitted");
    }
    let decided = matches!(
        new,
        CheckState::Ready | CheckState::Retry | CheckState::Rejected
    );
    if decided
        && !by_policy(text(&is["message"]))
        && !has_verdict(
            before,
            name,
            RequiredVerdict { state: &new, at },
            evidence.verdicts,
        )
    {
        let rule = if new == CheckState::Ready {
            "reservation"
        } else {
            "verdict"
        };
        report(
            rule,
            "the check returned no such verdict for this reservation",
        );
    }
}

/// Returns true if the runtime wrote the message itself. It does so for a policy, and for a growth
/// that was withdrawn and now requests nothing. The message names the reason.
fn by_policy(message: &str) -> bool {
    message.contains("by policy `") || message.starts_with("requests no more than the ")
}

/// A state that requires a verdict, and its time.
struct RequiredVerdict<'a> {
    state: &'a CheckState,
    at: Timestamp,
}

/// Returns true if the check returned this state for the reservation that the Workload holds.
fn has_verdict(
    workload: &Value,
    check: &str,
    RequiredVerdict { state, at }: RequiredVerdict<'_>,
    verdicts: &[RecordedVerdict],
) -> bool {
    let uid = Uid::new(text(&workload["metadata"]["uid"]));
    let since =
        condition(workload, "QuotaReserved").map(|reserved| text(&reserved["lastTransitionTime"]));
    let since: Option<Timestamp> = since.and_then(|since| since.parse().ok());
    verdicts.iter().any(|recorded| {
        let (reservation, verdict) = (&recorded.reservation, &recorded.verdict);
        let same = match state {
            CheckState::Ready => verdict.is_ready(),
            CheckState::Retry => verdict.is_retry(),
            CheckState::Rejected => verdict.is_rejected(),
            _ => true,
        };
        same && recorded.at <= at
            && reservation.admission_check() == check
            && *reservation.uid() == uid
            && Some(reservation.since()) == since
    })
}

/// Checks that at the end each entry of a Workload with quota has a message.
fn without_message(evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    let mut last: BTreeMap<&str, &Change> = BTreeMap::new();
    for change in evidence
        .history
        .iter()
        .filter(|change| change.resource.plural == "workloads")
    {
        last.insert(text(&change.object["metadata"]["uid"]), change);
    }
    for change in last.values() {
        let workload = &*change.object;
        let waits = is_true(workload, "QuotaReserved")
            && !is_true(workload, "Evicted")
            && !is_true(workload, "Finished")
            && change.verb != ChangeVerb::Deleted;
        for name in evidence.checks {
            let silent =
                entry(workload, name).is_some_and(|entry| text(&entry["message"]).is_empty());
            if waits && silent && !unchanged_on_purpose(evidence, workload, name) {
                let job = place(workload);
                found.push(format!("message: {job} has no message of `{name}`"));
            }
        }
    }
}

/// Returns true if the check's last verdict had no message, or was `unchanged`.
fn unchanged_on_purpose(evidence: &RunRecord<'_>, workload: &Value, check: &str) -> bool {
    let uid = Uid::new(text(&workload["metadata"]["uid"]));
    let mut verdicts = evidence.verdicts.iter().rev();
    let last = verdicts.find(|recorded| {
        recorded.reservation.uid() == &uid && recorded.reservation.admission_check() == check
    });
    last.is_some_and(|recorded| {
        let verdict = &recorded.verdict;
        verdict.is_unchanged() || verdict.message().is_empty()
    })
}

/// Returns the Workload without the fields that the replicas may change.
fn foreign(workload: &Value, own: &[&str]) -> Map<String, Value> {
    let mut rest = workload.as_object().cloned().unwrap_or_default();
    if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    if let Some(entries) = rest
        .get_mut("status")
        .and_then(|status| status["admissionChecks"].as_array_mut())
    {
        entries.retain(|entry| !own.contains(&text(&entry["name"])));
    }
    rest
}

fn entry<'a>(workload: &'a Value, name: &str) -> Option<&'a Value> {
    let entries = workload["status"]["admissionChecks"].as_array()?;
    entries.iter().find(|entry| entry["name"] == name)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
