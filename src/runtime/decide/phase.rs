//! Phases of a Workload for a check.

use crate::api::{AdmissionCheckState, CheckState, Workload};
use crate::check::{Lifetime, ReleaseReason};

/// The phase of a Workload for one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckPhase {
    /// It holds quota and waits: the check decides.
    AwaitingVerdict,
    /// It is admitted and may run: the check may monitor it.
    Admitted,
    /// The check returned Retry or Rejected, and Kueue has not handled it yet: no evaluation, no
    /// write.
    AwaitingReset,
    /// No decision is due any more, and its pods may remain. The job is being evicted or deleted,
    /// or another slice has replaced this one and is not admitted yet. Allocated resources are
    /// kept.
    PodsRemain,
    /// There is no reservation to decide about. Resources held for the last one are released.
    Ended {
        /// The reason.
        why: ReleaseReason,
        /// Whether there is a verdict that Kueue would reuse for the next reservation: it is
        /// withdrawn.
        withdraw: bool,
    },
}

/// Returns the phase of `workload` for the check `check` (rules 1, 6 and 15).
pub(crate) fn check_phase(workload: &Workload, check: &str, lifetime: Lifetime) -> CheckPhase {
    let over = |why| CheckPhase::Ended {
        why,
        withdraw: false,
    };
    if workload.is_parent() {
        // It only repeats the state of its variants: an entry in it was written by hand.
        return over(ReleaseReason::CheckRemoved);
    }
    let conditions = workload.conditions();
    let Some(entry) = workload.check(check) else {
        return over(ReleaseReason::CheckRemoved);
    };
    if conditions.finished().is_true() {
        return over(ReleaseReason::Finished);
    }
    let why = reason_to_stop(workload);
    if workload.holds_quota() {
        // Kueue keeps the quota until the pods are gone.
        match why {
            Some(why) if lifetime.ends_at_eviction => return over(why),
            Some(_) => return CheckPhase::PodsRemain,
            None => {}
        }
    } else {
        let why = why.unwrap_or(ReleaseReason::QuotaLost);
        // An eviction resets the verdict, unless Kueue decided it from an older copy. Then the
        // verdict is still there after quota is lost (measured on 0.19.2, under load).
        let reserved_again = matches!(why, ReleaseReason::Evicted | ReleaseReason::QuotaLost);
        return CheckPhase::Ended {
            why,
            withdraw: reserved_again && must_withdraw(entry, lifetime),
        };
    }
    match entry.state() {
        CheckState::Retry | CheckState::Rejected => CheckPhase::AwaitingReset,
        _ if workload.is_admitted() => CheckPhase::Admitted,
        _ => CheckPhase::AwaitingVerdict,
    }
}

/// Returns why the job of the unfinished `workload` is being stopped; `None` if it is not.
pub(crate) fn reason_to_stop(workload: &Workload) -> Option<ReleaseReason> {
    if workload.is_being_deleted() {
        Some(ReleaseReason::Deleted)
    } else if !workload.is_active() {
        Some(ReleaseReason::Deactivated)
    } else {
        let evicted = workload.conditions().evicted().is_true();
        evicted.then_some(ReleaseReason::Evicted)
    }
}

/// Returns true if the verdict in `entry` is withdrawn when quota is lost.
///
/// Kueue never resets a Retry or Rejected without quota, and such an entry prevents every requeue
/// of the Workload (measured on 0.19.2). So they are withdrawn even if the check's Ready `outlives`
/// the reservation.
pub(crate) fn must_withdraw(entry: &AdmissionCheckState, lifetime: Lifetime) -> bool {
    match entry.state() {
        CheckState::Ready => !lifetime.outlives,
        CheckState::Retry | CheckState::Rejected | CheckState::PreemptionRequired => true,
        CheckState::Pending | CheckState::Other(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workload(state: &str, patch: &Value) -> Workload {
        let mut object = json!({
            "metadata": {"namespace": "n", "name": "w", "uid": "u", "resourceVersion": "1"},
            "spec": {},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
                "admission": {"clusterQueue": "cq"},
                "admissionChecks": [{"name": "c", "state": state}, {"name": "other", "state": "Ready"}],
            },
        });
        merge(&mut object, patch);
        Workload::from_json(object).unwrap()
    }

    fn merge(object: &mut Value, patch: &Value) {
        match (object, patch) {
            (Value::Object(object), Value::Object(patch)) => {
                for (key, value) in patch {
                    merge(object.entry(key).or_insert(Value::Null), value);
                }
            }
            (object, patch) => *object = patch.clone(),
        }
    }

    fn conditions(extra: &[(&str, &str)], quota: &str) -> Value {
        let mut list = vec![json!({"type": "QuotaReserved", "status": quota})];
        list.extend(
            extra
                .iter()
                .map(|(kind, status)| json!({"type": kind, "status": status})),
        );
        json!({"status": {"conditions": list}})
    }

    fn deleted() -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-11-21T09:00:00Z"}})
    }

    fn ended(why: ReleaseReason, withdraw: bool) -> CheckPhase {
        CheckPhase::Ended { why, withdraw }
    }

    #[test]
    fn only_a_workload_past_quota_reservation_is_decided_about() {
        use CheckPhase::{Admitted, AwaitingReset, AwaitingVerdict, PodsRemain};
        use ReleaseReason::{CheckRemoved, Deactivated, Evicted, Finished, QuotaLost};
        let over = |why| ended(why, false);
        let fresh = json!({});
        let again = conditions(&[("Evicted", "False")], "True");
        let admitted = conditions(&[("Admitted", "True")], "True");
        let lost = conditions(&[], "False");
        let revoked = json!({"status": {"admission": null}});
        let evicted = conditions(&[("Evicted", "True")], "True");
        let gone = conditions(&[("Evicted", "True")], "False");
        let finished = conditions(&[("Finished", "True"), ("Admitted", "True")], "True");
        let inactive = json!({"spec": {"active": false}});
        let stopped = json!({"spec": {"active": false}, "status": {"admission": null}});
        let removed = json!({"status": {"admissionChecks": [{"name": "other"}]}});
        for (name, state, patch, expected) in [
            ("reserved", "Pending", &fresh, AwaitingVerdict),
            ("approved before others", "Ready", &fresh, AwaitingVerdict),
            ("a state unknown to us", "Odd", &fresh, AwaitingVerdict),
            ("reserved again", "Pending", &again, AwaitingVerdict),
            ("admitted", "Ready", &admitted, Admitted),
            ("admitted without us", "Pending", &admitted, Admitted),
            ("Retry returned", "Retry", &fresh, AwaitingReset),
            ("Rejected, running", "Rejected", &admitted, AwaitingReset),
            ("no quota", "Pending", &lost, over(QuotaLost)),
            ("no admission", "Pending", &revoked, over(QuotaLost)),
            ("evicted, quota still held", "Pending", &evicted, PodsRemain),
            ("evicted with Retry left", "Retry", &evicted, PodsRemain),
            ("evicted, pods gone", "Pending", &gone, over(Evicted)),
            ("finished", "Ready", &finished, over(Finished)),
            ("deactivated", "Ready", &inactive, PodsRemain),
            ("deactivated, gone", "Ready", &stopped, over(Deactivated)),
            ("being deleted", "Pending", &deleted(), PodsRemain),
            ("entry gone", "Pending", &removed, over(CheckRemoved)),
        ] {
            assert_eq!(
                check_phase(&workload(state, patch), "c", Lifetime::default()),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_check_may_release_as_soon_as_the_job_is_stopped() {
        let early = Lifetime {
            ends_at_eviction: true,
            ..Lifetime::default()
        };
        let evicted = conditions(&[("Evicted", "True")], "True");
        let inactive = json!({"spec": {"active": false}});
        for (state, patch, why) in [
            ("Pending", evicted.clone(), ReleaseReason::Evicted),
            // Kueue resets it while the quota is held.
            ("Retry", evicted, ReleaseReason::Evicted),
            ("Ready", inactive, ReleaseReason::Deactivated),
            ("Pending", deleted(), ReleaseReason::Deleted),
        ] {
            let phase = check_phase(&workload(state, &patch), "c", early);
            assert_eq!(phase, ended(why, false), "{state}");
        }
    }

    fn outliving(outlives: bool) -> Lifetime {
        Lifetime {
            outlives,
            ..Lifetime::default()
        }
    }

    #[test]
    fn a_verdict_that_would_hold_for_the_next_reservation_is_withdrawn() {
        let lost = conditions(&[], "False");
        for (state, outlives, withdraw) in [
            ("Ready", false, true),
            ("Ready", true, false),
            ("Retry", true, true),
            ("Rejected", true, true),
            ("PreemptionRequired", false, true),
            ("Pending", false, false),
            ("Odd", false, false),
        ] {
            assert_eq!(
                check_phase(&workload(state, &lost), "c", outliving(outlives)),
                ended(ReleaseReason::QuotaLost, withdraw),
                "{state}, outlives: {outlives}"
            );
        }
    }

    #[test]
    fn a_verdict_that_outlived_an_eviction_is_withdrawn_once_the_quota_is_gone() {
        let withdrawn = |state, quota, outlives| {
            let evicted = conditions(&[("Evicted", "True")], quota);
            let phase = check_phase(&workload(state, &evicted), "c", outliving(outlives));
            phase == ended(ReleaseReason::Evicted, true)
        };
        assert!(withdrawn("Ready", "False", false));
        assert!(withdrawn("Retry", "False", false));
        assert!(
            !withdrawn("Ready", "False", true),
            "it outlives reservations"
        );
        assert!(
            !withdrawn("Ready", "True", false),
            "while quota is held, Kueue resets it"
        );
        assert!(!withdrawn("Pending", "False", false));
    }
}
