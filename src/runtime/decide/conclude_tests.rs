use serde_json::json;

use super::super::FailureState;
use super::*;
use crate::check::{AfterAdmission, PendingTimeout, Policy, Reservation};

const RESERVED: &str = "2026-11-21T09:00:00Z";
const ENTRY_SINCE: &str = "2026-11-21T09:00:01Z";

/// A case: an entry and the circumstances of an evaluation.
struct Case {
    workload: Workload,
    running: bool,
    growth: Option<Growth>,
    served: ServedApi,
    /// The administrator's policy.
    policy: Policy,
    /// The resolved policy, instead of `policy`.
    settled: Option<ResolvedPolicy>,
    memory: ReservationState,
    evictions: u32,
    monitors: bool,
    now: &'static str,
}

fn waiting(state: &str, message: &str) -> Case {
    let entry =
        json!({"name": "c", "state": state, "message": message, "lastTransitionTime": ENTRY_SINCE});
    case(&entry)
}

fn case(entry: &serde_json::Value) -> Case {
    let workload = Workload::from_json(json!({
        "metadata": {"namespace": "n", "name": "w", "uid": "u", "resourceVersion": "1"},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": RESERVED}],
            "admission": {"clusterQueue": "cq"},
            "admissionChecks": [entry],
        },
    }));
    Case {
        workload: workload.unwrap(),
        running: false,
        growth: None,
        served: ServedApi::fallback(crate::api::ApiVersion::V1beta2),
        policy: Policy::default(),
        settled: None,
        memory: ReservationState::default(),
        evictions: 0,
        monitors: false,
        now: "2026-11-21T09:05:00Z",
    }
}

impl Case {
    fn running(mut self) -> Self {
        self.running = true;
        self
    }

    /// Sets a growth of a job with `running` running pods.
    fn growth(mut self, running: Option<u32>) -> Self {
        self.growth = Some(Growth { running });
        self
    }

    fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    fn at(mut self, now: &'static str) -> Self {
        self.now = now;
        self
    }

    fn memory(mut self, memory: ReservationState) -> Self {
        self.memory = memory;
        self
    }

    fn conclude(&self, outcome: &Outcome) -> Conclusion {
        let now = self.now.parse().unwrap();
        let reservation = Reservation::of(&self.workload, "c").unwrap();
        let facts = Facts {
            held: reservation.held_for(now),
            reserved: reservation.since(),
            entry: self.workload.check("c").unwrap(),
            admitted: self.running,
            growth: self.growth,
            served: self.served,
            policy: &self
                .settled
                .unwrap_or_else(|| Policy::resolve(Some(&self.policy), &Policy::default())),
            memory: &self.memory,
            monitors: self.monitors,
            evictions_last_hour: self.evictions,
            now,
            steady: now,
        };
        conclude(facts, outcome)
    }

    fn verdict(&self, verdict: Verdict) -> Conclusion {
        self.conclude(&Outcome::Verdict(verdict))
    }

    fn failure(&self, kind: ErrorKind) -> Conclusion {
        self.conclude(&Outcome::Failed {
            kind,
            message: "refused".into(),
        })
    }
}

/// Returns the write as text, for example `Retry(60): no` with `requeueAfterSeconds: 60`; nothing if
/// there is none.
fn written(conclusion: &Conclusion) -> String {
    let text = conclusion.write.as_ref().map(|patch| {
        let after = patch.requeue_after_seconds;
        let after = after.map_or_else(String::new, |seconds| format!("({seconds})"));
        format!("{}{after}: {}", patch.state, patch.message.as_str())
    });
    text.unwrap_or_default()
}

/// Returns the state of the write; nothing if there is none.
fn written_state(conclusion: &Conclusion) -> &str {
    conclusion
        .write
        .as_ref()
        .map_or("", |patch| patch.state.as_str())
}

fn blocked(message: &str) -> Outcome {
    Outcome::Blocked {
        message: message.into(),
        again: None,
    }
}

fn watched() -> ReservationState {
    ReservationState {
        monitored: Some(true),
        recheck: Some(Duration::from_secs(300).into()),
        ..ReservationState::default()
    }
}

fn failing_since(at: &str) -> ReservationState {
    let mut memory = ReservationState::default();
    memory.update_failure_state(|failure| failure.failing_since = Some(at.parse().unwrap()));
    memory
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn each_verdict_about_a_waiting_workload_becomes_its_state() {
    for (verdict, expected) in [
        (Verdict::ready("ok"), "Ready: ok"),
        (Verdict::not_applicable("not mine"), "Ready: not mine"),
        (Verdict::pending("later"), "Pending: later"),
        (Verdict::retry_now("no"), "Retry(0): no"),
        (Verdict::retry_after(MINUTE, "no"), "Retry(60): no"),
        (
            Verdict::retry_after(Duration::from_millis(1500), "no"),
            "Retry(2): no",
        ),
        (
            Verdict::retry_after(Duration::MAX, "no"),
            "Retry(2147483647): no",
        ),
        (Verdict::rejected("never"), "Rejected: never"),
        (
            Verdict::preemption_required("full"),
            "Pending: preemption required, which this Kueue does not support: full",
        ),
    ] {
        assert_eq!(written(&waiting("Pending", "").verdict(verdict)), expected);
    }
}

#[test]
fn preemption_required_is_written_where_the_schema_has_it() {
    let mut case = waiting("Pending", "");
    assert!(
        case.verdict(Verdict::preemption_required("full"))
            .notes
            .contains(&Notice::PreemptionNotSupported("full".into()))
    );
    case.served.preemption_required = true;
    assert_eq!(
        written(&case.verdict(Verdict::preemption_required("full"))),
        "PreemptionRequired: full"
    );
    assert_eq!(
        waiting("PreemptionRequired", "full")
            .verdict(Verdict::ready("ok"))
            .write
            .map(|patch| patch.state),
        Some(CheckState::Ready)
    );
}

#[test]
fn nothing_is_written_when_nothing_differs() {
    for (state, verdict) in [
        ("Pending", Verdict::pending("same")),
        ("Ready", Verdict::ready("same")),
        ("Ready", Verdict::not_applicable("same")),
    ] {
        let conclusion = waiting(state, "same").verdict(verdict);
        assert_eq!(
            (conclusion.write, conclusion.notes),
            (None, Vec::new()),
            "{state}"
        );
    }
}

#[test]
fn an_unchanged_verdict_changes_nothing_whatever_its_recheck() {
    for state in ["Pending", "Ready", "PreemptionRequired"] {
        let again = Duration::from_secs(60);
        let conclusion =
            waiting(state, "numbers of then").verdict(Verdict::unchanged().recheck_in(again));
        assert_eq!(
            (
                conclusion.write,
                conclusion.notes,
                conclusion.next_evaluation
            ),
            (None, Vec::new(), NextEvaluation::After(again)),
            "{state}"
        );
        assert_eq!(
            conclusion.memory.monitored,
            (state == "Ready").then_some(true)
        );
        let running = waiting(state, "").running().verdict(Verdict::unchanged());
        assert_eq!((running.write, running.notes), (None, Vec::new()));
    }
    let timed_out = waiting("Pending", "")
        .policy(times_out(OnTimeout::Reject))
        .verdict(Verdict::unchanged());
    assert_eq!(
        timed_out.write.map(|patch| patch.state),
        Some(CheckState::Rejected),
        "a bound on waiting holds"
    );
}

#[test]
fn the_transition_time_changes_only_with_the_state() {
    let changed = waiting("Pending", "")
        .verdict(Verdict::ready("ok"))
        .write
        .unwrap();
    assert_eq!(changed.since.to_string(), "2026-11-21T09:05:00Z");
    let same = waiting("Pending", "old")
        .verdict(Verdict::pending("new"))
        .write
        .unwrap();
    assert_eq!(same.since.to_string(), ENTRY_SINCE);
    let missing = case(&json!({"name": "c", "state": "Pending"}))
        .verdict(Verdict::pending("new"))
        .write
        .unwrap();
    assert_eq!(missing.since.to_string(), "2026-11-21T09:05:00Z");
}

#[test]
fn what_is_sent_is_every_field_a_check_owns() {
    let updates = PodSetUpdates::builder()
        .pod_set("main", |pods| pods.label("a", "b"))
        .build()
        .unwrap();
    let ready = waiting("Pending", "")
        .verdict(Verdict::ready("ok").with_updates(updates))
        .write
        .unwrap();
    assert_eq!(
        serde_json::to_value(ready).unwrap(),
        json!({"state": "Ready", "message": "ok", "lastTransitionTime": "2026-11-21T09:05:00Z", "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]})
    );
    let retry = waiting("Pending", "")
        .at("2026-11-21T09:05:00.75Z")
        .verdict(Verdict::retry_now("no"))
        .write
        .unwrap();
    assert_eq!(
        serde_json::to_value(retry).unwrap(),
        json!({"state": "Retry", "message": "no", "lastTransitionTime": "2026-11-21T09:05:00Z", "podSetUpdates": [], "requeueAfterSeconds": 0})
    );
}

#[test]
fn only_a_ready_verdict_carries_updates() {
    let updates = PodSetUpdates::builder()
        .pod_set("main", |pods| pods.label("a", "b"))
        .build()
        .unwrap();
    for verdict in [
        Verdict::pending("x"),
        Verdict::retry_now("x"),
        Verdict::rejected("x"),
    ] {
        assert!(
            waiting("Pending", "")
                .verdict(verdict.with_updates(updates.clone()))
                .write
                .unwrap()
                .updates
                .is_empty()
        );
    }
}

#[test]
fn updates_left_from_an_earlier_verdict_are_cleared() {
    let left = json!({"name": "c", "state": "Pending", "message": "later", "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]});
    assert!(
        case(&left)
            .verdict(Verdict::pending("later"))
            .write
            .unwrap()
            .updates
            .is_empty()
    );
}

#[test]
fn a_ready_whose_updates_conflict_is_withdrawn_unless_the_job_is_admitted() {
    let conflict = Outcome::Conflict {
        message: "pool".into(),
    };
    let ready = json!({"name": "c", "state": "Ready", "message": "ok", "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]});
    let withdrawn = case(&ready).conclude(&conflict);
    let message = "Ready is withdrawn, because Kueue would finish the job: pool";
    assert_eq!(written(&withdrawn), format!("Pending: {message}"));
    let again = NextEvaluation::After(Duration::ZERO);
    assert_eq!(withdrawn.next_evaluation, again);
    let running = Case {
        running: true,
        ..case(&ready)
    };
    assert_eq!(running.conclude(&conflict).write, None);
}

#[test]
fn updates_stay_while_the_state_stays_ready() {
    let entry = json!({"name": "c", "state": "Ready", "message": "ok", "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]});
    let updates = |value| {
        PodSetUpdates::builder()
            .pod_set("main", |pods| pods.label("a", value))
            .build()
            .unwrap()
    };
    let same = case(&entry).verdict(Verdict::ready("new words").with_updates(updates("b")));
    assert_eq!(written(&same), "Ready: new words");
    let other = case(&entry).verdict(Verdict::ready("new words").with_updates(updates("c")));
    assert_eq!(
        (other.write, other.notes),
        (None, vec![Notice::UpdatesFrozen])
    );
}

#[test]
fn a_ready_verdict_may_be_withdrawn_before_admission_but_not_after() {
    assert_eq!(
        written(&waiting("Ready", "ok").verdict(Verdict::pending("closed"))),
        "Pending: closed"
    );
    let after = waiting("Ready", "ok")
        .running()
        .verdict(Verdict::pending("closed"));
    assert_eq!((after.write, after.notes), (None, Vec::new()));
}

#[test]
fn a_pending_entry_of_a_running_job_becomes_ready() {
    let conclusion = waiting("Pending", "")
        .running()
        .verdict(Verdict::ready("ok"));
    assert_eq!(written(&conclusion), "Ready: ok");
    let only_words = waiting("Ready", "ok")
        .running()
        .verdict(Verdict::ready("other words"));
    assert_eq!(only_words.write, None);
}

#[test]
fn an_error_never_changes_a_state() {
    for kind in [
        ErrorKind::Transient,
        ErrorKind::Throttled { after: MINUTE },
        ErrorKind::Parameters,
        ErrorKind::Permanent,
    ] {
        let pending = waiting("Pending", "").failure(kind);
        assert_eq!(
            pending.write.map(|patch| patch.state),
            Some(CheckState::Pending),
            "{kind:?}"
        );
        assert_eq!(waiting("Ready", "ok").failure(kind).write, None, "{kind:?}");
        for state in ["Ready", "Pending"] {
            assert_eq!(
                waiting(state, "").running().failure(kind).write,
                None,
                "{kind:?}, running, {state}"
            );
        }
    }
}

#[test]
fn an_error_determines_the_message_and_the_next_evaluation() {
    for (kind, message, again) in [
        (
            ErrorKind::Transient,
            "the check failed; will retry: refused",
            NextEvaluation::Backoff { at_most: None },
        ),
        (
            ErrorKind::Throttled { after: MINUTE },
            "the check was rate limited and will be retried: refused",
            NextEvaluation::After(MINUTE),
        ),
        (
            ErrorKind::Parameters,
            "the check's parameters are invalid: refused",
            NextEvaluation::After(MINUTE),
        ),
        (
            ErrorKind::Permanent,
            "the check cannot evaluate this Workload: refused",
            NextEvaluation::OnChange,
        ),
    ] {
        let conclusion = waiting("Pending", "").failure(kind);
        assert_eq!(written(&conclusion), format!("Pending: {message}"));
        assert_eq!(conclusion.next_evaluation, again);
        assert_eq!(
            waiting("Pending", message).failure(kind).write,
            None,
            "the same error again"
        );
    }
}

#[test]
fn failures_are_counted_until_the_check_decides() {
    let first = waiting("Pending", "").failure(ErrorKind::Transient).memory;
    assert_eq!(
        (
            first.failure_state().failures,
            first.failure_state().failing_since
        ),
        (1, Some("2026-11-21T09:05:00Z".parse().unwrap()))
    );
    let second = waiting("Pending", "")
        .memory(first)
        .at("2026-11-21T09:06:00Z")
        .failure(ErrorKind::Transient)
        .memory;
    assert_eq!(
        (
            second.failure_state().failures,
            second.failure_state().failing_since
        ),
        (2, Some("2026-11-21T09:05:00Z".parse().unwrap()))
    );
    let decided = waiting("Pending", "")
        .memory(second)
        .verdict(Verdict::pending("x"))
        .memory;
    assert_eq!(decided.failure_state(), FailureState::default());
}

#[test]
fn lasting_errors_are_decided_by_the_policy_and_only_before_admission() {
    let policy = |on_error| Policy {
        on_error: Some(on_error),
        on_error_after: Some(MINUTE.into()),
        ..Policy::default()
    };
    let failing = failing_since("2026-11-21T09:04:30Z");
    let soon = waiting("Pending", "")
        .policy(policy(OnError::Admit))
        .memory(failing.clone())
        .failure(ErrorKind::Transient);
    assert_eq!(written_state(&soon), "Pending");
    assert_eq!(
        soon.next_evaluation,
        NextEvaluation::Backoff {
            at_most: Some(Duration::from_secs(30))
        }
    );

    let failing = failing_since("2026-11-21T09:04:00Z");
    let lasting = |on_error, state| {
        waiting(state, "")
            .policy(policy(on_error))
            .memory(failing.clone())
    };
    let admitted = lasting(OnError::Admit, "Pending").failure(ErrorKind::Transient);
    assert_eq!(
        written(&admitted),
        "Ready: admitted without a verdict, by policy `onError: Admit`: refused"
    );
    let retried = lasting(OnError::Retry, "Pending").failure(ErrorKind::Transient);
    assert_eq!(
        written(&retried),
        "Retry(0): requeued, by policy `onError: Retry`: refused"
    );
    assert_eq!(
        written_state(&lasting(OnError::Hold, "Pending").failure(ErrorKind::Transient)),
        "Pending"
    );
    assert_eq!(
        lasting(OnError::Retry, "Ready")
            .failure(ErrorKind::Transient)
            .write,
        None
    );
    assert_eq!(
        lasting(OnError::Retry, "Ready")
            .running()
            .failure(ErrorKind::Transient)
            .write,
        None
    );
    assert_eq!(
        written_state(&lasting(OnError::Retry, "Pending").failure(ErrorKind::Permanent)),
        "Pending"
    );
}

#[test]
fn waiting_is_bounded_by_the_policy() {
    let policy = |then| Policy {
        pending_timeout: Some(PendingTimeout {
            after: Duration::from_secs(600).into(),
            then,
        }),
        ..Policy::default()
    };
    let early = waiting("Pending", "")
        .policy(policy(OnTimeout::Retry))
        .verdict(Verdict::pending("full").recheck_in(Duration::from_secs(900)));
    // The entry was changed a second after the reservation.
    assert_eq!(written(&early), "Pending: full");
    let rest = NextEvaluation::After(Duration::from_secs(301));
    assert_eq!(early.next_evaluation, rest);
    for (then, due, expected) in [
        (OnTimeout::Admit, "Ready", "Ready: admitted"),
        (OnTimeout::Retry, "Retry", "Retry(0): requeued"),
        (OnTimeout::Reject, "Rejected", "Rejected: rejected"),
    ] {
        let late = |case: Case| case.policy(policy(then)).at("2026-11-21T09:10:01Z");
        assert_eq!(
            written(&late(waiting("Pending", "")).verdict(Verdict::pending("full"))),
            format!("{expected}, by policy `pendingTimeout`; it waited for: full")
        );
        assert_eq!(
            written_state(&late(waiting("Pending", "")).failure(ErrorKind::Permanent)),
            due,
            "errors are bounded too"
        );
        assert_eq!(
            written_state(&late(waiting("Pending", "")).conclude(&blocked("inactive"))),
            due
        );
        assert_eq!(
            late(waiting("Pending", ""))
                .running()
                .verdict(Verdict::pending("full"))
                .write,
            None,
            "a running job does not wait"
        );
        assert_eq!(
            written(&late(waiting("Pending", "")).verdict(Verdict::ready("ok"))),
            "Ready: ok"
        );
    }
}

#[test]
fn on_kueue_0_14_the_delay_of_a_retry_is_waited_for_here() {
    let mut case = waiting("Pending", "");
    case.served = ServedApi::fallback(crate::api::ApiVersion::V1beta1);
    let verdict = || Verdict::retry_after(MINUTE, "no capacity");
    let first = case.verdict(verdict());
    assert_eq!(
        written(&first),
        "Pending: no capacity (releases the quota at 2026-11-21T09:06:00Z)"
    );
    assert_eq!(first.next_evaluation, NextEvaluation::After(MINUTE));
    case = case.memory(first.memory).at("2026-11-21T09:05:30Z");
    assert_eq!(
        case.verdict(verdict()).next_evaluation,
        NextEvaluation::After(Duration::from_secs(30)),
        "an evaluation in between does not prolong it"
    );
    assert_eq!(
        case.verdict(Verdict::pending("maybe"))
            .memory
            .failure_state()
            .retry_due,
        None
    );
    case = case.at("2026-11-21T09:06:00Z");
    assert_eq!(written(&case.verdict(verdict())), "Retry(0): no capacity");
}

#[test]
fn a_check_that_monitors_a_running_job_evicts_it_after_enough_failing_verdicts() {
    let mut memory = watched();
    // The third is too soon after the second to count.
    for (failing, at) in [
        (1, "2026-11-21T09:05:00Z"),
        (2, "2026-11-21T09:06:00Z"),
        (2, "2026-11-21T09:06:59Z"),
    ] {
        let conclusion = waiting("Ready", "ok")
            .running()
            .at(at)
            .memory(memory)
            .verdict(Verdict::retry_now("over budget"));
        assert_eq!(conclusion.write, None, "failing verdict {failing}");
        assert_eq!(conclusion.memory.failure_state().failing_verdicts, failing);
        assert_eq!(
            conclusion.next_evaluation,
            NextEvaluation::After(Duration::from_secs(300))
        );
        assert!(matches!(
            conclusion.notes[..],
            [Notice::Suppression {
                why: Suppression::BelowThreshold { needed: 3, .. },
                ..
            }]
        ));
        memory = conclusion.memory;
    }
    let third = waiting("Ready", "ok")
        .running()
        .at("2026-11-21T09:07:00Z")
        .memory(memory.clone())
        .verdict(Verdict::retry_now("over budget"));
    assert!(third.evicts);
    assert_eq!(written(&third), "Retry(0): over budget");
    for lenient in [
        Verdict::ready("ok").recheck_in(MINUTE),
        Verdict::pending("unsure"),
    ] {
        assert_eq!(
            waiting("Ready", "ok")
                .running()
                .memory(memory.clone())
                .verdict(lenient)
                .memory
                .failure_state()
                .failing_verdicts,
            0
        );
    }
}

#[test]
fn the_eviction_limits_after_admission() {
    let after = |after_admission: AfterAdmission| Policy {
        after_admission: Some(after_admission),
        ..Policy::default()
    };
    let once = AfterAdmission {
        consecutive: Some(1),
        ..AfterAdmission::default()
    };
    let ignore = AfterAdmission {
        on_failure: Some(OnFailure::Ignore),
        ..once
    };
    let evict = AfterAdmission {
        on_failure: Some(OnFailure::Evict),
        ..once
    };
    let few = AfterAdmission {
        max_evictions_per_hour: Some(2),
        ..once
    };
    let not_watched = ReservationState {
        monitored: Some(false),
        ..ReservationState::default()
    };
    for (name, policy, memory, evictions, held) in [
        ("watched", once, watched(), 0, None),
        (
            "not watched",
            once,
            not_watched,
            0,
            Some(Suppression::NotMonitored),
        ),
        (
            "not known, and the check monitors admitted jobs",
            once,
            ReservationState::default(),
            0,
            None,
        ),
        (
            "not monitored, but the policy of the administrator evicts",
            evict,
            ReservationState::default(),
            0,
            None,
        ),
        ("ignored", ignore, watched(), 0, Some(Suppression::Ignored)),
        ("below the limit", few, watched(), 1, None),
        (
            "at the limit",
            few,
            watched(),
            2,
            Some(Suppression::RateLimited { limit: 2 }),
        ),
        (
            "none allowed",
            AfterAdmission {
                max_evictions_per_hour: Some(0),
                ..once
            },
            watched(),
            0,
            Some(Suppression::RateLimited { limit: 0 }),
        ),
    ] {
        for verdict in [Verdict::retry_now("x"), Verdict::rejected("x")] {
            let mut case = waiting("Ready", "ok")
                .running()
                .policy(after(policy))
                .memory(memory.clone());
            (case.evictions, case.monitors) = (evictions, true);
            let conclusion = case.verdict(verdict);
            let found = suppressions(&conclusion).first().copied();
            assert_eq!(
                (found, conclusion.write.is_none()),
                (held, held.is_some()),
                "{name}"
            );
        }
    }
}

#[test]
fn a_blocked_evaluation_is_reported_in_a_pending_entry() {
    let inactive = blocked("the admission check is not active");
    assert_eq!(
        written(&waiting("Pending", "").conclude(&inactive)),
        "Pending: the admission check is not active"
    );
    assert_eq!(waiting("Ready", "ok").conclude(&inactive).write, None);
    assert_eq!(
        waiting("Pending", "").running().conclude(&inactive).write,
        None
    );
}

#[test]
fn a_recheck_is_evaluated_in_time() {
    let again = |verdict: Verdict| waiting("Pending", "").verdict(verdict).next_evaluation;
    assert_eq!(again(Verdict::ready("ok")), NextEvaluation::OnChange);
    assert_eq!(
        again(Verdict::ready("ok").recheck_in(MINUTE)),
        NextEvaluation::After(MINUTE)
    );
    assert_eq!(
        again(Verdict::pending("x").recheck_in(MINUTE)),
        NextEvaluation::After(MINUTE)
    );
    let until = |verdict: Verdict| verdict.recheck_until_admitted(MINUTE);
    let until_admitted = NextEvaluation::UntilAdmitted(MINUTE);
    assert_eq!(again(until(Verdict::ready("ok"))), until_admitted);
    assert_eq!(
        again(until(Verdict::pending("x"))),
        NextEvaluation::OnChange
    );
    let unchanged = || until(Verdict::unchanged());
    assert_eq!(again(unchanged()), NextEvaluation::OnChange);
    let stays = waiting("Ready", "ok").verdict(unchanged());
    assert_eq!(stays.next_evaluation, until_admitted);
    let watched = |verdict: Verdict| waiting("Pending", "").verdict(verdict).memory.monitored;
    assert_eq!(watched(Verdict::ready("ok").recheck_in(MINUTE)), Some(true));
    assert_eq!(watched(Verdict::ready("ok")), Some(false));
}

/// An evaluation that began before the admission, or a trigger.
#[test]
fn an_unmonitored_job_is_not_evaluated_again_and_again() {
    let mut ready = waiting("Pending", "").verdict(Verdict::ready("ok"));
    let running = |memory: &mut ReservationState, verdict| {
        let case = waiting("Ready", "ok").running().memory(memory.clone());
        let conclusion = case.verdict(verdict);
        *memory = conclusion.memory;
        conclusion.next_evaluation
    };
    for verdict in [
        Verdict::pending("closed").recheck_in(MINUTE),
        Verdict::retry_now("closed"),
        Verdict::rejected("closed"),
    ] {
        let again = running(&mut ready.memory, verdict);
        assert_eq!(again, NextEvaluation::OnChange);
    }
    let evicts = evict(3);
    let case = waiting("Ready", "ok").running().policy(evicts);
    let conclusion = case
        .memory(ready.memory.clone())
        .verdict(Verdict::pending("x").recheck_in(MINUTE));
    assert_eq!(conclusion.next_evaluation, NextEvaluation::After(MINUTE));
    let ignores = Policy {
        after_admission: Some(AfterAdmission {
            on_failure: Some(OnFailure::Ignore),
            ..AfterAdmission::default()
        }),
        ..Policy::default()
    };
    let case = waiting("Ready", "ok").running().policy(ignores);
    let conclusion = case.memory(ready.memory).verdict(Verdict::retry_now("x"));
    assert_eq!(conclusion.next_evaluation, NextEvaluation::OnChange);
    // A new leader does not know whether the job is monitored.
    let mut unknown = ReservationState::default();
    let again = running(&mut unknown, Verdict::retry_now("closed"));
    assert_eq!(again, NextEvaluation::After(MINUTE));
}

#[test]
fn a_change_of_state_is_reported() {
    let conclusion = waiting("Pending", "").verdict(Verdict::ready("ok"));
    assert_eq!(
        conclusion.notes,
        [Notice::StateChanged {
            from: CheckState::Pending,
            to: CheckState::Ready,
            message: "ok".into()
        }]
    );
}

fn suppressions(conclusion: &Conclusion) -> Vec<Suppression> {
    let held = conclusion.notes.iter().filter_map(|note| match note {
        Notice::Suppression { why, .. } => Some(*why),
        _ => None,
    });
    held.collect()
}

fn evict(consecutive: u32) -> Policy {
    Policy {
        after_admission: Some(AfterAdmission {
            on_failure: Some(OnFailure::Evict),
            consecutive: Some(consecutive),
            max_evictions_per_hour: None,
        }),
        ..Policy::default()
    }
}

fn times_out(then: OnTimeout) -> Policy {
    Policy {
        pending_timeout: Some(PendingTimeout {
            after: MINUTE.into(),
            then,
        }),
        ..Policy::default()
    }
}

#[test]
fn the_time_in_which_the_check_was_ready_is_no_time_of_waiting() {
    let pending = || Verdict::pending("the window is closed");
    for (then, state) in [
        (OnTimeout::Retry, "Pending"),
        (OnTimeout::Reject, "Pending"),
        (OnTimeout::Admit, "Ready"),
    ] {
        let case = waiting("Ready", "open").policy(times_out(then)).at(LATER);
        let conclusion = case.verdict(pending());
        assert_eq!(written_state(&conclusion), state);
        if state == "Pending" {
            let limit = NextEvaluation::After(MINUTE);
            assert_eq!(conclusion.next_evaluation, limit);
        }
    }
    // It waits since 30 s before.
    let entry = json!({"name": "c", "state": "Pending", "message": "", "lastTransitionTime": JUST});
    let case = case(&entry).policy(times_out(OnTimeout::Reject)).at(LATER);
    let conclusion = case.verdict(pending());
    assert_eq!(written_state(&conclusion), "Pending");
    let rest = NextEvaluation::After(MINUTE / 2);
    assert_eq!(conclusion.next_evaluation, rest);
}

const JUST: &str = "2026-11-21T09:59:30Z";
const LATER: &str = "2026-11-21T10:00:00Z";

#[test]
fn a_refusal_of_a_growth_never_stops_what_runs_wherever_it_comes_from() {
    let errors = Policy {
        on_error: Some(OnError::Retry),
        ..Policy::default()
    };
    let failed = |kind| Outcome::Failed {
        kind,
        message: "source down".into(),
    };
    let verdict = Outcome::Verdict;
    let none = Policy::default();
    for (case, policy, outcome, message) in [
        (
            "retry",
            none.clone(),
            verdict(Verdict::retry_now("no money")),
            "no money",
        ),
        (
            "later",
            none.clone(),
            verdict(Verdict::retry_after(MINUTE, "not now")),
            "not now",
        ),
        (
            "rejected",
            none,
            verdict(Verdict::rejected("too large")),
            "too large",
        ),
        (
            "onError",
            errors.clone(),
            failed(ErrorKind::Transient),
            "`onError: Retry` applies: source down",
        ),
        (
            "onError, by parameters",
            errors.clone(),
            failed(ErrorKind::Parameters),
            "`onError: Retry` applies: source down",
        ),
        (
            "pendingTimeout: Retry",
            times_out(OnTimeout::Retry),
            verdict(Verdict::pending("the window is closed")),
            "`pendingTimeout` applies: the window is closed",
        ),
        (
            "pendingTimeout: Reject",
            times_out(OnTimeout::Reject),
            verdict(Verdict::unchanged()),
            "`pendingTimeout` applies: no verdict",
        ),
        (
            "pendingTimeout after errors",
            times_out(OnTimeout::Retry),
            failed(ErrorKind::Throttled { after: MINUTE }),
            "`pendingTimeout` applies: the check was rate limited and will be retried: source down",
        ),
        (
            "pendingTimeout while the check is inactive",
            times_out(OnTimeout::Reject),
            blocked("the admission check is not active"),
            "`pendingTimeout` applies: the admission check is not active",
        ),
    ] {
        for (running, runs) in [
            (Some(2), " with 2 pods"),
            (Some(1), " with 1 pod"),
            (None, ""),
        ] {
            for version in [
                crate::api::ApiVersion::V1beta1,
                crate::api::ApiVersion::V1beta2,
            ] {
                let mut case_of = waiting("Pending", "")
                    .growth(running)
                    .policy(policy.clone())
                    .memory(failing_since("2026-11-21T08:00:00Z"));
                case_of.served = ServedApi::fallback(version);
                let conclusion = case_of.conclude(&outcome);
                let expected = format!("would be refused: {message}; the job runs on{runs}");
                assert_eq!(
                    written(&conclusion),
                    format!("Pending: {expected}"),
                    "{case}"
                );
                assert_eq!(suppressions(&conclusion), [Suppression::Growth], "{case}");
                assert!(
                    !conclusion
                        .notes
                        .iter()
                        .any(|note| matches!(note, Notice::PolicyApplied(_))),
                    "{case}: the policy has decided nothing"
                );
                assert_ne!(
                    conclusion.next_evaluation,
                    NextEvaluation::OnChange,
                    "{case}"
                );
            }
            // The same refusal is written for a job without running pods.
            let whole = waiting("Pending", "")
                .policy(policy.clone())
                .memory(failing_since("2026-11-21T08:00:00Z"))
                .conclude(&outcome);
            let state = whole.write.map(|patch| patch.state);
            assert!(
                matches!(state, Some(CheckState::Retry | CheckState::Rejected)),
                "{case}: {state:?}"
            );
        }
    }
}

#[test]
fn a_growth_that_is_not_rejected_is_decided_as_any_other_workload() {
    for (verdict, expected) in [
        (Verdict::ready("ok"), "Ready: ok"),
        (Verdict::pending("later"), "Pending: later"),
    ] {
        let conclusion = waiting("Pending", "").growth(Some(2)).verdict(verdict);
        assert_eq!(written(&conclusion), expected);
        assert_eq!(suppressions(&conclusion), []);
    }
    let admitted = waiting("Pending", "")
        .growth(Some(2))
        .policy(times_out(OnTimeout::Admit))
        .verdict(Verdict::pending("later"));
    assert_eq!(
        written_state(&admitted),
        "Ready",
        "a Workload that waits too long may start, if the policy allows it"
    );
}

#[test]
fn a_rejected_growth_withdraws_an_earlier_ready() {
    let conclusion = waiting("Ready", "ok")
        .growth(Some(2))
        .verdict(Verdict::rejected("no"));
    let message = "would be refused: no; the job runs on with 2 pods";
    assert_eq!(written(&conclusion), format!("Pending: {message}"));
}

#[test]
fn a_rejected_growth_is_rechecked_as_its_verdict_sets_and_else_with_backoff() {
    let minutes = |minutes| NextEvaluation::After(MINUTE * minutes);
    let at = |verdict: Verdict, memory, now| {
        waiting("Pending", "")
            .growth(Some(2))
            .at(now)
            .memory(memory)
            .verdict(verdict)
    };
    let again = |verdict, memory| at(verdict, memory, "2026-11-21T10:05:00Z");
    for (verdict, expected) in [
        (Verdict::rejected("x").recheck_in(MINUTE * 7), minutes(7)),
        (Verdict::retry_now("x").recheck_in(MINUTE * 7), minutes(7)),
        (Verdict::retry_after(MINUTE * 3, "x"), minutes(3)),
    ] {
        assert_eq!(
            again(verdict, ReservationState::default()).next_evaluation,
            expected
        );
    }
    let mut memory = ReservationState::default();
    for (pause, now) in [
        (1, "2026-11-21T09:05:00Z"),
        (2, "2026-11-21T09:06:00Z"),
        (4, "2026-11-21T09:08:00Z"),
        (8, "2026-11-21T09:12:00Z"),
        (15, "2026-11-21T09:20:00Z"),
        (15, "2026-11-21T09:35:00Z"),
        (15, "2026-11-21T09:50:00Z"),
    ] {
        let conclusion = at(Verdict::rejected("x"), memory, now);
        assert_eq!(conclusion.next_evaluation, minutes(pause));
        memory = conclusion.memory;
    }
    let reset = again(Verdict::pending("maybe"), memory).memory;
    assert_eq!(
        again(Verdict::rejected("x"), reset).next_evaluation,
        minutes(1)
    );
}

#[test]
fn the_policy_may_reject_growths_within_the_eviction_limits_of_running_jobs() {
    let mut memory = ReservationState::default();
    for (failing, now) in [(1, "2026-11-21T09:05:00Z"), (2, "2026-11-21T09:06:00Z")] {
        let conclusion = waiting("Pending", "")
            .growth(Some(2))
            .at(now)
            .policy(evict(3))
            .memory(memory)
            .verdict(Verdict::rejected("too large"));
        let message = "would be refused: too large; the job runs on with 2 pods";
        assert_eq!(
            written(&conclusion),
            format!("Pending: {message}"),
            "{failing}"
        );
        assert!(matches!(
            suppressions(&conclusion)[..],
            [Suppression::BelowThreshold { needed: 3, .. }]
        ));
        assert_eq!(conclusion.next_evaluation, NextEvaluation::After(MINUTE));
        memory = conclusion.memory;
    }
    let mut third = waiting("Pending", "")
        .growth(Some(2))
        .at("2026-11-21T09:07:00Z")
        .policy(evict(3))
        .memory(memory);
    assert_eq!(
        written(&third.verdict(Verdict::rejected("too large"))),
        "Rejected: too large"
    );
    assert_eq!(
        written(&third.verdict(Verdict::retry_after(MINUTE, "no"))),
        "Retry(60): no"
    );
    third.evictions = 10;
    let many = third.verdict(Verdict::rejected("too large"));
    assert_eq!(
        suppressions(&many),
        [Suppression::RateLimited { limit: 10 }]
    );
    // By `pendingTimeout` too.
    let waits = Policy {
        after_admission: evict(2).after_admission,
        ..times_out(OnTimeout::Reject)
    };
    let late = |memory, now| {
        let case = waiting("Pending", "").growth(Some(2)).policy(waits.clone());
        case.at(now)
            .memory(memory)
            .verdict(Verdict::pending("closed"))
    };
    let first = late(ReservationState::default(), "2026-11-21T09:08:00Z");
    assert!(matches!(
        suppressions(&first)[..],
        [Suppression::BelowThreshold { .. }]
    ));
    let second = late(first.memory, "2026-11-21T09:09:00Z");
    assert_eq!(
        written_state(&second),
        "Rejected",
        "and nothing reports it as new each time"
    );
}

#[test]
fn errors_never_evict_a_running_job_whatever_the_policy() {
    for policy in [
        Policy {
            on_error: Some(OnError::Retry),
            ..evict(1)
        },
        Policy {
            pending_timeout: times_out(OnTimeout::Reject).pending_timeout,
            ..evict(1)
        },
    ] {
        let conclusion = waiting("Pending", "")
            .growth(Some(2))
            .policy(policy)
            .memory(failing_since("2026-11-21T08:00:00Z"))
            .failure(ErrorKind::Transient);
        assert_eq!(written_state(&conclusion), "Pending");
        assert_eq!(suppressions(&conclusion), [Suppression::Growth]);
    }
}

/// A check author's Evict is about admitted jobs: check authors do not know of growths.
#[test]
fn only_the_administrators_policy_enables_evictions() {
    let mut case = waiting("Pending", "").growth(Some(2));
    let settled = Policy::resolve(None, &evict(1));
    assert!(!settled.administrator_evicts && settled.on_failure == Some(OnFailure::Evict));
    case.settled = Some(settled);
    let conclusion = case.verdict(Verdict::rejected("no"));
    assert_eq!(suppressions(&conclusion), [Suppression::Growth]);
}

#[test]
fn a_long_reason_is_cut_before_the_running_pods() {
    let long = "x".repeat(MESSAGE_LIMIT);
    let conclusion = waiting("Pending", "")
        .growth(Some(2))
        .verdict(Verdict::rejected(long));
    let message = conclusion.write.unwrap().message.to_string();
    assert!(message.chars().count() <= MESSAGE_LIMIT);
    assert!(
        message.ends_with("x…; the job runs on with 2 pods"),
        "{message}"
    );
}
