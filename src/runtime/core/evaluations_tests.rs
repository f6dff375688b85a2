//! One check and the Workload `w`: changes while a task is in flight, and failed writes.

use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::super::driver::{Driver, OLD, admission_check, limited, reserved, stored};
use super::super::{Input, LeaseState, TaskId, TaskResult};
use super::*;
use crate::api::{AdmissionCheck, ResourceVersion, StatusCondition, Uid};
use crate::check::samples::Limit;
use crate::check::{Check, DynCheck, OnTimeout, PendingTimeout, Policy, ReleaseOutcome, Trigger};
use crate::runtime::evaluate::CallError;
use crate::runtime::writer::WriteError;

fn waits(version: u32) -> Workload {
    reserved(version, 1, &json!({}))
}

fn evicted(version: u32) -> Workload {
    let evicted =
        json!({"type": "Evicted", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"});
    reserved(version, 1, &json!({"/status/conditions/-": evicted}))
}

/// The Workload with a written verdict.
fn decided(version: u32, state: &str, message: &str) -> Workload {
    let entry = json!([{"name": "c", "state": state, "message": message}]);
    reserved(version, 1, &json!({"/status/admissionChecks": entry}))
}

/// The Workload after it has lost its quota, with the verdict `state`.
fn without_quota(version: u32, state: &str) -> Workload {
    let changes = json!({
        "/status/conditions": [{"type": "QuotaReserved", "status": "False"}],
        "/status/admission": null,
        "/status/admissionChecks": [{"name": "c", "state": state}],
    });
    reserved(version, 1, &changes)
}

/// The admitted Workload, with a written Ready.
fn admitted(version: u32) -> Workload {
    let changes = json!({
        "/status/conditions/-": {"type": "Admitted", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"},
        "/status/admissionChecks": [{"name": "c", "state": "Ready"}],
    });
    reserved(version, 1, &changes)
}

/// Returns a driver that leads and shows `workload`, which is evaluated.
fn evaluating(workload: Workload) -> (Driver, TaskId) {
    let mut driver = Driver::leading(1);
    driver.shows(workload);
    let id = driver.evaluation(OLD).expect("it is evaluated");
    (driver, id)
}

/// Returns a driver that leads and has written Ready, in the version 6.
fn ready() -> Driver {
    let (mut driver, id) = evaluating(waits(5));
    driver.evaluated(id, Verdict::ready("ok"));
    driver.written(decided(6, "Ready", "ok"));
    driver
}

/// The watch selects Workloads with quota, and `last` has left it.
fn leaves(driver: &mut Driver, last: Workload) {
    let (event, selected) = (Event::Delete(last), true);
    driver.feed(Input::Workloads { event, selected });
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_dropped_when_the_workload_changed_meanwhile() {
    let update = json!({"name": "d", "state": "Ready",
        "podSetUpdates": [{"name": "main", "nodeSelector": {"zone": "b"}}]});
    let updated = reserved(6, 1, &json!({"/status/admissionChecks/-": update}));
    let labeled = reserved(6, 1, &json!({"/metadata/labels": {"team": "a"}}));
    let table = [
        ("nothing", waits(6), true),
        ("the updates of another check", updated, false),
        ("a label", labeled, false),
        ("its reservation", reserved(6, 3, &json!({})), false),
    ];
    for (changed, workload, written) in table {
        let (mut driver, id) = evaluating(waits(5));
        driver.shows(workload);
        driver.evaluated(id, Verdict::ready("ok"));
        driver.pass(Duration::from_secs(10));
        assert_eq!(driver.write().is_some(), written, "{changed} changed");
        while let Some((id, release)) = driver.release() {
            assert_eq!(release.1, 1, "{changed} changed");
            assert!(driver.evaluation(OLD).is_none(), "not before the release");
            driver.ends(id, TaskResult::Released(Ok(ReleaseOutcome::Done)));
        }
        assert_eq!(
            driver.evaluation(OLD).is_none(),
            written,
            "{changed} changed"
        );
    }
}

/// A growth is evaluated while the slice that it replaces runs, which is deleted meanwhile.
#[tokio::test(start_paused = true)]
async fn a_verdict_is_dropped_when_what_runs_of_the_job_changed_meanwhile() {
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "el", "uid": "el", "controller": true}]);
    let elastic = json!({"kueue.x-k8s.io/elastic-job": "true"});
    let admitted = json!({"type": "Admitted", "status": "True"});
    let first = |version: u32, more: Value| {
        let mut changes = json!({
            "/metadata/name": "first", "/metadata/uid": "first",
            "/metadata/annotations": elastic, "/metadata/ownerReferences": owner,
            "/status/conditions/-": admitted,
            "/status/admissionChecks": [{"name": "c", "state": "Ready"}],
        });
        for (pointer, value) in more.as_object().unwrap() {
            changes[pointer] = value.clone();
        }
        reserved(version, 1, &changes)
    };
    let mut annotations = elastic.clone();
    annotations["kueue.x-k8s.io/workload-slice-replacement-for"] = "t/first".into();
    let growth = reserved(
        6,
        2,
        &json!({"/metadata/annotations": annotations, "/metadata/ownerReferences": owner,
            "/spec/podSets": [{"name": "main", "count": 3}],
            "/status/admission/podSetAssignments": [{"name": "main", "count": 3}]}),
    );
    let mut driver = Driver::leading(10);
    driver.core.work.never_allocate.insert(OLD);
    driver.shows(first(5, json!({})));
    driver.evaluates(Verdict::ready("ok"));
    driver.shows(growth);
    let id = driver.evaluation(OLD).expect("the growth is evaluated");
    let finished = json!({"/status/conditions": [
        {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"},
        {"type": "Finished", "status": "True", "reason": "Succeeded"},
    ]});
    driver.shows(first(7, finished));
    driver.evaluated(id, Verdict::ready("ok"));
    assert!(driver.write().is_none(), "nothing runs any more");
    assert!(driver.evaluation(OLD).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_evaluated_after_the_release_of_the_one_before() {
    let mut driver = ready();
    driver.shows(reserved(7, 3, &json!({})));
    assert!(driver.evaluation(OLD).is_none());
    let (id, (_, since, why)) = driver.release().expect("it is released");
    assert_eq!((since, why), (1, ReleaseReason::QuotaLost));
    let later = Ok(ReleaseOutcome::RetryAfter(Duration::from_mins(10)));
    driver.ends(id, TaskResult::Released(later));
    driver.written_back();
    driver.pass(Duration::from_secs(1));
    driver.shows(reserved(8, 3, &json!({"/metadata/labels": {"team": "a"}})));
    write_back(&mut driver);
    driver.pass(Duration::from_secs(10));
    assert!(driver.evaluation(OLD).is_none(), "it is not released yet");
    driver.pass(Duration::from_mins(10));
    while let Some((id, _)) = driver.release() {
        driver.ends(id, TaskResult::Released(Ok(ReleaseOutcome::Done)));
    }
    assert!(driver.evaluation(OLD).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_lists_workloads_before_it_decides() {
    let mut driver = Driver::new(10);
    driver.lists(Vec::new(), vec![waits(5)]);
    driver.refers_to(1, "c", "Limit");
    driver.restarted = false;
    driver.feed(Input::Lease(LeaseState::Acquired));
    assert!(driver.restarted, "the watch");
    assert!(driver.activation(OLD).is_none(), "it does not lead yet");
    driver.lists_workloads(vec![waits(6)]);
    driver.activated(OLD);
    assert!(driver.evaluation(OLD).is_some());
}

/// The list may be older than the last writes of the leader before.
#[tokio::test(start_paused = true)]
async fn a_new_leader_lists_workloads_again_if_its_list_has_begun() {
    for begun in [false, true] {
        let mut driver = Driver::new(10);
        if begun {
            let (event, selected) = (Event::Init, true);
            driver.feed(Input::Workloads { event, selected });
        }
        driver.feed(Input::Lease(LeaseState::Acquired));
        assert_eq!(driver.restarted, begun);
    }
}

#[tokio::test(start_paused = true)]
async fn a_canceled_task_is_started_again_by_the_same_leader() {
    let (mut driver, _) = evaluating(waits(5));
    driver.lapses();
    driver.evaluates(Verdict::pending("a moment"));
    driver.written(decided(6, "Pending", "a moment"));
    assert!(driver.evaluation(OLD).is_none(), "nothing changed");
    driver.pass(Duration::from_secs(10));
    driver.triggers(OLD, Trigger::AllWorkloads);
    driver.evaluates(Verdict::ready("ok"));
    assert!(driver.write().is_some(), "it may be applied or not");
    driver.lapses();
    assert!(driver.evaluation(OLD).is_some(), "after a canceled write");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_decided_again_after_a_failed_write() {
    let unavailable = WriteError::Unavailable("no reply".to_owned());
    for error in [WriteError::Conflict, unavailable, WriteError::NotLeader] {
        let (mut driver, id) = evaluating(waits(5));
        driver.evaluated(id, Verdict::ready("ok"));
        let text = format!("{error:?}");
        driver.write_fails(error);
        assert!(driver.evaluation(OLD).is_none(), "{text}: not at once");
        driver.pass(Duration::from_secs(10));
        assert!(driver.evaluation(OLD).is_some(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_already_is_evaluated_again_when_that_is_due() {
    let (mut driver, id) = evaluating(decided(5, "Pending", "a moment"));
    let again = Duration::from_mins(10);
    driver.evaluated(id, Verdict::pending("a moment").recheck_in(again));
    assert!(driver.write().is_none(), "nothing differs");
    driver.pass(Duration::from_mins(9));
    assert!(driver.evaluation(OLD).is_none(), "not yet");
    driver.pass(Duration::from_mins(3));
    assert!(driver.evaluation(OLD).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_ready_without_quota_is_withdrawn_in_the_newest_state() {
    let mut driver = ready();
    leaves(&mut driver, without_quota(7, "Ready"));
    let id = driver.read().expect("it is read");
    // Meanwhile it gets quota and loses it again.
    driver.shows(reserved(8, 3, &json!({})));
    driver.ends(id, TaskResult::Read(Ok(Some(without_quota(7, "Ready")))));
    assert!(driver.write().is_none(), "the state that was read is old");
    assert!(driver.read().is_some(), "it is read again");
}

#[tokio::test(start_paused = true)]
async fn a_failed_withdrawal_is_retried() {
    let unavailable = WriteError::Unavailable("no reply".to_owned());
    for (error, reads) in [(WriteError::Conflict, true), (unavailable, false)] {
        let text = format!("{error:?}");
        let mut driver = ready();
        driver.core.work.never_allocate.insert(OLD);
        driver.shows(without_quota(7, "Ready"));
        driver.write_fails(error);
        driver.pass(Duration::from_mins(1));
        if reads {
            driver.reads(without_quota(8, "Ready"));
        }
        let (id, _) = driver.write().unwrap_or_else(|| panic!("{text}: again"));
        let withdrawn = without_quota(9, "Pending");
        driver.ends(id, TaskResult::EntryWritten(Ok(withdrawn)));
        driver.pass(Duration::from_mins(10));
        assert!(driver.started.is_empty(), "{text}: once");
    }
}

/// Something rejects each withdrawal, although the read state is the newest.
#[tokio::test(start_paused = true)]
async fn withdrawals_that_conflict_again_and_again_are_retried_ever_more_rarely() {
    let mut driver = ready();
    driver.core.work.never_allocate.insert(OLD);
    driver.shows(without_quota(7, "Ready"));
    let mut writes = 0;
    for _ in 0..600 {
        while let Some((id, _)) = driver.write() {
            writes += 1;
            assert!(writes < 100);
            driver.ends(id, TaskResult::EntryWritten(Err(WriteError::Conflict)));
            if let Some(id) = driver.read() {
                driver.ends(id, TaskResult::Read(Ok(Some(without_quota(7, "Ready")))));
            }
        }
        driver.pass(Duration::from_secs(1));
        if let Some(id) = driver.read() {
            driver.ends(id, TaskResult::Read(Ok(Some(without_quota(7, "Ready")))));
        }
    }
    assert!((5..30).contains(&writes), "{writes} in ten minutes");
}

/// The check whose parameters are invalid has a message for that.
fn with_message() -> Driver {
    with_message_and(Policy::default())
}

fn with_message_and(policy: Policy) -> Driver {
    let check = limited::<Limit>().policy(policy);
    waiting_for(check.on_parameters_unavailable(|_| Some("no parameters".to_owned())))
}

/// Returns a driver that leads and evaluates the Workload by `check`.
fn waiting_for(check: Check<Limit>) -> Driver {
    let mut driver = Driver::of(vec![DynCheck::new(check)], 10);
    driver.leads_at_once();
    driver.refers_to(1, "c", "Limit");
    driver.activated(OLD);
    driver.finish_side_tasks();
    driver.shows(waits(5));
    driver
}

fn loses_parameters(driver: &mut Driver) {
    let (kind, event) = (0, Event::Delete(stored("a")));
    driver.feed(Input::Parameters { kind, event });
    driver.pass(Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn parameters_that_an_evaluation_rejects_are_written_once() {
    let mut driver = with_message();
    let id = driver.evaluation(OLD).expect("it is evaluated");
    let failed = Outcome::Failed {
        kind: crate::check::ErrorKind::Parameters,
        message: "no such zone".into(),
    };
    driver.concluded(id, failed);
    assert!(driver.write().is_some());
    assert!(driver.write().is_none(), "one write at a time");
}

/// Kueue does not admit by Pending.
#[tokio::test(start_paused = true)]
async fn resources_of_an_inactive_check_are_released_although_its_message_cannot_be_written() {
    let mut driver = with_message();
    let id = driver.evaluation(OLD).expect("it is evaluated");
    driver.decided(id);
    loses_parameters(&mut driver);
    let error = WriteError::Unavailable("500".into());
    driver.write_fails(error);
    assert!(driver.release().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_missed_workload_follows_a_pause() {
    let mut driver = Driver::leading(1);
    driver.pass(Duration::from_mins(2));
    driver.core.pause(Duration::from_mins(1));
    driver.compares(waits(5), "5");
    let pause = driver.now.instant + Duration::from_mins(1);
    assert_eq!(driver.core.next_step(), Some(pause));
}

/// Until Kueue knows that the verdict is withdrawn it may start the job by it.
#[tokio::test(start_paused = true)]
async fn resources_are_released_once_the_verdict_of_an_inactive_check_is_withdrawn() {
    for (name, last, released) in [
        ("it is admitted", admitted(7), false),
        ("it waits", decided(7, "Ready", "ok"), true),
    ] {
        let mut driver = with_message();
        driver.evaluates(Verdict::ready("ok"));
        driver.written(decided(6, "Ready", "ok"));
        loses_parameters(&mut driver);
        driver.write_fails(WriteError::Conflict);
        driver.shows(last);
        assert!(driver.release().is_none(), "{name}: not yet");
        driver.pass(Duration::from_secs(1));
        if let Some((id, _)) = driver.write() {
            assert!(driver.release().is_none(), "{name}: not yet");
            let withdrawn = decided(8, "Pending", "no parameters");
            driver.ends(id, TaskResult::EntryWritten(Ok(withdrawn)));
        }
        driver.pass(Duration::from_secs(10));
        assert_eq!(driver.release().is_some(), released, "{name}");
        if !released {
            assert_eq!(evaluations_of_a_minute(&mut driver), 1, "{name}");
        }
    }
}

/// Activates the check again, and returns the number of evaluations with Retry in a minute.
fn evaluations_of_a_minute(driver: &mut Driver) -> usize {
    let (kind, event) = (0, Event::Apply(stored("a")));
    driver.feed(Input::Parameters { kind, event });
    driver.activated(OLD);
    let mut evaluations = 0;
    for _ in 0..59 {
        while let Some(id) = driver.evaluation(OLD) {
            evaluations += 1;
            driver.evaluated(id, Verdict::retry_now("not now"));
        }
        driver.pass(Duration::from_secs(1));
    }
    evaluations
}

/// By the policy a Workload without a verdict is admitted, so what it has stays its own.
#[tokio::test(start_paused = true)]
async fn resources_are_not_released_while_the_policy_keeps_ready() {
    let policy = Policy {
        pending_timeout: Some(PendingTimeout {
            after: Duration::from_secs(1).into(),
            then: OnTimeout::Admit,
        }),
        ..Policy::default()
    };
    let mut driver = with_message_and(policy);
    driver.evaluates(Verdict::ready("ok"));
    driver.written(decided(6, "Ready", "ok"));
    driver.pass(Duration::from_mins(1));
    loses_parameters(&mut driver);
    let text = "admitted, by policy `pendingTimeout`; it waited for: no parameters";
    driver.written(decided(7, "Ready", text));
    for _ in 0..60 {
        driver.pass(Duration::from_secs(1));
        assert!(driver.release().is_none());
    }
    driver.shows(without_quota(8, "Pending"));
    assert!(driver.release().is_some());
}

/// A list that was too old to name the Workload, while its job is being evicted.
#[tokio::test(start_paused = true)]
async fn resources_are_released_although_the_workload_seemed_deleted() {
    let (mut driver, id) = evaluating(waits(5));
    driver.decided(id);
    driver.lists_workloads(Vec::new());
    driver.reads(evicted(6));
    assert!(driver.release().is_none(), "its pods remain");
    driver.shows(without_quota(7, "Pending"));
    assert!(driver.release().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_change_while_a_verdict_is_written_is_evaluated() {
    let (mut driver, id) = evaluating(waits(5));
    driver.evaluated(id, Verdict::pending("a moment"));
    let (id, _) = driver.write().expect("it is written");
    driver.shows(reserved(6, 1, &json!({"/metadata/labels": {"team": "a"}})));
    assert!(driver.evaluation(OLD).is_none(), "not twice at once");
    let entry = json!([{"name": "c", "state": "Pending", "message": "a moment"}]);
    let changes = json!({"/metadata/labels": {"team": "a"}, "/status/admissionChecks": entry});
    let written = reserved(7, 1, &changes);
    driver.ends(id, TaskResult::EntryWritten(Ok(written)));
    driver.pass(Duration::from_secs(1));
    assert!(driver.evaluation(OLD).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_an_older_state_changes_nothing() {
    let mut driver = ready();
    leaves(&mut driver, waits(5));
    driver.pass(Duration::from_secs(10));
    assert!(driver.started.is_empty());
    leaves(&mut driver, waits(7));
    assert!(driver.read().is_some(), "a newer one does");
}

#[tokio::test(start_paused = true)]
async fn a_standby_keeps_no_reads_for_later() {
    let mut driver = Driver::new(10);
    driver.compares(reserved(3, 1, &json!({})), "7");
    assert!(driver.core.work.to_confirm.is_empty());
}

/// After a restore of the API server's storage, versions are lower than before.
#[tokio::test(start_paused = true)]
async fn an_older_state_is_taken_after_a_restore_of_the_storage() {
    let restored = reserved(3, 1, &json!({"/metadata/labels": {"team": "a"}}));
    let compare = |driver: &mut Driver, as_of| {
        driver.compares(restored.clone(), as_of);
        driver.read()
    };
    let mut driver = ready();
    assert!(compare(&mut driver, "5").is_none(), "the list is older");
    let id = compare(&mut driver, "7").expect("it is read");
    driver.ends(id, TaskResult::Read(Ok(Some(restored.clone()))));
    driver.pass(Duration::from_secs(1));
    driver.evaluates(Verdict::ready("ok"));
    let (_, workload) = driver.write().expect("it is written");
    assert_eq!(*workload.resource_version(), ResourceVersion::new("3"));
}

/// The Workload left the watch in a version that the restored storage has not reached.
#[tokio::test(start_paused = true)]
async fn a_read_state_is_taken_after_a_restore_of_the_storage() {
    let restored = waits(3);
    let mut driver = ready();
    leaves(&mut driver, without_quota(1000, "Ready"));
    driver.reads(restored);
    assert!(driver.read().is_none(), "not again and again");
    driver.pass(Duration::from_mins(1));
    assert!(driver.evaluation(OLD).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_list_of_unreleased_reservations_that_fails_is_repeated() {
    let mut driver = Driver::new(10);
    driver.leads_at_once();
    let lists = |task: &Task| matches!(task, Task::ListUnreleased { controller: OLD });
    for _ in ["once", "twice"] {
        let (id, _) = driver.take(lists).expect("it is listed");
        let failed = CallError::TimedOut(Duration::from_secs(30));
        driver.ends(id, TaskResult::Unreleased(Err(failed)));
        assert!(driver.take(lists).is_none(), "not at once");
        driver.pass(Duration::from_mins(1));
    }
    assert!(driver.take(lists).is_some());
}

#[tokio::test(start_paused = true)]
async fn stale_verdicts_are_listed_when_an_admission_check_is_created_again() {
    let mut driver = Driver::leading(10);
    let deleted = admission_check(1, "c", "Limit");
    driver.feed(Input::AdmissionChecks(Event::Delete(deleted)));
    driver.scans = 0;
    driver.refers_to(2, "c", "Limit");
    assert_eq!(driver.scans, 1);
}

/// Kueue decided about a Workload from an older copy, after its quota was lost.
#[tokio::test(start_paused = true)]
async fn a_verdict_without_quota_is_withdrawn_also_while_something_is_released() {
    let mut driver = ready();
    leaves(&mut driver, without_quota(7, "Pending"));
    let read = without_quota(7, "Pending");
    driver.reads(read);
    let (id, _) = driver.release().expect("it is released");
    driver.feed(Input::WithoutQuota(without_quota(8, "Ready")));
    driver.ends(id, TaskResult::Released(Ok(ReleaseOutcome::Done)));
    assert!(driver.write().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_of_this_leader_continues_after_a_lapse_however_old_it_is() {
    let mut driver = ready();
    driver.shows(reserved(7, 3, &json!({})));
    let (id, _) = driver.release().expect("it is released");
    let later = Ok(ReleaseOutcome::RetryAfter(Duration::from_mins(5)));
    driver.ends(id, TaskResult::Released(later));
    driver.pass(Duration::from_mins(2));
    driver.lapses();
    write_back(&mut driver);
    driver.pass(Duration::from_mins(5));
    assert!(driver.evaluation(OLD).is_none(), "not before the release");
    assert!(driver.release().is_some());
}

/// A standby cannot know what the leader allocates.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_ended_before_a_standby_leads_is_released() {
    let finished = json!({"type": "Finished", "status": "True", "reason": "Succeeded"});
    let finished = reserved(6, 1, &json!({"/status/conditions/-": finished}));
    for shown in [Some(finished), None] {
        let mut driver = Driver::new(10);
        driver.lists(vec![admission_check(1, "c", "Limit")], Vec::new());
        driver.shows(waits(5));
        if let Some(finished) = shown {
            driver.shows(finished);
        }
        driver.leads(Vec::new());
        driver.finish_side_tasks();
        if let Some(id) = driver.read() {
            driver.ends(id, TaskResult::Read(Ok(None)));
        }
        assert!(driver.release().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_without_a_reply_counts_though_the_next_write_of_it_fails() {
    for lapses in [false, true] {
        let (mut driver, first) = evaluating(admitted(5));
        let id = evicts(&mut driver, first);
        if lapses {
            driver.lapses();
        } else {
            let lost = WriteError::Unavailable("lost".into());
            driver.ends(id, TaskResult::EntryWritten(Err(lost)));
            driver.pass(Duration::from_secs(3));
        }
        let second = driver.evaluation(OLD).expect("it is evaluated again");
        let id = evicts(&mut driver, second);
        driver.ends(id, TaskResult::EntryWritten(Err(WriteError::Conflict)));
        assert_eq!(evictions(&driver), 1, "{lapses}");
    }
}

/// Without its record no eviction is written.
#[tokio::test(start_paused = true)]
async fn an_eviction_whose_record_was_canceled_does_not_count() {
    for recorded in [false, true] {
        let (mut driver, id) = evaluating(admitted(5));
        driver.evaluated(id, Verdict::rejected("no more"));
        let record = |task: &Task| matches!(task, Task::WriteConditions { .. });
        let Some((
            _,
            Task::WriteConditions {
                mut object,
                conditions,
                ..
            },
        )) = driver.take(record)
        else {
            panic!("it is recorded")
        };
        assert_eq!(evictions(&driver), 1);
        driver.feed(Input::Lease(LeaseState::Lapsed));
        if recorded {
            object.version = ResourceVersion::new("9");
            object.after_admission = Some(StatusCondition {
                status: "True".to_owned(),
                reason: "Recorded".to_owned(),
                message: conditions[1].message.clone(),
                observed_generation: None,
                since: None,
            });
            driver.feed(Input::AdmissionChecks(Event::Apply(object)));
        }
        driver.feed(Input::Lease(LeaseState::Acquired));
        assert_eq!(evictions(&driver), 0, "{recorded}");
        let id = driver.evaluation(OLD).expect("it is evaluated again");
        driver.evaluated(id, Verdict::ready("ok"));
        assert_eq!(evictions(&driver), 0, "{recorded}");
    }
}

/// The record of an eviction was refused, so nothing was evicted.
#[tokio::test(start_paused = true)]
async fn an_eviction_for_an_admission_check_that_is_gone_does_not_count() {
    let (mut driver, id) = evaluating(admitted(5));
    driver.evaluated(id, Verdict::rejected("no more"));
    let (id, _) = driver.conditions().expect("it is recorded");
    assert_eq!(evictions(&driver), 1);
    let recreated = json!({
        "metadata": {"name": "c", "uid": "c2", "resourceVersion": "9", "generation": 1},
        "spec": {"controllerName": "example.com/limited",
            "parameters": {"apiGroup": "example.com", "kind": "Limit", "name": "a"}},
    });
    let recreated = AdmissionCheck::from_json(recreated).unwrap();
    driver.feed(Input::AdmissionChecks(Event::Apply(recreated)));
    driver.ends(id, TaskResult::ConditionsWritten(Err(WriteError::Gone)));
    assert_eq!(evictions(&driver), 0);
}

/// Returns the number of evictions that count for another Workload.
fn evictions(driver: &Driver) -> u32 {
    let (at, uid) = (jiff::Timestamp::UNIX_EPOCH, Uid::new("other"));
    let other = Reservation::new("t", "other", uid, "c", at);
    let limit = &driver.core.checks["c"].after_admission;
    limit.used(driver.now.wall, &other)
}

/// Ends the evaluation `id` with Rejected, and returns the write of the eviction.
fn evicts(driver: &mut Driver, id: TaskId) -> TaskId {
    driver.evaluated(id, Verdict::rejected("no more"));
    if let Some((id, recorded)) = driver.conditions() {
        driver.ends(id, TaskResult::ConditionsWritten(Ok(Box::new(recorded))));
    }
    driver.write().expect("it is written").0
}

#[tokio::test(start_paused = true)]
async fn the_condition_of_a_check_is_written_after_the_lease_had_lapsed_for_a_moment() {
    let mut driver = Driver::new(10);
    driver.leads_at_once();
    driver.refers_to(1, "c", "Limit");
    driver.activated(OLD);
    let (id, _) = driver.conditions().expect("it is written");
    driver.ends(
        id,
        TaskResult::ConditionsWritten(Err(WriteError::NotLeader)),
    );
    driver.pass(Duration::from_secs(10));
    assert!(driver.conditions().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_active_again_before_it_was_evicted_is_evaluated() {
    let (mut driver, id) = evaluating(waits(5));
    driver.evaluated(
        id,
        Verdict::pending("a moment").recheck_in(Duration::from_mins(10)),
    );
    let (id, _) = driver.write().expect("it is written");
    let written = |version, active: bool| {
        let entry = json!([{"name": "c", "state": "Pending", "message": "a moment"}]);
        reserved(
            version,
            1,
            &json!({"/status/admissionChecks": entry, "/spec/active": active}),
        )
    };
    driver.ends(id, TaskResult::EntryWritten(Ok(written(6, true))));
    driver.shows(written(7, false));
    driver.pass(Duration::from_mins(20));
    assert!(driver.evaluation(OLD).is_none(), "its pods end");
    driver.shows(written(8, true));
    assert!(driver.evaluation(OLD).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_ready_is_rechecked_until_kueue_admits_by_it() {
    let minute = Duration::from_mins(1);
    for admits in ["never", "after the reply", "before the reply"] {
        let (mut driver, id) = evaluating(waits(5));
        driver.evaluated(id, Verdict::ready("").recheck_until_admitted(minute));
        let (id, _) = driver.write().expect("it is written");
        if admits == "before the reply" {
            driver.shows(admitted(7));
        }
        let written = decided(6, "Ready", "");
        driver.ends(id, TaskResult::EntryWritten(Ok(written)));
        assert!(driver.evaluation(OLD).is_none(), "not at once");
        if admits == "after the reply" {
            driver.shows(admitted(7));
        }
        driver.pass(minute * 2);
        assert_eq!(
            driver.evaluation(OLD).is_some(),
            admits == "never",
            "{admits}"
        );
    }
}

/// Returns a driver that has written Ready and waits for `delay` before it releases an older
/// reservation.
fn ready_while_another_is_released(delay: Duration) -> Driver {
    let (mut driver, id) = evaluating(waits(5));
    driver.evaluated(id, Verdict::ready(""));
    driver.written(decided(6, "Ready", ""));
    driver.triggers(OLD, Trigger::UnreleasedReservations);
    let (id, _) = driver
        .take(|task| matches!(task, Task::ListUnreleased { controller: OLD }))
        .expect("it is listed");
    let at = jiff::Timestamp::UNIX_EPOCH;
    let older = Reservation::new("t", "w", Uid::new("w"), "c", at);
    driver.ends(id, TaskResult::Unreleased(Ok(vec![older])));
    if let Some(id) = driver.read() {
        let read = decided(6, "Ready", "");
        driver.ends(id, TaskResult::Read(Ok(Some(read))));
    }
    release_takes(&mut driver, delay);
    driver
}

/// Ends the started release: it is to be called again after `delay`.
#[track_caller]
fn release_takes(driver: &mut Driver, delay: Duration) {
    let (id, _) = driver.release().expect("it is released");
    let later = Ok(ReleaseOutcome::RetryAfter(delay));
    driver.ends(id, TaskResult::Released(later));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_delay_survives_the_admission() {
    let mut driver = ready_while_another_is_released(Duration::from_secs(30));
    driver.shows(admitted(7));
    driver.pass(Duration::from_mins(1));
    assert!(driver.release().is_some(), "it is retried");
}

/// Kueue may reserve quota again at once, and admit by the verdict.
#[tokio::test(start_paused = true)]
async fn a_stale_verdict_is_withdrawn_before_the_delay_of_a_release_is_over() {
    let hour = Duration::from_mins(60);
    let evicted = |version| {
        let changes = json!({
            "/status/conditions/-": {"type": "Evicted", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"},
            "/status/admissionChecks": [{"name": "c", "state": "Ready"}],
        });
        reserved(version, 1, &changes)
    };
    for (last, during) in [
        (evicted(8), false),
        (evicted(8), true),
        (without_quota(8, "Ready"), false),
        (without_quota(8, "Ready"), true),
    ] {
        let mut driver = waiting_for(limited().release_at_eviction());
        driver.evaluates(Verdict::ready("ok"));
        driver.written(decided(6, "Ready", "ok"));
        driver.shows(evicted(7));
        if during {
            leaves(&mut driver, last);
            release_takes(&mut driver, hour);
        } else {
            release_takes(&mut driver, hour);
            leaves(&mut driver, last);
        }
        driver.reads(without_quota(9, "Ready"));
        driver.written(without_quota(10, "Pending"));
        write_back(&mut driver);
        driver.pass(Duration::from_mins(59));
        assert!(driver.release().is_none(), "its delay is not over");
        driver.pass(Duration::from_mins(2));
        assert!(driver.release().is_some());
    }
    let mut driver = ready_while_another_is_released(hour);
    leaves(&mut driver, without_quota(8, "Ready"));
    driver.reads(without_quota(9, "Ready"));
    driver.written(without_quota(10, "Pending"));
}

/// Ends the started writes with the Workloads that were sent.
fn write_back(driver: &mut Driver) {
    while let Some((id, workload)) = driver.write() {
        driver.ends(id, TaskResult::EntryWritten(Ok(workload)));
    }
}

/// The check watches what its `release` changes, so each call causes an event.
#[tokio::test(start_paused = true)]
async fn a_release_is_retried_after_its_delay_whatever_happens_meanwhile() {
    type Change = fn(&mut Driver);
    let table: [(&str, Change); 7] = [
        ("nothing", |_| {}),
        (
            "the Workload, so that the message is not written",
            |driver| {
                if let Some((id, _)) = driver.write() {
                    let conflict = TaskResult::EntryWritten(Err(WriteError::Conflict));
                    driver.ends(id, conflict);
                }
            },
        ),
        ("a watch of the check's about all", |driver| {
            driver.triggers(OLD, Trigger::AllWorkloads);
        }),
        ("one about this Workload", |driver| {
            driver.triggers(OLD, Trigger::Uid(Uid::new("w")));
        }),
        ("a label of the Workload", |driver| {
            let labels = json!({"/metadata/labels": {"team": "a"}});
            driver.shows(reserved(10, 3, &labels));
        }),
        ("its entry", |driver| {
            let entry = json!([{"name": "c", "state": "Pending", "message": "of another client"}]);
            driver.shows(reserved(10, 3, &json!({"/status/admissionChecks": entry})));
        }),
        ("its flavor", |driver| {
            let flavor = crate::api::ResourceFlavor {
                name: "spot".to_owned(),
                ..Default::default()
            };
            driver.feed(Input::Flavors(Event::Apply(flavor)));
        }),
    ];
    for (changed, change) in table {
        for during in ["the call", "the write", "the delay"] {
            let mut driver = ready();
            driver.shows(reserved(8, 3, &json!({})));
            let (id, _) = driver.release().expect("it is released");
            if during == "the call" {
                change(&mut driver);
            }
            let later = ReleaseOutcome::RetryAfter(Duration::from_secs(20));
            driver.ends(id, TaskResult::Released(Ok(later)));
            if during == "the write" {
                change(&mut driver);
            }
            write_back(&mut driver);
            if during == "the delay" {
                change(&mut driver);
            }
            for _ in 0..18 {
                write_back(&mut driver);
                driver.pass(Duration::from_secs(1));
                assert!(driver.release().is_none(), "{changed} during {during}");
            }
            driver.pass(Duration::from_secs(5));
            let (id, _) = driver.release().expect("it is retried");
            driver.ends(id, TaskResult::Released(Ok(ReleaseOutcome::Done)));
            assert!(
                driver.evaluation(OLD).is_some(),
                "{changed} during {during}"
            );
        }
    }
}

/// The administrator limits how long quota is held without a verdict.
#[tokio::test(start_paused = true)]
async fn pending_timeout_applies_while_an_earlier_reservation_is_released() {
    for triggered in [false, true] {
        let policy = Policy {
            pending_timeout: Some(PendingTimeout {
                after: Duration::from_mins(10).into(),
                then: OnTimeout::Retry,
            }),
            ..Policy::default()
        };
        let mut driver = waiting_for(limited().policy(policy));
        driver.evaluates(Verdict::ready("ok"));
        driver.written(decided(6, "Ready", "ok"));
        driver.shows(reserved(8, 3, &json!({})));
        release_takes(&mut driver, Duration::from_mins(60));
        write_back(&mut driver);
        driver.pass(Duration::from_mins(5));
        if triggered {
            driver.triggers(OLD, Trigger::AllWorkloads);
            write_back(&mut driver);
        }
        driver.pass(Duration::from_mins(6));
        let write = |task: &Task| matches!(task, Task::WriteEntry { patch, .. } if patch.state == CheckState::Retry);
        assert!(driver.take(write).is_some(), "triggered: {triggered}");
        assert!(driver.release().is_none(), "its delay is not over");
    }
}

#[test]
fn a_reservation_ended_by_an_eviction_if_that_was_not_before_it() {
    use super::super::workloads::replacement_reason;
    let (evicted, lost) = (ReleaseReason::Evicted, ReleaseReason::QuotaLost);
    // The condition `Evicted` with its time, beside a reservation that began at 3 s.
    for (status, at, why) in [
        ("True", 2, &lost),
        ("True", 3, &evicted),
        ("True", 4, &evicted),
        ("False", 2, &lost),
        ("False", 3, &lost),
        ("False", 4, &evicted),
    ] {
        let since = |second| jiff::Timestamp::from_second(second).unwrap();
        let condition = json!({"type": "Evicted", "status": status, "lastTransitionTime": since(at).to_string()});
        let workload = reserved(9, 5, &json!({"/status/conditions/-": condition}));
        let found = replacement_reason(&workload, Some(since(3)));
        assert_eq!(found, *why, "{status} since {at}");
    }
    assert_eq!(replacement_reason(&waits(9), None), lost);
}
