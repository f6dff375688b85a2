//! Misbehaviours of the autoscaler.

use std::time::Duration;

use kueue_check_kueue_model::autoscaler::{Misbehaviour, Outcome, Profile, Selector, Settings};

use super::scenario::{ATOMIC, CHECK, DAY, MINUTE, Scenario, pool};

const ACCEPTED: &str = "0 a Accepted=True Accepted";
const FOUND: &str = "0 a Provisioned=True CapacityIsFound";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Runs one request for one CPU of four, until `end` seconds after the start.
fn scenario(how: Misbehaviour, class: &str, end: i64) -> Scenario {
    let settings = Settings::new(Profile::Oss137, [pool(1, 2)]).misbehave(Selector::all(), how);
    let mut scenario = Scenario::new(settings).request("a", class, 1);
    scenario.until(end);
    scenario
}

#[test]
fn each_switch_has_its_effect() {
    let text = str::to_owned;
    let failed = |reason: &str| Outcome::Failed {
        reason: text(reason),
        message: text("by test"),
    };
    let table: Vec<(Misbehaviour, i64, Vec<&str>)> = vec![
        (Misbehaviour::Unresponsive, 6 * DAY, vec![]),
        (Misbehaviour::StuckAccepted, 6 * DAY, vec![ACCEPTED]),
        (
            Misbehaviour::Fails {
                reason: text("Broken"),
                message: text("by test"),
            },
            6 * DAY,
            vec!["0 a Failed=True Broken"],
        ),
        (
            Misbehaviour::Infeasible,
            MINUTE + 10,
            vec![
                ACCEPTED,
                "0 a Provisioned=False CapacityIsNotFound",
                "70 a Accepted=True Accepted",
                "70 a Provisioned=False CapacityIsNotFound",
            ],
        ),
        (
            Misbehaviour::flaky(1),
            MINUTE + 10,
            vec![
                ACCEPTED,
                "0 a Provisioned=False CapacityIsNotFound",
                "70 a Accepted=True Accepted",
                "70 a Provisioned=True CapacityIsFound",
            ],
        ),
        (
            Misbehaviour::Attempts(vec![Outcome::NotFound, failed("Broken")]),
            6 * DAY,
            vec![
                ACCEPTED,
                "0 a Provisioned=False CapacityIsNotFound",
                "70 a Accepted=True Accepted",
                "70 a Failed=True Broken",
            ],
        ),
        (
            Misbehaviour::Takes(seconds(90)),
            2 * MINUTE,
            vec![ACCEPTED, "90 a Provisioned=True CapacityIsFound"],
        ),
        (
            Misbehaviour::BookingExpires(seconds(30)),
            6 * DAY,
            vec![
                ACCEPTED,
                FOUND,
                "40 a BookingExpired=True CapacityReservationTimeExpired",
            ],
        ),
        (
            Misbehaviour::Flapping(seconds(30)),
            MINUTE + 20,
            vec![
                ACCEPTED,
                FOUND,
                "40 a Provisioned=False CapacityIsNotFound",
                "80 a Provisioned=True CapacityIsFound",
            ],
        ),
        (
            Misbehaviour::Revoked(seconds(120)),
            DAY / 100,
            vec![
                ACCEPTED,
                FOUND,
                "130 a BookingExpired=True BookingExpired",
                "130 a CapacityRevoked=True CapacityRevoked",
            ],
        ),
        (
            Misbehaviour::Deleted(seconds(120)),
            DAY,
            vec![ACCEPTED, FOUND, "130 a deleted"],
        ),
        (
            Misbehaviour::WritesTwice,
            10,
            vec![ACCEPTED, ACCEPTED, FOUND, FOUND],
        ),
        (
            Misbehaviour::Conflicts(1),
            30,
            vec![
                ACCEPTED,
                "0 a Provisioned=True CapacityIsFound (conflict)",
                ACCEPTED,
                FOUND,
            ],
        ),
    ];
    for (how, end, expected) in table {
        assert_eq!(scenario(how.clone(), CHECK, end).log, expected, "{how:?}");
    }
}

#[test]
fn a_snapshot_error_is_reported_by_the_atomic_class_only() {
    let how = || Misbehaviour::Attempts(vec![Outcome::CannotCheck]);
    assert_eq!(
        scenario(how(), ATOMIC, 10).log[1],
        "0 a Provisioned=False FailedToCheckCapacity"
    );
    assert_eq!(
        scenario(how(), CHECK, 10).log[1],
        "0 a Provisioned=False CapacityIsNotFound"
    );
}

#[test]
fn messages_change_while_it_waits() {
    let messages = [
        (0, "queued"),
        (100, "ETA 10 minutes"),
        (400, "ETA 5 minutes"),
    ];
    let messages = messages
        .map(|(after, message)| (seconds(after), message.to_owned()))
        .to_vec();
    let settings = Settings::new(Profile::Oss137, [pool(0, 0)])
        .misbehave(Selector::all(), Misbehaviour::Messages(messages));
    let mut scenario = Scenario::new(settings).request("a", CHECK, 1);
    for (at, expected) in [
        (20, "queued"),
        (110, "ETA 10 minutes"),
        (410, "ETA 5 minutes"),
    ] {
        scenario.until(at);
        assert_eq!(scenario.message("a", "Provisioned"), expected);
    }
}

#[test]
fn only_the_chosen_misbehave() {
    let chosen = |who| {
        let settings =
            Settings::new(Profile::Oss137, [pool(1, 1)]).misbehave(who, Misbehaviour::Unresponsive);
        let mut scenario = Scenario::new(settings)
            .request("job-1", CHECK, 1)
            .request("job-2", ATOMIC, 1);
        scenario.until(20);
        let handled = |name: &str| scenario.log.iter().any(|line| line.contains(name));
        (!handled("job-1"), !handled("job-2"))
    };
    assert_eq!(chosen(Selector::all()), (true, true));
    assert_eq!(chosen(Selector::all().name("*-1")), (true, false));
    assert_eq!(chosen(Selector::all().class(ATOMIC)), (false, true));
    assert_eq!(chosen(Selector::all().nth(2)), (false, true));
    assert_eq!(chosen(Selector::all().nth(2).name("*-1")), (false, false));
}

#[test]
fn stolen_capacity_is_missing_to_others() {
    let with = |how: Option<Misbehaviour>| {
        let mut settings = Settings::new(Profile::Oss137, [pool(1, 1)]);
        if let Some(how) = how {
            settings = settings.misbehave(Selector::all().name("a"), how);
        }
        let mut scenario = Scenario::new(settings)
            .request("a", CHECK, 2)
            .request("b", CHECK, 2);
        scenario.until(10);
        scenario.log[3].clone()
    };
    assert_eq!(with(None), "0 b Provisioned=True CapacityIsFound");
    assert_eq!(
        with(Some(Misbehaviour::CapacityStolen)),
        "0 b Provisioned=False CapacityIsNotFound"
    );
}
