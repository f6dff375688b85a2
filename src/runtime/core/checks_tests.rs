//! Two checks of one controller name: an AdmissionCheck is changed to parameters of another kind.

use std::time::Duration;

use kube::runtime::watcher::Event;
use serde_json::json;

use super::super::driver::{Driver, NEW, OLD, admission_check, reserved};
use super::super::{Controller, Input, LeaseState, Task, TaskResult};
use crate::api::{AdmissionCheck, Uid, Workload};
use crate::check::{ReleaseOutcome, ReleaseReason, Reservation, Trigger, Verdict};
use crate::runtime::writer::WriteError;

/// The Workload `name` with quota since `since`, which waits for `check`.
fn waits(name: &str, check: &str, since: i64) -> Workload {
    let changes = json!({
        "/metadata/name": name,
        "/metadata/uid": name,
        "/status/admissionChecks": [{"name": check, "state": "Pending"}],
    });
    reserved(5, since, &changes)
}

fn reservation(since: i64) -> Reservation {
    let since = jiff::Timestamp::from_second(since).unwrap();
    Reservation::new("t", "w", Uid::new("w"), "c", since)
}

#[tokio::test(start_paused = true)]
async fn watches_of_checks_of_one_name_have_the_kind_and_its_group_in_their_names() {
    let controllers = Driver::new(1).core.controllers;
    assert_eq!(
        [OLD, NEW].map(|number| Controller::label(&controllers, number)),
        [
            "example.com/limited/Limit.example.com",
            "example.com/limited/Quota.example.com"
        ]
    );
    assert_eq!(
        Controller::label(&controllers[..1], OLD),
        "example.com/limited"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_old_check_holds_is_released_by_it_before_the_new_one_decides() {
    let mut driver = Driver::leading(10);
    driver.shows(waits("w", "c", 1));
    driver.evaluates(Verdict::pending("a moment"));
    let (id, workload) = driver.write().expect("it is written");
    // The write of the old check's verdict is in flight.
    driver.refers_to(2, "c", "Quota");
    driver.activated(NEW);
    assert!(driver.release().is_none() && driver.evaluation(NEW).is_none());
    driver.ends(id, TaskResult::EntryWritten(Ok(workload)));
    assert!(driver.evaluation(NEW).is_none(), "not before the release");
    driver.released_by_the_old_one(1);
    assert!(driver.evaluation(NEW).is_some());
    assert!(driver.evaluation(OLD).is_none());
    assert_eq!(driver.core.work.used_concurrency, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_in_flight_ends_first_when_the_kind_is_changed_back() {
    let mut driver = Driver::leading(10);
    driver.shows(waits("w", "c", 1));
    let id = driver.evaluation(OLD).expect("it is evaluated");
    driver.decided(id);
    driver.refers_to(2, "c", "Quota");
    driver.activated(NEW);
    let (id, release) = driver.release().expect("it is released");
    assert_eq!(release, (OLD, 1, ReleaseReason::CheckRemoved));
    driver.refers_to(3, "c", "Limit");
    driver.activated(OLD);
    assert!(driver.evaluation(OLD).is_none(), "not before the release");
    driver.ends(id, TaskResult::Released(Ok(ReleaseOutcome::Done)));
    assert!(driver.evaluation(OLD).is_some());
    assert_eq!(driver.core.work.used_concurrency, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn what_the_old_check_lists_is_released_by_it_if_the_kind_changed_while_no_process_ran() {
    for (listed, since) in [("of the same reservation", 1), ("of an earlier one", 0)] {
        let mut driver = Driver::new(10);
        let workload = waits("w", "c", 1);
        driver.lists(
            vec![admission_check(2, "c", "Quota")],
            vec![workload.clone()],
        );
        driver.leads(vec![workload]);
        driver.activated(NEW);
        let id = driver.evaluation(NEW).expect("it is evaluated");
        let lists =
            |task: &Task| matches!(task, Task::ListUnreleased { controller } if *controller == OLD);
        let (list, _) = driver.take(lists).expect("it is listed");
        let held = Ok(vec![reservation(since)]);
        driver.ends(list, TaskResult::Unreleased(held));
        driver.decided(id);
        driver.released_by_the_old_one(since);
        assert!(driver.release().is_none(), "{listed}: once");
        assert_eq!(
            driver.core.work.used_concurrency.iter().sum::<usize>(),
            1,
            "{listed}"
        );
        assert!(driver.evaluation(NEW).is_some(), "{listed}");
    }
}

/// A standby has observed the reservation, but not the resources that the leader allocated for it.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_leader_started_is_released_though_it_ends_before_it_is_evaluated() {
    for held in [vec![], vec![reservation(1)]] {
        let mut driver = Driver::new(10);
        let checks = vec![admission_check(1, "c", "Limit")];
        driver.lists(checks, Vec::new());
        driver.shows(waits("w", "c", 1));
        driver.shows(changed(6, &[]));
        driver.leads(vec![changed(6, &[])]);
        let lists =
            |task: &Task| matches!(task, Task::ListUnreleased { controller } if *controller == OLD);
        let (list, _) = driver.take(lists).expect("it is listed");
        driver.ends(list, TaskResult::Unreleased(Ok(held)));
        // The check is not active yet, so nothing is evaluated.
        assert!(driver.release().is_none(), "it goes on");
        driver.shows(changed(7, &["Evicted", "Finished"]));
        let (_, release) = driver.release().expect("it is released");
        assert_eq!(release, (OLD, 1, ReleaseReason::Finished));
    }
}

/// Returns `driver` as a new leader, to which `checks` and `all` are listed.
fn takes_over(mut driver: Driver, checks: &[AdmissionCheck], all: &[Workload]) -> Driver {
    driver.lists(checks.to_vec(), all.to_vec());
    driver.leads(all.to_vec());
    driver
}

#[tokio::test(start_paused = true)]
async fn new_workloads_wait_only_for_what_is_restored() {
    let new = waits("new", "c", 2);
    let runs = changed(6, &[]);
    let ends = reserved(
        6,
        1,
        &json!({
            "/metadata/deletionTimestamp": "1970-01-01T00:00:02Z",
            "/status/conditions/-": {"type": "Admitted", "status": "True"},
            "/status/admissionChecks": [{"name": "c", "state": "Ready"}],
        }),
    );
    for (name, first, restores) in [("it runs", runs, true), ("its pods end", ends, false)] {
        let checks = [admission_check(1, "c", "Limit")];
        let mut driver = takes_over(Driver::new(10), &checks, &[first, new.clone()]);
        driver.activated(OLD);
        if restores {
            let id = driver.evaluation(OLD).expect("it is evaluated");
            assert!(driver.evaluation(OLD).is_none(), "{name}: one by one");
            driver.evaluated(id, Verdict::ready(""));
        }
        assert!(driver.evaluation(OLD).is_some(), "{name}");
    }
}

/// A check that hangs delays its own Workloads only.
#[tokio::test(start_paused = true)]
async fn new_workloads_do_not_wait_for_what_another_check_restores() {
    let checks = [("c", "Limit"), ("d", "Quota")];
    let checks = checks.map(|(name, kind)| admission_check(1, name, kind));
    let all = [changed(6, &[]), waits("new", "d", 2)];
    let mut driver = takes_over(Driver::new(10), &checks, &all);
    driver.activated(OLD);
    driver.activated(NEW);
    assert!(driver.evaluation(OLD).is_some());
    assert!(driver.evaluation(NEW).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_check_is_activated_while_the_activation_of_another_one_hangs() {
    let mut driver = Driver::new(1);
    driver.leads_at_once();
    for name in ["a", "b"] {
        driver.refers_to(1, name, "Limit");
    }
    driver.refers_to(1, "c", "Quota");
    let hangs = driver.activation(OLD).expect("it is activated");
    assert!(driver.activation(OLD).is_none(), "one by one");
    driver.activated(NEW);
    assert!(driver.conditions().is_some(), "it is active");
    driver.ends(hangs, TaskResult::Activated(Ok(())));
    driver.activated(OLD);
}

/// The capacity that a job waits for becomes available while the Lease is lapsed.
#[tokio::test(start_paused = true)]
async fn what_a_trigger_names_while_the_lease_is_lapsed_is_evaluated_when_it_is_held_again() {
    let mut driver = Driver::leading(10);
    driver.shows(waits("w", "c", 1));
    driver.evaluates(Verdict::pending("a moment").recheck_in(Duration::from_mins(10)));
    driver.written_back();
    driver.pass(Duration::from_secs(5));
    driver.feed(Input::Lease(LeaseState::Lapsed));
    driver.triggers(OLD, Trigger::Uid(Uid::new("w")));
    assert!(driver.evaluation(OLD).is_none(), "it does not lead");
    driver.feed(Input::Lease(LeaseState::Acquired));
    driver.finish_side_tasks();
    assert!(driver.evaluation(OLD).is_some());
}

/// The admitted Workload `w` in its state `version`, with conditions.
fn changed(version: u32, conditions: &[&str]) -> Workload {
    let conditions: Vec<_> = ["QuotaReserved", "Admitted"]
        .iter()
        .chain(conditions)
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"}))
        .collect();
    let changes = json!({
        "/status/conditions": conditions,
        "/status/admissionChecks": [{"name": "c", "state": "Ready"}],
    });
    reserved(version, 1, &changes)
}

#[tokio::test(start_paused = true)]
async fn an_activation_by_the_old_check_activates_nothing_for_the_new_one() {
    let mut driver = Driver::new(10);
    driver.leads_at_once();
    driver.refers_to(1, "c", "Limit");
    let first = driver.activation(OLD).expect("it is activated");
    driver.refers_to(2, "c", "Quota");
    let second = driver.activation(NEW).expect("it is activated");
    driver.refers_to(3, "c", "Limit");
    let third = driver.activation(OLD).expect("it is activated again");
    for id in [first, second] {
        driver.ends(id, TaskResult::Activated(Ok(())));
        assert!(driver.core.checks["c"].active().is_none());
        assert!(driver.core.checks["c"].valid().is_none());
        assert!(driver.activation(OLD).is_none(), "it is in flight");
    }
    driver.ends(third, TaskResult::Activated(Ok(())));
    assert!(driver.core.checks["c"].active().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_the_old_check_concluded_is_not_written_after_the_change() {
    for kinds in [["Quota"].as_slice(), &["Quota", "Limit"]] {
        let mut driver = Driver::leading(10);
        driver.core.work.never_allocate.extend([OLD, NEW]);
        driver.shows(changed(5, &[]));
        driver.evaluates(Verdict::rejected("no more"));
        let (id, recorded) = driver.conditions().expect("the eviction is recorded");
        for (kind, version) in kinds.iter().zip(2..) {
            driver.refers_to(version, "c", kind);
        }
        driver.ends(id, TaskResult::ConditionsWritten(Ok(Box::new(recorded))));
        assert!(driver.write().is_none(), "{kinds:?}");
        let now = if kinds.len() == 1 { NEW } else { OLD };
        driver.activated(now);
        assert!(driver.evaluation(now).is_some(), "{kinds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_state_of_an_admission_check_releases_nothing() {
    let mut driver = Driver::leading(10);
    driver.shows(waits("w", "c", 1));
    driver.evaluates(Verdict::pending("a moment"));
    // The reply to a write is newer than the last watch event: it was changed and changed back.
    driver.pass(Duration::from_mins(10));
    let check = driver.core.checks.get_mut("c").unwrap();
    check.take_written(admission_check(3, "c", "Limit"));
    for (kind, controller) in [
        ("Quota", "example.com/limited"),
        ("Limit", "example.com/other"),
    ] {
        let mut late = json!({
            "metadata": {"name": "c", "uid": "c", "resourceVersion": "2", "generation": 2},
            "spec": {"parameters": {"apiGroup": "example.com", "kind": kind, "name": "a"}},
        });
        late["spec"]["controllerName"] = controller.into();
        let late = AdmissionCheck::from_json(late).unwrap();
        driver.feed(Input::AdmissionChecks(Event::Apply(late)));
        assert!(
            driver.core.cleanups.iter().next().is_none(),
            "{kind} of {controller}"
        );
    }
    assert_eq!(driver.core.checks["c"].controller, OLD);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_shows_another_kind_changes_nothing_until_the_watch_does() {
    let mut driver = Driver::leading(10);
    driver.pass(Duration::from_mins(10));
    let check = driver.core.checks.get_mut("c").unwrap();
    check.take_written(admission_check(2, "c", "Quota"));
    driver.core.refresh_all();
    driver.feed(Input::Time);
    assert!(driver.core.checks["c"].active().unwrap().is_ok());
    driver.refers_to(2, "c", "Quota");
    driver.activated(NEW);
}

#[tokio::test(start_paused = true)]
async fn what_is_handed_over_counts_for_the_check_whose_code_is_called() {
    let mut driver = Driver::leading(1);
    driver.core.work.never_allocate.insert(OLD);
    driver.refers_to(1, "d", "Quota");
    driver.activated(NEW);
    driver.finish_side_tasks();
    driver.shows(waits("first", "d", 1));
    let evaluation = driver.evaluation(NEW).expect("it is evaluated");
    driver.shows(waits("w", "c", 1));
    let id = driver.evaluation(OLD).expect("it is evaluated");
    driver.shows(waits("second", "c", 1));
    driver.refers_to(2, "c", "Quota");
    driver.activated(NEW);
    driver.evaluated(id, Verdict::pending("a moment"));
    assert!(driver.evaluation(NEW).is_none(), "it is in flight");
    assert!(
        driver.evaluation(OLD).is_none(),
        "it no longer serves the check"
    );
    assert_eq!(driver.core.work.used_concurrency, [0, 1]);
    driver.decided(evaluation);
    for _ in ["w", "second"] {
        let id = driver.evaluation(NEW).expect("one by one");
        assert!(driver.evaluation(NEW).is_none(), "one by one");
        driver.decided(id);
    }
    assert_eq!(driver.core.work.used_concurrency, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn conditions_are_written_one_after_the_other_over_a_change() {
    let mut driver = Driver::new(10);
    driver.leads_at_once();
    driver.refers_to(1, "c", "Limit");
    driver.activated(OLD);
    let (id, _) = driver.conditions().expect("they are written");
    driver.refers_to(2, "c", "Quota");
    driver.activated(NEW);
    assert!(
        driver.conditions().is_none(),
        "the first write is in flight"
    );
    driver.ends(id, TaskResult::ConditionsWritten(Err(WriteError::Conflict)));
    driver.pass(Duration::from_mins(10));
    assert!(driver.conditions().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_only_a_list_contains_is_read_until_a_read_returns() {
    let mut driver = Driver::leading(10);
    driver.compares(waits("w", "c", 1), "9");
    let id = driver.read().expect("it is read");
    driver.ends(
        id,
        TaskResult::Read(Err(WriteError::Unavailable(String::new()))),
    );
    assert!(driver.read().is_none(), "not at once");
    driver.pass(Duration::from_mins(1));
    assert!(driver.read().is_some(), "after a minute");
    driver.feed(Input::Lease(LeaseState::Lapsed));
    assert!(driver.read().is_none(), "not without the Lease");
    driver.feed(Input::Lease(LeaseState::Acquired));
    driver.reads(waits("w", "c", 1));
    assert!(driver.evaluation(OLD).is_some());
    driver.pass(Duration::from_mins(10));
    assert!(driver.read().is_none(), "once");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_repeated_once_a_minute_however_many_lists_contain_the_workload() {
    let mut driver = Driver::leading(10);
    let fails = |driver: &mut Driver| {
        let failed = || TaskResult::Read(Err(WriteError::Unavailable(String::new())));
        let reads = std::iter::from_fn(|| {
            let id = driver.read()?;
            driver.ends(id, failed());
            Some(id)
        });
        reads.count()
    };
    for seconds in [0, 10, 20] {
        driver.pass(Duration::from_secs(seconds));
        driver.compares(waits("w", "c", 1), "9");
        assert_eq!(fails(&mut driver), 1);
    }
    let mut reads = 0;
    for _ in 0..300 {
        driver.pass(Duration::from_secs(1));
        reads += fails(&mut driver);
    }
    assert_eq!(reads, 5, "in 5 min");
}
