//! GKE's queued provisioning.

use kueue_check_kueue_model::autoscaler::{Profile, refuses};
use serde_json::json;

use super::scenario::{DAY, MINUTE, QUEUED, Scenario, pool};

fn gke(max: u32) -> Scenario {
    Scenario::of(Profile::GkeQueued, pool(0, max))
}

#[test]
fn a_request_from_the_queue_to_its_end() {
    let mut scenario = gke(1)
        .request("a", QUEUED, 4)
        .parameter("maxRunDurationSeconds", "3600");
    scenario.until(9 * DAY);
    scenario.expect(&[
        "0 a Accepted=False NotAccepted",
        "10 a Accepted=True SuccessfullyQueued",
        "10 a Provisioned=True Provisioned",
        "620 a BookingExpired=True BookingExpired",
        "3620 a CapacityRevoked=True CapacityRevoked",
        "608430 a deleted",
    ]);
}

#[test]
fn details_name_the_nodes() {
    let mut scenario = gke(1).request("a", QUEUED, 4);
    scenario.until(20);
    assert_eq!(
        scenario.snapshot.requests[0].details["ResizeRequestName"],
        "a"
    );
}

#[test]
fn the_queue_waits_for_capacity_and_reports_it_once() {
    let mut scenario = gke(1)
        .request("a", QUEUED, 4)
        .parameter("maxRunDurationSeconds", "1200")
        .request("b", QUEUED, 4);
    scenario.until(30 * MINUTE);
    let of_b: Vec<_> = scenario
        .log
        .iter()
        .filter(|line| line.contains(" b "))
        .collect();
    assert_eq!(
        of_b,
        [
            "0 b Accepted=False NotAccepted",
            "10 b Accepted=True SuccessfullyQueued",
            "10 b Provisioned=False ResourcePoolExhausted",
            // The booking of `a` has expired, and no pod runs on its nodes.
            "630 b Provisioned=True Provisioned",
            "1240 b BookingExpired=True BookingExpired",
        ]
    );
}

#[test]
fn waiting_ends_after_the_limit_of_the_request() {
    let mut scenario = gke(0)
        .request("a", QUEUED, 4)
        .parameter("ValidUntilSeconds", "600");
    scenario.until(20 * MINUTE);
    assert_eq!(
        scenario.log.last().unwrap(),
        "610 a Failed=True WaitTimeExceeded"
    );
}

#[test]
fn templates_may_come_within_two_minutes() {
    let table = [
        (60, "70 a Accepted=True SuccessfullyQueued"),
        (300, "130 a Failed=True MissingPodTemplates"),
    ];
    for (come, expected) in table {
        let mut scenario = gke(1).request("a", QUEUED, 4);
        let templates = std::mem::take(&mut scenario.snapshot.templates);
        scenario.until(come);
        assert_eq!(scenario.log[1], "10 a Accepted=False MissingPodTemplates");
        scenario.snapshot.templates = templates;
        scenario.now += std::time::Duration::from_secs(10);
        scenario.until(10 * MINUTE);
        assert!(
            scenario.log.iter().any(|line| line == expected),
            "{:?}",
            scenario.log
        );
    }
}

#[test]
fn a_run_duration_must_be_a_number() {
    let mut scenario = gke(1)
        .request("a", QUEUED, 4)
        .parameter("maxRunDurationSeconds", "1h");
    scenario.until(60);
    assert_eq!(
        scenario.log[1],
        "10 a Failed=True InvalidArgumentMaxRunDurationParseError"
    );
}

#[test]
fn conditions_that_contradict_each_other_are_left_alone() {
    let mut scenario = gke(1).request("a", QUEUED, 4);
    scenario.until(20);
    scenario.log.clear();
    scenario.snapshot.requests[0]
        .conditions
        .retain(|condition| condition.kind != "Accepted");
    scenario.snapshot.requests[0].conditions[0].kind = "BookingExpired".to_owned();
    scenario.until(9 * DAY);
    scenario.expect(&[]);
}

#[test]
fn one_pod_set_a_request() {
    let request = |class: &str, sets: usize| json!({"spec": {"provisioningClassName": class, "podSets": vec![json!({"count": 1}); sets]}});
    assert_eq!(refuses(&request(QUEUED, 1)), None);
    assert_eq!(refuses(&request("other", 2)), None);
    assert!(
        refuses(&request(QUEUED, 2))
            .unwrap()
            .contains("only single PodSet per request")
    );
}
