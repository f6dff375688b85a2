//! Steps of the wall clock while the process runs. All delays and limits follow the monotonic
//! clock.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;

use super::TaskResult;
use super::driver::{Driver, OLD, evicts_at_once, limited, reserved};
use crate::api::Workload;
use crate::check::samples::Limit;
use crate::check::{AfterAdmission, DynCheck, OnTimeout, PendingTimeout, Policy, Trigger, Verdict};

const MINUTE: Duration = Duration::from_mins(1);
/// The steps of the wall clock.
const STEPS: [SignedDuration; 3] = [
    SignedDuration::ZERO,
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(-1),
];

/// Returns a driver that leads, with one check.
fn leading(policy: Policy) -> Driver {
    let check = DynCheck::new(limited::<Limit>().policy(policy));
    let mut driver = Driver::of(vec![check], 1);
    driver.leads_at_once();
    driver.refers_to(1, "c", "Limit");
    driver.activated(OLD);
    driver.finish_side_tasks();
    // Times before 1970 are not stored.
    driver.pass(120 * MINUTE);
    driver
}

/// The Workload `name`, which is admitted.
fn admitted(name: &str) -> Workload {
    let changes = json!({
        "/metadata/name": name, "/metadata/uid": name,
        "/status/conditions/-": {"type": "Admitted", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"},
        "/status/admissionChecks": [{"name": "c", "state": "Ready"}],
    });
    reserved(5, 1, &changes)
}

/// Returns true if `verdict`, which the started evaluation returns, is written. An eviction is
/// recorded before.
fn is_written(driver: &mut Driver, verdict: Verdict) -> bool {
    driver.finish_side_tasks();
    driver.evaluates(verdict);
    if let Some((id, recorded)) = driver.conditions() {
        driver.ends(id, TaskResult::ConditionsWritten(Ok(Box::new(recorded))));
    }
    let written = driver.write();
    let is_written = written.is_some();
    if let Some((id, workload)) = written {
        driver.ends(id, TaskResult::EntryWritten(Ok(workload)));
    }
    is_written
}

/// The clock is set before the reservation, to the API server's time, or after it.
#[tokio::test(start_paused = true)]
async fn a_step_of_the_wall_clock_is_no_time_of_waiting() {
    let limit = PendingTimeout {
        after: (10 * MINUTE).into(),
        then: OnTimeout::Reject,
    };
    for (step, before) in STEPS
        .into_iter()
        .flat_map(|step| [(step, true), (step, false)])
    {
        let mut driver = leading(Policy {
            pending_timeout: Some(limit),
            ..Policy::default()
        });
        if before {
            driver.now.wall += step;
        }
        let since = driver.now.wall;
        let entry = json!([{"name": "c", "state": "Pending", "message": "a moment",
            "lastTransitionTime": since.to_string()}]);
        let changes = json!({"/status/admissionChecks": entry});
        driver.shows(reserved(5, since.as_second(), &changes));
        let wait = || Verdict::pending("a moment").recheck_in(MINUTE);
        assert!(!is_written(&mut driver, wait()));
        if !before {
            driver.now.wall += step;
        }
        let minutes = (1..100).find(|_| {
            driver.pass(MINUTE);
            is_written(&mut driver, wait())
        });
        assert_eq!(minutes, Some(10), "{step}, before: {before}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_wall_clock_neither_frees_nor_keeps_a_slot_for_an_eviction() {
    for step in STEPS {
        let mut driver = leading(evicts_at_once(Some(1)));
        driver.shows(admitted("first"));
        assert!(is_written(&mut driver, Verdict::rejected("no more")));
        driver.now.wall += step;
        driver.shows(admitted("second"));
        assert!(!is_written(&mut driver, Verdict::rejected("no more")));
        let minutes = (1..200).find(|_| {
            driver.pass(MINUTE);
            is_written(&mut driver, Verdict::rejected("no more"))
        });
        assert_eq!(minutes, Some(61), "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_wall_clock_does_not_space_failing_verdicts() {
    for step in STEPS {
        let mut driver = leading(Policy {
            after_admission: Some(AfterAdmission {
                consecutive: Some(2),
                ..evicts_at_once(None).after_admission.unwrap()
            }),
            ..Policy::default()
        });
        driver.shows(admitted("w"));
        assert!(!is_written(&mut driver, Verdict::rejected("no more")));
        driver.now.wall += step;
        driver.pass(MINUTE / 2);
        driver.triggers(OLD, Trigger::AllWorkloads);
        let at_once = is_written(&mut driver, Verdict::rejected("no more"));
        assert!(!at_once, "{step}: half a minute after the first");
        driver.pass(MINUTE);
        assert!(
            is_written(&mut driver, Verdict::rejected("no more")),
            "{step}"
        );
    }
}
