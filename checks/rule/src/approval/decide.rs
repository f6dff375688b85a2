//! The approvals that count, and the verdict. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kueue_check::{Request, Verdict};

use super::pods::{Candidate, Validity};
use super::resource::{Approval, ApprovalCheckSpec};

/// The maximum number of names in a message.
const NAMES: usize = 5;

/// Returns the verdict for the Workload of `request`, by the `approvals` in its namespace. Of those
/// that may count, the ones count that `validity` has as true.
pub(super) fn decide<'a>(
    spec: &ApprovalCheckSpec,
    request: &Request,
    validity: &Validity,
    approvals: impl IntoIterator<Item = &'a Approval>,
) -> Verdict {
    let now = request.now();
    // The approvers, and until when each counts. Of several approvals of one person the one that
    // ends last counts.
    let mut who: BTreeMap<&str, Timestamp> = BTreeMap::new();
    // Those who approved other pods of the Workload.
    let mut of_others: BTreeSet<&str> = BTreeSet::new();
    for approval in approvals {
        let Some(((uid, _), until)) = may_count(spec, request, approval) else {
            continue;
        };
        let by = approval.spec.approved_by.as_str();
        match validity.get(&uid) {
            Some(true) => {
                let known = who.entry(by).or_insert(until);
                *known = until.max(*known);
            }
            Some(false) => {
                of_others.insert(by);
            }
            // It was created after the others were validated, which triggers an evaluation.
            None => {}
        }
    }
    of_others.retain(|by| !who.contains_key(by));
    let names = listed(who.keys().copied());
    if who.len() >= spec.required() {
        let verdict = Verdict::ready(format!("approved by {names}"));
        // Then there are no longer enough of them.
        let mut ends: Vec<Timestamp> = who.into_values().collect();
        ends.sort();
        let end = ends.iter().rev().nth(spec.required().saturating_sub(1));
        return match end {
            Some(end) => {
                let rest = Duration::try_from(end.duration_since(now)).unwrap_or_default();
                verdict.recheck_until_admitted(rest)
            }
            None => verdict,
        };
    }
    let more = spec.required() - who.len();
    let so_far = match who.len() {
        0 => String::new(),
        _ => format!("; approved so far by {names}"),
    };
    let changed = match of_others.len() {
        0 => String::new(),
        _ => format!(
            "; its pods have changed since the approval by {}",
            listed(of_others.iter().copied())
        ),
    };
    let verdict = Verdict::pending(format!(
        "waits for {more} approval{} by {}{so_far}{changed}",
        if more == 1 { "" } else { "s" },
        approvers(spec)
    ));
    match who.values().min() {
        // The first counted approval ends then.
        Some(until) => {
            let rest = Duration::try_from(until.duration_since(now)).unwrap_or_default();
            verdict.recheck_in(rest)
        }
        None => verdict,
    }
}

/// Returns true if `approval` is for the Workload and the AdmissionCheck of `request`.
fn is_about(approval: &Approval, request: &Request) -> bool {
    let (workload, spec) = (request.workload(), &approval.spec);
    let same_namespace = approval.metadata.namespace.as_deref() == Some(workload.namespace());
    let same_check = spec
        .admission_check
        .as_deref()
        .is_none_or(|check| check == request.admission_check());
    let same_job = spec.job.as_ref().is_some_and(|job| {
        let owner = workload.owner();
        owner.is_some_and(|owner| owner.kind() == job.kind && owner.name() == job.name)
    });
    let same_workload = spec.workload.as_deref() == Some(workload.name());
    same_namespace && same_check && (same_job || same_workload)
}

/// Returns true if the author of `approval` is an approver.
fn counts(spec: &ApprovalCheckSpec, approval: &Approval) -> bool {
    let (own, approvers) = (&approval.spec, &spec.approvers);
    let may = approvers.users.contains(&own.approved_by)
        || own
            .groups
            .iter()
            .any(|group| approvers.groups.contains(group));
    let reason = own.reason.as_deref().unwrap_or_default();
    may && (!spec.require_reason || !reason.trim().is_empty())
}

/// Returns `approval` as a candidate, and until when it counts, if it may count for the Workload of
/// `request`. One that is older than the Workload was for another job of that name, or for an
/// earlier version of the job.
pub(super) fn may_count(
    spec: &ApprovalCheckSpec,
    request: &Request,
    approval: &Approval,
) -> Option<(Candidate, Timestamp)> {
    if !is_about(approval, request) || !counts(spec, approval) {
        return None;
    }
    let made = approval.metadata.creation_timestamp.as_ref()?.0;
    let created = request.workload().created();
    let until = made.checked_add(spec.valid_for()).ok()?;
    let may = created.is_none_or(|created| made >= created) && until > request.now();
    may.then(|| ((approval.uid().unwrap_or_default(), made), until))
}

fn approvers(spec: &ApprovalCheckSpec) -> String {
    let (users, groups) = (&spec.approvers.users, &spec.approvers.groups);
    let users_text = listed(users.iter().map(String::as_str));
    let groups_text = format!("members of {}", listed(groups.iter().map(String::as_str)));
    match (users.is_empty(), groups.is_empty()) {
        (_, true) => users_text,
        (true, false) => groups_text,
        (false, false) => format!("{users_text} or {groups_text}"),
    }
}

/// Returns the first names as a list for a message.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let all: Vec<&str> = names.collect();
    let shown = all[..all.len().min(NAMES)].join(", ");
    match all.len().checked_sub(NAMES) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use kueue_check::api::Workload;
    use kueue_check::{NoParameters, RequestBuilder};
    use serde_json::{Value, json};

    use super::*;

    fn approval(name: &str, spec: &Value, created: &str) -> Approval {
        serde_json::from_value(json!({
            "apiVersion": "kueue-check.dev/v1alpha1", "kind": "Approval",
            "metadata": {"namespace": "team-a", "name": name, "uid": name, "creationTimestamp": created},
            "spec": spec,
        }))
        .unwrap()
    }

    fn by(user: &str, groups: &[&str]) -> Value {
        json!({"job": {"kind": "Job", "name": "train"}, "approvedBy": user, "groups": groups})
    }

    fn with(mut spec: Value, key: &str, value: Value) -> Value {
        spec[key] = value;
        spec
    }

    fn request() -> Request {
        let workload = Workload::from_json(json!({
            "metadata": {"namespace": "team-a", "name": "job-train-1", "uid": "u", "creationTimestamp": "2026-11-20T00:00:00Z",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": true}]},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-20T00:00:01Z"}],
                "admissionChecks": [{"name": "approval", "state": "Pending"}]},
        }))
        .unwrap();
        let request = RequestBuilder::new(workload, "approval")
            .now("2026-11-23T00:00:00Z".parse().unwrap())
            .build(NoParameters);
        request.request().clone()
    }

    #[test]
    fn an_approval_of_other_pods_is_named_and_does_not_count() {
        let spec = json!({"approvers": {"groups": ["leads"]}, "required": 2});
        let spec: ApprovalCheckSpec = serde_json::from_value(spec).unwrap();
        let approvals = [("a", "ann"), ("b", "bob"), ("c", "ann")];
        let approvals = approvals
            .map(|(name, user)| approval(name, &by(user, &["leads"]), "2026-11-21T00:00:00Z"));
        for (validity, expected) in [
            (
                [("a", false), ("b", false), ("c", false)],
                "waits for 2 approvals by members of leads; its pods have changed since the approval by ann, bob",
            ),
            (
                [("a", true), ("b", false), ("c", false)],
                "waits for 1 approval by members of leads; approved so far by ann; its pods have changed since the approval by bob",
            ),
            (
                [("a", false), ("b", true), ("c", true)],
                "approved by ann, bob",
            ),
        ] {
            let validity = validity.map(|(uid, counts)| (uid.to_owned(), counts));
            let verdict = decide(&spec, &request(), &validity.into(), &approvals);
            assert_eq!(verdict.message(), expected);
        }
        let verdict = decide(&spec, &request(), &Validity::new(), &approvals);
        assert_eq!(
            verdict.message(),
            "waits for 2 approvals by members of leads",
            "none is judged yet"
        );
    }

    #[test]
    fn the_table_of_approvals() {
        let (request, validity) = (request(), Validity::from([("a".to_owned(), true)]));
        let day = |day: u32| format!("2026-11-{day:02}T00:00:00Z");
        let of_two = json!({"approvers": {"groups": ["leads"], "users": ["olga"]}, "required": 2});
        let of_one = json!({"approvers": {"groups": ["leads"]}});
        let other = |key: &str, value: Value| with(by("ann", &["leads"]), key, value);
        for (spec, approvals, expected) in [
            (&of_one, vec![], "waits for 1 approval by members of leads"),
            (
                &of_one,
                vec![(by("ann", &["leads", "x"]), 21)],
                "approved by ann",
            ),
            (
                &of_one,
                vec![(by("ann", &["x"]), 21)],
                "waits for 1 approval by members of leads",
            ),
            (
                &of_one,
                vec![(by("ann", &["leads"]), 19)],
                "waits for 1 approval by members of leads",
            ),
            (
                &of_one,
                vec![(other("job", json!({"kind": "Job", "name": "other"})), 21)],
                "waits for 1",
            ),
            (
                &of_one,
                vec![(
                    other("job", json!({"kind": "PyTorchJob", "name": "train"})),
                    21,
                )],
                "waits for 1",
            ),
            (
                &of_one,
                vec![(other("admissionCheck", json!("another")), 21)],
                "waits for 1",
            ),
            (
                &of_one,
                vec![(other("admissionCheck", json!("approval")), 21)],
                "approved by ann",
            ),
            (
                &of_one,
                vec![(
                    json!({"workload": "job-train-1", "approvedBy": "ann", "groups": ["leads"]}),
                    21,
                )],
                "approved by ann",
            ),
            (
                &of_two,
                vec![],
                "waits for 2 approvals by olga or members of leads",
            ),
            (
                &of_two,
                vec![(by("ann", &["leads"]), 21), (by("ann", &["leads"]), 22)],
                "waits for 1 approval by olga or members of leads; approved so far by ann",
            ),
            (
                &of_two,
                vec![(by("ann", &["leads"]), 21), (by("olga", &[]), 22)],
                "approved by ann, olga",
            ),
            (
                &with(of_one.clone(), "validFor", json!("1d")),
                vec![(by("ann", &["leads"]), 21)],
                "waits for 1",
            ),
            (
                &with(of_one.clone(), "requireReason", json!(true)),
                vec![(by("ann", &["leads"]), 21)],
                "waits for 1",
            ),
            (
                &with(of_one.clone(), "requireReason", json!(true)),
                vec![(other("reason", json!("the deadline")), 21)],
                "approved by ann",
            ),
        ] {
            let spec: ApprovalCheckSpec = serde_json::from_value(spec.clone()).unwrap();
            let approvals: Vec<Approval> = approvals
                .iter()
                .map(|(spec, made)| approval("a", spec, &day(*made)))
                .collect();
            let verdict = decide(&spec, &request, &validity, &approvals);
            assert!(
                verdict.message().starts_with(expected),
                "{expected}: {verdict:?}"
            );
            assert_eq!(verdict.is_ready(), expected.starts_with("approved"));
        }
    }
}
