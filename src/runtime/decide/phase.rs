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

    #[test]
    fn only_a_workload_past_quota_reservation_is_decided_about() {
        let over = |why| CheckPhase::Ended {
            why,
            withdraw: false,
        };
        for (name, state, patch, expected) in [
            (
                "reserved",
                "Pending",
                json!({}),
                CheckPhase::AwaitingVerdict,
            ),
            (
                "approved, waits for others",
                "Ready",
                json!({}),
                CheckPhase::AwaitingVerdict,
            ),
            (
                "a state unknown to us",
                "Odd",
                json!({}),
                CheckPhase::AwaitingVerdict,
            ),
            (
                "evicted before, reserved again",
                "Pending",
                conditions(&[("Evicted", "False")], "True"),
                CheckPhase::AwaitingVerdict,
            ),
            (
                "admitted",
                "Ready",
                conditions(&[("Admitted", "True")], "True"),
                CheckPhase::Admitted,
            ),
            (
                "admitted without us",
                "Pending",
                conditions(&[("Admitted", "True")], "True"),
                CheckPhase::Admitted,
            ),
            (
                "Retry returned",
                "Retry",
                json!({}),
                CheckPhase::AwaitingReset,
            ),
            (
                "Rejected returned for a running job",
                "Rejected",
                conditions(&[("Admitted", "True")], "True"),
                CheckPhase::AwaitingReset,
            ),
            (
                "no quota",
                "Pending",
                conditions(&[], "False"),
                over(ReleaseReason::QuotaLost),
            ),
            (
                "quota without admission",
                "Pending",
                json!({"status": {"admission": null}}),
                over(ReleaseReason::QuotaLost),
            ),
            (
                "evicted, quota still held",
                "Pending",
                conditions(&[("Evicted", "True")], "True"),
                CheckPhase::PodsRemain,
            ),
            (
                "evicted with Retry left",
                "Retry",
                conditions(&[("Evicted", "True")], "True"),
                CheckPhase::PodsRemain,
            ),
            (
                "evicted, and the pods are gone",
                "Pending",
                conditions(&[("Evicted", "True")], "False"),
                over(ReleaseReason::Evicted),
            ),
            (
                "finished",
                "Ready",
                conditions(&[("Finished", "True"), ("Admitted", "True")], "True"),
                over(ReleaseReason::Finished),
            ),
            (
                "deactivated",
                "Ready",
                json!({"spec": {"active": false}}),
                CheckPhase::PodsRemain,
            ),
            (
                "deactivated, and the pods are gone",
                "Ready",
                json!({"spec": {"active": false}, "status": {"admission": null}}),
                over(ReleaseReason::Deactivated),
            ),
            (
                "being deleted",
                "Pending",
                json!({"metadata": {"deletionTimestamp": "2026-11-21T09:00:00Z"}}),
                CheckPhase::PodsRemain,
            ),
            (
                "entry gone",
                "Pending",
                json!({"status": {"admissionChecks": [{"name": "other"}]}}),
                over(ReleaseReason::CheckRemoved),
            ),
        ] {
            assert_eq!(
                check_phase(&workload(state, &patch), "c", Lifetime::default()),
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
        for (state, patch, why) in [
            ("Pending", evicted.clone(), ReleaseReason::Evicted),
            // Kueue resets it while the quota is held.
            ("Retry", evicted, ReleaseReason::Evicted),
            (
                "Ready",
                json!({"spec": {"active": false}}),
                ReleaseReason::Deactivated,
            ),
            (
                "Pending",
                json!({"metadata": {"deletionTimestamp": "2026-11-21T09:00:00Z"}}),
                ReleaseReason::Deleted,
            ),
        ] {
            let expected = CheckPhase::Ended {
                why,
                withdraw: false,
            };
            assert_eq!(
                check_phase(&workload(state, &patch), "c", early),
                expected,
                "{state}"
            );
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
            let expected = CheckPhase::Ended {
                why: ReleaseReason::QuotaLost,
                withdraw,
            };
            assert_eq!(
                check_phase(&workload(state, &lost), "c", outliving(outlives)),
                expected,
                "{state}, outlives: {outlives}"
            );
        }
    }

    #[test]
    fn a_verdict_that_outlived_an_eviction_is_withdrawn_once_the_quota_is_gone() {
        let withdrawn = |state, quota, outlives| {
            let evicted = conditions(&[("Evicted", "True")], quota);
            let phase = check_phase(&workload(state, &evicted), "c", outliving(outlives));
            phase
                == CheckPhase::Ended {
                    why: ReleaseReason::Evicted,
                    withdraw: true,
                }
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
