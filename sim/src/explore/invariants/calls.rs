//! Calls of the checks' code.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kueue_check::Reservation;
use kueue_check::api::Uid;

use super::lease::Leases;
use super::{RunRecord, history, of_workloads, place, text};
use crate::apiserver::ChangeVerb;
use crate::simulation::{AuthorCall, CallKind, LEASE};

/// Finds evaluations of Workloads that do not exist.
pub(super) fn about_deleted(evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    let gone: BTreeMap<Uid, (Timestamp, String)> = of_workloads(evidence)
        .filter(|change| change.verb == ChangeVerb::Deleted)
        .map(|change| {
            let uid = Uid::new(text(&change.object["metadata"]["uid"]));
            (uid, (change.at, place(&change.object)))
        })
        .collect();
    let evaluations = evidence.calls.iter();
    for call in evaluations.filter(|call| call.kind == CallKind::Evaluate) {
        let uid = call.reservation.as_ref().map(Reservation::uid);
        let Some((at, job)) = uid.and_then(|uid| gone.get(uid)) else {
            continue;
        };
        if call.began.duration_since(*at) > evidence.late() {
            let (process, check, began) = (&call.process, &call.admission_check, call.began);
            found.push(format!(
                "gone: {process} evaluates {job} for `{check}` at {began}; it was deleted at {at}"
            ));
        }
    }
}

/// Returns the key of calls that must not run at the same time. It is a Workload and check, or the
/// check alone for its activations.
fn key(call: &AuthorCall) -> (&str, Option<&Uid>) {
    let uid = call.reservation.as_ref().map(Reservation::uid);
    (&call.admission_check, uid)
}

/// The time for which an ending and a beginning call may run together.
const INSTANT: SignedDuration = SignedDuration::from_secs(1);

/// Finds calls that run at the same time.
pub(super) fn overlapping(evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    if evidence.replicas == 1 && evidence.second_leader {
        // Two processes without a Lease: neither has precedence.
        return;
    }
    let mut lease = Leases::new(evidence.clocks_differ);
    for change in history(evidence) {
        if change.resource.plural == "leases" && change.object["metadata"]["name"] == LEASE {
            lease.read(change);
        }
    }
    let mut by_key: BTreeMap<(&str, Option<&Uid>), Vec<&AuthorCall>> = BTreeMap::new();
    for call in evidence.calls {
        by_key.entry(key(call)).or_default().push(call);
    }
    for calls in by_key.values() {
        for (index, first) in calls.iter().enumerate() {
            let ended = first.ended.unwrap_or(Timestamp::MAX);
            let later = calls[index + 1..].iter();
            for second in later.take_while(|second| second.began < ended) {
                let together = together(evidence, &lease, first, second);
                if together > INSTANT {
                    found.push(overlap_message(first, second, together));
                }
            }
        }
    }
}

/// Returns how long both run although one should not. The second begins later.
fn together(
    evidence: &RunRecord<'_>,
    lease: &Leases,
    first: &AuthorCall,
    second: &AuthorCall,
) -> SignedDuration {
    let last = evidence.history.last().map_or(second.began, |last| last.at);
    let end = |call: &AuthorCall| call.ended.unwrap_or(last);
    let end = end(first).min(end(second));
    if first.process == second.process {
        return end.duration_since(second.began);
    }
    let excused = |call: &AuthorCall, at: Timestamp| {
        let still = evidence.pauses.iter().any(|pause| {
            pause.agent == call.agent() && pause.from <= at && at <= pause.until + INSTANT
        });
        still || lease.could_lead(call.agent(), at)
    };
    let (mut at, mut together) = (second.began, SignedDuration::ZERO);
    while at < end {
        // Both may assume that they lead only where the Lease was taken by force.
        if !(excused(first, at) && excused(second, at)) {
            together += INSTANT.min(end.duration_since(at));
        }
        at += INSTANT;
    }
    together
}

fn overlap_message(first: &AuthorCall, second: &AuthorCall, together: SignedDuration) -> String {
    let of = match &second.reservation {
        Some(reservation) => reservation.to_string(),
        None => second.admission_check.clone(),
    };
    let seconds = together.as_secs();
    format!(
        "overlap: {} {}s {of} at {}, while {} has not ended its {} since {}: {seconds} s too long",
        second.process, second.kind, second.began, first.process, first.kind, first.began,
    )
}
