//! Tables and scenarios of activation.

use kube::runtime::watcher::Event;
use serde_json::json;

use super::super::driver::{Driver, OLD, evicts_at_once, limited, reserved, stored};
use super::super::{Input, LeaseState, TaskId, TaskResult};
use super::*;
use crate::api::{ResourceFlavor, StatusCondition, Uid, Workload};
use crate::check::samples::Limit;
use crate::check::{Check, DynCheck, ErrorKind, ReleaseOutcome, Trigger, Verdict};
use crate::runtime::core::managed_check::Activation;
use crate::runtime::decide::Outcome;
use crate::runtime::evaluate::CallError;
use crate::runtime::informers::{Revision, StoredParameters};

fn inputs(generation: i64) -> ActivationInput {
    ActivationInput {
        uid: Uid::new("u"),
        generation,
        parameters: Revision::default(),
    }
}

#[test]
fn a_failed_activation_is_not_repeated_until_it_changes_or_a_retry_is_due() {
    let fresh = Activation::default();
    let tried = Activation {
        input: Some(inputs(1)),
        ..Activation::default()
    };
    let in_flight = Activation {
        in_flight: Some(inputs(1)),
        ..Activation::default()
    };
    for (name, activation, generation, next) in [
        ("nothing was tried", &fresh, 1, Next::Try),
        ("these were tried", &tried, 1, Next::Known),
        ("others were tried", &tried, 2, Next::Try),
        ("something is being tried", &in_flight, 1, Next::Wait),
    ] {
        assert_eq!(activation.next(&inputs(generation)), next, "{name}");
    }
}

/// Returns a core that leads, with one check.
fn one(check: Check<Limit>) -> Driver {
    let mut driver = Driver::of(vec![DynCheck::new(check)], 10);
    driver.leads_at_once();
    driver
}

fn refers_to(driver: &mut Driver, generation: i64, parameters: &str) {
    let check = AdmissionCheck::from_json(json!({
        "metadata": {"name": "c", "uid": "u", "resourceVersion": generation.to_string(), "generation": generation},
        "spec": {"controllerName": "example.com/limited",
            "parameters": {"apiGroup": "example.com", "kind": "Limit", "name": parameters}},
    }));
    driver.feed(Input::AdmissionChecks(Event::Apply(check.unwrap())));
}

fn activation(driver: &mut Driver) -> Option<(TaskId, Task)> {
    driver.take(|task| matches!(task, Task::Activate { .. }))
}

/// Ends the started activation with `result`. Returns the parameters of that activation.
fn activated(driver: &mut Driver, result: Result<(), NotActivated>) -> String {
    let (id, task) = activation(driver).expect("it is activated");
    let Task::Activate { parameters, .. } = task else {
        unreachable!()
    };
    driver.ends(id, TaskResult::Activated(result));
    parameters.downcast::<Limit>().unwrap().0.clone()
}

/// Completes the write of the condition `Active`, if one is in flight, and returns its message.
fn written(driver: &mut Driver) -> Option<String> {
    let (id, task) = driver.take(|task| matches!(task, Task::WriteConditions { .. }))?;
    let Task::WriteConditions {
        mut object,
        conditions,
        ..
    } = task
    else {
        unreachable!()
    };
    let active = &conditions[0];
    let message = active.message.clone();
    object.active = Some(StatusCondition {
        status: active.status.to_owned(),
        reason: active.reason.clone(),
        message: message.clone(),
        observed_generation: Some(active.observed_generation),
        since: Some(active.since),
    });
    let result = TaskResult::ConditionsWritten(Ok(Box::new(object)));
    driver.ends(id, result);
    Some(message)
}

fn timed_out() -> NotActivated {
    NotActivated::Failed(CallError::TimedOut(Duration::from_secs(30)))
}

#[tokio::test(start_paused = true)]
async fn an_activation_that_failed_after_the_reference_was_changed_is_retried() {
    let mut driver = one(limited());
    refers_to(&mut driver, 1, "a");
    assert_eq!(activated(&mut driver, Ok(())), "\"a\"");
    refers_to(&mut driver, 2, "b");
    assert_eq!(activated(&mut driver, Err(timed_out())), "\"b\"");
    assert!(activation(&mut driver).is_none(), "not at once");
    // The condition of the first generation is written meanwhile.
    driver.pass(Duration::from_secs(5));
    assert_eq!(activated(&mut driver, Ok(())), "\"b\"");
    let valid = driver.core.checks["c"].valid().unwrap();
    assert_eq!(valid.read.value.downcast_ref::<Limit>().unwrap().0, "\"b\"");
}

/// What becomes of the evaluations of a Workload.
#[derive(Clone, Copy)]
enum Answer {
    Accepts,
    Fails(ErrorKind),
    /// It is deleted.
    Leaves,
}

const REJECTS: Answer = Answer::Fails(ErrorKind::Parameters);

/// A Workload of a scenario of rejections: its name, the second at which it gets quota, and its
/// answers, each with the second from which it is returned.
type Asked = (&'static str, u64, &'static [(u64, Answer)]);

/// Returns the answer of the Workload at `second`.
fn answer((_, _, answers): &Asked, second: u64) -> Answer {
    let mut answers = answers.iter().rev();
    let now = answers.find(|(since, _)| *since <= second);
    now.expect("it has an answer").1
}

/// Returns, for an hour in which the Workloads are evaluated as soon as the core asks for it, each
/// change of whether the AdmissionCheck is active, with its time in units of 5 min, and how often
/// each Workload was evaluated. Of the Workloads that are evaluated at a time, the `last` one comes
/// last.
fn an_hour(check: Check<Limit>, all: &[Asked], last: &str) -> (Vec<(u64, bool)>, Vec<usize>) {
    let mut driver = one(check);
    refers_to(&mut driver, 1, "a");
    let mut evaluations = vec![0; all.len()];
    let mut changes = Vec::new();
    let named = |name: &str| {
        let changes = json!({"/metadata/name": name, "/metadata/uid": name});
        reserved(5, 1, &changes)
    };
    for second in 0..3600 {
        for asked in all {
            let (name, since, answers) = asked;
            if *since == second {
                driver.shows(named(name));
            } else if answers.iter().any(|(at, _)| *at == second)
                && matches!(answer(asked, second), Answer::Leaves)
            {
                let (event, selected) = (Event::Delete(named(name)), false);
                driver.feed(Input::Workloads { event, selected });
            }
        }
        driver.pass(Duration::from_secs(1));
        while let Some((id, task)) = driver
            .take(|task| !matches!(task, Task::Evaluate(task) if task.workload.name() == last))
            .or_else(|| driver.take(|_| true))
        {
            let result = match task {
                Task::Evaluate(task) => {
                    let is_it = |(name, ..): &Asked| *name == task.workload.name();
                    let number = all.iter().position(is_it).unwrap();
                    evaluations[number] += 1;
                    let outcome = match answer(&all[number], second) {
                        Answer::Accepts => Outcome::Verdict(Verdict::ready("ok")),
                        Answer::Fails(kind) => Outcome::Failed {
                            kind,
                            message: "no such budget".into(),
                        },
                        Answer::Leaves => unreachable!(),
                    };
                    driver.concluded(id, outcome);
                    continue;
                }
                Task::WriteEntry { workload, .. } => TaskResult::EntryWritten(Ok(workload)),
                Task::Activate { .. } => TaskResult::Activated(Ok(())),
                Task::WriteConditions { .. } => {
                    TaskResult::ConditionsWritten(Err(WriteError::Gone))
                }
                Task::ListUnreleased { .. } => TaskResult::Unreleased(Ok(Vec::new())),
                Task::Release { reservation, .. } => {
                    let mut good = all.iter().filter(|asked| asked.0 == reservation.name());
                    let is_good = |asked| matches!(answer(asked, second), Answer::Accepts);
                    assert!(
                        !good.any(is_good),
                        "{} keeps its resources",
                        reservation.name()
                    );
                    TaskResult::Released(Ok(ReleaseOutcome::Done))
                }
                Task::Read { .. } => unreachable!(),
            };
            driver.ends(id, result);
            let active = driver.core.checks["c"]
                .active()
                .map(|active| active.is_ok());
            if let Some(active) = active
                && changes.last().is_none_or(|(_, last)| *last != active)
            {
                changes.push((second / 300, active));
            }
        }
    }
    (changes, evaluations)
}

#[tokio::test(start_paused = true)]
async fn parameters_are_rejected_if_more_than_one_workload_rejects_them_and_none_accepts_them() {
    use Answer::{Accepts, Fails, Leaves};
    type Changes = &'static [(u64, bool)];
    const STRANGE: &[(u64, Answer)] = &[(0, REJECTS)];
    const GOOD: &[(u64, Answer)] = &[(0, Accepts)];
    const UNUSUAL: &[(u64, Answer)] = &[(0, Fails(ErrorKind::Permanent))];
    const LEAVES: &[(u64, Answer)] = &[(0, REJECTS), (600, Leaves)];
    const LATE: &[(u64, Answer)] = &[(0, Fails(ErrorKind::Transient)), (400, REJECTS)];
    let table: [(&str, &[Asked], Changes, &[usize]); 12] = [
        (
            "two of four, and a verdict between them",
            &[
                ("a", 0, GOOD),
                ("b", 60, STRANGE),
                ("e", 100, GOOD),
                ("d", 110, STRANGE),
            ],
            &[(0, true)],
            &[1, 18, 1, 18],
        ),
        (
            "one of two",
            &[("a", 0, STRANGE), ("b", 0, GOOD)],
            &[(0, true)],
            &[18, 1],
        ),
        (
            "two of three, which come one after the other",
            &[("a", 0, GOOD), ("b", 60, STRANGE), ("d", 600, STRANGE)],
            &[(0, true), (2, false), (2, true)],
            &[2, 18, 18],
        ),
        (
            "both",
            &[("a", 0, STRANGE), ("b", 0, STRANGE)],
            &[(0, true), (0, false)],
            &[18, 18],
        ),
        (
            "the only one: others may not have quota yet",
            &[("a", 0, STRANGE)],
            &[(0, true), (0, false), (0, true)],
            &[18],
        ),
        (
            "the only one, and another one later",
            &[("a", 0, STRANGE), ("b", 1800, STRANGE)],
            &[(0, true), (0, false), (0, true), (6, false)],
            &[18, 9],
        ),
        (
            "the only one, and another one for which they are valid",
            &[("a", 0, STRANGE), ("b", 1800, GOOD)],
            &[(0, true), (0, false), (0, true)],
            &[18, 1],
        ),
        (
            "all, until what they refer to is created",
            &[
                ("a", 0, &[(0, REJECTS), (1800, Accepts)]),
                ("b", 0, &[(0, REJECTS), (1800, Accepts)]),
            ],
            &[(0, true), (0, false), (6, true)],
            &[12, 12],
        ),
        (
            "all, once what they refer to is deleted",
            &[
                ("a", 0, &[(0, Accepts), (1200, REJECTS)]),
                ("b", 1300, STRANGE),
                ("d", 1400, STRANGE),
            ],
            &[(0, true), (4, false)],
            &[12, 12, 12],
        ),
        (
            "two, which leave two that cannot be evaluated",
            &[
                ("x", 0, UNUSUAL),
                ("y", 0, UNUSUAL),
                ("a", 0, LEAVES),
                ("b", 0, LEAVES),
            ],
            &[(0, true), (0, false), (2, true)],
            &[2, 2, 6, 6],
        ),
        (
            "two, of which one leaves, and one that had rejected them before a verdict",
            &[
                ("x", 0, STRANGE),
                ("g", 5, &[(0, Accepts), (200, Leaves)]),
                ("a", 310, LEAVES),
                ("b", 310, STRANGE),
            ],
            &[(0, true), (0, false), (0, true), (1, false)],
            &[18, 2, 6, 18],
        ),
        (
            "all, after an outage",
            &[
                ("g", 0, &[(0, Accepts), (60, Leaves)]),
                ("a", 310, LATE),
                ("b", 320, LATE),
            ],
            &[(0, true), (1, false)],
            &[1, 25, 25],
        ),
    ];
    for (name, all, changes, most) in table {
        for last in ["a", "b"] {
            let with_message = limited().on_parameters_unavailable(|_| Some("it waits".to_owned()));
            for check in [limited(), with_message] {
                let (of, evaluations) = an_hour(check, all, last);
                assert_eq!(of, changes, "{name}, {last} last");
                let all = evaluations.iter().zip(most);
                let within = all.clone().all(|(evaluations, most)| evaluations <= most);
                assert!(within, "{name}, {last} last: {evaluations:?}");
            }
        }
    }
}

/// Returns a driver in which the Workloads `v` and `w` have rejected the parameters, and the task
/// that evaluates `x`.
fn rejected(check: Check<Limit>) -> (Driver, TaskId) {
    let mut driver = one(check);
    refers_to(&mut driver, 1, "a");
    activated(&mut driver, Ok(()));
    let all = ["v", "w", "x"].map(|name| {
        let changes = json!({"/metadata/name": name, "/metadata/uid": name});
        driver.shows(reserved(5, 1, &changes));
        driver.evaluation(OLD).expect("it is evaluated")
    });
    for id in &all[..2] {
        let failed = Outcome::Failed {
            kind: ErrorKind::Parameters,
            message: "no such budget".into(),
        };
        driver.concluded(*id, failed);
    }
    (driver, all[2])
}

#[tokio::test(start_paused = true)]
async fn a_verdict_with_earlier_parameters_does_not_end_the_retries_of_the_current_ones() {
    for paused in [false, true] {
        let (mut driver, id) = rejected(limited());
        parameters_are(&mut driver, annotated(1));
        if paused {
            for change in 2..4 {
                parameters_are(&mut driver, annotated(change));
                activated(&mut driver, Ok(()));
            }
        } else {
            activated(&mut driver, Err(timed_out()));
        }
        driver.evaluated(id, Verdict::ready("ok"));
        assert!(activation(&mut driver).is_none(), "not at once");
        driver.pass(Duration::from_mins(5));
        activated(&mut driver, Ok(()));
    }
}

/// Whether they are valid is unknown after it.
#[tokio::test(start_paused = true)]
async fn a_failed_activation_does_not_change_that_parameters_are_rejected() {
    let check = limited().on_parameters_unavailable(|_| Some("it waits".to_owned()));
    let (mut driver, _) = rejected(check);
    for result in [Err(timed_out()), Ok(())] {
        driver.pass(Duration::from_mins(5));
        activated(&mut driver, result);
        let active = driver.core.checks["c"].active();
        let problem = active.and_then(Result::err).expect("it is inactive");
        assert_eq!(problem.reason, "ParametersRejected");
    }
}

/// Ends all writes. Returns the messages of the conditions `Active`.
fn all_written(driver: &mut Driver) -> Vec<String> {
    let mut messages = Vec::new();
    loop {
        if let Some(message) = written(driver) {
            messages.push(message);
        } else if let Some((id, workload)) = driver.write() {
            driver.ends(id, TaskResult::EntryWritten(Ok(workload)));
        } else {
            return messages;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_activation_is_not_announced_if_its_parameters_have_changed_meanwhile() {
    type Changes = Vec<Event<StoredParameters>>;
    let deleted = || Event::Delete(stored("a"));
    let created = || Event::Apply(stored("a"));
    let missing = "there is no Limit (group example.com) `a`: create it";
    let active = "The admission check is active";
    let table: [(&str, Changes, &[&str], bool); 3] = [
        ("unchanged", vec![], &[active], true),
        ("deleted", vec![deleted()], &[missing], false),
        (
            "deleted and created again",
            vec![deleted(), created()],
            &[missing, active],
            true,
        ),
    ];
    for (name, events, messages, evaluated) in table {
        let mut driver = one(limited());
        refers_to(&mut driver, 1, "a");
        driver.shows(with_quota(5, ""));
        for event in events {
            driver.feed(Input::Parameters { kind: 0, event });
        }
        let mut all = all_written(&mut driver);
        activated(&mut driver, Ok(()));
        all.extend(all_written(&mut driver));
        assert_eq!(all, messages, "{name}");
        assert_eq!(driver.evaluation(OLD).is_some(), evaluated, "{name}");
    }
    let mut driver = one(limited());
    refers_to(&mut driver, 1, "a");
    driver.shows(with_quota(5, ""));
    refers_to(&mut driver, 2, "b");
    activated(&mut driver, Ok(()));
    assert!(all_written(&mut driver).is_empty() && driver.evaluation(OLD).is_none());
    assert_eq!(activated(&mut driver, Ok(())), "\"b\"");
    assert_eq!(all_written(&mut driver), [active]);
    assert!(driver.evaluation(OLD).is_some());
}

/// The parameters `a` with an annotation.
fn annotated(note: u32) -> StoredParameters {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Limit",
        "metadata": {"name": "a", "annotations": {"note": note.to_string()}},
    });
    let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
    object.into()
}

fn parameters_are(driver: &mut Driver, object: StoredParameters) {
    let (kind, event) = (0, Event::Apply(object));
    driver.feed(Input::Parameters { kind, event });
}

/// What the check made of the parameters is of those that it was called with last.
#[tokio::test(start_paused = true)]
async fn parameters_that_change_back_during_an_activation_are_activated_again() {
    for canceled in [false, true] {
        let mut driver = one(limited());
        refers_to(&mut driver, 1, "a");
        activated(&mut driver, Ok(()));
        parameters_are(&mut driver, annotated(1));
        let (id, _) = activation(&mut driver).expect("it is activated");
        parameters_are(&mut driver, stored("a"));
        if canceled {
            driver.lapses();
        } else {
            driver.ends(id, TaskResult::Activated(Ok(())));
        }
        activated(&mut driver, Ok(()));
        assert!(activation(&mut driver).is_none(), "once");
    }
}

/// Another client, or `activate` itself, changes the parameters during each activation.
#[tokio::test(start_paused = true)]
async fn parameters_that_change_during_each_activation_are_used_in_the_end() {
    let mut driver = one(limited());
    refers_to(&mut driver, 1, "a");
    let mut change = 0;
    let mut changes_during_an_activation = |driver: &mut Driver| {
        change += 1;
        parameters_are(driver, annotated(change));
        let started = activation(driver);
        if let Some((id, _)) = &started {
            driver.ends(*id, TaskResult::Activated(Ok(())));
        }
        usize::from(started.is_some())
    };
    let at_once: usize = (0..20)
        .map(|_| changes_during_an_activation(&mut driver))
        .sum();
    assert_eq!(at_once, 2);
    let mut later = 0;
    for second in 1..3600 {
        driver.pass(Duration::from_secs(1));
        later += changes_during_an_activation(&mut driver);
        let active = driver.core.checks["c"].active();
        assert!(
            second < 10 || active.is_some_and(|active| active.is_ok()),
            "after {second} s"
        );
    }
    assert!((10..30).contains(&later), "{later} in an hour");
    for last in [true, false] {
        driver.pass(Duration::from_mins(6));
        let started = activation(&mut driver);
        assert_eq!(started.is_some(), last);
        if let Some((id, _)) = started {
            driver.ends(id, TaskResult::Activated(Ok(())));
        }
    }
}

fn with_quota(version: u32, message: &str) -> Workload {
    let entry = json!([{"name": "c", "state": "Pending", "message": message}]);
    reserved(version, 1, &json!({"/status/admissionChecks": entry}))
}

fn admitted(version: u32) -> Workload {
    let admitted =
        json!({"type": "Admitted", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"});
    reserved(version, 1, &json!({"/status/conditions/-": admitted}))
}

fn flavor(zone: &str) -> ResourceFlavor {
    ResourceFlavor {
        name: "spot".to_owned(),
        node_labels: [("zone".to_owned(), zone.to_owned())].into(),
        ..ResourceFlavor::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_dropped_when_what_it_was_decided_from_changed_meanwhile() {
    type Change = fn(&mut Driver);
    let table: [(&str, Change, bool); 5] = [
        ("nothing", |_| {}, true),
        (
            "whether it is admitted",
            |driver| driver.shows(admitted(6)),
            false,
        ),
        (
            "the parameters",
            |driver| {
                refers_to(driver, 2, "b");
                activated(driver, Ok(()));
            },
            false,
        ),
        (
            "a flavor",
            |driver| driver.feed(Input::Flavors(Event::Apply(flavor("b")))),
            false,
        ),
        (
            "a flavor, to what it was",
            |driver| driver.feed(Input::Flavors(Event::Apply(flavor("a")))),
            true,
        ),
    ];
    for (changed, change, written) in table {
        let mut driver = one(limited().policy(evicts_at_once(Some(u32::MAX))));
        driver.feed(Input::Flavors(Event::Apply(flavor("a"))));
        refers_to(&mut driver, 1, "a");
        activated(&mut driver, Ok(()));
        driver.shows(with_quota(5, ""));
        let id = driver.evaluation(OLD).expect("it is evaluated");
        change(&mut driver);
        assert!(
            driver.evaluation(OLD).is_none(),
            "{changed}: not twice at once"
        );
        driver.evaluated(id, Verdict::rejected("no"));
        driver.pass(Duration::from_secs(10));
        assert_eq!(driver.write().is_some(), written, "{changed} changed");
        assert_eq!(
            driver.evaluation(OLD).is_none(),
            written,
            "{changed} changed"
        );
    }
}

/// Returns a driver that has evaluated a waiting Workload and does not evaluate it again.
fn waiting() -> Driver {
    let mut driver = one(limited());
    driver.feed(Input::Flavors(Event::Apply(flavor("a"))));
    refers_to(&mut driver, 1, "a");
    activated(&mut driver, Ok(()));
    driver.shows(with_quota(5, ""));
    let id = driver.evaluation(OLD).expect("it is evaluated");
    let blocked = Outcome::Blocked {
        message: Message::new("another zone"),
        again: None,
    };
    driver.concluded(id, blocked);
    driver.written(with_quota(6, "another zone"));
    driver
}

#[tokio::test(start_paused = true)]
async fn a_changed_flavor_is_decided_about_again() {
    let mut driver = waiting();
    for (zone, again) in [("a", false), ("b", true)] {
        driver.feed(Input::Flavors(Event::Apply(flavor(zone))));
        driver.pass(Duration::from_secs(10));
        assert_eq!(driver.evaluation(OLD).is_some(), again, "zone {zone}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_the_lease_had_lapsed_is_decided_about_when_it_is_held_again() {
    fn trigger(trigger: Trigger) -> Input {
        let controller = 0;
        Input::Trigger {
            controller,
            trigger,
        }
    }
    type Change = fn() -> Option<Input>;
    fn shown(changes: &serde_json::Value) -> Option<Input> {
        let entry = json!([{"name": "c", "state": "Pending", "message": "another zone"}]);
        let mut all = json!({"/status/admissionChecks": entry});
        all.as_object_mut()?.extend(changes.as_object()?.clone());
        let (event, selected) = (Event::Apply(reserved(7, 1, &all)), true);
        Some(Input::Workloads { event, selected })
    }
    let table: [(&str, Change, bool); 9] = [
        ("nothing", || None, false),
        ("only its version", || shown(&json!({})), false),
        (
            "its priority",
            || shown(&json!({"/spec/priority": 5})),
            true,
        ),
        (
            "the updates of another check",
            || {
                let updates = json!([{"name": "main", "nodeSelector": {"zone": "b"}}]);
                let other = json!({"name": "d", "state": "Ready", "podSetUpdates": updates});
                shown(&json!({"/status/admissionChecks/-": other}))
            },
            true,
        ),
        (
            "the flavor",
            || Some(Input::Flavors(Event::Apply(flavor("b")))),
            true,
        ),
        (
            "the flavor, to what it was",
            || Some(Input::Flavors(Event::Apply(flavor("a")))),
            false,
        ),
        (
            "a watch of the check's about all",
            || Some(trigger(Trigger::AllWorkloads)),
            true,
        ),
        (
            "one about this Workload",
            || Some(trigger(Trigger::Uid(with_quota(5, "").uid().clone()))),
            true,
        ),
        (
            "one about nothing",
            || Some(trigger(Trigger::Ignore)),
            false,
        ),
    ];
    for (changed, change, again) in table {
        for at_once in [true, false] {
            let mut driver = waiting();
            if !at_once {
                driver.pass(Duration::from_secs(10));
            }
            driver.feed(Input::Lease(LeaseState::Lapsed));
            if let Some(input) = change() {
                driver.feed(input);
            }
            driver.pass(Duration::from_secs(10));
            assert!(
                driver.evaluation(OLD).is_none(),
                "{changed}: not without it"
            );
            driver.feed(Input::Lease(LeaseState::Acquired));
            driver.pass(Duration::from_secs(10));
            assert_eq!(
                driver.evaluation(OLD).is_some(),
                again,
                "{changed} {at_once}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_message_of_an_active_check_is_written_when_it_changes() {
    let current = Arc::new(std::sync::Mutex::new(None::<&str>));
    let (first, others) = (Arc::clone(&current), Arc::clone(&current));
    let check = limited().active_message(move |check| {
        assert_eq!(check.name(), "c");
        first.lock().unwrap().map(str::to_owned)
    });
    let mut driver = one(check.active_message(move |_| {
        let current = *others.lock().unwrap();
        assert_ne!(current, Some("panic"));
        None
    }));
    let active = "The admission check is active";
    refers_to(&mut driver, 1, "a");
    activated(&mut driver, Ok(()));
    assert_eq!(written(&mut driver).as_deref(), Some(active));
    let all = || Trigger::AllWorkloads;
    let table: [(&str, Option<&str>, Trigger, Option<&str>); 8] = [
        ("there is no message", None, all(), None),
        ("it is not called", Some("1 seat"), Trigger::Ignore, None),
        (
            "another AdmissionCheck",
            Some("1 seat"),
            Trigger::AdmissionCheck("d".into()),
            None,
        ),
        (
            "it changed",
            Some("1 seat"),
            Trigger::AdmissionCheck("c".into()),
            Some(": 1 seat"),
        ),
        ("it is the same", Some("1 seat"), all(), None),
        (
            "it changed again",
            Some("2 seats"),
            all(),
            Some(": 2 seats"),
        ),
        (
            "the other one panics",
            Some("panic"),
            all(),
            Some(": panic"),
        ),
        ("there is no message any more", None, all(), Some("")),
    ];
    for (name, message, trigger, expected) in table {
        *current.lock().unwrap() = message;
        driver.triggers(OLD, trigger);
        let expected = expected.map(|expected| format!("{active}{expected}"));
        assert_eq!(written(&mut driver), expected, "{name}");
    }
    *current.lock().unwrap() = Some("3 seats");
    let problem = Message::new("no such zone");
    driver.core.reject_parameters(&Name::from("c"), problem);
    driver.feed(Input::Time);
    assert_eq!(written(&mut driver).as_deref(), Some("no such zone"));
    driver.pass(Duration::from_mins(5));
    activated(&mut driver, Ok(()));
    let again = written(&mut driver).expect("it is active again");
    assert_eq!(again, format!("{active}: 3 seats"));
}
